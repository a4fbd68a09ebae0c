"""A series out of a tree that somebody edited: a real one first, then every kind of edit."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import engine

from pseries.errors import (
    CaptureRefused,
    DistributionNotFound,
    NothingToCapture,
    PseriesError,
    SeriesExists,
    UpstreamInvalid,
)
from pseries.model.diff import patch as patch_files
from pseries.workflows.exchange import capture
from pseries.workflows.exchange.capture import Asked, Captured
from pseries.workflows.series import catalog
from pseries.workflows.series.means import Means
from pseries.workflows.target import apply

if TYPE_CHECKING:
    from collections.abc import Callable

OFFLINE = Means(offline=True)


def check(found: Captured, site: Path) -> apply.Action:
    folder = Path(found.folder)
    series = catalog.load(found.series, catalog.Location(folder.parent, "the test's"))
    return apply.apply(series, site, check=True).action


def times(site: Path, edited: dict[str, bytes]) -> list[tuple[int, int]]:
    found = [(site / path.removeprefix("python/")).stat() for path in edited]
    return [(each.st_ino, each.st_mtime_ns) for each in found]


@pytest.mark.index
@pytest.mark.parametrize(("name", "distribution", "version"), [
    ("sglang-0.5.15", "sglang", "0.5.15"), ("vllm-0.26.0", "vllm", "0.26.0"),
])  # fmt: skip
def test_a_real_tree_that_was_patched_by_hand(
    name: str, distribution: str, version: str, target: Callable[[str, str], Path],
    patched_release: Callable[[str], dict[str, bytes]],
    pristine_release: Callable[[str], dict[str, bytes]],
    real_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What people did to vLLM and SGLang in site-packages, as patches with upstream's paths."""
    monkeypatch.chdir(tmp_path)
    site = target(distribution, version)
    pristine = pristine_release(name)
    edited = {path: data for path, data in patched_release(name).items()
              if data != pristine.get(path)}  # fmt: skip
    for path, data in edited.items():
        file = site / path.removeprefix("python/")
        file.unlink()  # a hard link
        file.write_bytes(data)
    (site / "bin").mkdir(exist_ok=True)
    (site / distribution / "notes.orig").write_bytes(b"x")
    before = times(site, edited)

    found = capture.capture(Asked(site, distribution), None, OFFLINE)

    assert found.verified
    assert found.compared > 1000
    assert sorted(edit.path for each in found.patches for edit in each.files) == sorted(edited)
    assert any(edit.symbols for each in found.patches for edit in each.files)
    assert [problem.where for problem in found.left_out] == [f"{distribution}/notes.orig"]
    assert check(found, site) is apply.Action.ALREADY
    assert times(site, edited) == before
    folder = Path(found.folder)
    for each in found.patches:
        patch = patch_files.parse(each.name, (folder / each.name).read_bytes())
        assert patch.header.trailer("Upstream-Status") == "Pending"
        assert len(patch.sections) == 1


WITH_BINARIES = {
    **engine.FILES, "eng/logo.bin": bytes(range(256)), "eng/fast.so": b"\x7fELF" + bytes(9),
}  # fmt: skip


# --- every kind of edit ------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an installed tree of ``eng`` whose release is in the store."""
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ann Author")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ann@example.invalid")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "shipped", lambda: None)
    files = {
        **engine.FILES,
        "eng/logo.bin": bytes(range(256)),
        "eng/fast.so": b"\x7fELF" + bytes(9),
    }
    engine.add_release({**files, **engine.EXTRA}, tmp_path / "checkout")
    return engine.install(tmp_path / "site", files)


def run(site: Path, **options: object) -> Captured:
    return capture.capture(Asked(site, "eng", **options), None, OFFLINE)  # type: ignore[arg-type]


def edit_all(site: Path) -> None:
    (site / "eng/core.py").write_bytes(engine.MODULE.replace(b"read()", b"read(99)"))
    (site / "eng/net.py").rename(site / "eng/wire.py")
    (site / "eng/old.py").unlink()
    (site / "eng/new").mkdir()
    (site / "eng/new/extra.py").write_bytes(b"# \xe9\nA = 1")
    (site / "eng/new/__init__.py").write_bytes(b"")
    (site / "eng/nvidia/ops.py").write_bytes(
        engine.FILES["eng/nvidia/ops.py"].replace(b"\n", b"\r\n"))  # fmt: skip


