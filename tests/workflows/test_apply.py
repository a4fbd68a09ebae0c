"""apply, status, rollback, recover on a small made-up engine: every outcome, every refusal."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.site import faults
from tests.support import engine, records
from tests.workflows.conftest import CHANGED

from pseries import errors
from pseries.site import distribution
from pseries.site.fs import SiteTree
from pseries.workflows.target import apply as applying
from pseries.workflows.target import rollback as rolling
from pseries.workflows.target import status as statuses
from pseries.workflows.target.apply import Action

if TYPE_CHECKING:
    from tests.workflows.conftest import Bench

    from pseries.model.series import Series
    from pseries.workflows.target.status import Status


def status(site: Path) -> Status:
    with SiteTree(site) as tree:
        return statuses.status(tree)


def content(site: Path) -> dict[str, bytes]:
    """Return what is installed, without metadata, state and bytecode."""
    return {
        str(path.relative_to(site)): path.read_bytes()
        for path in site.rglob("*")
        if path.is_file() and not {".pseries", "__pycache__", "eng-1.0.dist-info"} & set(path.parts)
    }


def record_problems(site: Path) -> list[str]:
    with SiteTree(site) as tree:
        return records.differing(site, distribution.find(tree, "eng").record)


# --- the ordinary way ---------------------------------------------------------------------------


def test_apply_and_rollback(bench: Bench, whole: Series):
    before = engine.snapshot(bench.site)
    done = applying.apply(whole, bench.site)
    assert done.action is Action.APPLIED
    assert content(bench.site) == CHANGED
    assert (bench.site / "eng/tool.sh").stat().st_mode & 0o777 == 0o755
    assert record_problems(bench.site) == []
    assert status(bench.site).clean
    rolled = rolling.rollback(bench.site, None)
    assert rolled.series == "eng-1.0"
    rolling.purge(bench.site)
    assert engine.snapshot(bench.site) == before


def test_check_changes_nothing(bench: Bench, whole: Series):
    before = engine.snapshot(bench.site)
    done = applying.apply(whole, bench.site, check=True)
    assert done.action is Action.FITS
    assert engine.snapshot(bench.site) == before


def test_again_is_already_applied(bench: Bench, whole: Series):
    applying.apply(whole, bench.site)
    before = engine.snapshot(bench.site)
    assert applying.apply(whole, bench.site).action is Action.ALREADY
    assert applying.apply(whole, bench.site, check=True).action is Action.ALREADY
    assert engine.snapshot(bench.site) == before


def test_files_that_came_patched_need_no_receipt(bench: Bench, whole: Series):
    site = engine.install(bench.tmp / "patched", CHANGED)
    done = applying.apply(whole, site)
    assert (done.action, done.receipt) == (Action.ALREADY, False)
    assert not (site / ".pseries").exists()


def test_a_local_label_is_the_same_release(bench: Bench, whole: Series):
    site = engine.install(bench.tmp / "cu", version="1.0+cu129")
    assert applying.apply(whole, site).action is Action.APPLIED


def test_a_patched_module_is_what_python_runs(bench: Bench, whole: Series):
    """T33: bytecode of the old source must not survive, whatever its kind."""
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash",
         str(bench.site)], check=True,
    )  # fmt: skip
    before = engine.snapshot(bench.site)
    applying.apply(whole, bench.site)

    def value() -> str:
        code = "import sys; sys.path.insert(0, sys.argv[1]); from eng.nvidia.ops import C; print(C)"
        command = [sys.executable, "-I", "-B", "-c", code, str(bench.site)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert value() == "33"
    rolling.rollback(bench.site, None)
    assert value() == "3"
    rolling.purge(bench.site)
    assert engine.snapshot(bench.site) == before


def test_an_executable_bit_alone(bench: Bench):
    old = bench.patch(dict(engine.FILES), dict(engine.FILES), "x")
    assert b"diff" not in old
    patch = engine.message() + (
        b"diff --git a/eng/core.py b/eng/core.py\nold mode 100644\nnew mode 100755\n"
    )
    series = bench.series({"1.patch": patch})
    (bench.site / "eng/core.py").chmod(0o640)
    assert applying.apply(series, bench.site).action is Action.APPLIED
    assert (bench.site / "eng/core.py").stat().st_mode & 0o777 == 0o750
    assert applying.apply(series, bench.site).action is Action.ALREADY
    rolling.rollback(bench.site, None)
    assert (bench.site / "eng/core.py").stat().st_mode & 0o777 == 0o640


def test_modes_are_kept_under_any_umask(bench: Bench, whole: Series):
    (bench.site / "eng/core.py").chmod(0o664)
    (bench.site / "eng/nvidia/ops.py").chmod(0o600)
    before = os.umask(0o077)
    try:
        applying.apply(whole, bench.site)
    finally:
        os.umask(before)
    assert (bench.site / "eng/core.py").stat().st_mode & 0o777 == 0o664
    assert (bench.site / "eng/nvidia/ops.py").stat().st_mode & 0o777 == 0o600
    assert (bench.site / "eng/new/extra.py").stat().st_mode & 0o777 == 0o644


# --- what is refused ----------------------------------------------------------------------------


def refused(bench: Bench, series: Series, kind: type[errors.PseriesError]) -> str:
    """Apply a series that must be refused with every byte of the tree left alone."""
    before = engine.snapshot(bench.site)
    with pytest.raises(kind) as caught:
        applying.apply(series, bench.site)
    assert engine.snapshot(bench.site) == before
    with pytest.raises(kind):
        applying.apply(series, bench.site, check=True)
    assert engine.snapshot(bench.site) == before
    return str(caught.value)


def test_wrong_release_names_both_versions_and_what_fits(bench: Bench, whole: Series):
    site = engine.install(bench.tmp / "newer", version="1.1")
    before = engine.snapshot(site)
    with pytest.raises(errors.WrongRelease) as caught:
        applying.apply(whole, site, fitting=lambda: {"eng-1.0": "1.0", "eng-1.1-b": "1.1"})
    assert "1.0" in str(caught.value)
    assert "1.1" in str(caught.value)
    assert caught.value.fits == ("eng-1.1-b",)
    assert engine.snapshot(site) == before


def test_one_changed_byte_is_drift(bench: Bench, whole: Series):
    path = bench.site / "eng/core.py"
    path.write_bytes(path.read_bytes().replace(b"engine", b"Engine"))
    (bench.site / "eng/nvidia/ops.py").unlink()
    said = refused(bench, whole, errors.Drift)
    assert "changed by hand  eng/core.py" in said
    assert "missing          eng/nvidia/ops.py" in said
    assert "pristine         eng/old.py" in said


def test_another_build_is_told_from_a_change_by_hand(bench: Bench, whole: Series):
    files = {**engine.FILES, "eng/core.py": engine.MODULE + b"# another build\n"}
    site = engine.install(bench.tmp / "other", files)
    with pytest.raises(errors.Drift) as caught:
        applying.apply(whole, site)
    assert "other release  eng/core.py" in str(caught.value)


def test_half_patched_is_drift(bench: Bench, whole: Series):
    (bench.site / "eng/core.py").write_bytes(CHANGED["eng/core.py"])
    assert "patched" in refused(bench, whole, errors.Drift)


def test_a_new_file_in_the_way_is_drift(bench: Bench, whole: Series):
    engine.write(bench.site, {"eng/new/extra.py": b"mine\n"})
    assert "changed by hand  eng/new/extra.py" in refused(bench, whole, errors.Drift)


def test_without_a_manifest(bench: Bench, whole: Series):
    assert "no manifest" in refused(bench, whole._replace(manifest=None), errors.ManifestMissing)


def test_with_a_patch_changed_since_the_lock(bench: Bench, whole: Series):
    changed = replace(whole.patches[0], data=whole.patches[0].data + b"-- \n2.0\n")
    stale = whole._replace(patches=(changed, *whole.patches[1:]))
    assert "0001-read.patch" in refused(bench, stale, errors.ManifestStale)


def test_not_installed(bench: Bench, whole: Series):
    with pytest.raises(errors.DistributionNotFound):
        applying.apply(whole, bench.tmp)


def test_editable_install(bench: Bench, whole: Series):
    info = bench.site / "eng-1.0.dist-info"
    (info / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    refused(bench, whole, errors.EditableInstall)


def test_a_file_of_another_distribution(bench: Bench):
    """P01: what another distribution lists is never touched."""
    engine.install(bench.site, {"eng/plugin.py": b"P = 1\n"}, name="other")
    patch = bench.patch(dict(engine.FILES), {**engine.FILES, "eng/plugin.py": b"Q = 1\n"})
    series = bench.series({"1.patch": patch})
    assert "eng/plugin.py: belongs to other" in refused(bench, series, errors.ForeignFile)


def test_symlinked_files_are_refused(bench: Bench, whole: Series):
    """I02: a link into a shared cache would be followed, or torn out."""
    path = bench.site / "eng/core.py"
    shared = bench.tmp / "shared.py"
    path.rename(shared)
    path.symlink_to(shared)
    refused(bench, whole, errors.TargetRefused)
    assert shared.read_bytes() == engine.MODULE


def test_compiled_sources_need_a_build(bench: Bench):
    everything = {**engine.FILES, **engine.EXTRA}
    patch = bench.patch(everything, {**everything, "csrc/fast.cu": b"int faster;\n"})
    series = bench.series({"1.patch": patch})
    assert "csrc/fast.cu" in refused(bench, series, errors.NeedsBuild)


def test_nothing_inside_is_an_error(bench: Bench):
    """P02: a series for files that no wheel has must not end as a success."""
    everything = {**engine.FILES, **engine.EXTRA}
    patch = bench.patch(everything, {**everything, "tests/test_core.py": b"x = 1\n"})
    series = bench.series({"1.patch": patch})
    assert "tests/test_core.py" in refused(bench, series, errors.NothingToApply)


def test_files_outside_the_package_are_skipped_and_said_so(bench: Bench):
    everything = {**engine.FILES, **engine.EXTRA}
    after = {**everything, "tests/test_core.py": b"x = 1\n", "eng/core.py": CHANGED["eng/core.py"]}
    series = bench.series({"1.patch": bench.patch(everything, after)})
    done = applying.apply(series, bench.site)
    assert done.action is Action.APPLIED
    assert ["tests/test_core.py" in str(problem) for problem in done.skipped] == [True]
    assert not (bench.site / "tests").exists()


@pytest.mark.parametrize("path", ["eng/x.pth", "sitecustomize.py", "eng-1.0.dist-info/METADATA"])
def test_files_that_python_or_installers_own(bench: Bench, path: str):
    patch = bench.patch(dict(engine.FILES), {**engine.FILES, path: b"import evil\n"})
    series = bench.series({"1.patch": patch})
    assert path in refused(bench, series, errors.PatchRefused)


def test_binary_changes(bench: Bench):
    binary = {**engine.FILES, "eng/core.py": b"\0\1\2" * 100}
    series = bench.series({"1.patch": bench.patch(dict(engine.FILES), binary)})
    assert "binary" in refused(bench, series, errors.PatchRefused)


# --- where it is run ----------------------------------------------------------------------------


def test_inside_a_git_work_tree(bench: Bench, whole: Series, monkeypatch: pytest.MonkeyPatch):
    """T1, A01-A03: repository around, GIT_DIR, hostile configuration and attributes."""
    engine.git(bench.tmp, "init", "-q")
    (bench.tmp / ".gitattributes").write_text("*.py eol=crlf filter=evil\n")
    evil = bench.tmp / "ran"
    home = Path(os.environ["HOME"])
    (home / ".gitconfig").write_text(
        "[core]\n\tautocrlf = true\n[apply]\n\twhitespace = fix\n"
        f'[filter "evil"]\n\tsmudge = touch {evil}\n\tclean = touch {evil}\n'
    )
    monkeypatch.setenv("GIT_DIR", str(bench.tmp / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(bench.tmp))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.chdir(bench.site)
    assert applying.apply(whole, bench.site).action is Action.APPLIED
    assert content(bench.site) == CHANGED
    assert not evil.exists()
    (home / ".gitconfig").unlink()


def test_other_links_keep_the_old_content(bench: Bench, whole: Series):
    """T30, I01: uv's cache and other environments share the inode."""
    cache = bench.tmp / "uv"
    cache.mkdir()
    for number, path in enumerate(sorted(engine.FILES)):
        os.link(bench.site / path, cache / str(number))
    before = engine.snapshot(cache)
    done = applying.apply(whole, bench.site)
    assert "eng/core.py" in done.unlinked
    rolling.rollback(bench.site, None)
    assert engine.snapshot(cache) == before


