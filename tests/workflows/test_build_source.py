"""A series that touches a compiled source, built by the release's own backend."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING

import pytest
from tests.support import engine
from tests.workflows.test_build import Release

from pseries import errors
from pseries.export.wheel import Wheel
from pseries.workflows.exports import build_source

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workflows.conftest import Bench

BACKEND = b"""\
import base64, hashlib, os, zipfile
from pathlib import Path

def build_wheel(folder, config=None, metadata=None):
    version = os.environ["ENG_VERSION_OVERRIDE"]
    name, info = f"eng-{version}-py3-none-any.whl", f"eng-{version}.dist-info"
    files = {
        "eng/fast.so": Path("csrc/fast.cu").read_bytes(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\\nName: eng\\nVersion: {version}\\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    rows = ""
    with zipfile.ZipFile(Path(folder, name), "w") as wheel:
        for path, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            rows += f"{path},sha256={digest},{len(data)}\\n"
            wheel.writestr(path, data)
        wheel.writestr(f"{info}/RECORD", f"{rows}{info}/RECORD,,\\n")
    return name
"""
SOURCES = {
    **engine.FILES,
    **engine.EXTRA,
    "setup.py": b"'ENG_VERSION_OVERRIDE'\n",
    "backend.py": BACKEND,
    "pyproject.toml": (
        b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    ),
}


@pytest.fixture
def release(bench: Bench) -> Release:
    before = {**engine.FILES, **engine.EXTRA}
    patch = bench.patch(before, {**before, "csrc/fast.cu": b"int faster;\n"})
    return Release(bench, bench.series({"0001-x.patch": patch}), SOURCES)


def test_the_wheel_is_built_of_the_patched_sources(release: Release) -> None:
    pytest.importorskip("build")
    with pytest.raises(errors.NeedsBuild):
        release.wheels()
    built = build_source.build_wheel(release.series, release.out, means=release.network)
    assert built.path.name == "eng-1.0+t.1-py3-none-any.whl"
    with Wheel(built.path) as wheel:
        wheel.verify()
    with zipfile.ZipFile(built.path) as archive:
        assert archive.read("eng/fast.so") == b"int faster;\n"
        bill = json.loads(archive.read("eng-1.0+t.1.dist-info/sboms/pseries.cdx.json"))
    pedigree = bill["metadata"]["component"]["pedigree"]
    assert pedigree["ancestors"][0]["purl"].endswith("file_name=eng-1.0.tar.gz")


def built_as(bench: Bench, version: str) -> Path:
    """Return the wheel from a backend that has its own idea of the version."""
    before = {**engine.FILES, **engine.EXTRA}
    patch = bench.patch(before, {**before, "csrc/fast.cu": b"int faster;\n"})
    backend = BACKEND.replace(b'os.environ["ENG_VERSION_OVERRIDE"]', repr(version).encode())
    sources = {**SOURCES, "backend.py": backend}
    release = Release(bench, bench.series({"0001-x.patch": patch}), sources)
    return build_source.build_wheel(release.series, release.out, means=release.network).path


@pytest.mark.parametrize(
    ("made", "named"),
    [("1.0", "1.0+t.1"), ("1.0+cu130", "1.0+cu130.t.1"), ("1.0+t.1.cu130", "1.0+t.1.cu130")],
)
def test_a_wheel_never_leaves_without_the_label(bench: Bench, made: str, named: str) -> None:
    pytest.importorskip("build")
    path = built_as(bench, made)
    assert path.name == f"eng-{named}-py3-none-any.whl"
    with Wheel(path) as wheel:
        wheel.verify()
        assert wheel.metadata("METADATA").endswith(f"Version: {named}\n".encode())


def test_a_wheel_of_another_version_is_refused(bench: Bench) -> None:
    pytest.importorskip("build")
    with pytest.raises(errors.BuildFailed, match=r"made version 0\.0\.0 instead of 1\.0\+t\.1"):
        built_as(bench, "0.0.0")


def test_a_backend_that_fails_leaves_nothing(bench: Bench) -> None:
    pytest.importorskip("build")
    before = {**engine.FILES, **engine.EXTRA}
    patch = bench.patch(before, {**before, "csrc/fast.cu": b"int faster;\n"})
    sources = {**SOURCES, "backend.py": b"def build_wheel(*_):\n    raise SystemExit(3)\n"}
    release = Release(bench, bench.series({"0001-x.patch": patch}), sources)
    with pytest.raises(errors.BuildFailed, match="backend"):
        build_source.build_wheel(release.series, release.out, means=release.network)
    assert release.left() == []


def test_without_the_build_package_it_says_so(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_source.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(errors.BuildFailed, match=r"pseries\[build\]"):
        build_source.build_wheel(release.series, release.out, means=release.network)
