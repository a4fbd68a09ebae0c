"""From the first source that has it: git, sdist, wheel, in the series' order, or a clear no."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import archives

from pseries.errors import (
    ArchiveRefused,
    ArtefactMismatch,
    ReleaseNotFound,
    ReleaseNotStored,
    ReleaseUnreachable,
    UpstreamInvalid,
)
from pseries.model.spec import Upstream
from pseries.upstream.fetch import (
    Event,
    FileUnverified,
    FileYanked,
    SourceFailed,
    StoreInUse,
    fetch,
)
from pseries.upstream.imports import add_folder
from pseries.upstream.settings import Index, Settings
from pseries.upstream.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.index_server import IndexServer

    from pseries.upstream.release import Release

FILES = {"eng/a.py": b"a = 1\n"}
SDIST = archives.sdist("eng", "1.0", FILES)
WHEEL = archives.wheel("eng", "1.0", FILES)
NAME = "eng-1.0-py3-none-any.whl"
GONE = "https://no-such-host.invalid/eng.git"


class Fetching:
    """``fetch`` with an index on this machine, and what it reported."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.events: list[Event] = []
        self.told: list[str] = []

    def __call__(self, *, pins: dict[str, str] | None = None, offline: bool = False,
                 **wanted: object) -> Release:  # fmt: skip
        self.events.clear()
        return fetch(
            Upstream(**{"distribution": "eng", "version": "1.0"} | wanted),  # type: ignore[arg-type]
            self.store, self.settings, pins=pins, offline=offline,
            progress=lambda what, *_: self.told.append(what), report=self.events.append,
        )  # fmt: skip

    def failed(self) -> dict[str, str]:
        return {
            event.source: event.reason for event in self.events if isinstance(event, SourceFailed)
        }


@pytest.fixture
def fetching(store: Store, settings: Settings) -> Fetching:
    return Fetching(store, settings)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- the order --------------------------------------------------------------------------------


def test_the_first_source_that_has_it_serves_it(
    fetching: Fetching, index: IndexServer, checkout: Callable[..., Path]
) -> None:
    index.add("eng", "eng-1.0.tar.gz", SDIST)
    index.add("eng", NAME, WHEEL)
    repository = str(checkout(FILES))
    for sources, expected in (
        (("git", "sdist", "wheel"), "git"), (("sdist", "git"), "sdist"), (("wheel",), "wheel"),
    ):  # fmt: skip
        assert fetching(git=repository, tag="v1.0", sources=sources).source == expected
        assert fetching.events == []
        fetching.store.remove("1.0")


def test_all_sources_of_the_same_files_give_the_same_commit(
    fetching: Fetching, index: IndexServer, checkout: Callable[..., Path]
) -> None:
    index.add("eng", "eng-1.0.tar.gz", SDIST)
    index.add("eng", NAME, WHEEL)
    repository = str(checkout({"python/eng/a.py": b"a = 1\n"}))
    commits = set()
    for source in ("git", "sdist", "wheel"):
        commits.add(fetching(git=repository, root="python", sources=(source,)).commit)
        fetching.store.remove("1.0")
    assert len(commits) == 1


def test_what_is_out_of_reach_is_reported_and_passed_over(
    fetching: Fetching, index: IndexServer
) -> None:
    index.add("eng", NAME, WHEEL)
    release = fetching(git=GONE, tag="v1.0")
    assert release.source == "wheel"
    assert fetching.failed() == {
        "git": "its name is not known (DNS)", "sdist": "the index has no sdist of it",
    }  # fmt: skip


def test_the_store_is_asked_before_anything_else(fetching: Fetching, index: IndexServer) -> None:
    index.add("eng", NAME, WHEEL)
    first = fetching()
    index.requests.clear()
    assert fetching(git=GONE) == first
    assert fetching(offline=True) == first
    assert index.requests == []
    assert fetching.events == []