def test_already_applied_on_a_tree_that_nobody_may_write(bench: Bench, whole: Series):
    """A12: the start of a container with a read-only image must not fail."""
    applying.apply(whole, bench.site)
    said = faults.count(lambda: applying.apply(whole, bench.site))
    assert [name for name in said if name not in ("mkdir",)] == []
    assert status(bench.site).clean


# --- relocation, drift --------------------------------------------------------------------------


RELOCATE = '[[relocate]]\nname = "ppu"\nfrom = "eng/nvidia"\nto = "eng/ppu"\n'


def relocated(files: dict[str, bytes]) -> dict[str, bytes]:
    return {path.replace("eng/nvidia/", "eng/ppu/"): data for path, data in files.items()}


def ops_series(bench: Bench) -> Series:
    after = {**engine.FILES, "eng/nvidia/ops.py": CHANGED["eng/nvidia/ops.py"]}
    return bench.series({"1.patch": bench.patch(dict(engine.FILES), after)}, rest=RELOCATE)


def test_a_relocation_is_chosen_by_itself(bench: Bench):
    series = ops_series(bench)
    site = engine.install(bench.tmp / "vendor", relocated(dict(engine.FILES)))
    done = applying.apply(series, site)
    assert done.relocate == "ppu"
    assert (site / "eng/ppu/ops.py").read_bytes() == CHANGED["eng/nvidia/ops.py"]
    assert not (site / "eng/nvidia").exists()
    assert status(site).series[0].relocate == "ppu"


