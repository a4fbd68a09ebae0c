"""What upstream may do to the files of a patch, and what becomes of the patch then."""

# Fixtures are imported by name from the module that makes them.
# ruff: noqa: F401, F811

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import engine
from tests.workflows.test_rebase import (
    CORE,
    LONGER,
    NET,
    OFFLINE,
    OLD,
    READ,
    RETRY,
    Project,
    changed,
    project,
)

from pseries.errors import SeriesInvalid
from pseries.model.rebase import Fate, PatchOutcome, Resolver
from pseries.model.verdicts.verdict import Verdict
from pseries.workflows.rebase import session as rebasing
from pseries.workflows.series import catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pseries.workflows.rebase.session import Report

OTHER = b"".join(b"VALUE_%d = %d\n" % (number, number) for number in range(30))


def rebased(
    project: Project, old: Mapping[str, bytes], mine: Mapping[str, bytes], new: Mapping[str, bytes]
) -> Report:
    """Rebase one patch from one set of files to another."""
    project.release("1.0", old)
    project.series(old, mine)
    project.release("2.0", new)
    return project.rebase()


def only(report: Report) -> PatchOutcome:
    (outcome,) = report.patches
    return outcome


def files_of(project: Project) -> list[tuple[str | None, str | None]]:
    series = catalog.load("eng-2.0", project.location)
    series.locked()
    return [(section.old, section.new) for patch in series.patches for section in patch.sections]


def test_a_renamed_file_is_followed(project: Project) -> None:
    new = {path: data for path, data in OLD.items() if path != "eng/core.py"}
    new["eng/kernel.py"] = CORE.replace(b'"""The core."""', b'"""The kernel."""')
    report = rebased(project, OLD, changed(OLD, "eng/core.py", READ), new)
    outcome = only(report)
    assert (outcome.verdict, outcome.fate) == (Verdict.MOVED, Fate.KEPT)
    (file,) = outcome.files
    assert (file.path, file.new_path) == ("eng/core.py", "eng/kernel.py")
    assert file.evidence[0].startswith("upstream renamed it to eng/kernel.py (9")
    assert files_of(project) == [("eng/kernel.py", "eng/kernel.py")]
    assert READ[1] in project.patched("eng-2.0", ["eng/kernel.py"])["eng/kernel.py"]


def test_a_new_file_moves_with_its_folder_and_later_patches_find_it(
    project: Project,
) -> None:
    old = {**OLD, "eng/ops/a.py": CORE, "eng/ops/b.py": OTHER}
    first = {**changed(old, "eng/ops/a.py", READ), "eng/ops/mine.py": b"MINE = 1\nMORE = 2\n"}
    second = changed(first, "eng/ops/mine.py", (b"MORE = 2", b"MORE = 3"))
    project.release("1.0", old)
    project.series(old, first, second)
    project.release("2.0", {**OLD, "eng/kernels/a.py": CORE, "eng/kernels/b.py": OTHER})
    report = project.rebase()
    assert [outcome.verdict for outcome in report.patches] == [Verdict.MOVED] * 2
    assert files_of(project) == [
        ("eng/kernels/a.py", "eng/kernels/a.py"),
        (None, "eng/kernels/mine.py"),
        ("eng/kernels/mine.py", "eng/kernels/mine.py"),
    ]


def test_a_renamed_class_is_the_same_place(project: Project) -> None:
    before = b"class Old:\n" + b"".join(b"    %s\n" % line for line in CORE.split(b"\n")[4:])
    old = {**OLD, "eng/core.py": before}
    new = changed(old, "eng/core.py", (b"class Old:", b"class New:"))
    report = rebased(project, old, changed(old, "eng/core.py", READ), new)
    outcome = only(report)
    assert outcome.fate is Fate.KEPT
    assert outcome.verdict in (Verdict.CLEAN, Verdict.MOVED)


def test_a_deleted_file_stops(project: Project) -> None:
    new = {path: data for path, data in OLD.items() if path != "eng/net.py"}
    report = rebased(project, OLD, changed(OLD, "eng/net.py", RETRY), new)
    assert only(report).verdict is Verdict.CONFLICT
    assert report.stopped is not None
    (place,) = report.stopped.places
    assert "deleted" in " ".join(place.evidence)
    file = Path(report.stopped.worktree) / "eng/net.py"
    assert b"<<<<<<< upstream 2.0\n||||||| base 1.0\n" in file.read_bytes()
    file.unlink()
    assert only(rebasing.go_on(None, project.location, OFFLINE)).fate is Fate.EMPTY