@pytest.mark.parametrize("split", ["file", "none"])
def test_every_kind_of_edit(site: Path, split: str) -> None:
    edit_all(site)
    found = run(site, split=split)
    edits = {edit.path: edit.what for each in found.patches for edit in each.files}
    assert edits == {
        "eng/core.py": "edited", "eng/wire.py": "renamed", "eng/old.py": "deleted",
        "eng/new/extra.py": "added", "eng/new/__init__.py": "added", "eng/nvidia/ops.py": "edited",
    }  # fmt: skip
    assert len(found.patches) == (6 if split == "file" else 1)
    assert found.verified
    assert check(found, site) is apply.Action.ALREADY


def test_the_series_makes_the_tree_out_of_the_release(site: Path, tmp_path: Path) -> None:
    edit_all(site)
    found = run(site)
    files = {
        **engine.FILES,
        "eng/logo.bin": bytes(range(256)),
        "eng/fast.so": b"\x7fELF" + bytes(9),
    }
    other = engine.install(tmp_path / "other", files)
    series = catalog.load(found.series, catalog.Location(tmp_path / "series", ""))
    apply.apply(series, other)
    for path in site.glob("eng/**/*"):
        if path.is_file():
            assert (other / path.relative_to(site)).read_bytes() == path.read_bytes(), path
    assert not (other / "eng/old.py").exists()


def test_who_when_and_where_are_in_the_patch(site: Path) -> None:
    file = site / "eng/core.py"
    file.write_bytes(engine.MODULE.replace(b"read()", b"read(99)"))
    os.utime(file, (1_790_000_000, 1_790_000_000))
    found = run(site)
    (made,) = found.patches
    header = patch_files.parse(made.name, (Path(found.folder) / made.name).read_bytes()).header
    assert made.name == "0001-eng-core.patch"
    assert header.author == "Ann Author <ann@example.invalid>"
    assert header.date == "Mon, 21 Sep 2026 14:13:20 +0000"
    assert "* eng/core.py (edited): load" in header.body
    assert header.trailer("Upstream-Status") == "Pending"