def test_the_ordinary_place_comes_first(bench: Bench):
    series = ops_series(bench)
    both = {**engine.FILES, **relocated(dict(engine.FILES))}
    site = engine.install(bench.tmp / "both", both)
    assert applying.apply(series, site).relocate is None


@pytest.mark.parametrize("relocate", ["ppu", None])
def test_a_series_is_not_applied_to_the_other_folder_as_well(bench: Bench, relocate: str | None):
    """The second receipt took the place of the first: what that changed could not be taken back."""
    after = {path: data for path, data in engine.FILES.items() if path != "eng/nvidia/ops.py"}
    patch = bench.patch(dict(engine.FILES), after)
    series = bench.series({"1.patch": patch}, rest=RELOCATE)
    site = engine.install(bench.tmp / "both", {**engine.FILES, **relocated(dict(engine.FILES))})
    before = engine.snapshot(site)
    applying.apply(series, site)
    once = engine.snapshot(site)
    if relocate is None:
        assert applying.apply(series, site).action is Action.ALREADY
    else:
        with pytest.raises(errors.OtherRelocation, match="applied without a relocation, so not by"):
            applying.apply(series, site, relocate=relocate)
    assert engine.snapshot(site) == once
    rolling.rollback(site, None)
    rolling.purge(site)
    assert engine.snapshot(site).keys() == before.keys()