def test_a_deletion_that_upstream_made_too_is_merged(project: Project) -> None:
    gone = {path: data for path, data in OLD.items() if path != "eng/net.py"}
    outcome = only(rebased(project, OLD, gone, gone))
    assert (outcome.verdict, outcome.fate) == (Verdict.MERGED, Fate.DROPPED)
    assert outcome.upstream_status == "Merged [2.0]"
    assert outcome.dropped is not None
    assert b"\nUpstream-Status: Merged [2.0]\n" in outcome.dropped


def test_a_deletion_of_what_upstream_changed_stops(project: Project) -> None:
    gone = {path: data for path, data in OLD.items() if path != "eng/net.py"}
    report = rebased(project, OLD, gone, changed(OLD, "eng/net.py", RETRY))
    assert only(report).verdict is Verdict.CONFLICT


def test_a_deletion_follows_a_rename(project: Project) -> None:
    gone = {path: data for path, data in OLD.items() if path != "eng/net.py"}
    rebased(project, OLD, gone, {**gone, "eng/wire.py": NET})
    assert files_of(project) == [("eng/wire.py", None)]


def test_a_new_file_that_upstream_has_too(project: Project) -> None:
    added = {**OLD, "eng/new.py": b"A = 1\nB = 2\n"}
    outcome = only(rebased(project, OLD, added, added))
    assert (outcome.verdict, outcome.fate) == (Verdict.MERGED, Fate.DROPPED)


def test_a_new_file_that_upstream_wrote_otherwise_stops(project: Project) -> None:
    report = rebased(
        project, OLD, {**OLD, "eng/new.py": b"A = 1\n"}, {**OLD, "eng/new.py": b"A = 2\n"}
    )
    assert only(report).verdict is Verdict.CONFLICT


def test_a_patch_may_rename_what_upstream_changed(project: Project) -> None:
    mine = {path: data for path, data in OLD.items() if path != "eng/core.py"}
    mine["eng/mine.py"] = CORE.replace(*READ)
    new = changed(OLD, "eng/core.py", (b"LIMIT = 10", b"LIMIT = 20"))
    outcome = only(rebased(project, OLD, mine, new))
    assert outcome.fate is Fate.KEPT
    assert files_of(project) == [("eng/core.py", "eng/mine.py")]
    text = project.patched("eng-2.0", ["eng/mine.py"])["eng/mine.py"]
    assert b"LIMIT = 20" in text
    assert READ[1] in text


def test_two_different_renames_stop(project: Project) -> None:
    rest = {path: data for path, data in OLD.items() if path != "eng/core.py"}
    report = rebased(project, OLD, {**rest, "eng/mine.py": CORE}, {**rest, "eng/theirs.py": CORE})
    assert only(report).verdict is Verdict.CONFLICT


def test_the_same_rename_is_merged(project: Project) -> None:
    rest = {path: data for path, data in OLD.items() if path != "eng/core.py"}
    both = {**rest, "eng/both.py": CORE}
    outcome = only(rebased(project, OLD, both, both))
    assert (outcome.verdict, outcome.fate) == (Verdict.MERGED, Fate.DROPPED)


def test_a_rename_alone_stays_where_upstream_made_the_rest_of_the_change(project: Project) -> None:
    edited = changed(OLD, "eng/core.py", READ)
    mine = {path: data for path, data in edited.items() if path != "eng/core.py"}
    mine["eng/kernel.py"] = edited["eng/core.py"]
    outcome = only(rebased(project, OLD, mine, edited))
    assert (outcome.verdict, outcome.fate) == (Verdict.PARTLY, Fate.KEPT)
    assert outcome.files[0].evidence[-1] == "upstream still calls it eng/core.py"
    assert files_of(project) == [("eng/core.py", "eng/kernel.py")]
    kept = project.patched("eng-2.0", ["eng/core.py", "eng/kernel.py"])
    assert kept == {"eng/kernel.py": edited["eng/core.py"]}


