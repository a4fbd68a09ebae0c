"""A package index of this machine: what its pages say, its files, and wheels read in part."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import archives
from tests.support.archives import ZipMember, zip_file
from tests.support.archives import wheel_members as as_wheel
from tests.support.index_server import IndexServer, serving

from pseries.errors import (
    ArchiveRefused,
    ArtefactMismatch,
    IndexInvalid,
    IndexUnreachable,
    RangesUnsupported,
    ReleaseNotFound,
    ReleaseUnreachable,
)
from pseries.upstream import net
from pseries.upstream.index import Client, Listed, artefacts
from pseries.upstream.release import Artefact
from pseries.upstream.settings import Index, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = {"eng/a.py": b"a = 1\n" * 100, "eng/b.py": b"b = 1\n"}
WHEEL = archives.wheel("eng", "1.0", FILES)
SDIST = archives.sdist("eng", "1.0", FILES)
NAME = "eng-1.0-py3-none-any.whl"
NOISE = hashlib.shake_128(b"noise").digest(3 << 20)
BIG_WHEEL = archives.wheel("eng", "1.0", {**FILES, "eng/big.bin": NOISE})
"""Its first members lie too far from its end to come with the central directory."""


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    with Client(settings) as opened:
        yield opened


def only(client: Client, version: str = "1.0") -> Listed:
    (file,) = client.project("eng").release(version)
    return file


# --- pages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_json", [True, False])
def test_a_page_lists_wheels_and_sdists(index: IndexServer, client: Client, as_json: bool) -> None:
    index.as_json = as_json
    index.add("eng", NAME, WHEEL)
    index.add("eng", "eng-1.0.tar.gz", SDIST)
    index.add("eng", "eng-1.1.tar.gz", b"")
    index.add("eng", "eng-1.2rc1.tar.gz", b"", yanked="broken")
    for other in ("eng-1.0-py2.7.egg", "eng-1.0.exe", "gne-1.0.tar.gz", "eng.tar.gz"):
        index.add("eng", other, b"")
    project = client.project("Eng")
    assert {file.artefact.filename for file in project.files} == {
        NAME, "eng-1.0.tar.gz", "eng-1.1.tar.gz", "eng-1.2rc1.tar.gz",
    }  # fmt: skip
    assert [str(version) for version in project.versions()] == ["1.0", "1.1"]
    wheel = next(file for file in project.release("1.0.0") if file.artefact.kind == "wheel")
    size = len(WHEEL) if as_json else None
    assert wheel.artefact == Artefact(NAME, hashlib.sha256(WHEEL).hexdigest(), size, "wheel")
    assert wheel.yanked is None
    assert project.release("1.2rc1")[0].yanked == "broken"
    assert index.requests[0][0] == "/simple/eng/"


def test_the_artefacts_of_a_release_come_sorted(index: IndexServer, settings: Settings) -> None:
    for name in ("eng-1.0.tar.gz", NAME, "eng-1.0-cp311-cp311-linux_x86_64.whl"):
        index.add("eng", name, b"x")
    found = artefacts("eng", "1.0", settings)
    assert [each.filename for each in found] == sorted(each.filename for each in found)
    with pytest.raises(ReleaseNotFound, match=r"nearest versions: 1\.0"):
        artefacts("eng", "2.0", settings)
    with pytest.raises(ReleaseNotFound):
        artefacts("gne", "1.0", settings)


def test_the_nearest_versions_are_around(index: IndexServer, client: Client) -> None:
    for version in ("1.0", "1.1", "1.2", "1.4", "1.5", "1.6", "1.7", "1.8"):
        index.add("eng", f"eng-{version}.tar.gz", b"")
    project = client.project("eng")
    assert project.nearest("1.3") == ("1.1", "1.2", "1.4", "1.5", "1.6")
    assert project.nearest("0.1") == ("1.0", "1.1", "1.2", "1.4", "1.5")
    assert project.nearest("9") == ("1.7", "1.8")


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        (b"{", "application/vnd.pypi.simple.v1+json"),
        (b"[]", "application/vnd.pypi.simple.v1+json"),
        (b'{"meta": {"api-version": "2.0"}, "name": "eng", "files": []}',
         "application/vnd.pypi.simple.v1+json"),
        (b"hello", "text/plain"),
    ],
)  # fmt: skip
def test_what_is_no_index_is_said_so(
    index: IndexServer, client: Client, page: bytes, kind: str
) -> None:
    index.page, index.page_type = page, kind
    with pytest.raises(IndexInvalid) as caught:
        client.project("eng")
    assert str(caught.value).startswith(f"the answer of {index.simple} cannot be used")


def test_further_indexes_are_asked_for_what_the_first_lacks(index: IndexServer) -> None:
    index.add("eng", "eng-1.0.tar.gz", b"first")
    with serving() as second:
        second.add("eng", "eng-1.0.tar.gz", b"second")
        second.add("eng", "eng-1.0+vendor.tar.gz", b"")
        both = Settings(indexes=(Index(index.simple), Index(second.simple)))
        with Client(both) as client:
            files = client.project("eng").files
    assert [file.artefact.filename for file in files] == ["eng-1.0.tar.gz", "eng-1.0+vendor.tar.gz"]
    assert files[0].artefact.sha256 == hashlib.sha256(b"first").hexdigest()


def test_an_index_that_is_silent_is_not_one_that_has_nothing(index: IndexServer) -> None:
    dead = Index("http://127.0.0.1:9/simple/")
    with Client(Settings(indexes=(dead, Index(index.simple)))) as client:
        project = client.project("eng")
        assert [str(problem) for problem in project.silent] == [f"{dead.url}: Connection refused"]
    with pytest.raises(ReleaseUnreachable):
        artefacts("eng", "1.0", Settings(indexes=(dead, Index(index.simple))))
    with Client(Settings(indexes=(dead,))) as client, pytest.raises(IndexUnreachable):
        client.project("eng")


def test_a_folder_of_files_can_be_an_index(tmp_path: Path) -> None:
    page = tmp_path / "simple" / "eng"
    page.mkdir(parents=True)
    (tmp_path / NAME).write_bytes(WHEEL)
    digest = hashlib.sha256(WHEEL).hexdigest()
    (page / "index.html").write_text(f'<a href="../../{NAME}#sha256={digest}">{NAME}</a>')
    settings = Settings(indexes=(Index(f"file://{tmp_path}/simple/"),))
    with Client(settings, offline=True) as client:
        file = only(client)
        assert client.download(file, tmp_path / "got").read_bytes() == WHEEL
        with client.wheel(file) as wheel:
            assert wheel.read(["eng/b.py"]) == {"eng/b.py": b"b = 1\n"}
        assert client.project("gne").files == ()


# --- who is asked, and how --------------------------------------------------------------------


def test_credentials_go_to_their_host_and_nowhere_else(
    index: IndexServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    index.login = ("me", "secret")
    index.add("eng", NAME, WHEEL)
    with serving() as other:
        other.add("eng", NAME, WHEEL)
        host = index.url.replace("127.0.0.1", "localhost")
        index.redirect_files_to = other.url.replace("127.0.0.1", "localhost")
        settings = Settings(indexes=(Index(f"{host}/simple/", index.login),))
        with Client(settings) as client:
            assert client.download(only(client), tmp_path).read_bytes() == WHEEL
            index.page = f'<a href="{other.url}/files/eng/{NAME}">{NAME}</a>'.encode()
            index.page_type = "text/html"
            client.download(only(client), tmp_path / "again")
        assert all(asked.startswith("Basic ") for _, _, asked in index.requests)
        assert [asked for _, _, asked in other.requests] == ["", ""]
    nobody = Client(Settings(indexes=(Index(index.simple),)))
    with nobody, pytest.raises(IndexUnreachable, match="it refuses access: status 401"):
        nobody.project("eng")


def test_netrc_is_honoured(
    index: IndexServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    index.login = ("me", "secret")
    index.add("eng", NAME, WHEEL)
    with Client(Settings(indexes=(Index(index.simple),))) as client:
        assert len(client.project("eng").files) == 1


def test_no_server_leads_to_a_file_of_this_machine(
    index: IndexServer, client: Client, tmp_path: Path
) -> None:
    secret = tmp_path / "files" / "eng" / NAME
    secret.parent.mkdir(parents=True)
    secret.write_bytes(WHEEL)
    index.add("eng", NAME, WHEEL)
    index.redirect_files_to = f"file://{tmp_path}"
    with pytest.raises(IndexUnreachable, match="redirects to a file of this machine"):
        client.download(only(client), tmp_path)
    index.page = f'<a href="file://{secret}">{NAME}</a>'.encode()
    index.page_type = "text/html"
    assert client.project("eng").files == ()


def test_plain_http_needs_trust(index: IndexServer, monkeypatch: pytest.MonkeyPatch) -> None:
    index.add("eng", NAME, WHEEL)
    port = index.url.rpartition(":")[2]
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _, *rest, **more: real("127.0.0.1", *rest, **more)
    )
    plain = (Index(f"http://mirror.example:{port}/simple/"),)
    strict = Client(Settings(indexes=plain))
    with strict, pytest.raises(IndexUnreachable, match="plain HTTP and is not trusted"):
        strict.project("eng")
    assert index.requests == []
    for trusted in ("mirror.example", f"mirror.example:{port}"):
        with Client(Settings(indexes=plain, trusted_hosts=frozenset({trusted}))) as client:
            assert len(client.project("eng").files) == 1


def test_offline_asks_nobody(index: IndexServer, settings: Settings) -> None:
    client = Client(settings, offline=True)
    with client, pytest.raises(IndexUnreachable, match="--offline"):
        client.project("eng")
    assert index.requests == []


def test_a_silent_host_costs_the_timeout_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a host with several addresses, too: urllib3 would wait for one after the other."""
    monkeypatch.setattr(net, "CONNECT_TIMEOUT", 0.5)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = listening.getsockname()[1]
        filling = [socket.socket() for _ in range(8)]
        for sock in filling:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        one = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [one] * 6)
        start = time.monotonic()
        client = Client(Settings(indexes=(Index(f"http://localhost:{port}/simple/"),)))
        with client, pytest.raises(IndexUnreachable, match=r"no connection within 0\.5 s"):
            client.project("eng")
        assert time.monotonic() - start < 1.5
        for sock in filling:
            sock.close()


def test_one_dead_address_does_not_hide_a_living_one(
    index: IndexServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def both(host: str, port: int, *rest: Any, **more: Any) -> list[Any]:
        return [*real("127.0.0.2", 9, *rest, **more), *real("127.0.0.1", port, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    assert client.project("eng").files == ()


def test_reasons_are_plain_and_hold_no_address(index: IndexServer, client: Client) -> None:
    index.status = 503
    with pytest.raises(IndexUnreachable, match="it answers with status 503"):
        client.project("eng")
    with net.Session(Settings()) as session:
        said = net.probe(session, "https://no-such-host.invalid/x?token=secret", ("me", "secret"))
        assert said is not None
        assert "secret" not in said


# --- downloads --------------------------------------------------------------------------------


def test_a_download_is_verified_and_kept(
    index: IndexServer, client: Client, tmp_path: Path
) -> None:
    index.add("eng", NAME, WHEEL)
    told: list[tuple[str, int, int | None]] = []
    path = client.download(only(client), tmp_path / "new", progress=lambda *now: told.append(now))
    assert path == tmp_path / "new" / NAME
    assert path.read_bytes() == WHEEL
    assert told[-1] == (f"downloading {NAME}", len(WHEEL), len(WHEEL))
    assert visible(path.parent) == [NAME]
    before = len(index.requests)
    client.download(only(client), path.parent)
    assert [asked for asked, _, _ in index.requests[before:]] == ["/simple/eng/"]
    path.write_bytes(b"damaged")
    assert client.download(only(client), path.parent).read_bytes() == WHEEL


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_a_file_with_another_hash_is_not_kept(
    index: IndexServer, client: Client, tmp_path: Path
) -> None:
    index.add("eng", NAME, WHEEL, sha256="ab" * 32)
    with pytest.raises(ArtefactMismatch, match="not the file that the index names"):
        client.download(only(client), tmp_path)
    assert visible(tmp_path) == []


def test_a_pin_outranks_the_index(index: IndexServer, client: Client, tmp_path: Path) -> None:
    index.add("eng", NAME, WHEEL)
    with pytest.raises(ArtefactMismatch, match="the pin"):
        client.download(only(client), tmp_path, expected="ab" * 32)
    index.files["eng"][NAME].sha256 = None
    with pytest.raises(ArtefactMismatch, match="the pin"):
        client.download(only(client), tmp_path, expected="ab" * 32)
    assert visible(tmp_path) == []
    right = hashlib.sha256(WHEEL).hexdigest()
    assert client.download(only(client), tmp_path, expected=right).read_bytes() == WHEEL


def test_an_interrupted_download_leaves_nothing(
    index: IndexServer, client: Client, tmp_path: Path
) -> None:
    index.add("eng", NAME, WHEEL)
    index.cut_after = 100
    with pytest.raises(IndexUnreachable, match=f"{NAME} on 127"):
        client.download(only(client), tmp_path)
    assert visible(tmp_path) == []
    index.cut_after = None
    (tmp_path / f".{NAME}.part").write_bytes(b"left by a killed process")
    assert client.download(only(client), tmp_path).read_bytes() == WHEEL


def test_two_at_once_download_once(index: IndexServer, settings: Settings, tmp_path: Path) -> None:
    index.add("eng", NAME, WHEEL)

    def get() -> None:
        with Client(settings) as client:
            client.download(only(client), tmp_path)

    threads = [threading.Thread(target=get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([path for path, _, _ in index.requests if path.startswith("/files")]) == 1


def test_more_than_was_announced_is_not_swallowed(
    index: IndexServer, client: Client, tmp_path: Path
) -> None:
    served = index.add("eng", NAME, WHEEL)
    file = only(client)
    served.data += b"x" * 1_000_000
    with pytest.raises(IndexUnreachable, match="bytes came"):
        client.download(file, tmp_path)
    assert visible(tmp_path) == []


# --- wheels in part ---------------------------------------------------------------------------


def test_members_are_read_by_ranges(index: IndexServer, client: Client) -> None:
    index.add("eng", NAME, BIG_WHEEL)
    with client.wheel(only(client)) as wheel:
        assert {"eng/a.py", "eng-1.0.dist-info/RECORD"} <= wheel.names
        assert wheel.read(["eng/a.py", "eng/nope.py", "eng/b.py"]) == FILES
        assert wheel.received < 1 << 20
    assert all(asked.startswith("bytes=") for path, asked, _ in index.requests if "files" in path)


def test_a_server_without_ranges_is_said_so(index: IndexServer, client: Client) -> None:
    index.add("eng", NAME, WHEEL)
    index.ranges = False
    with pytest.raises(RangesUnsupported, match="does not answer range requests"):
        client.wheel(only(client))


def test_remote_wheels_are_not_trusted(index: IndexServer, client: Client) -> None:
    blanks = ZipMember(b"eng/a.py", bytes(2 << 20))
    for number, (member, reason) in enumerate(
        (
            (ZipMember(b"eng/a.py", b"x", crc=1, local_crc=1), "cannot be read"),
            (ZipMember(b"eng/a.py", b"x", flags=1), "the member is encrypted"),
            (ZipMember(b"eng/a.py", b"x", mode=0o120777), "link or device"),
            (ZipMember(b"eng/a.py", b"x", size=100 << 20), "more than 64 MiB"),
            (ZipMember(b"eng/a.py", b"xyz", packed=b"\xff\xff\xff"), "cannot be read"),
            (ZipMember(b"eng/a.py", b"x", local_name=b"eng/b.py"), "cannot be read"),
            (blanks, "200 times"),
        )
    ):
        index.add("eng", f"eng-1.{number}-py3-none-any.whl", zip_file(*as_wheel(member)))
        wheel = client.wheel(only(client, f"1.{number}"))
        with wheel, pytest.raises(ArchiveRefused, match=reason):
            wheel.read(["eng/a.py"])
    index.add("eng", "eng-2.0-py3-none-any.whl", b"no zip at all" * 10)
    with pytest.raises(ArchiveRefused, match="cannot be read"):
        client.wheel(only(client, "2.0"))
    twice = zip_file(*as_wheel(ZipMember(b"eng/a.py", b"x"), ZipMember(b"eng/a.py", b"y")))
    index.add("eng", "eng-3.0-py3-none-any.whl", twice)
    with pytest.raises(ArchiveRefused, match="two members"):
        client.wheel(only(client, "3.0"))


def test_a_server_that_stops_is_unreachable(index: IndexServer, client: Client) -> None:
    index.add("eng", NAME, BIG_WHEEL)
    with client.wheel(only(client)) as wheel:
        index.status = 500
        with pytest.raises(IndexUnreachable, match="status 500"):
            wheel.read(["eng/a.py"])
