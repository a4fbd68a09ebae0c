"""What every test gets: a sealed environment, and real releases when the index is in reach."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

REQUIRE_INDEX = os.environ.get("PSERIES_REQUIRE_INDEX") == "1"
CACHE = Path(
    os.environ.get("PSERIES_TEST_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pseries-tests"
)
"""Releases are fetched once a machine; everything in there is verified by sha256 when used."""

_OURS = ("PSERIES_DIR", "PSERIES_DEBUG", "PSERIES_CACHE", "SOURCE_DATE_EPOCH")


@pytest.fixture(autouse=True)
def sealed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep the developer's settings out of the tests, and the tests out of the developer's home."""
    for name in list(os.environ):
        if name.startswith("GIT_") or name in _OURS:
            monkeypatch.delenv(name)
    home = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture(scope="session")
def index_reachable() -> None:
    """Skip, saying why, where the package index is out of reach; fail where it is required."""
    said = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest",
         str(CACHE / "probe"), "iniconfig==2.0.0"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if said.returncode == 0:
        return
    reason = f"the package index is out of reach: {said.stderr.strip()[-300:]}"
    if REQUIRE_INDEX:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def installed(index_reachable: None) -> Callable[[str, str], Path]:
    """Return ``installed(name, version)``: a tree made by ``pip install --no-deps --target``.

    It is made once and must not be changed: take a copy with the ``target`` fixture.
    """

    def install(name: str, version: str) -> Path:
        tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
        folder = CACHE / "installed" / f"{name}-{version}-{tag}"
        if not folder.is_dir():
            making = folder.with_name(f"{folder.name}.{os.getpid()}")
            shutil.rmtree(making, ignore_errors=True)
            subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir",
                 "--target", str(making), f"{name}=={version}"],
                check=True,
            )  # fmt: skip
            making.rename(folder)
        return folder

    return install


@pytest.fixture
def target(
    installed: Callable[[str, str], Path], tmp_path: Path
) -> Callable[[str, str], Path]:
    """Return ``target(name, version)``: a copy of an installed tree that a test may change.

    The copy is made of hard links, as uv installs: a tool that writes in place would change the
    original as well, which :func:`installed` gives to every other test.
    """

    def copy(name: str, version: str) -> Path:
        site = tmp_path / "site-packages"
        shutil.copytree(installed(name, version), site, copy_function=os.link, symlinks=True)
        return site

    return copy
