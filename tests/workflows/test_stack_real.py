"""A checkout of the series that the project exists for, on the real releases."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.conftest import REPOSITORY_SERIES

from pseries.workflows.series import catalog, release
from pseries.workflows.series.means import Means
from pseries.workflows.verbs import checkout, push, refresh, stack, stack_view, undo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.index


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.invalid", *arguments],
        cwd=folder, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}


@pytest.fixture
def checked_out(real_store: Path, tmp_path: Path) -> Callable[[str], tuple[Path, Path]]:
    """Return ``checked_out(series)``: a copy of its folder, and a checkout of that."""

    def check_out(name: str) -> tuple[Path, Path]:
        folder = tmp_path / "series" / name
        shutil.copytree(REPOSITORY_SERIES.folder / name, folder)
        location = catalog.Location(folder.parent, "the test's")
        series = catalog.load(name, location)
        store, found = release.fetch(series, Means())
        checkout.check_out(series, location, store, found, tmp_path / "work")
        return folder, tmp_path / "work"

    return check_out


@pytest.mark.parametrize("name", ["vllm-0.26.0", "sglang-0.5.15", "vllm-0.11.0-sm120"])
def test_every_patch_is_a_commit_and_comes_off_and_on(
    name: str,
    checked_out: Callable[[str], tuple[Path, Path]],
    pristine_release: Callable[[str], dict[str, bytes]],
    patched_release: Callable[[str], dict[str, bytes]],
):
    folder, work = checked_out(name)
    series = catalog.load(str(folder), None)
    log = git(work, "log", "--reverse", "--format=%an <%ae>|%aD|%s").splitlines()
    assert log[1:] == [
        f"{patch.header.author}|{patch.header.date}|{patch.header.subject}"
        for patch in series.patches
    ]
    touched = {path for patch in series.patches for path in patch.paths}
    pristine, patched = pristine_release(name), patched_release(name)

    def there() -> dict[str, bytes]:
        return {path: (work / path).read_bytes() for path in touched if (work / path).is_file()}

    assert there() == patched
    with stack.opened(work) as opened:
        push.pop(opened, everything=True)
        assert there() == pristine
        assert git(work, "status", "--porcelain") == ""
        push.push(opened, everything=True)
        assert there() == patched
    assert git(work, "status", "--porcelain") == ""


def test_a_refresh_without_a_change_writes_no_byte(
    checked_out: Callable[[str], tuple[Path, Path]],
):
    folder, work = checked_out("vllm-0.26.0")
    before = contents(folder)
    with stack.opened(work) as opened:
        done = refresh.refresh(opened)
    assert (done.patches, contents(folder)) == ((), before)
    with stack.opened(work) as opened:
        assert refresh.refresh_all(opened).patches == ()
    assert contents(folder) == before


def test_an_edit_goes_into_a_patch_below_the_top_and_back(
    checked_out: Callable[[str], tuple[Path, Path]],
):
    folder, work = checked_out("vllm-0.26.0")
    before = {name: data for name, (data, _) in contents(folder).items()}
    edited = work / "vllm/models/deepseek_v4/nvidia/ops/o_proj.py"
    edited.write_bytes(edited.read_bytes() + b"# an edit\n")
    with stack.opened(work) as opened:
        done = refresh.refresh(opened, "0002")
    assert [(each.name, each.revision.value) for each in done.patches] == [
        ("0002-bf16-o-proj-fp32-compressor-mm.patch", "content")
    ]
    series = catalog.load(str(folder), None)
    series.locked()
    assert series.patches[1].data.endswith(b"+# an edit\n")
    assert git(work, "status", "--porcelain") == ""
    with stack.opened(work) as opened:
        assert undo.undo(opened) == "refresh 0002"
        assert stack_view.diff(opened, (), edits=True).endswith(b"\n+# an edit\n")
    assert {name: data for name, (data, _) in contents(folder).items()} == before
