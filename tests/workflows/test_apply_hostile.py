"""apply where it cannot, must not, or is not alone: A02, A04, A05, A07, A12, A13, I01, G01."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.site import faults
from tests.support import engine
from tests.workflows.conftest import CHANGED
from tests.workflows.test_apply import content, status

from pseries import errors
from pseries.workflows.target import apply as applying
from pseries.workflows.target import rollback as rolling
from pseries.workflows.target.apply import Action

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.workflows.conftest import Bench

    from pseries.model.series import Series

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount or to change user")


def pseries(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pseries", *map(str, arguments)],
        capture_output=True, text=True, check=False, **options,  # type: ignore[call-overload]
    )  # fmt: skip


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """Give an empty file system of one MiB of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=2k", "tmpfs", str(folder)]
    said = subprocess.run(command, capture_output=True, check=False)
    if said.returncode != 0:
        pytest.skip(f"mounting is not permitted: {said.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


# --- the system says no -------------------------------------------------------------------------


@as_root
def test_a_full_disk(bench: Bench, whole: Series, mounted: Path):
    site = engine.install(mounted / "site")
    free = os.statvfs(mounted)
    (mounted / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize - 40_000))
    before = engine.snapshot(site)
    said = pseries("apply", "eng-1.0", site, cwd=bench.tmp)
    assert said.returncode == 1
    assert "cannot be written" in said.stderr
    assert len(said.stderr.splitlines()) == 2  # what and why, and what to do
    rest = {path: entry for path, entry in engine.snapshot(site).items() if ".pseries" not in path}
    assert rest == before
    (mounted / "filler").unlink()
    assert pseries("apply", "eng-1.0", site, cwd=bench.tmp).returncode == 0


@as_root
def test_a_read_only_tree(bench: Bench, whole: Series, mounted: Path):
    """A12: one clear line before any change; and nothing to complain of once it is patched."""
    site = engine.install(mounted / "site")
    remount = ["mount", "-o", "remount,{}", str(mounted)]
    before = engine.snapshot(site)
    subprocess.run([word.format("ro") for word in remount], check=True)
    said = pseries("apply", "eng-1.0", site, cwd=bench.tmp)
    assert said.returncode == 1
    assert "the file system is read-only" in said.stderr
    assert engine.snapshot(site) == before
    subprocess.run([word.format("rw") for word in remount], check=True)
    assert pseries("apply", "eng-1.0", site, cwd=bench.tmp).returncode == 0
    subprocess.run([word.format("ro") for word in remount], check=True)
    for words in (
        ("apply", "eng-1.0", site),
        ("apply", "--check", "eng-1.0", site),
        ("status", site),
    ):
        assert pseries(*words, cwd=bench.tmp).returncode == 0, words


@as_root
def test_no_permission(bench: Bench, whole: Series, tmp_path_factory: pytest.TempPathFactory):
    top = tmp_path_factory.getbasetemp()
    top = top.parent if top.name.startswith("popen-") else top  # one for each process of xdist
    for folder in (bench.tmp, *bench.tmp.parents):
        if folder.is_relative_to(top.parent):
            folder.chmod(0o755)
    before = engine.snapshot(bench.site)

    def as_somebody() -> int:
        os.setgid(65534)
        os.setuid(65534)
        try:
            applying.apply(whole, bench.site)
        except errors.TargetNotWritable as error:
            return 0 if "Permission denied" in str(error) else 2
        return 3

    assert faults.in_child(as_somebody) == 0
    assert engine.snapshot(bench.site) == before


# --- others at work -----------------------------------------------------------------------------


def test_six_at_once(bench: Bench, whole: Series):
    """A13, T35: every rank of a server patches at its start; one does it, the others see it."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "pseries", "apply", "eng-1.0", str(bench.site)],
            cwd=bench.tmp, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(6)
    ]  # fmt: skip
    said = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * 6
    assert sum(": applied" in each for each in said) == 1
    assert sum(": already applied" in each for each in said) == 5
    assert content(bench.site) == CHANGED
    rolling.rollback(bench.site, None)
    assert content(bench.site) == engine.FILES


def test_a_backup_is_no_hard_link(bench: Bench, whole: Series):
    """I01: a backup that shares the inode would change with the file."""
    applying.apply(whole, bench.site)
    assert all(path.stat().st_nlink == 1 for path in (bench.site / ".pseries/objects").iterdir())


# --- git around ---------------------------------------------------------------------------------


@pytest.mark.parametrize("above", ["dangling", "foreign", "bare"])
def test_any_git_above_the_tree(bench: Bench, whole: Series, above: str):
    """A02, G01: a .git file that points nowhere, a repository of somebody else, a bare one."""
    if above == "dangling":
        (bench.tmp / ".git").write_text("gitdir: /nowhere/at/all\n")
    else:
        engine.git(bench.tmp, "init", "-q", *(["--bare", "."] if above == "bare" else []))
        if os.geteuid() == 0 and above == "foreign":
            subprocess.run(["chown", "-R", "65534", str(bench.tmp / ".git")], check=True)
    assert applying.apply(whole, bench.site).action is Action.APPLIED
    assert content(bench.site) == CHANGED


def test_latin_1_survives(bench: Bench):
    """G01, F05: bytes in, bytes out."""
    files = {**engine.FILES, "eng/core.py": engine.MODULE + b"# caf\xe9\n"}
    engine.add_release(files, bench.tmp / "latin", version="2.0")
    after = {**files, "eng/core.py": files["eng/core.py"].replace(b"caf\xe9", b"th\xe9")}
    patch = bench.patch(files, after)
    series = bench.series({"1.patch": patch}, name="eng-2.0", version="2.0")
    site = engine.install(bench.tmp / "two", files, "2.0")
    assert applying.apply(series, site).action is Action.APPLIED
    assert (site / "eng/core.py").read_bytes() == after["eng/core.py"]


# --- what other tools take for "applied" or "fits" ------------------------------------------------


def test_a_stack_on_one_line_and_a_bad_third(bench: Bench):
    """A04: the second edits the first one's line again; a third that does not fit is named."""
    one = {**engine.FILES, "eng/core.py": engine.MODULE.replace(b"read()", b"read(1)")}
    two = {**engine.FILES, "eng/core.py": engine.MODULE.replace(b"read()", b"read(2)")}
    first, second = bench.patch(dict(engine.FILES), one), bench.patch(one, two)
    series = bench.series({"1.patch": first, "2.patch": second})
    assert applying.apply(series, bench.site).action is Action.APPLIED
    assert b"read(2)" in (bench.site / "eng/core.py").read_bytes()
    with pytest.raises(errors.DoesNotApply) as caught:
        bench.series({"1.patch": first, "2.patch": second, "3.patch": second}, name="eng-1.0-bad")
    assert "3.patch" in str(caught.value)
    assert not (bench.series_dir / "eng-1.0-bad/manifest.json").exists()