@pytest.mark.parametrize("change", [False, True])
def test_a_file_that_is_no_text_is_renamed(project: Project, change: bool) -> None:
    old = {**OLD, "eng/data.bin": bytes(range(256)) * 9}
    mine = {**OLD, "eng/blob.bin": old["eng/data.bin"]}
    new = {**old, "eng/data.bin": old["eng/data.bin"] + b"more"} if change else old
    outcome = only(rebased(project, old, mine, new))
    assert (outcome.verdict, outcome.fate) == (Verdict.CLEAN, Fate.KEPT)
    assert files_of(project) == [("eng/data.bin", "eng/blob.bin")]
    kept = project.patched("eng-2.0", ["eng/data.bin", "eng/blob.bin"])
    assert kept == {"eng/blob.bin": new["eng/data.bin"]}


def test_modes_are_carried_and_recognised(project: Project, tmp_path: Path) -> None:
    project.release("1.0", {**OLD, "eng/run": b"#!/bin/sh\n"})
    head = b"diff --git a/eng/run b/eng/run\nold mode 100644\nnew mode 100755\n"
    engine.locked(
        engine.make_series(
            project.series_dir, {"0001-mode.patch": engine.message() + head}, name="eng-1.0"
        )
    )
    project.release("2.0", {**OLD, "eng/run": b"#!/bin/sh\n\n"})
    report = project.rebase()
    assert (only(report).verdict, only(report).fate) == (Verdict.CLEAN, Fate.KEPT)
    assert files_of(project) == [("eng/run", "eng/run")]
    made = tmp_path / "executable"
    engine.write(made, {**OLD, "eng/run": b"#!/bin/sh\n\n"})
    (made / "eng/run").chmod(0o755)
    engine.add_release({}, made, "3.0")
    report = project.rebase("3.0")
    assert (only(report).verdict, only(report).fate) == (Verdict.MERGED, Fate.DROPPED)


@pytest.mark.parametrize(
    ("what", "encode"),
    [
        ("crlf", lambda data: data.replace(b"\n", b"\r\n")),
        ("no newline at the end", lambda data: data.rstrip(b"\n")),
        ("latin-1", lambda data: b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + data),
        ("form feed and NEL", lambda data: b"# \x0c \xc2\x85\n" + data),
    ],
)
@pytest.mark.parametrize("path", ["eng/core.py", "eng/core.txt"])
def test_odd_bytes_survive(project: Project, what: str, encode, path: str) -> None:  # type: ignore[no-untyped-def]
    def version(*pairs: tuple[bytes, bytes]) -> dict[str, bytes]:
        return {**OLD, path: encode(changed(OLD, "eng/core.py", *pairs)["eng/core.py"])}

    above = (b"LIMIT = 10\n", b"LIMIT = 10\nMORE = 11\n")
    last = (b"    return len(data)\n", b"    return len(data) + 1\n")
    report = rebased(project, version(), version(last), version(above))
    assert only(report).fate is Fate.KEPT
    assert project.patched("eng-2.0", [path]) == {path: version(above, last)[path]}
    catalog.load("eng-2.0", project.location).locked()


def test_a_patch_without_a_diff_is_no_series(project: Project) -> None:
    engine.make_series(project.series_dir, {"0001-x.patch": engine.message()}, name="eng-1.0")
    project.release("2.0", OLD)
    with pytest.raises(SeriesInvalid, match="there is no diff in it"):
        project.rebase()


def test_a_patch_that_is_partly_in_keeps_the_rest(project: Project) -> None:
    mine = changed(changed(OLD, "eng/core.py", READ), "eng/net.py", RETRY)
    outcome = only(rebased(project, OLD, mine, changed(OLD, "eng/net.py", RETRY)))
    assert (outcome.verdict, outcome.fate) == (Verdict.PARTLY, Fate.KEPT)
    assert files_of(project) == [("eng/core.py", "eng/core.py")]


def test_an_empty_series_results_when_everything_is_in(project: Project) -> None:
    mine = changed(OLD, "eng/core.py", READ)
    report = rebased(project, OLD, mine, mine)
    assert [(o.verdict, o.fate) for o in report.patches] == [(Verdict.MERGED, Fate.DROPPED)]
    assert any("nothing is left to carry" in note for note in report.notes)
    series = catalog.load("eng-2.0", project.location)
    assert series.locked().patches == ()
    assert [pair.status.value for pair in report.range_diff] == ["<"]
    project.release("1.5", OLD)
    again = project.rebase("1.5", name="eng-2.0")
    assert again.notes == ("eng-2.0 is empty: there was nothing to carry",)


