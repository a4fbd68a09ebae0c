"""Which index is asked: the order of pip and uv, and no secret in words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pseries.errors import UpstreamInvalid
from pseries.upstream.settings import Index, Settings, configuration_files, configured, index


def test_the_order_is_argument_environment_files_default(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://file/simple\n")
    every = {
        "PIP_INDEX_URL": "https://pip/simple",
        "UV_DEFAULT_INDEX": "https://uv/simple",
        "UV_INDEX_URL": "https://olduv/simple",
    }
    asked = []
    for drop in range(4):
        environ = dict(list(every.items())[drop:])
        asked.append(configured(environ=environ, files=(file,)).indexes[0].url)
    assert asked == [f"https://{host}/simple/" for host in ("pip", "uv", "olduv", "file")]
    given = configured("https://argument/simple", environ=every, files=(file,))
    assert given.indexes == (Index("https://argument/simple/"),)
    assert configured(environ={}, files=()).indexes == (Index(""),)
    assert configured(environ={"PIP_INDEX_URL": ""}, files=(file,)).indexes[0].url == (
        "https://file/simple/"
    )


def test_later_files_and_the_install_section_win(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_text("[global]\nindex-url = https://a/\ncert = /a\n[install]\nproxy = http://p\n")
    second.write_text("[global]\nindex_url: https://b/\nproxy = http://q\n[list]\ncert = /c\n")
    found = configured(environ={}, files=(first, second, tmp_path / "missing"))
    assert found.indexes == (Index("https://b/"),)
    assert (found.cert, found.proxy) == ("/a", "http://p")
    assert configured(environ={"PIP_CERT": "/env"}, files=(first,)).cert == "/env"


def test_further_indexes_and_trusted_hosts_are_lists(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nextra-index-url =\n    https://one/simple\n    https://two/simple\n"
        "trusted-host = one\n  two:8080\n"
    )
    found = configured(environ={}, files=(file,))
    assert [each.url for each in found.indexes] == [
        "",
        "https://one/simple/",
        "https://two/simple/",
    ]
    assert found.trusted_hosts == {"one", "two:8080"}
    assert configured("https://a/", environ={}, files=(file,)).indexes == (Index("https://a/"),)


def test_credentials_are_kept_apart_and_never_shown() -> None:
    found = index("https://me%40corp:pa%3Ass@host:8443/simple?x=1")
    assert found == Index("https://host:8443/simple/", ("me@corp", "pa:ss"))
    environ = {"PIP_INDEX_URL": "https://me:pass@h/", "PIP_PROXY": "http://me:pass@p"}
    assert "pass" not in repr(configured(environ=environ, files=()))


@pytest.mark.parametrize(
    "url", ["ftp://host/", "host/simple", "https:///simple", "/srv/simple", "-x", "javascript:x"]
)
def test_odd_addresses_are_refused(url: str) -> None:
    with pytest.raises(UpstreamInvalid):
        index(url)


def test_a_refusal_does_not_show_credentials() -> None:
    with pytest.raises(UpstreamInvalid) as caught:
        index("ftp://me:secret@host/?token=secret")
    assert "secret" not in str(caught.value)


def test_uv_may_name_its_index() -> None:
    assert index("corp=https://host/simple") == Index("https://host/simple/")
    assert index("https://host/simple?a=b") == Index("https://host/simple/")
    assert index("file:///srv/simple") == Index("file:///srv/simple/")


def test_a_file_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    for content in (b"index-url = x\n", b"[global]\nx = \xff\n"):
        file.write_bytes(content)
        with pytest.raises(UpstreamInvalid, match="pip configuration"):
            configured(environ={}, files=(file,))


def test_the_files_are_pips(tmp_path: Path) -> None:
    environ = {"HOME": "/home/me"}
    assert [str(path) for path in configuration_files(environ)] == [
        "/etc/xdg/pip/pip.conf",
        "/etc/pip.conf",
        "/home/me/.pip/pip.conf",
        "/home/me/.config/pip/pip.conf",
        str(Path(sys.prefix, "pip.conf")),
    ]
    own = tmp_path / "own.conf"
    missing = configuration_files(environ | {"PIP_CONFIG_FILE": str(own)})
    assert missing[-1] == own
    assert len(missing) == 6
    own.write_text("")
    instead = configuration_files(environ | {"PIP_CONFIG_FILE": str(own)})
    assert "/home/me" not in str(instead)
    assert configuration_files(environ | {"PIP_CONFIG_FILE": os.devnull}) == ()
    moved = configuration_files({"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_CONFIG_DIRS": "/a:/b"})
    assert [str(path) for path in moved[:5]] == [
        "/a/pip/pip.conf", "/b/pip/pip.conf", "/etc/pip.conf", "/h/.pip/pip.conf",
        "/c/pip/pip.conf",
    ]  # fmt: skip


def test_pip_itself_reads_the_same_files(tmp_path: Path) -> None:
    """``pip config debug`` lists what it looks for, though not in the order of what wins."""
    environ = {
        "HOME": str(tmp_path), "PATH": os.environ["PATH"], "XDG_CONFIG_DIRS": "/a:/b",
        "PIP_CONFIG_FILE": str(tmp_path / "own"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "debug"],
        env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = (line.strip().partition(", exists:") for line in done.stdout.splitlines())
    assert {path for path, found, _ in lines if found} == {
        str(path) for path in configuration_files(environ)
    }


def test_settings_stand_for_the_public_index_by_default() -> None:
    assert Settings() == configured(environ={}, files=())


def test_a_folder_given_as_the_index_has_to_be_there(tmp_path: Path) -> None:
    assert configured(f"file://{tmp_path}/", environ={}, files=()).indexes[0].url
    with pytest.raises(UpstreamInvalid, match="there is no such folder"):
        configured(f"file://{tmp_path}/simpel/", environ={}, files=())
