"""A real pure-Python distribution, patched and built: from its wheel, its sdist, and by PEP 517."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from tests.support import engine

from pseries.export.wheel import Wheel
from pseries.workflows.exports import build, build_sdist, build_source
from pseries.workflows.series import catalog, release
from pseries.workflows.series.means import Means

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pseries.model.series import Series

pytestmark = [pytest.mark.index, pytest.mark.usefixtures("index_reachable")]

NAME, VERSION, LABELLED = "iniconfig", "2.0.0", "2.0.0+t.1"
"""Built by hatchling, which asks hatch-vcs for the version."""
SOURCE = "src/iniconfig/__init__.py"
MEMBER = "iniconfig/__init__.py"
ADDED = "iniconfig/added.py"


@pytest.fixture
def series(
    distribution_files: Callable[[str, str, str, list[str]], dict[str, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Series:
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    before = distribution_files(NAME, VERSION, "sdist", [SOURCE])
    after = {
        SOURCE: before[SOURCE] + b"\nPATCHED = True\n",
        f"src/{ADDED}": b"from iniconfig import PATCHED\n",
    }
    patch = engine.message() + engine.diff(before, after, tmp_path / "diff")
    folder = engine.make_series(
        tmp_path / "series", {"0001-x.patch": patch}, name="real", version=VERSION,
        distribution=NAME, rest='root = "src"\nsources = ["wheel"]\n',
    )  # fmt: skip
    location = catalog.Location(folder.parent, "the test's")
    release.lock_folder("real", location, Means())
    return catalog.load("real", location)


def modules(wheel: Path) -> dict[str, bytes]:
    """Return what a wheel installs into site-packages; its RECORD must hold."""
    with Wheel(wheel) as opened:
        opened.verify()
        assert str(opened.version) == LABELLED
        return {path: opened.read(span) for path, span in opened.installed.items()}


def test_wheel_sdist_and_build_from_source_agree(
    series: Series, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (wheel,) = build.build_wheels(series, tmp_path / "wheel", means=Means())
    sdist = build_sdist.build_sdist(series, tmp_path / "sdist", means=Means())
    assert sdist.variables == (f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_INICONFIG={LABELLED}",)
    # PKG-INFO's version is enough for this backend; the hint is for those that ask git anyway.
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-cache-dir",
         "--wheel-dir", tmp_path / "pip", sdist.path],
        check=True,
    )  # fmt: skip
    (by_pip,) = (tmp_path / "pip").iterdir()
    built = build_source.build_wheel(series, tmp_path / "source", means=Means())
    assert capfd.readouterr().out == ""  # what the backend says goes to standard error
    patched = modules(wheel.path)
    assert patched[MEMBER].endswith(b"\nPATCHED = True\n")
    assert ADDED in patched
    # hatch-vcs writes the version into a module, which a patched wheel leaves as upstream built it.
    generated = "iniconfig/_version.py"
    for other in (by_pip, built.path):
        assert other.name == wheel.path.name
        made = modules(other)
        assert LABELLED.encode() in made.pop(generated)
        assert made == {path: data for path, data in patched.items() if path != generated}
    with zipfile.ZipFile(built.path) as archive:
        assert f"iniconfig-{LABELLED}.dist-info/sboms/pseries.cdx.json" in archive.namelist()
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps",
         "--target", tmp_path / "site", built.path],
        check=True,
    )  # fmt: skip
    asked = "import iniconfig.added as m; print(m.PATCHED)"
    said = subprocess.run(
        [sys.executable, "-c", asked], cwd=tmp_path / "site", check=True, capture_output=True,
        env={"PYTHONPATH": str(tmp_path / "site")}, text=True,
    )  # fmt: skip
    assert said.stdout == "True\n"