def test_a_series_of_skipped_patches_is_not_said_to_be_upstream(project: Project) -> None:
    project.series(OLD, changed(OLD, "eng/core.py", READ))
    project.release("2.0", changed(OLD, "eng/core.py", (READ[0], b"data = handle.read(7)")))
    assert project.rebase().stopped is not None
    done = rebasing.skip(None, project.location, OFFLINE)
    assert done.notes == ("nothing is left in the new series: what was not upstream was skipped",)


def test_the_old_name_of_a_new_file_that_moved_with_its_folder_is_told(project: Project) -> None:
    """It is the patch's own module, which neither release had under any name."""
    old = {**OLD, "eng/ops/a.py": CORE, "eng/ops/b.py": OTHER}
    mine = {**old, "eng/ops/mine.py": b"MINE = 1\n"}
    uses = (b"LIMIT = 10\n", b"from eng.ops.mine import MINE\n\nLIMIT = MINE\n")
    new = {**OLD, "eng/kernels/a.py": CORE, "eng/kernels/b.py": OTHER}
    outcome = only(rebased(project, old, changed(mine, "eng/core.py", uses), new))
    assert (outcome.verdict, outcome.fate) == (Verdict.BROKEN, Fate.KEPT)
    core, added = outcome.files
    assert core.evidence == (
        "eng/core.py:3: module 'eng.ops.mine' is not in the release: it is eng/kernels/mine.py now",
    )
    assert (added.new_path, added.verdict) == ("eng/kernels/mine.py", Verdict.MOVED)
    assert added.evidence == ("upstream renamed its folder to eng/kernels",)


class TestLeftOut:
    """A patch was skipped, and a later one was made on top of it."""

    CLASH = (b"RETRIES = 2", b"RETRIES = 5")
    UPSTREAM = (b"RETRIES = 2", b"RETRIES = 9")
    MINE = (b"LIMIT = 10\n", b"LIMIT = 10\nMINE = 1\n")

    def skipped(
        self, project: Project, old: Mapping[str, bytes], *steps: Mapping[str, bytes]
    ) -> Report:
        """Rebase, and skip the first patch, which changes ``RETRIES`` too."""
        project.release("1.0", old)
        project.series(old, *steps)
        project.release("2.0", changed(old, "eng/net.py", self.UPSTREAM))
        assert project.rebase().stopped is not None
        return rebasing.skip(None, project.location, OFFLINE)

    def test_taking_back_what_it_did_is_not_merged_upstream(self, project: Project) -> None:
        first = changed(changed(OLD, "eng/net.py", self.CLASH), "eng/core.py", self.MINE)
        second = changed(first, "eng/core.py", self.MINE[::-1])
        outcome = self.skipped(project, OLD, first, second).patches[1]
        assert (outcome.verdict, outcome.fate) == (Verdict.CLEAN, Fate.EMPTY)
        assert outcome.upstream_status == ""
        (why,) = outcome.files[0].hunks[0].evidence
        assert why == (
            "nothing is left to change: it changes what an earlier patch did, which is not carried"
        )

    def test_nor_is_taking_back_a_part_of_it(self, project: Project) -> None:
        first = changed(changed(OLD, "eng/net.py", self.CLASH), "eng/core.py", self.MINE)
        second = changed(first, "eng/core.py", self.MINE[::-1], LONGER)
        outcome = self.skipped(project, OLD, first, second).patches[1]
        assert (outcome.verdict, outcome.fate) == (Verdict.MOVED, Fate.KEPT)

    def test_nor_is_taking_back_a_file_that_it_added_or_deleted(self, project: Project) -> None:
        old = {**OLD, "eng/spare.py": OTHER}
        first = changed({**old, "eng/mine.py": b"MINE = 1\n"}, "eng/net.py", self.CLASH)
        del first["eng/spare.py"]
        second = {**first, "eng/spare.py": OTHER}
        del second["eng/mine.py"]
        outcome = self.skipped(project, old, first, second).patches[1]
        assert (outcome.verdict, outcome.fate) == (Verdict.CLEAN, Fate.EMPTY)

    def test_what_upstream_did_is_merged_still(self, project: Project) -> None:
        first = changed(changed(OLD, "eng/net.py", self.CLASH), "eng/core.py", self.MINE)
        second = changed(first, "eng/core.py", READ)
        project.series(OLD, first, second)
        new = changed(changed(OLD, "eng/net.py", self.UPSTREAM), "eng/core.py", READ)
        project.release("2.0", new)
        assert project.rebase().stopped is not None
        outcome = rebasing.skip(None, project.location, OFFLINE).patches[1]
        assert (outcome.verdict, outcome.fate) == (Verdict.MERGED, Fate.DROPPED)

    def test_a_stop_names_it(self, project: Project) -> None:
        first = changed(changed(OLD, "eng/net.py", self.CLASH), "eng/core.py", self.MINE)
        second = changed(first, "eng/core.py", (b"MINE = 1\n", b"MINE = 2\n"))
        report = self.skipped(project, OLD, first, second)
        assert report.stopped is not None
        (place,) = report.stopped.places
        assert place.evidence == (
            "0001-step.patch, which is left out, changes it too",
            "the lines that it changes are gone, before line 4 of eng/core.py:",
        )


