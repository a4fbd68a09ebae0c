"""What every test gets: a sealed environment, and real releases when the index is in reach."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pseries.model.layout import Layout
from pseries.upstream import index, settings
from pseries.workflows.series import catalog, patching, release
from pseries.workflows.series.means import Means

if TYPE_CHECKING:
    from collections.abc import Callable

REQUIRE_INDEX = os.environ.get("PSERIES_REQUIRE_INDEX") == "1"
CACHE = Path(
    os.environ.get("PSERIES_TEST_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pseries-tests"
)
"""Releases are fetched once a machine; everything in there is verified by sha256 when used."""

REPOSITORY_SERIES = catalog.Location(Path(__file__).parent.parent / "series", "the repository's")

_OURS = ("PSERIES_DIR", "PSERIES_DEBUG", "PSERIES_CACHE", "SOURCE_DATE_EPOCH")


@pytest.fixture(autouse=True)
def sealed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
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
def store_cache(index_reachable: None) -> Path:
    """Return the cache folder with the upstream store that tests on real releases share."""
    return CACHE / "cache"


@pytest.fixture
def real_store(store_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let ``pseries`` use the shared store, in this process and in those it starts."""
    monkeypatch.setenv("PSERIES_CACHE", str(store_cache))
    return store_cache


@pytest.fixture(scope="session")
def pristine_release(store_cache: Path) -> Callable[[str], dict[str, bytes]]:
    """Return ``pristine_release(series)``: the files it touches as the real release has them."""

    @cache
    def pristine(name: str) -> dict[str, bytes]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PSERIES_CACHE", str(store_cache))
            series = catalog.load(name, REPOSITORY_SERIES)
            release.fetch(series, Means())
            found = release.pristine_files(series)
            assert found is not None
            return {path: data for path, (_, data) in found.items()}

    return pristine


@pytest.fixture(scope="session")
def patched_release(
    pristine_release: Callable[[str], dict[str, bytes]],
) -> Callable[[str], dict[str, bytes]]:
    """Return ``patched_release(series)``: the files it touches, as the engine patches them."""

    @cache
    def patched(name: str) -> dict[str, bytes]:
        series = catalog.load(name, REPOSITORY_SERIES)
        layout = Layout(series.spec.upstream.root)
        pristine = {path: (0o100644, data) for path, data in pristine_release(name).items()}
        packages = {(layout.installed(path) or "").split("/")[0] for path in pristine}
        changed = patching.post_images(series, pristine, layout, packages).files
        after = {**pristine, **changed}
        return {path: file[1] for path, file in after.items() if file is not None}

    return patched


@pytest.fixture(scope="session")
def distribution_files(
    index_reachable: None,
) -> Callable[[str, str, str, list[str]], dict[str, bytes]]:
    """Return ``distribution_files(name, version, kind, paths)``: members of a real wheel or sdist.

    Paths are those in the wheel, or below the one folder of the sdist.
    """

    def read(name: str, version: str, kind: str, wanted: list[str]) -> dict[str, bytes]:
        with index.Client(settings.configured()) as client:
            listed = client.project(name).release(version)
            file = next(each for each in listed if each.artefact.kind == kind)
            path = client.download(file, CACHE / "files")
        if kind == "wheel":
            with zipfile.ZipFile(path) as wheel:
                return {member: wheel.read(member) for member in wanted}
        with tarfile.open(path) as sdist:
            top = sdist.getnames()[0].split("/")[0]
            members = {member: sdist.extractfile(f"{top}/{member}") for member in wanted}
            return {member: found.read() for member, found in members.items() if found}

    return read


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
            try:
                making.rename(folder)
            except OSError:  # another process of this test run was faster
                shutil.rmtree(making)
        return folder

    return install


@pytest.fixture
def target(installed: Callable[[str, str], Path], tmp_path: Path) -> Callable[[str, str], Path]:
    """Return ``target(name, version)``: a copy of an installed tree that a test may change.

    The copy is made of hard links, as uv installs: a tool that writes in place would change the
    original as well, which :func:`installed` gives to every other test.
    """

    def copy(name: str, version: str) -> Path:
        site = tmp_path / "site-packages"
        shutil.copytree(installed(name, version), site, copy_function=os.link, symlinks=True)
        return site

    return copy