def test_a_relocation_that_does_not_exist(bench: Bench):
    with pytest.raises(errors.UnknownRelocation):
        applying.apply(ops_series(bench), bench.site, relocate="npu")


def test_drift_can_be_accepted_where_every_hunk_fits_exactly(bench: Bench, whole: Series):
    path = bench.site / "eng/core.py"
    path.write_bytes(b"import os\n" + path.read_bytes())
    done = applying.apply(whole, bench.site, accept_drift=True)
    assert done.action is Action.APPLIED
    assert path.read_bytes() == b"import os\n" + CHANGED["eng/core.py"]
    assert status(bench.site).series[0].drift_accepted
    rolling.rollback(bench.site, None)
    assert path.read_bytes() == b"import os\n" + engine.MODULE


def test_accepted_drift_never_guesses_the_place(bench: Bench):
    """A06: the lines stand twice, or once in another function: refused."""
    body = b"".join(b"    x%d = 1\n" % number for number in range(9))
    files = {**engine.FILES, "eng/core.py": b"def a():\n" + body}
    engine.add_release(files, bench.tmp / "second", version="2.0")
    longer = body.replace(b"    x4 = 1\n", b"    x4 = 1\n    q = 0\n")
    patch = bench.patch(files, {**files, "eng/core.py": b"def a():\n" + longer})
    series = bench.series({"1.patch": patch}, name="eng-2.0", version="2.0")
    drifted = {
        "twice": b"def b():\n" + body + b"\n\ndef a():\n" + body,
        "elsewhere": b"def c():\n" + body + b"\n\ndef a():\n    pass\n",
    }
    for name, data in drifted.items():
        site = engine.install(
            bench.tmp / name, {**files, "eng/core.py": b"# drift\n" + data}, "2.0"
        )
        before = engine.snapshot(site)
        with pytest.raises(errors.DoesNotApply) as caught:
            applying.apply(series, site, accept_drift=True)
        wanted = {"twice": "stand in 2 places", "elsewhere": "would land in c; it was made for a"}
        assert wanted[name] in str(caught.value)
        assert engine.snapshot(site) == before