class TestBroken:
    HELPER = b"def helper(value):\n    return value\n\n\ndef other(value):\n    return value\n"

    def rebased(self, project: Project, name: bytes, **options: bool) -> Report:
        old = {**OLD, "eng/helper.py": self.HELPER}
        imports = (b"LIMIT = 10\n", b"from eng.helper import helper\n\nLIMIT = helper(10)\n")
        project.release("1.0", old)
        project.series(old, changed(old, "eng/core.py", imports))
        project.release("2.0", changed(old, "eng/helper.py", (b"def helper", b"def " + name)))
        return project.rebase(**options)

    def test_a_name_that_is_gone_elsewhere_is_told_and_taken(self, project: Project) -> None:
        outcome = only(self.rebased(project, b"renamed"))
        assert (outcome.verdict, outcome.fate) == (Verdict.BROKEN, Fate.KEPT)
        assert "'helper' is not in module 'eng.helper'" in " ".join(outcome.files[0].evidence)

    def test_strict_stops_and_takes_what_a_person_makes_of_it(self, project: Project) -> None:
        report = self.rebased(project, b"renamed", strict=True)
        assert report.stopped is not None
        file = Path(report.stopped.worktree) / "eng/core.py"
        file.write_bytes(
            file.read_bytes().replace(b"helper", b"renamed").replace(b"eng.renamed", b"eng.helper")
        )
        outcome = only(rebasing.go_on(None, project.location, OFFLINE))
        assert (outcome.fate, outcome.resolver) == (Fate.KEPT, Resolver.PERSON)

    def test_a_name_that_upstream_took_out_of_the_file_is_told(self, project: Project) -> None:
        use = (b'    data = load(path, "r")\n', b'    data = load(path, "r")\n    assert LIMIT\n')
        project.series(OLD, changed(OLD, "eng/core.py", use))
        project.release("2.0", changed(OLD, "eng/core.py", (b"LIMIT = 10\n\n", b"")))
        outcome = only(project.rebase())
        assert (outcome.verdict, outcome.fate) == (Verdict.BROKEN, Fate.KEPT)
        assert "'LIMIT' is used, but nothing" in " ".join(outcome.files[0].evidence)

    def test_a_keyword_that_upstream_renamed_elsewhere_is_told(self, project: Project) -> None:
        """C01: the import is as it was, and the first call fails."""
        old = {**OLD, "eng/helper.py": b"def helper(q, sm_scale=1):\n    return q\n"}
        use = (b"LIMIT = 10\n", b"from eng.helper import helper\n\nLIMIT = helper(1, sm_scale=2)\n")
        project.release("1.0", old)
        project.series(old, changed(old, "eng/core.py", use))
        project.release("2.0", changed(old, "eng/helper.py", (b"sm_scale", b"softmax_scale")))
        outcome = only(project.rebase())
        assert (outcome.verdict, outcome.fate) == (Verdict.BROKEN, Fate.KEPT)
        said = " ".join(outcome.files[0].evidence)
        assert "helper() takes other arguments: it has no parameter 'sm_scale'" in said

    def test_an_attribute_that_upstream_took_out_of_the_file_is_told(
        self, project: Project
    ) -> None:
        runner = b"class Runner:\n    def __init__(self, size):\n        self.size = size\n"
        runner += b"        self.left = 0\n\n    def run(self):\n        return self.left\n"
        old = {**OLD, "eng/core.py": runner}
        use = (
            b"        return self.left\n",
            b"        assert self.size\n        return self.left\n",
        )
        new = changed(old, "eng/core.py", (b"        self.size = size\n", b""))
        outcome = only(rebased(project, old, changed(old, "eng/core.py", use), new))
        assert (outcome.verdict, outcome.fate) == (Verdict.BROKEN, Fate.KEPT)
        assert outcome.files[0].evidence == (
            "eng/core.py:6: self.size is used, but nothing in the file sets it any more",
        )

    def test_a_name_that_is_still_there_is_no_news(self, project: Project) -> None:
        assert only(self.rebased(project, b"helper")).verdict is Verdict.CLEAN

    def test_a_patch_that_needs_a_skipped_one_is_told(self, project: Project) -> None:
        first = changed(OLD, "eng/net.py", (b"RETRIES = 2", b"RETRIES = 5\nMINE = 1"))
        use = (b"LIMIT = 10\n", b"from eng.net import MINE\n\nLIMIT = MINE\n")
        project.series(OLD, first, changed(first, "eng/core.py", use))
        project.release("2.0", changed(OLD, "eng/net.py", (b"RETRIES = 2", b"RETRIES = 9")))
        assert project.rebase().stopped is not None
        report = rebasing.skip(None, project.location, OFFLINE)
        assert [o.verdict for o in report.patches] == [Verdict.CONFLICT, Verdict.BROKEN]