# --- git --------------------------------------------------------------------------------------


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_tag_is_taken_as_it_is(
    fetching: Fetching, checkout: Callable[..., Path], git: Callable[..., str], scheme: str,
    annotated: bool,
) -> None:  # fmt: skip
    folder = checkout({"python/eng/a.py": b"a\n", "x.so": b"\x7fELF"}, annotated=annotated)
    release = fetching(git=f"{scheme}{folder}", tag="v1.0", root="python", offline=True)
    assert release.tree == git(folder, "rev-parse", "v1.0^{tree}")
    assert release.recorded.upstream == git(folder, "rev-parse", "v1.0^{commit}")
    assert release.recorded.left_out == ()
    assert release.origin == f"{scheme}{folder} at {release.recorded.upstream[:12]}"
    refs = git(fetching.store.git_dir, "for-each-ref", "--format=%(refname)").split()
    assert refs == ["refs/tags/pseries/1.0"]
    assert f"fetching v1.0 from {scheme}{folder}" in fetching.told


def test_without_a_tag_v_and_the_version_is_meant(
    fetching: Fetching, checkout: Callable[..., Path]
) -> None:
    assert fetching(git=str(checkout(FILES)), version="1.0").source == "git"


def test_a_repository_without_the_tag_is_passed_over(
    fetching: Fetching, index: IndexServer, checkout: Callable[..., Path]
) -> None:
    index.add("eng", NAME, WHEEL)
    repository = str(checkout(FILES, "other"))
    assert fetching(git=repository, tag="v1.0", sources=("git", "wheel")).source == "wheel"
    assert fetching.failed() == {"git": "it has no tag 'v1.0'"}
    fetching.store.remove("1.0")
    with pytest.raises(ReleaseNotFound, match="it has no tag"):
        fetching(git=repository, tag="v1.0", sources=("git",))


def test_a_folder_that_is_no_repository_is_said_so(fetching: Fetching, tmp_path: Path) -> None:
    with pytest.raises(ReleaseUnreachable, match="does not appear to be a git repository"):
        fetching(git=str(tmp_path), sources=("git",))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file another user's")
def test_another_users_repository_is_said_so(
    fetching: Fetching, checkout: Callable[..., Path]
) -> None:
    folder = checkout(FILES)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    with pytest.raises(ReleaseUnreachable, match="the repository belongs to another user"):
        fetching(git=str(folder), sources=("git",))


@pytest.mark.parametrize(
    ("address", "tag"),
    [("ext::sh -c true", "v1"), ("-x", "v1"), ("http://host/x", "v1"), ("/x", "--upload-pack=x")],
)
def test_commands_in_disguise_are_refused_outright(
    fetching: Fetching, index: IndexServer, address: str, tag: str
) -> None:
    index.add("eng", NAME, WHEEL)
    with pytest.raises(UpstreamInvalid):
        fetching(git=address, tag=tag)
    assert fetching.store.releases() == ()


def test_credentials_in_a_git_address_are_shown_nowhere(
    fetching: Fetching, index: IndexServer
) -> None:
    index.add("eng", NAME, WHEEL)
    release = fetching(git=GONE.replace("https://", "https://me:secret@"))
    with pytest.raises(ReleaseNotFound) as caught:
        fetching(git=GONE.replace("https://", "https://me:secret@"), version="2.0")
    for said in (release, fetching.events, fetching.told, str(caught.value)):
        assert "secret" not in repr(said)
    for path in fetching.store.git_dir.rglob("*"):
        assert path.is_dir() or b"secret" not in path.read_bytes()


# --- the index --------------------------------------------------------------------------------


def test_of_several_wheels_always_the_same_is_taken(fetching: Fetching, index: IndexServer) -> None:
    heavy = archives.wheel("eng", "1.0", {**FILES, "eng/_C.so": b"\x7fELF" + os.urandom(5000)})
    light = archives.wheel("eng", "1.0", {**FILES, "eng/_C.so": b"\x7fELF" + os.urandom(500)})
    index.add("eng", "eng-1.0-cp311-cp311-linux_x86_64.whl", heavy)
    index.add("eng", "eng-1.0-cp312-cp312-linux_x86_64.whl", light)
    assert fetching().origin == "eng-1.0-cp312-cp312-linux_x86_64.whl"
    fetching.store.remove("1.0")
    pinned = "eng-1.0-cp311-cp311-linux_x86_64.whl"
    assert fetching(pins={pinned: sha256(heavy)}).origin == pinned
    fetching.store.remove("1.0")
    index.add("eng", NAME, heavy)
    assert fetching().origin == NAME