def test_without_a_name_it_still_goes(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GIT_AUTHOR_NAME")
    (site / "eng/old.py").write_bytes(b"x = 1\n")
    found = run(site)
    assert "user.name" in found.notes[-1]


def test_paths_are_the_repositorys(tmp_path: Path, site: Path) -> None:
    from pseries.upstream import imports
    from pseries.upstream.store import Store

    engine.write(tmp_path / "rooted", {f"src/{p}": d for p, d in engine.FILES.items()})
    store = Store.open("eng")
    with store.lock():
        imports.add_folder(store, "1.0", tmp_path / "rooted", "src")
    (site / "eng/old.py").write_bytes(b"x = 1\n")
    (site / "eng/more.py").write_bytes(b"y = 1\n")
    found = run(site)
    assert [edit.path for each in found.patches for edit in each.files] == [
        "src/eng/more.py", "src/eng/old.py",
    ]  # fmt: skip
    assert check(found, site) is apply.Action.ALREADY


def test_what_tools_and_python_leave_behind_is_not_captured(site: Path) -> None:
    (site / "eng/old.py").write_bytes(b"x = 1\n")
    for name in ("old.py.orig", "old.py.rej", "old.py~", ".old.py.swp", "#old.py#"):
        (site / "eng" / name).write_bytes(b"junk")
    (site / "eng/__pycache__").mkdir()
    (site / "eng/__pycache__/old.cpython-311.pyc").write_bytes(b"\0")
    (site / "eng/built.cpython-311.so").write_bytes(b"\x7fELF")
    (site / "eng/link.py").symlink_to(site / "eng/old.py")
    found = run(site)
    assert [edit.path for each in found.patches for edit in each.files] == ["eng/old.py"]
    assert {problem.where for problem in found.left_out} == {
        "eng/old.py.orig", "eng/old.py.rej", "eng/old.py~", "eng/.old.py.swp", "eng/#old.py#",
        "eng/built.cpython-311.so", "eng/link.py",
    }  # fmt: skip


def test_a_file_of_another_distribution_in_the_same_folder_is_not_ours(site: Path) -> None:
    engine.install(site, {"eng/plugin.py": b"P = 1\n"}, name="eng-plugin")
    (site / "eng/old.py").write_bytes(b"x = 1\n")
    assert [each.files[0].path for each in run(site).patches] == ["eng/old.py"]


def test_binary_files_are_taken_if_asked(site: Path) -> None:
    (site / "eng/logo.bin").write_bytes(bytes(9))
    (site / "eng/old.py").write_bytes(b"x = 1\n")
    without = run(site)
    assert "binary" in without.left_out[0].what
    assert without.verified
    both = run(site, binary=True, variant="all")
    assert [each.files[0].path for each in both.patches] == ["eng/logo.bin", "eng/old.py"]
    assert not both.verified


def test_a_compiled_file_that_differs_is_said(site: Path) -> None:
    (site / "eng/fast.so").write_bytes(b"\x7fELF rebuilt by hand")
    with pytest.raises(CaptureRefused, match="no patch can hold"):
        run(site)
    (site / "eng/old.py").write_bytes(b"x = 1\n")
    assert [problem.where for problem in run(site).left_out] == ["eng/fast.so"]


def test_a_file_that_was_installed_otherwise_counts_as_unchanged(site: Path) -> None:
    """A wheel has generated files, which its repository has not."""
    text = b"VERSION = '1.0+cu1'\n"
    engine.install(site, {**engine.FILES, "eng/__init__.py": text, "eng/_version.py": b"v = 1\n"})
    (site / "eng/old.py").write_bytes(b"x = 1\n")
    found = run(site)
    assert [each.files[0].path for each in found.patches] == ["eng/old.py"]
    assert "eng/__init__.py, eng/_version.py" in found.notes[0]


def test_what_has_no_official_text_is_not_guessed(site: Path) -> None:
    engine.install(site, {**engine.FILES, "eng/__init__.py": b"V = 2\n", "eng/_v.py": b"v = 1\n"})
    (site / "eng/__init__.py").write_bytes(b"V = 3\n")
    (site / "eng/_v.py").write_bytes(b"v = 2\n")
    with pytest.raises(CaptureRefused) as refused:
        run(site)
    assert {problem.where for problem in refused.value.problems} >= {"eng/__init__.py", "eng/_v.py"}


# --- where nothing is written ------------------------------------------------------------------


def test_an_untouched_tree(site: Path, tmp_path: Path) -> None:
    with pytest.raises(NothingToCapture, match="all 8 files"):
        run(site)
    assert not (tmp_path / "series").exists()


def test_a_dry_run(site: Path, tmp_path: Path) -> None:
    edit_all(site)
    found = run(site, dry_run=True)
    assert (found.folder, len(found.patches)) == ("", 6)
    assert not (tmp_path / "series").exists()


def test_an_existing_series_is_left_alone(site: Path) -> None:
    edit_all(site)
    first = engine.snapshot(Path(run(site).folder))
    with pytest.raises(SeriesExists):
        run(site)
    assert engine.snapshot(Path("series/eng-1.0")) == first
    assert run(site, variant="again").series == "eng-1.0-again"


def test_a_tree_with_a_series_applied(site: Path, tmp_path: Path) -> None:
    edit_all(site)
    found = run(site)
    files = {
        **engine.FILES,
        "eng/logo.bin": bytes(range(256)),
        "eng/fast.so": b"\x7fELF" + bytes(9),
    }
    shutil.rmtree(site)
    engine.install(site, files)
    apply.apply(catalog.load(found.series, catalog.Location(tmp_path / "series", "")), site)
    with pytest.raises(CaptureRefused, match=r"eng-1\.0: is applied there"):
        run(site, variant="more")


def test_a_local_version_is_of_the_public_release(site: Path) -> None:
    """As a vendor's or a CUDA build calls itself: 1.0+cu1."""
    shutil.rmtree(site / "eng-1.0.dist-info")
    engine.install(site, WITH_BINARIES, version="1.0+cu1")
    (site / "eng/old.py").write_bytes(b"x = 1\n")
    found = run(site)
    assert (found.series, found.version, found.verified) == ("eng-1.0", "1.0+cu1", True)


def test_a_variant_cannot_leave_the_folder(site: Path, tmp_path: Path) -> None:
    edit_all(site)
    with pytest.raises(UpstreamInvalid):
        run(site, variant="../../x")
    assert not (tmp_path / "series").exists()


def test_an_environment_is_as_good_as_its_site_packages(site: Path, tmp_path: Path) -> None:
    edit_all(site)
    home = tmp_path / "venv/lib/python3.11"
    home.mkdir(parents=True)
    site.rename(home / "site-packages")
    assert len(run(tmp_path / "venv").patches) == 6


def test_nothing_is_changed_in_the_tree(site: Path) -> None:
    edit_all(site)
    before = engine.snapshot(site)
    run(site)
    assert engine.snapshot(site) == before


@pytest.mark.parametrize(("distribution", "error"), [("other", DistributionNotFound)])
def test_what_is_not_installed(site: Path, distribution: str, error: type[PseriesError]) -> None:
    with pytest.raises(error):
        capture.capture(Asked(site, distribution), None, OFFLINE)


def test_bytecode_is_never_a_difference(site: Path) -> None:
    record = site / "eng-1.0.dist-info/RECORD"
    record.write_text("eng/__pycache__/core.cpython-311.pyc,,\n" + record.read_text())
    with pytest.raises(NothingToCapture):
        run(site)