class TestWeave:
    OLD_LINE = (b"    handle = open(path, mode)\n", b"    handle = open(path, mode, buffering=0)\n")
    NEW_LINE = (b"    handle = open(path, mode)\n", b"    handle = opened(path, mode)\n")

    def rebased(self, project: Project, **options: bool) -> Report:
        project.series(OLD, changed(OLD, "eng/core.py", self.OLD_LINE))
        new = changed(
            OLD, "eng/core.py", self.NEW_LINE, (b"LIMIT = 10\n", b"LIMIT = 10\nopened = open\n")
        )
        project.release("2.0", new)
        return project.rebase(**options)

    def test_takes_both_changes_of_a_line_and_marks_it(self, project: Project) -> None:
        outcome = only(self.rebased(project))
        assert (outcome.verdict, outcome.fate) == (Verdict.WOVEN, Fate.KEPT)
        text = project.patched("eng-2.0", ["eng/core.py"])["eng/core.py"]
        assert b"    handle = opened(path, mode, buffering=0)\n" in text

    def test_no_weave_stops_there_with_gits_markers(self, project: Project) -> None:
        report = self.rebased(project, weave=False)
        assert only(report).verdict is Verdict.CONFLICT
        assert report.stopped is not None
        text = (Path(report.stopped.worktree) / "eng/core.py").read_bytes()
        assert b"<<<<<<< upstream 2.0\n    handle = opened(path, mode)\n" in text


class TestWheelOnly:
    def test_keeps_what_no_wheel_carries_and_says_so(
        self, project: Project, tmp_path: Path
    ) -> None:
        tests = b"def test():\n    assert True\n"
        old = {**OLD, "tests/test_core.py": tests}
        mine = changed(old, "eng/core.py", READ)
        mine = changed(mine, "tests/test_core.py", (b"True", b"not False"))
        project.release("1.0", {**old, "pyproject.toml": b"\n"})
        project.series(old, mine)
        new = changed(OLD, "eng/core.py", (b'"""The core."""\n', b"# x\n"))
        engine.add_release({}, engine.install(tmp_path / "site", new, "2.0"), "2.0")
        report = project.rebase()
        outcome = only(report)
        assert (outcome.fate, outcome.unverified) == (Fate.KEPT, ("tests/test_core.py",))
        assert any("unverified" in note for note in report.notes)
        assert any("not locked" in note for note in report.notes)
        series = catalog.load("eng-2.0", project.location)
        assert series.manifest is None
        old_patch = catalog.load("eng-1.0", project.location).patches[0]
        assert series.patches[0].sections[1].raw == old_patch.sections[1].raw

    def test_a_patch_of_nothing_else_is_not_dropped(self, project: Project, tmp_path: Path) -> None:
        old = {**OLD, "tests/test_core.py": b"def test():\n    assert True\n"}
        project.release("1.0", {**old, "pyproject.toml": b"\n"})
        project.series(old, changed(old, "tests/test_core.py", (b"True", b"not False")))
        engine.add_release({}, engine.install(tmp_path / "site", OLD, "2.0"), "2.0")
        assert only(project.rebase()).fate is Fate.KEPT
        new, old_series = (catalog.load(f"eng-{v}", project.location) for v in ("2.0", "1.0"))
        assert new.patches[0].data == old_series.patches[0].data


