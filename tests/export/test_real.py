"""Official wheels, patched: nothing but what is listed differs, and installers take the result."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from tests.conftest import CACHE
from tests.support import engine

from pseries.errors import ArchiveRefused, ArtefactMismatch, WheelInvalid
from pseries.export.wheel import Wheel
from pseries.workflows.exports import build, build_kit, platforms
from pseries.workflows.series import catalog
from pseries.workflows.series.means import Means
from pseries.workflows.target import apply as applying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.index, pytest.mark.usefixtures("index_reachable")]

_BUILD = """
import re, sys
from pathlib import Path
from pseries.workflows.exports import build
from pseries.workflows.series import catalog
from pseries.workflows.series.means import Means
series = catalog.load(sys.argv[1], catalog.locate(Path(sys.argv[2])))
(built,) = build.build_wheels(series, Path(sys.argv[4]), given=sys.argv[3], means=Means())
# Not getrusage: its maximum goes through exec, so it would be that of the process that ran us.
print(int(re.search(r"VmHWM:\\s+([0-9]+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.fixture
def official(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return ``official(series, python, platform)``: the wheel, downloaded once a machine."""
    monkeypatch.setenv("PSERIES_CACHE", str(CACHE / "store"))

    def fetch(name: str, python: str, platform: str) -> Path:
        series = catalog.load(name, catalog.locate())
        (source,) = build.sources(series, None, platforms.Wanted(python, platform))
        return build.download(series, source, Means())

    return fetch


def patched(name: str, wheel: Path, folder: Path) -> Path:
    series = catalog.load(name, catalog.locate())
    (built,) = build.build_wheels(series, folder, given=str(wheel), means=Means())
    return built.path


def packed(path: Path) -> Iterator[tuple[str, tuple[object, ...], str]]:
    """Yield name, headers and a hash of the packed bytes of every member, in order."""
    with path.open("rb") as file, zipfile.ZipFile(path) as wheel:
        for info in wheel.infolist():
            file.seek(info.header_offset)
            local = file.read(30)
            name, extra = struct.unpack_from("<2H", local, 26)
            file.seek(name + extra, 1)
            sha256 = hashlib.sha256(file.read(info.compress_size)).hexdigest()
            kept = (
                info.date_time, info.external_attr, info.internal_attr, info.comment, info.extra,
                info.create_system, info.create_version, info.extract_version, info.flag_bits,
                info.compress_type, info.CRC, info.file_size, local[4:14],
            )  # fmt: skip
            yield info.filename, kept, sha256


def check_members(official: Path, result: Path, changed: set[str], version: str) -> None:
    """Compare every member of two wheels."""
    name, old = official.name.split("-")[:2]
    before = [
        (member.replace(f"{name}-{old}.dist-info/", f"{name}-{version}.dist-info/"), kept, sha256)
        for member, kept, sha256 in packed(official)
    ]
    after = {member: (kept, sha256) for member, kept, sha256 in packed(result)}
    info = f"{name}-{version}.dist-info"
    expected = changed | {f"{info}/METADATA", f"{info}/RECORD"}
    differing = {member for member, *rest in before if after[member] != tuple(rest)}
    assert differing - {f"{info}/WHEEL"} == expected
    added = set(after) - {member for member, *_ in before}
    assert f"{info}/sboms/pseries.cdx.json" in added
    assert [member for member in after if member not in added] == [member for member, *_ in before]
    for member, kept, _ in before:  # dates, modes and comments stay in any case
        assert after[member][0][:4] == kept[:4]


def check_metadata(official: Path, result: Path, version: str) -> None:
    name, old = official.name.split("-")[:2]
    with zipfile.ZipFile(official) as was, zipfile.ZipFile(result) as now:
        lines = was.read(f"{name}-{old}.dist-info/METADATA").splitlines()
        new = now.read(f"{name}-{version}.dist-info/METADATA").splitlines()
        about = now.read(f"{name}-{version}.dist-info/WHEEL").decode()
    differing = [(one, two) for one, two in zip(lines, new, strict=True) if one != two]
    assert differing == [(f"Version: {old}".encode(), f"Version: {version}".encode())]
    tag = result.name.removesuffix(".whl").split("-", 2)[2]
    assert [line for line in about.splitlines() if line.startswith("Tag:")] == [f"Tag: {tag}"]


def run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_sglang(official: Callable[..., Path], tmp_path: Path, python: str, machine: str) -> None:
    wheel = official("sglang-0.5.15", python, machine)
    version = "0.5.15+sm120.1"
    result = patched("sglang-0.5.15", wheel, tmp_path)
    changed = {"sglang/srt/layers/attention/deepseek_v4_backend.py"}
    check_members(wheel, result, changed, version)
    check_metadata(wheel, result, version)
    with Wheel(result) as again:
        again.verify()
    with zipfile.ZipFile(result) as archive:
        assert sum(name.endswith("/") for name in archive.namelist()) == 410


def install(installer: str, wheel: Path, folder: Path) -> tuple[Path, Path]:
    """Install a wheel, also one for another machine; return its site-packages and its scripts."""
    tag = wheel.name.removesuffix(".whl").rpartition("-")[2]
    libc, machine = re.fullmatch(r"(manylinux_2_[0-9]+)_(\w+)", tag).groups()  # type: ignore[union-attr]
    foreign = machine != os.uname().machine
    if installer == "installer":
        run(sys.executable, "-m", "installer", "--validate-record", "all", "--no-compile-bytecode",
            "--destdir", folder, "--prefix", "/p", wheel)  # fmt: skip
        (info,) = folder.rglob("*.dist-info")
        return info.parent, folder / "p/bin"
    if installer == "uv":
        platform = ("--python-platform", f"{machine}-{libc}") if foreign else ()
        command = ("uv", "pip", "install", "--offline", "--no-cache", "--python", sys.executable)
    else:
        platform = ("--platform", tag, "--only-binary", ":all:") if foreign else ()
        command = ("pip", "install", "--no-compile")
    run(sys.executable, "-m", *command, "-q", "--no-index", "--no-deps", *platform,
        "--target", folder, wheel)  # fmt: skip
    return folder, folder / "bin"


def files(site: Path) -> dict[str, tuple[str, bool]]:
    """Return hash and executability of what packages own, not of what installers write."""
    found = {}
    for path in site.rglob("*"):
        name = str(path.relative_to(site))
        kept = not re.match(r"bin/|\.pseries/|\.lock$|[^/]+\.dist-info/|.*\.pyc$", name)
        if kept and path.is_file():
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = (sha256, bool(path.stat().st_mode & 0o111))
    return found


def check_installers(name: str, result: Path, site: Path, script: str, folder: Path) -> None:
    """Compare what pip, uv and installer make of a patched wheel with a tree that was patched."""
    series = catalog.load(name, catalog.locate())
    assert applying.apply(series, site).action is applying.Action.APPLIED
    wanted = files(site)
    for installer in ("pip", "uv", "installer"):
        there, scripts = install(installer, result, folder / installer)
        assert files(there) == wanted, installer
        command, _, module = script.partition(" = ")
        assert f"from {module.partition(':')[0]} import" in (scripts / command).read_text()
        assert os.access(scripts / command, os.X_OK)
        assert applying.apply(series, there).action is applying.Action.ALREADY
        shutil.rmtree(folder / installer)


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
def test_sglang_installs_like_apply_patches(
    official: Callable[..., Path], tmp_path: Path, machine: str
) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    wheel = official("sglang-0.5.15", here, machine)
    result = patched("sglang-0.5.15", wheel, tmp_path)
    site, _ = install("pip", wheel, tmp_path / "site")
    check_installers("sglang-0.5.15", result, site, "sglang = sglang.cli.main:main", tmp_path)


def test_vllm(
    official: Callable[..., Path], target: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """It patches 304 MB in less than 100 MB of memory, and installers take the result."""
    machine = os.uname().machine
    wheel = official("vllm-0.26.0", "3.12", machine)
    version = "0.26.0+ppu.1"
    location = catalog.locate()
    assert location is not None
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, "vllm-0.26.0", location.folder, wheel, tmp_path],
        env={
            **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PSERIES_CACHE": str(tmp_path / "cache"),  # RECORD is verified in full here
        },
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) <= 100
    (result,) = tmp_path.glob("*.whl")
    assert result.name == f"vllm-{version}-cp38-abi3-manylinux_2_28_{machine}.whl"
    series = catalog.load("vllm-0.26.0", location)
    assert series.manifest is not None
    changed = {file.path for patch in series.manifest.patches for file in patch.files}
    check_members(wheel, result, changed, version)
    check_metadata(wheel, result, version)
    site = target("vllm", "0.26.0")
    script = "vllm = vllm.entrypoints.cli.main:main"
    check_installers("vllm-0.26.0", result, site, script, tmp_path)
    result.unlink()  # pytest keeps the folders of three runs


@pytest.mark.parametrize(
    ("name", "distribution", "version"),
    [("sglang-0.5.15", "sglang", "0.5.15"), ("vllm-0.26.0", "vllm", "0.26.0")],
)
def test_a_kit_patches_a_real_tree(
    official: Callable[..., Path],
    target: Callable[[str, str], Path],
    tmp_path: Path,
    name: str,
    distribution: str,
    version: str,
) -> None:
    """With neither git nor anything of ours: Python alone, isolated, and no PATH."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    official(name, here, os.uname().machine)
    series = catalog.load(name, catalog.locate())
    kit = build_kit.build_kit(series, tmp_path, means=Means(offline=True))
    site = target(distribution, version)
    before = engine.snapshot(site)

    def ran(action: str) -> int:
        return subprocess.run(
            [sys.executable, "-I", "-S", kit.folder / "apply.py", f"--{action}",
             "--site-packages", site],
            env={"PATH": ""}, cwd="/", capture_output=True, check=False,
        ).returncode  # fmt: skip

    assert ran("check") == 0
    assert engine.snapshot(site) == before
    assert [ran("apply"), ran("apply"), ran("check")] == [0, 0, 0]
    assert applying.apply(series, site).action is applying.Action.ALREADY
    assert ran("rollback") == 0
    assert engine.snapshot(site) == before

    touched = site / kit.files[0]
    good = touched.read_bytes()
    touched.unlink()  # a link to the tree that all tests share
    touched.write_bytes(good[:-1] + b"#")
    assert ran("apply") != 0
    touched.write_bytes(good)
    assert ran("check") == 0
    info = site / f"{distribution}-{version}.dist-info"
    metadata = (info / "METADATA").read_bytes()
    (info / "METADATA").unlink()
    (info / "METADATA").write_bytes(metadata.replace(version.encode(), b"0.4.2", 1))
    info.rename(site / f"{distribution}-0.4.2.dist-info")
    assert ran("apply") != 0
    assert touched.read_bytes() == good


def test_a_real_wheel_that_was_damaged_is_refused(
    official: Callable[..., Path], tmp_path: Path
) -> None:
    wheel = official("sglang-0.5.15", "3.10", "aarch64")
    data = wheel.read_bytes()
    middle = len(data) // 2
    for number, bad in enumerate((data[:-1000], data[:middle] + b"xyz" + data[middle + 3 :])):
        path = tmp_path / f"{number}" / wheel.name
        path.parent.mkdir()
        path.write_bytes(bad)
        with pytest.raises((ArchiveRefused, ArtefactMismatch, WheelInvalid)):
            patched("sglang-0.5.15", path, tmp_path / "out")
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []
