from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version
from tests.export import samples

from pseries.errors import ArchiveRefused, NothingToIndex
from pseries.export import index

if TYPE_CHECKING:
    from collections.abc import Iterator

METADATA = samples.METADATA.replace("Summary:", "Requires-Python: >=3.8,<4\nSummary:")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    for version in ("1.0+sm120.1", "1.0+sm120.10", "1.0"):
        samples.make(
            samples.Sample(
                {"eng/__init__.py": version.encode()}, version=version, metadata=METADATA
            ),
            folder,
        )
    (folder / "other_thing-2.0.tar.gz").write_bytes(b"an sdist")
    (folder / "notes.txt").write_bytes(b"")
    index.build(folder)
    return folder


def test_every_file_is_listed_with_hash_size_and_metadata(wheels: Path) -> None:
    page = json.loads((wheels / "simple/eng/index.json").read_bytes())
    assert page["versions"] == ["1.0", "1.0+sm120.1", "1.0+sm120.10"]
    assert page["versions"] == sorted(page["versions"], key=Version)
    for file in page["files"]:
        path = (wheels / "simple/eng" / file["url"].replace("%2B", "+")).resolve()
        assert path.name == file["filename"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == file["hashes"]["sha256"]
        assert path.stat().st_size == file["size"]
        beside = path.with_name(f"{path.name}.metadata").read_bytes()
        assert hashlib.sha256(beside).hexdigest() == file["core-metadata"]["sha256"]
        with zipfile.ZipFile(path) as wheel:
            assert beside in [wheel.read(name) for name in wheel.namelist()]
        assert file["requires-python"] == ">=3.8,<4"


def test_html_escapes_and_quotes(wheels: Path) -> None:
    page = (wheels / "simple/eng/index.html").read_text()
    assert 'data-requires-python="&gt;=3.8,&lt;4"' in page
    assert 'href="../../eng-1.0%2Bsm120.1-py3-none-any.whl#sha256=' in page
    root = (wheels / "simple/index.html").read_text()
    assert '<a href="eng/">eng</a>' in root
    assert '<a href="other-thing/">other-thing</a>' in root


def test_the_same_files_give_the_same_index(wheels: Path) -> None:
    def state() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes() for path in sorted(wheels.rglob("*")) if path.is_file()
        }

    before = state()
    index.build(wheels)
    assert state() == before


def test_a_folder_without_wheels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NothingToIndex):
        index.build(tmp_path)


def test_pages_of_what_is_gone_go_and_others_stay(wheels: Path) -> None:
    theirs = wheels / "simple/theirs/index.html"
    theirs.parent.mkdir()
    theirs.write_text("of another program")
    theirs.with_name("index.json").write_text('{"files": [{"filename": "a", "url": "/b/a"}]}')
    (wheels / "simple/other-thing/notes").write_text("somebody's")
    for path in wheels.glob("eng-*.whl"):
        path.unlink()
    (wheels / "other_thing-2.0.tar.gz").rename(wheels / "third-2.0.tar.gz")
    index.build(wheels)
    left = {str(path.relative_to(wheels / "simple")) for path in (wheels / "simple").rglob("*.*")}
    assert left == {
        "index.html", "index.json", "third/index.html", "third/index.json", "theirs/index.html",
        "theirs/index.json",
    }  # fmt: skip
    assert (wheels / "simple/other-thing/notes").is_file()


@pytest.mark.parametrize("name", [".eng-1.0.tar.gz", "a\nb-1.0.tar.gz", "-1.0.tar.gz"])
def test_names_that_no_project_has_are_passed_over(wheels: Path, name: str) -> None:
    before = (wheels / "simple/index.html").read_bytes()
    (wheels / name).write_bytes(b"x")
    assert name not in {file.filename for file in index.build(wheels)}
    assert (wheels / "simple/index.html").read_bytes() == before


@pytest.mark.parametrize("kind", ["pipe", "folder", "dangling"])
def test_what_is_no_file_is_refused_and_not_waited_for(wheels: Path, kind: str) -> None:
    path = wheels / "eng-3.0.tar.gz"
    {"pipe": os.mkfifo, "folder": os.mkdir, "dangling": lambda it: it.symlink_to("x")}[kind](path)
    with pytest.raises(ArchiveRefused, match=r"eng-3\.0\.tar\.gz: it is not a regular file"):
        index.build(wheels)


def test_a_damaged_wheel_is_named_and_leaves_the_index_as_it_was(wheels: Path) -> None:
    (wheels / "simple/eng/index.html").write_text("before")
    path = wheels / "eng-1.0-py3-none-any.whl"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ArchiveRefused, match=r"eng-1\.0-py3"):
        index.build(wheels)
    assert (wheels / "simple/eng/index.html").read_text() == "before"


@pytest.fixture
def address(wheels: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(wheels))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


def environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))
    } | {"PIP_CONFIG_FILE": os.devnull, "no_proxy": "127.0.0.1"}


def test_pip_installs_the_newest_label_from_it(address: str, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-cache-dir",
         "--index-url", address, "--target", tmp_path / "to", "eng==1.0"],
        env=environment(), check=True,
    )  # fmt: skip
    assert (tmp_path / "to/eng/__init__.py").read_text() == "1.0+sm120.10"


def test_uv_installs_the_newest_label_from_it(address: str, tmp_path: Path) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv is not installed")
    subprocess.run(
        [uv, "pip", "install", "-q", "--no-deps", "--no-config", "--cache-dir", tmp_path / "cache",
         "--index-url", address, "--python", sys.executable, "--target", tmp_path / "to",
         "eng==1.0"],
        env=environment(), check=True,
    )  # fmt: skip
    assert (tmp_path / "to/eng/__init__.py").read_text() == "1.0+sm120.10"