class TestFollowed:
    MOVED = CORE[CORE.index(b"def save") : CORE.index(b"def size")]
    REST = CORE.replace(MOVED, b"")

    def test_a_function_that_was_moved_to_another_file_is_followed(
        self,
        project: Project,
    ) -> None:
        mine = changed(OLD, "eng/core.py", (b'"""Save it."""', b'"""Save it."""\n    assert path'))
        new = {**OLD, "eng/core.py": self.REST, "eng/disk.py": b"import os\n\n\n" + self.MOVED}
        outcome = only(rebased(project, OLD, mine, new))
        assert (outcome.verdict, outcome.fate) == (Verdict.FOLLOWED, Fate.KEPT)
        assert [file.new_path for file in outcome.files] == ["eng/core.py", "eng/disk.py"]
        assert "moved from eng/core.py to eng/disk.py:4" in outcome.files[1].evidence[0]
        assert files_of(project) == [("eng/disk.py", "eng/disk.py")]
        text = project.patched("eng-2.0", ["eng/disk.py"])["eng/disk.py"]
        assert b'"""Save it."""\n    assert path\n' in text

    def test_it_meets_what_the_patch_changes_there_itself(self, project: Project) -> None:
        old = {**OLD, "eng/disk.py": OTHER}
        mine = changed(old, "eng/core.py", (b'"""Save it."""', b'"""Save it."""\n    assert path'))
        mine = changed(mine, "eng/disk.py", (b"VALUE_3 = 3\n", b"VALUE_3 = 33\n"))
        new = {**OLD, "eng/core.py": self.REST, "eng/disk.py": OTHER + b"\n\n" + self.MOVED}
        outcome = only(rebased(project, old, mine, new))
        assert outcome.fate is Fate.KEPT
        text = project.patched("eng-2.0", ["eng/disk.py"])["eng/disk.py"]
        assert b"VALUE_3 = 33\n" in text
        assert b"    assert path\n" in text

    def test_a_conflict_in_its_new_home_stops_there(self, project: Project) -> None:
        mine = changed(
            OLD, "eng/core.py", (b"    handle.write(data)\n", b"    handle.write(data + data)\n")
        )
        moved = self.MOVED.replace(b"handle.write(data)", b"handle.writelines(data)")
        new = {**OLD, "eng/core.py": self.REST, "eng/disk.py": b"import os\n\n\n" + moved}
        report = rebased(project, OLD, mine, new)
        if report.stopped is not None:
            assert {place.path for place in report.stopped.places} <= {"eng/core.py", "eng/disk.py"}
        else:
            text = project.patched("eng-2.0", ["eng/disk.py"])["eng/disk.py"]
            assert b"handle.writelines(data + data)" in text

    def test_what_stays_of_a_renamed_file_is_taken_in_its_new_name(self, project: Project) -> None:
        mine = changed(
            OLD, "eng/core.py", READ, (b'"""Save it."""', b'"""Save it."""\n    assert path')
        )
        new = {path: data for path, data in OLD.items() if path != "eng/core.py"}
        new |= {"eng/kernel.py": self.REST, "eng/disk.py": b"import os\n\n\n" + self.MOVED}
        outcome = only(rebased(project, OLD, mine, new))
        assert (outcome.verdict, outcome.fate) == (Verdict.FOLLOWED, Fate.KEPT)
        assert [file.new_path for file in outcome.files] == ["eng/kernel.py", "eng/disk.py"]
        text = project.patched("eng-2.0", ["eng/kernel.py", "eng/disk.py"])
        assert READ[1] in text["eng/kernel.py"]
        assert b"    assert path\n" in text["eng/disk.py"]