def test_accepted_drift_leaves_an_empty_file_no_doubt(bench: Bench):
    files = {**engine.FILES, "eng/empty.py": b""}
    engine.add_release(files, bench.tmp / "second", version="2.0")
    edited = engine.MODULE.replace(b"handle.read()", b"handle.read(99)")
    after = {**files, "eng/empty.py": b"X = 1\n", "eng/core.py": edited}
    series = bench.series({"1.patch": bench.patch(files, after)}, name="eng-2.0", version="2.0")
    site = engine.install(bench.tmp / "drifted", files, "2.0")
    (site / "eng/core.py").write_bytes(b"import os\n" + engine.MODULE)
    assert applying.apply(series, site, accept_drift=True).action is Action.APPLIED
    assert (site / "eng/empty.py").read_bytes() == b"X = 1\n"


def test_what_keeps_drift_from_being_accepted_is_said_once(bench: Bench):
    lines = [b"V%d = %d\n" % (number, number) for number in range(60)]
    files = {**engine.FILES, "eng/many.py": b"".join(lines)}
    engine.add_release(files, bench.tmp / "second", version="2.0")
    after = {path: data for path, data in files.items() if path != "eng/old.py"}
    for number in (b"10", b"40"):
        after["eng/many.py"] = after["eng/many.py"].replace(b"= %s\n" % number, b"= 0\n")
    series = bench.series({"1.patch": bench.patch(files, after)}, name="eng-2.0", version="2.0")
    site = engine.install(bench.tmp / "drifted", files, "2.0")
    (site / "eng/many.py").write_bytes(b"".join(lines[30:] + lines[:30]))
    (site / "eng/old.py").write_bytes(b"GONE = False\n")
    with pytest.raises(errors.DoesNotApply) as caught:
        applying.apply(series, site, accept_drift=True)
    assert [problem.what for problem in caught.value.problems] == [
        "the lines of hunk 2 stand above the end of the hunk before it",
        "the lines of hunk 1 stand in no place",
    ]


# --- stacks -------------------------------------------------------------------------------------


def second_series(bench: Bench, top: str) -> Series:
    after = {
        **CHANGED,
        "eng/core.py": CHANGED["eng/core.py"].replace(b'open(path, "w")', b'open(path, "wb")'),
    }
    return bench.series({"1.patch": bench.patch(CHANGED, after)}, name="eng-1.0-second", top=top)


def test_two_series_on_one_file_need_to_say_so(bench: Bench, whole: Series):
    applying.apply(whole, bench.site)
    after = {
        **engine.FILES,
        "eng/core.py": engine.MODULE.replace(b'open(path, "w")', b'open(path, "wb")'),
    }
    other = bench.series({"1.patch": bench.patch(dict(engine.FILES), after)}, name="eng-1.0-other")
    assert "eng/core.py" in refused(bench, other, errors.Overlap)


