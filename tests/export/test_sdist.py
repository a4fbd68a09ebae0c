from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from pseries.errors import ArchiveRefused
from pseries.export import sdist
from pseries.export.wheel import Content
from pseries.upstream import archive
from pseries.upstream.member import Member

if TYPE_CHECKING:
    from pathlib import Path

PKG_INFO = b"Metadata-Version: 2.1\nName: eng\nVersion: 1.0\n\nVersion: 3 of the text\n"
BACKEND = b"""\
import zipfile
from pathlib import Path

def build_wheel(folder, config=None, metadata=None):
    version = Path("PKG-INFO").read_text().split("Version: ")[2].split()[0]
    name, info = f"eng-{version}-py3-none-any.whl", f"eng-{version}.dist-info"
    with zipfile.ZipFile(Path(folder, name), "w") as wheel:
        wheel.write("eng/mod.py")
        head = "Metadata-Version: 2.1\\nName: eng\\nVersion: "
        wheel.writestr(f"{info}/METADATA", head + version)
        tag = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(f"{info}/WHEEL", tag)
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""
FILES = {
    "PKG-INFO": PKG_INFO,
    "eng.egg-info/PKG-INFO": PKG_INFO,
    "pyproject.toml": (
        b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    ),
    "backend.py": BACKEND,
    "eng/mod.py": b"x = 1\n",
    "eng/run.sh": b"#!/bin/sh\n",
    "eng/gone.py": b"g = 1\n",
    "eng/" + "long" * 40 + ".py": b"l = 1\n",
    "eng/tests/PKG-INFO": b"Version: 1.0\n",
}
CHANGES: dict[str, Content | None] = {
    "eng/mod.py": Content(b"x = 2\n"),
    "eng/added.py": Content(b"a = 1\n", executable=True),
    "eng/gone.py": None,
}


def members(files: dict[str, bytes]) -> list[Member]:
    return [
        Member(path, path.endswith(".sh"), len(data), iter((data[:2], data[2:])))
        for path, data in files.items()
    ]


def build(
    folder: Path, files: dict[str, bytes] = FILES, epoch: int = 1_700_000_000
) -> sdist.Report:
    return sdist.repack(
        members(files), folder, distribution="Eng", version="1.0+sm120.1", changes=CHANGES,
        sbom=b"{}\n", epoch=epoch,
    )  # fmt: skip


def test_it_is_named_by_pep_625_and_holds_one_folder(tmp_path: Path) -> None:
    report = build(tmp_path)
    assert report.path.name == "eng-1.0+sm120.1.tar.gz"
    assert sdist.filename("Flash.Infer-Python", "1.0") == "flash_infer_python-1.0.tar.gz"
    with tarfile.open(report.path) as tar:
        names = tar.getnames()
    assert {name.split("/")[0] for name in names} == {"eng-1.0+sm120.1"}


def test_only_the_files_listed_differ(tmp_path: Path) -> None:
    report = build(tmp_path)
    with report.path.open("rb") as file:
        found = {
            member.path: b"".join(member.chunks)
            for member in archive.members(file, report.path.name)
        }
    assert {(each.what, each.name) for each in report.differences} == {
        ("changed", "PKG-INFO"), ("changed", "eng.egg-info/PKG-INFO"), ("changed", "eng/mod.py"),
        ("removed", "eng/gone.py"), ("added", "eng/added.py"), ("added", "sboms/pseries.cdx.json"),
    }  # fmt: skip
    touched = {each.name for each in report.differences}
    assert {path: data for path, data in found.items() if path not in touched} == {
        path: data for path, data in FILES.items() if path not in touched
    }
    assert found["PKG-INFO"] == PKG_INFO.replace(b"\nVersion: 1.0\n", b"\nVersion: 1.0+sm120.1\n")


def test_nothing_of_the_machine_is_in_it(tmp_path: Path) -> None:
    report = build(tmp_path)
    raw = report.path.read_bytes()
    assert raw[:4] == b"\x1f\x8b\x08\x00"  # no name in the header
    assert raw[4:8] == bytes(4)  # nor a date
    with tarfile.open(report.path) as tar:
        for member in tar:
            assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
            assert member.mtime == 1_700_000_000
            executable = member.name.endswith((".sh", "added.py"))
            assert member.mode == (0o755 if executable else 0o644)


def test_it_is_the_same_wherever_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hashlib.sha256(build(tmp_path / "a").path.read_bytes()).hexdigest()
    os.umask(umask := os.umask(0o077))
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    again = hashlib.sha256(build(tmp_path / "b").path.read_bytes()).hexdigest()
    os.umask(umask)
    assert first == again


def test_a_tree_without_pkg_info_gets_one(tmp_path: Path) -> None:
    files = {path: data for path, data in FILES.items() if not path.endswith("PKG-INFO")}
    report = build(tmp_path, files)
    with tarfile.open(report.path) as tar:
        file = tar.extractfile("eng-1.0+sm120.1/PKG-INFO")
        assert file is not None
        assert file.read() == b"Metadata-Version: 2.1\nName: Eng\nVersion: 1.0+sm120.1\n"


def test_pip_builds_a_wheel_from_it_that_carries_the_change(tmp_path: Path) -> None:
    report = build(tmp_path)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-index", "--no-deps", "--no-cache-dir",
         "-w", tmp_path / "out", report.path],
        check=True,
    )  # fmt: skip
    (wheel,) = (tmp_path / "out").iterdir()
    assert wheel.name == "eng-1.0+sm120.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as built:
        assert built.read("eng/mod.py") == b"x = 2\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b'[project]  # it\r\nversion = "1.0"  # ours\r\nname = "eng"\r\n',
            b'[project]  # it\r\nversion = "1.0+x.1"  # ours\r\nname = "eng"\r\n',
        ),
        (b'project.version = "1.0"\n', b'project.version = "1.0+x.1"\n'),
        (b'[project]\ndynamic = ["version"]\n', None),
        (b'[tool.it]\nversion = "1.0"\n', None),
        (b"[project]\nversion = 1\n", None),
        (b"project = 1\n", None),
        (b"[project\n", None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_a_stated_version_gets_the_label(before: bytes, after: bytes | None) -> None:
    assert sdist.with_stated_version(before, "1.0+x.1") == (before if after is None else after)


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused):
        build(tmp_path, {**FILES, "sboms/pseries.cdx.json": b"theirs"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ()),
        ({"setup.py": b"import setuptools\n"}, ()),
        (
            {"setup.py": b'os.getenv("FLASH_ENG_VERSION_OVERRIDE")'},
            ("FLASH_ENG_VERSION_OVERRIDE=1.0+x",),
        ),
        ({"setup.py": b'os.getenv("OTHER_VERSION_OVERRIDE")'}, ()),
        (
            {"pyproject.toml": b'requires = ["setuptools-scm>=8"]'},
            ("SETUPTOOLS_SCM_PRETEND_VERSION_FOR_FLASH_ENG=1.0+x",),
        ),
    ],
)
def test_variables_that_fix_the_version_are_found(
    files: dict[str, bytes], expected: tuple[str, ...]
) -> None:
    assert sdist.version_variables("flash-eng", "1.0+x", files) == expected