def test_what_is_pinned_must_match(fetching: Fetching, index: IndexServer) -> None:
    index.add("eng", "eng-1.0.tar.gz", SDIST)
    index.add("eng", NAME, WHEEL)
    pins = {"eng-1.0.tar.gz": "ab" * 32}
    with pytest.raises(ArtefactMismatch, match="the manifest"):
        fetching(pins=pins)
    index.files["eng"]["eng-1.0.tar.gz"].sha256 = None
    with pytest.raises(ArtefactMismatch):
        fetching(pins=pins)
    assert fetching.store.releases() == ()
    fetching(pins={"eng-1.0.tar.gz": sha256(SDIST)})
    with pytest.raises(ArtefactMismatch):
        fetching(pins=pins)


def test_a_yanked_file_is_served_to_who_names_it_and_said_so(
    fetching: Fetching, index: IndexServer
) -> None:
    index.add("eng", NAME, WHEEL, yanked="broken")
    fetching(sources=("wheel",))
    assert fetching.events == [FileYanked(NAME, "broken")]


def test_an_index_without_hashes_is_said_so(fetching: Fetching, index: IndexServer) -> None:
    index.add("eng", NAME, WHEEL, sha256=None)
    release = fetching(sources=("wheel",))
    assert fetching.events == [FileUnverified(NAME)]
    assert release.artefact is not None
    assert release.artefact.sha256 == sha256(WHEEL)


def test_a_version_that_is_not_there_names_its_neighbours(
    fetching: Fetching, index: IndexServer
) -> None:
    for version in ("0.9", "1.1", "1.2"):
        index.add("eng", f"eng-{version}.tar.gz", b"")
    with pytest.raises(ReleaseNotFound) as caught:
        fetching(git=GONE)
    assert caught.value.nearest == ("0.9", "1.1", "1.2")
    assert "git: its name is not known" in str(caught.value)
    index.files.clear()
    with pytest.raises(ReleaseNotFound, match="has not a project 'eng'"):
        fetching()
    assert [path for path, _, _ in index.requests] == ["/simple/eng/"] * 2, "asked once a fetch"


def test_silence_is_not_absence(store: Store, index: IndexServer) -> None:
    """Exit code 5, try again later, and not exit code 1, there is none."""
    dead = Settings(indexes=(Index("http://127.0.0.1:9/simple/"),))
    with pytest.raises(ReleaseUnreachable) as caught:
        Fetching(store, dead)(git=GONE)
    assert [problem.where for problem in caught.value.reasons] == ["git", "sdist", "wheel"]
    assert "could not be reached: Connection refused" in str(caught.value)
    index.add("eng", "eng-2.0.tar.gz", b"")
    both = Settings(indexes=(*dead.indexes, Index(index.simple)))
    with pytest.raises(ReleaseUnreachable):
        Fetching(store, both)(sources=("wheel",))
    index.add("eng", NAME, WHEEL)
    assert Fetching(store, both)(sources=("wheel",)).source == "wheel"


def test_git_silent_and_only_the_wrong_kind_on_the_index_is_unreachable(
    fetching: Fetching, index: IndexServer
) -> None:
    index.add("eng", NAME, WHEEL)
    with pytest.raises(ReleaseUnreachable):
        fetching(git=GONE, sources=("git", "sdist"))
    with pytest.raises(ReleaseNotFound):
        fetching(sources=("git", "sdist"))


def test_a_download_that_breaks_off_is_unreachable_and_leaves_nothing(
    fetching: Fetching, index: IndexServer
) -> None:
    index.add("eng", NAME, WHEEL)
    index.cut_after = 50
    with pytest.raises(ReleaseUnreachable, match=r"eng-1\.0-py3-none-any\.whl on 127"):
        fetching(sources=("wheel",))
    assert fetching.store.releases() == ()
    assert not list(fetching.store.downloads.glob("*.whl"))