def test_a_stack_goes_on_in_order_and_comes_off_in_reverse(bench: Bench, whole: Series):
    second = second_series(bench, 'after = ["eng-1.0"]')
    assert "eng-1.0" in refused(bench, second, errors.MissingBeneath)
    before = engine.snapshot(bench.site)
    applying.apply(whole, bench.site)
    between = engine.snapshot(bench.site / "eng")
    applying.apply(second, bench.site)
    assert status(bench.site).clean
    assert applying.apply(second, bench.site).action is Action.ALREADY
    with pytest.raises(errors.NotOnTop):
        rolling.rollback(bench.site, "eng-1.0")
    rolling.rollback(bench.site, "eng-1.0-second")
    assert engine.snapshot(bench.site / "eng") == between
    rolling.rollback(bench.site, "eng-1.0")
    rolling.purge(bench.site)
    assert engine.snapshot(bench.site) == before


def test_series_on_separate_files_stack_freely(bench: Bench):
    def one(path: str, name: str) -> Series:
        after = {**engine.FILES, path: CHANGED[path]}
        return bench.series({"1.patch": bench.patch(dict(engine.FILES), after)}, name=name)

    first, second = one("eng/core.py", "eng-1.0-a"), one("eng/nvidia/ops.py", "eng-1.0-b")
    applying.apply(first, bench.site)
    applying.apply(second, bench.site)
    assert [each.series for each in status(bench.site).series] == ["eng-1.0-a", "eng-1.0-b"]
    assert record_problems(bench.site) == []
    rolling.rollback(bench.site, None)
    rolling.rollback(bench.site, None)
    with pytest.raises(errors.NotApplied):
        rolling.rollback(bench.site, None)


# --- afterwards ---------------------------------------------------------------------------------


def test_status_names_what_changed(bench: Bench, whole: Series):
    applying.apply(whole, bench.site)
    (bench.site / "eng/core.py").write_bytes(b"x = 1\n")
    (bench.site / "eng/wire.py").unlink()
    (bench.site / "eng/old.py").write_bytes(b"back\n")
    found = status(bench.site)
    assert not found.clean
    now = {file.path: file.now.value for file in found.series[0].files}
    assert now["eng/core.py"] == "changed"
    assert now["eng/wire.py"] == "missing"
    assert now["eng/old.py"] == "there again"
    assert now["eng/nvidia/ops.py"] == "as written"


def test_rollback_refuses_to_lose_a_later_change(bench: Bench, whole: Series):
    applying.apply(whole, bench.site)
    (bench.site / "eng/core.py").write_bytes(b"mine = 1\n")
    before = engine.snapshot(bench.site / "eng")
    with pytest.raises(errors.ChangedSince) as caught:
        rolling.rollback(bench.site, None)
    assert "eng/core.py" in str(caught.value)
    assert engine.snapshot(bench.site / "eng") == before
    done = rolling.rollback(bench.site, None, force=True)
    ((path, copy),) = done.kept
    assert path == "eng/core.py"
    assert (bench.site / copy).read_bytes() == b"mine = 1\n"
    assert content(bench.site) == engine.FILES


def test_a_reinstall_underneath_is_seen(bench: Bench, whole: Series):
    """I04: after pip put pristine files back, the receipt must not say "applied"."""
    applying.apply(whole, bench.site)
    for path in CHANGED.keys() - engine.FILES.keys():
        (bench.site / path).unlink()
    engine.install(bench.site)
    found = status(bench.site)
    assert not found.clean
    assert "reinstalled" in found.series[0].underneath
    with pytest.raises(errors.ReplacedUnderneath):
        rolling.rollback(bench.site, None)
    again = applying.apply(whole, bench.site)
    assert (again.action, again.void) == (Action.APPLIED, ("eng-1.0",))
    assert status(bench.site).clean
    rolling.rollback(bench.site, None)
    assert content(bench.site) == engine.FILES


