"""Installed trees as strangers, accidents and other tools leave them, captured or refused."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import engine

from pseries.errors import CaptureRefused, NothingToCapture, PseriesError
from pseries.upstream import imports
from pseries.upstream.store import Store
from pseries.workflows.exchange import capture
from pseries.workflows.exchange.capture import Asked, Captured
from pseries.workflows.series.means import Means

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def release(tmp: Path, files: Mapping[str, bytes] = engine.FILES, name: str = "eng",
            version: str = "1.0") -> None:  # fmt: skip
    folder = tmp / f"release-{name}-{version}"
    engine.write(folder, files)
    store = Store.open(name)
    with store.lock():
        imports.add_folder(store, version, folder, "")


def take(site: Path, name: str = "eng", **options: object) -> Captured:
    return capture.capture(Asked(site, name, **options), None, Means(offline=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("when", [2**40, 2**33, -(2**31), 0])
def test_a_file_of_any_time(tmp_path: Path, when: int) -> None:
    release(tmp_path)
    site = engine.install(tmp_path / "site")
    (site / "eng/net.py").write_bytes(b"TIMEOUT = 1\n")
    try:
        os.utime(site / "eng/net.py", (when, when))
    except OSError:
        pytest.skip("not on this file system")
    assert take(site).verified


@pytest.mark.parametrize("name", [
    "caf\u00e9.py", "a b.py", " x.py", "[PATCH] x.py", "=?utf-8?q?x?=.py", "---.py", "x\ny.py",
    'q"uote.py', "back\\slash.py", "\x1b[31mred.py", "-x.py", "#x.py", "x" * 240 + ".py",
    "\u202egnp.py",
    os.fsdecode(b"caf\xe9.py"), "From x.py", ".py", "diff --git a.py", "None",
])  # fmt: skip
def test_new_files_of_any_name(tmp_path: Path, name: str) -> None:
    """Captured, or left out with a reason; what else was edited is taken either way."""
    release(tmp_path)
    site = engine.install(tmp_path / "site")
    (site / "eng/net.py").write_bytes(b"TIMEOUT = 1\n")
    (site / "eng" / name).write_bytes(b"NEW = 1\n")
    found = take(site)
    assert found.verified
    assert len(found.patches) + len(found.left_out) == 2


def test_a_namespace_that_others_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of google or nvidia holds files of many distributions."""
    monkeypatch.setattr(capture, "MOST_STRAYS", 50)
    files = {"space/mine/core.py": b"A = 1\n"}
    release(tmp_path, files, "space-mine")
    site = engine.install(tmp_path / "site", files, name="space_mine")
    for number in range(3):
        others = {f"space/other{number}/f{at}.py": b"" for at in range(40)}
        engine.install(site, others, name=f"space_other{number}")
    (site / "space/mine/core.py").write_bytes(b"A = 2\n")
    assert [each.path for patch in take(site, "space-mine").patches for each in patch.files] == [
        "space/mine/core.py"
    ]


def test_one_module(tmp_path: Path) -> None:
    release(tmp_path, {"six.py": b"A = 1\n"}, "six")
    site = engine.install(tmp_path / "site", {"six.py": b"A = 1\n"}, name="six")
    (site / "__pycache__").mkdir()
    (site / "__pycache__/six.cpython-311.pyc").write_bytes(b"x")
    with pytest.raises(NothingToCapture):
        take(site, "six")
    (site / "six.py").write_bytes(b"A = 2\n")
    assert take(site, "six").verified


@pytest.mark.parametrize("version", ["v1.0", "1.0+cu129", "01.0"])
def test_versions_are_told_alike(tmp_path: Path, version: str) -> None:
    release(tmp_path)
    site = engine.install(tmp_path / "site", version=version)
    (site / "eng/net.py").write_bytes(b"TIMEOUT = 1\n")
    assert take(site).series.startswith("eng-1.0")


@pytest.mark.parametrize("version", ["1" * 5000, "1!" * 3, "x", "\x1b[31m", ""])
def test_versions_that_are_none(tmp_path: Path, version: str) -> None:
    release(tmp_path)
    site = engine.install(tmp_path / "site")
    metadata = site / "eng-1.0.dist-info/METADATA"
    metadata.write_text(f"Metadata-Version: 2.1\nName: eng\nVersion: {version}\n")
    with pytest.raises(PseriesError):
        take(site)


def test_links_and_pipes(tmp_path: Path) -> None:
    release(tmp_path)
    site = engine.install(tmp_path / "site")
    (tmp_path / "secret").write_bytes(b"root's\n")
    (site / "eng/net.py").unlink()
    (site / "eng/net.py").symlink_to(tmp_path / "secret")
    (site / "eng/core.py").unlink()
    os.mkfifo(site / "eng/core.py")
    os.mkfifo(site / "eng/pipe.py")
    (site / "eng/up").symlink_to("/")
    (site / "eng/loop.py").symlink_to("loop.py")
    (site / "eng/old.py").write_bytes(b"GONE = False\n")
    found = take(site)
    assert [each.path for patch in found.patches for each in patch.files] == ["eng/old.py"]
    assert {each.where for each in found.left_out} == {
        "eng/net.py", "eng/core.py", "eng/pipe.py", "eng/up", "eng/loop.py",
    }  # fmt: skip


def test_a_package_that_is_a_link(tmp_path: Path) -> None:
    release(tmp_path)
    site = engine.install(tmp_path / "site")
    (site / "eng").rename(tmp_path / "elsewhere")
    (site / "eng").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PseriesError):
        take(site)


def test_records_that_lead_out_of_the_tree(tmp_path: Path) -> None:
    release(tmp_path)
    site = engine.install(tmp_path / "site")
    record = site / "eng-1.0.dist-info/RECORD"
    (tmp_path / "secret.py").write_bytes(b"x\n")
    rows = ["../secret.py,,", f"{tmp_path}/secret.py,,", "eng/../../secret.py,,", "eng//net.py,,"]
    (site / "eng/net.py").write_bytes(b"TIMEOUT = 1\n")
    record.write_text(record.read_text() + "\n".join(rows) + "\n")
    try:
        found = take(site)
    except PseriesError:
        return
    assert [each.path for patch in found.patches for each in patch.files] == ["eng/net.py"]


@pytest.mark.parametrize("root", ["../..", "/", "-x", "a//b", "none", "eng/", "\x1b[31m", "."])
def test_roots_that_are_none(tmp_path: Path, root: str) -> None:
    release(tmp_path)
    site = engine.install(tmp_path / "site")
    (site / "eng/net.py").write_bytes(b"TIMEOUT = 1\n")
    with pytest.raises(PseriesError):
        take(site, root=root)
    assert not (tmp_path / "series").exists()


def test_time_grows_with_the_number_of_files(tmp_path: Path) -> None:
    took = []
    for number, count in enumerate((500, 2000)):
        files = {f"eng/f{at}.py": b"A = 1\n" for at in range(count)}
        release(tmp_path, files, version=f"1.{number}")
        site = engine.install(tmp_path / f"site{number}", files, f"1.{number}")
        for path in files:
            (site / path).write_bytes(b"A = 2\n")
        begun = time.process_time()
        assert len(take(site, split="none").patches[0].files) == count
        took.append(time.process_time() - begun)
    assert took[1] < took[0] * 12 + 1, took


def test_too_many_strays_are_still_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MOST_STRAYS", 5)
    release(tmp_path)
    site = engine.install(tmp_path / "site")
    engine.write(site, {f"eng/x{at}.py": b"" for at in range(6)})
    with pytest.raises(CaptureRefused):
        take(site)