def test_offline_forbids_the_network_and_nothing_else(
    fetching: Fetching, index: IndexServer, tmp_path: Path
) -> None:
    index.add("eng", NAME, WHEEL)
    with pytest.raises(ReleaseNotStored, match="--offline forbids") as caught:
        fetching(git="https://u:secret@host.example/x.git", root="python", offline=True)
    assert (caught.value.git, caught.value.root) == ("https://host.example/x.git", "python")
    assert fetching.failed() == {}
    assert index.requests == []
    page = tmp_path / "simple" / "eng" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{NAME}">{NAME}</a>')
    (page.parent / NAME).write_bytes(WHEEL)
    fetching.settings = Settings(indexes=(Index(f"file://{tmp_path}/simple/"),))
    assert fetching(offline=True).source == "wheel"


def test_an_index_that_was_not_asked_is_named_beside_one_that_has_it_not(
    fetching: Fetching, tmp_path: Path
) -> None:
    (tmp_path / "simple").mkdir()
    local, silent = f"file://{tmp_path}/simple/", "https://no-such-host.invalid/simple/"
    fetching.settings = Settings(indexes=(Index(silent), Index(local)))
    unasked = f"sdist: {silent}: "
    with pytest.raises(ReleaseNotStored, match=f"{unasked}the network is forbidden.*; the index"):
        fetching(offline=True)
    with pytest.raises(ReleaseUnreachable, match=f"{unasked}.*; the index that answered has not"):
        fetching()
    fetching.settings = Settings(indexes=(Index(local),))
    with pytest.raises(ReleaseNotFound, match="sdist: the index has not a project"):
        fetching(offline=True)


def test_an_archive_that_is_refused_stops_the_fetch(fetching: Fetching, index: IndexServer) -> None:
    """It is an attack or a broken release: the next source is not a way around it."""
    index.add("eng", "eng-1.0.tar.gz", SDIST + b"x")
    index.add("eng", NAME, WHEEL)
    with pytest.raises(ArchiveRefused):
        fetching()
    assert fetching.store.releases() == ()


# --- the store --------------------------------------------------------------------------------


def test_another_root_imports_again_from_the_kept_file(
    fetching: Fetching, index: IndexServer
) -> None:
    index.add("eng", NAME, WHEEL)
    first = fetching(sources=("wheel",))
    second = fetching(sources=("wheel",), root="python")
    assert (first.recorded.root, second.recorded.root) == ("", "python")
    assert first.tree != second.tree
    assert len([path for path, _, _ in index.requests if path.startswith("/files")]) == 1


def test_a_release_from_a_folder_is_not_replaced(fetching: Fetching, tmp_path: Path) -> None:
    (tmp_path / "fork" / "eng").mkdir(parents=True)
    (tmp_path / "fork" / "eng" / "a.py").write_text("fork\n")
    with fetching.store.lock():
        added = add_folder(fetching.store, "1.0", tmp_path / "fork", "")
    assert fetching(git=GONE) == added
    with pytest.raises(UpstreamInvalid, match="add it again"):
        fetching(root="python")
    shutil.rmtree(tmp_path / "fork")
    assert fetching(offline=True) == added


def test_waiting_for_another_process_is_said(
    fetching: Fetching, index: IndexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pseries.errors import StoreBusy
    from pseries.upstream import store as stores

    monkeypatch.setattr(stores, "_PATIENCE", 0.1)
    index.add("eng", NAME, WHEEL)
    with fetching.store.lock(), pytest.raises(StoreBusy):
        fetching()
    assert fetching.events == [StoreInUse("eng")]


def test_what_another_process_brought_meanwhile_is_taken(
    fetching: Fetching, index: IndexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add("eng", NAME, WHEEL)
    lock = Store.lock

    @contextlib.contextmanager
    def late(store: Store, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        monkeypatch.setattr(Store, "lock", lock)
        fetching()
        index.requests.clear()
        with store.lock(waiting):
            yield

    monkeypatch.setattr(Store, "lock", late)
    assert fetching().source == "wheel"
    assert index.requests == []


@pytest.mark.parametrize("wrong", [{"version": "latest"}, {"root": "../x"}, {"root": "/x"}])
def test_odd_requests_are_refused(fetching: Fetching, wrong: dict[str, Any]) -> None:
    with pytest.raises(UpstreamInvalid):
        fetching(**wrong)