def test_an_upgrade_underneath_can_be_forgotten(bench: Bench, whole: Series):
    applying.apply(whole, bench.site)
    for path in (bench.site / "eng-1.0.dist-info").iterdir():
        path.unlink()
    (bench.site / "eng-1.0.dist-info").rmdir()
    engine.install(bench.site, {**engine.FILES, "eng/core.py": b"new = 1\n"}, version="1.1")
    assert not status(bench.site).clean
    with pytest.raises(errors.ReplacedUnderneath) as caught:
        rolling.rollback(bench.site, None)
    assert "1.1" in str(caught.value)
    before = engine.snapshot(bench.site / "eng")
    assert rolling.rollback(bench.site, None, forget=True).forgotten
    assert engine.snapshot(bench.site / "eng") == before
    assert status(bench.site).series == ()


# --- interrupted --------------------------------------------------------------------------------


def states(bench: Bench, whole: Series) -> tuple[dict[str, bytes], dict[str, bytes]]:
    return dict(engine.FILES), CHANGED


@pytest.mark.parametrize("job", ["apply", "rollback"])
def test_killed_at_every_file_changing_call(bench: Bench, whole: Series, job: str):
    """Whatever the moment: status never says clean on a mixed tree, recover ends old or new."""
    work = {
        "apply": lambda: applying.apply(whole, bench.site),
        "rollback": lambda: rolling.rollback(bench.site, None),
    }[job]
    old, new = (engine.FILES, CHANGED) if job == "apply" else (CHANGED, engine.FILES)
    if job == "rollback":
        applying.apply(whole, bench.site)
    kept = bench.tmp / "kept"
    subprocess.run(["cp", "-a", str(bench.site), str(kept)], check=True)
    number = 0
    outcomes = set()
    while faults.killed_at(number := number + 1, work):
        now = content(bench.site)
        try:
            clean = status(bench.site).clean
        except errors.RecoveryNeeded:
            clean = False
        if clean:
            assert now in (old, new), number
        outcomes.add(rolling.recover(bench.site).outcome.value)
        assert content(bench.site) in (old, new), number
        assert record_problems(bench.site) == [], number
        applied = [each.series for each in status(bench.site).series]
        assert applied == (["eng-1.0"] if content(bench.site) == CHANGED else []), number
        assert not list(bench.site.rglob(".pseries-*.new")), number
        subprocess.run(["rm", "-rf", str(bench.site)], check=True)
        subprocess.run(["cp", "-a", str(kept), str(bench.site)], check=True)
    assert number > 40
    assert outcomes == {"nothing", "rolled back", "rolled forward"}
    assert content(bench.site) == new


# --- nothing is lost ----------------------------------------------------------------------------


def test_another_state_of_an_applied_series_is_refused(bench: Bench, whole: Series):
    """Its receipt, and with it the only copy of the original files, must not be replaced."""
    after = {**engine.FILES, "eng/core.py": CHANGED["eng/core.py"]}
    first = bench.series({"1.patch": bench.patch(dict(engine.FILES), after)}, name="eng-1.0-s")
    applying.apply(first, bench.site)
    after = {**engine.FILES, "eng/nvidia/ops.py": CHANGED["eng/nvidia/ops.py"]}
    subprocess.run(["rm", "-rf", str(bench.series_dir / "eng-1.0-s")], check=True)
    second = bench.series({"1.patch": bench.patch(dict(engine.FILES), after)}, name="eng-1.0-s")
    refused(bench, second, errors.OtherDigest)
    rolling.rollback(bench.site, None)
    assert content(bench.site) == engine.FILES


def test_a_series_of_the_same_name_on_another_package(bench: Bench, whole: Series):
    applying.apply(whole, bench.site)
    files = {"foo/core.py": engine.MODULE}
    engine.add_release(files, bench.tmp / "foo", version="1.0", name="foo")
    engine.install(bench.site, files, name="foo")
    after = {"foo/core.py": CHANGED["eng/core.py"]}
    folder = engine.make_series(
        bench.tmp / "others", {"1.patch": bench.patch(files, after)}, distribution="foo"
    )
    other = engine.locked(folder)
    assert other.name == whole.name
    applying.apply(other, bench.site)
    assert [each.distribution for each in status(bench.site).series] == ["eng", "foo"]
    for _ in range(2):
        rolling.rollback(bench.site, "eng-1.0")
    assert content(bench.site) == {**engine.FILES, **files, **_metadata(bench.site)}


