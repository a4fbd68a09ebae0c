"""What is exported is the same to the last byte, whoever makes it, wherever and however set up."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import engine
from tests.workflows.conftest import CHANGED
from tests.workflows.test_build import SOURCES, Release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.workflows.conftest import Bench

COMMANDS = ("build-wheel", "build-sdist", "build-kit")


NOBODY = (
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
    # Python and this checkout may lie in a home that is closed to others: it may read, not write.
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip


@dataclass(frozen=True)
class Maker:
    """Whoever runs the commands: settings, and what makes it another user."""

    umask: int
    settings: dict[str, str]
    become: tuple[str, ...] = ()


PLAIN = Maker(0o022, {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"})
ODD = Maker(
    0o077,
    {
        "TZ": "Asia/Kolkata", "PYTHONHASHSEED": "2",
        "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0",  # names of files are ASCII
    },
)  # fmt: skip


@pytest.fixture
def release(bench: Bench) -> Release:
    after = {**CHANGED, "eng/ä.py": b"A = '\xc3\xa4'\n", "eng/new.sh": b"#!/bin/sh\n"}
    patch = bench.patch(dict(engine.FILES), after)
    return Release(bench, bench.series({"0001-x.patch": patch}), SOURCES)


@pytest.fixture
def places() -> Iterator[Path]:
    """Give a folder that other users can reach, as pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="pseries-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def export(release: Release, place: Path, maker: Maker) -> dict[str, tuple[str, int]]:
    """Run the commands in a copy of series and index; return hash and mode of all that they made.

    Folders count too, but for the one that the user chose.
    """
    shutil.copytree(release.bench.series_dir, place / "series")
    shutil.copytree(release.folder, place / "index")
    if maker.become:
        os.chown(place, 65534, 65534)
    for command in COMMANDS:
        done = subprocess.run(
            [*maker.become, sys.executable, "-m", "pseries", command, "eng-1.0", "-o", "out",
             "--series-dir", "series", "--index-url", f"{(place / 'index/simple').as_uri()}/"],
            cwd=place, umask=maker.umask, check=False, capture_output=True, text=True,
            env={
                **os.environ, **maker.settings, "PSERIES_CACHE": str(place / "cache"),
                "HOME": str(place), "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return {
        str(path.relative_to(place / "out")): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder",
            path.stat().st_mode & 0o777,
        )
        for path in (place / "out").rglob("*")
    }


@pytest.fixture
def plain(release: Release, places: Path) -> dict[str, tuple[str, int]]:
    made = export(release, places / "here", PLAIN)
    wanted = {"eng-1.0+t.1-py3-none-any.whl", "eng-1.0+t.1.tar.gz", "eng-1.0-kit.zip"}
    assert wanted < made.keys()
    return made


def test_another_umask_zone_locale_and_folder(
    release: Release, places: Path, plain: dict[str, tuple[str, int]]
) -> None:
    assert export(release, places / "a place\u00e4" / "elsewhere", ODD) == plain


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv (util-linux)")
def test_another_user(release: Release, places: Path, plain: dict[str, tuple[str, int]]) -> None:
    maker = Maker(0o027, ODD.settings, NOBODY)
    assert export(release, places / "theirs", maker) == plain
    assert (places / "theirs/out/eng-1.0+t.1.tar.gz").stat().st_uid == 65534