def test_a_deletion_is_told_from_its_absence(bench: Bench):
    """A05: both `--check` and `-R --check` pass on such a patch; hashes tell."""
    lines = b"".join(b"line %d\n" % (number % 3) for number in range(12))
    files = {**engine.FILES, "eng/data.py": lines}
    engine.add_release(files, bench.tmp / "del", version="2.0")
    after = {**files, "eng/data.py": lines[: len(lines) // 2] + lines[len(lines) // 2 + 21 :]}
    series = bench.series({"1.patch": bench.patch(files, after)}, name="eng-2.0", version="2.0")
    site = engine.install(bench.tmp / "two", files, "2.0")
    assert applying.apply(series, site).action is Action.APPLIED
    assert applying.apply(series, site).action is Action.ALREADY
    assert (site / "eng/data.py").read_bytes() == after["eng/data.py"]


def test_no_fuzz(bench: Bench):
    """A07: GNU patch and quilt would drop context lines until the hunk fits somewhere."""
    patch = bench.patch(dict(engine.FILES), {**engine.FILES, "eng/core.py": CHANGED["eng/core.py"]})
    near = patch.replace(b" def load(path):", b" def load(file):")
    assert near != patch
    with pytest.raises(errors.DoesNotApply) as caught:
        bench.series({"1.patch": near}, name="eng-1.0-near")
    assert "hunk 1 does not match at line 3, nor anywhere else" in str(caught.value)


def test_a_shifted_patch_is_not_slid_into_place(bench: Bench):
    """T6: git would apply it ten lines off, with exit status 0."""
    files = {**engine.FILES, "eng/core.py": b"import os\n" * 10 + engine.MODULE}
    engine.add_release(files, bench.tmp / "shift", version="2.0")
    patch = bench.patch(dict(engine.FILES), {**engine.FILES, "eng/core.py": CHANGED["eng/core.py"]})
    with pytest.raises(errors.DoesNotApply) as caught:
        bench.series({"1.patch": patch}, name="eng-2.0", version="2.0")
    assert "its lines stand at line 13" in str(caught.value)


def test_a_manifest_that_lies_is_found_out(bench: Bench, whole: Series):
    """The result is compared with the manifest, and the manifest with the patches and files."""
    path = bench.series_dir / "eng-1.0/manifest.json"
    data = path.read_text()
    after = whole.locked().patches[1].files[0].after
    assert after is not None
    path.write_text(data.replace(after.sha256, "0" * 64))
    before = engine.snapshot(bench.site)
    said = pseries("apply", "eng-1.0", bench.site, cwd=bench.tmp)
    assert said.returncode == 1
    assert "the result is not the manifest's" in said.stderr
    assert engine.snapshot(bench.site) == before


@pytest.mark.parametrize("relocated", [False, True])
def test_targets_outside_the_package_cannot_be_named(bench: Bench, relocated: bool):
    """A09: a relocation may not lead out of the tree either."""
    rest = (
        '[[relocate]]\nname = "out"\nfrom = "eng/nvidia"\nto = "../../etc"\n' if relocated else ""
    )
    path = b"eng/core.py" if relocated else b"../outside.py"
    patch = engine.message() + (
        b"diff --git a/%b b/%b\n--- a/%b\n+++ b/%b\n@@ -1,3 +1,3 @@\n-x\n+y\n z\n z\n"
        % (path, path, path, path)
    )
    with pytest.raises(errors.SeriesInvalid) as caught:
        bench.series({"1.patch": patch}, rest=rest, name="eng-1.0-out")
    assert "leaves the tree" in str(caught.value)


def test_status_needs_nothing_but_reading(bench: Bench, whole: Series):
    applying.apply(whole, bench.site)
    assert faults.count(lambda: status(bench.site)) == []