def _metadata(site: Path) -> dict[str, bytes]:
    found = (site / "foo-1.0.dist-info").iterdir()
    return {str(path.relative_to(site)): path.read_bytes() for path in found}


def test_what_is_still_there_cannot_be_forgotten(bench: Bench, whole: Series):
    applying.apply(whole, bench.site)
    before = engine.snapshot(bench.site)
    with pytest.raises(errors.StillInPlace):
        rolling.rollback(bench.site, None, forget=True)
    assert engine.snapshot(bench.site) == before


def test_an_edit_by_hand_makes_no_receipt_void(bench: Bench):
    """Every file of the series and RECORD were edited: the backups are all that is left."""
    after = {**engine.FILES, "eng/core.py": CHANGED["eng/core.py"]}
    series = bench.series({"1.patch": bench.patch(dict(engine.FILES), after)})
    applying.apply(series, bench.site)
    with (bench.site / "eng/core.py").open("ab") as file:
        file.write(b"# mine\n")
    with (bench.site / "eng-1.0.dist-info/RECORD").open("ab") as file:
        file.write(b"eng/extra.txt,,\n")
    after = {**engine.FILES, "eng/nvidia/ops.py": CHANGED["eng/nvidia/ops.py"]}
    other = bench.series({"1.patch": bench.patch(dict(engine.FILES), after)}, name="eng-1.0-other")
    assert applying.apply(other, bench.site).void == ()
    rolling.rollback(bench.site, "eng-1.0-other")
    with pytest.raises(errors.ChangedSince):
        rolling.rollback(bench.site, None)
    done = rolling.rollback(bench.site, None, force=True)
    assert {path for path, _ in done.kept} == {"eng/core.py", "eng-1.0.dist-info/RECORD"}
    assert content(bench.site) == engine.FILES


# --- files without a sure place -----------------------------------------------------------------


@pytest.mark.parametrize(
    "after",
    [
        {**engine.FILES, "eng2/x.py": b"X = 1\n"},
        {**engine.FILES, "solo.py": b"X = 1\n"},
        {
            **{path: data for path, data in engine.FILES.items() if path != "eng/net.py"},
            "eng3/net.py": engine.FILES["eng/net.py"],
        },
    ],
)
def test_new_modules_beside_the_package_are_not_left_out(bench: Bench, after: dict[str, bytes]):
    series = bench.series({"1.patch": bench.patch(dict(engine.FILES), after)})
    refused(bench, series, errors.Unplaceable)


def test_a_mode_that_the_wheel_lost(bench: Bench):
    patch = engine.message() + (
        b"diff --git a/eng/tool.sh b/eng/tool.sh\nold mode 100755\nnew mode 100644\n"
    )
    after = {**engine.FILES, "eng/core.py": CHANGED["eng/core.py"]}
    both = patch + engine.diff(dict(engine.FILES), after, bench.tmp / "both")
    series = bench.series({"1.patch": both})
    (bench.site / "eng/tool.sh").chmod(0o644)
    assert applying.apply(series, bench.site).action is Action.APPLIED
    assert (bench.site / "eng/tool.sh").stat().st_mode & 0o777 == 0o644
    assert applying.apply(series, bench.site).action is Action.ALREADY
    rolling.rollback(bench.site, None)
    assert content(bench.site) == engine.FILES


def test_a_relocation_onto_another_file_of_the_series(bench: Bench):
    both = {**engine.FILES, "eng/ppu/ops.py": engine.FILES["eng/nvidia/ops.py"]}
    engine.add_release(both, bench.tmp / "both", version="2.0")
    after = {
        **both,
        "eng/nvidia/ops.py": CHANGED["eng/nvidia/ops.py"],
        "eng/ppu/ops.py": CHANGED["eng/nvidia/ops.py"],
    }
    series = bench.series(
        {"1.patch": bench.patch(both, after)}, name="eng-2.0", version="2.0", rest=RELOCATE
    )
    vendor = {path: data for path, data in both.items() if "nvidia" not in path}
    site = engine.install(bench.tmp / "vendor", vendor, "2.0")
    with pytest.raises(errors.SeriesInvalid) as caught:
        applying.apply(series, site)
    assert "would hold both" in str(caught.value)
