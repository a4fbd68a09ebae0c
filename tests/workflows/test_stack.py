"""quilt's verbs on a checkout of a small engine: the ordinary use, and every refusal."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support import engine

from pseries.errors import (
    CheckoutBusy,
    CheckoutInTheWay,
    CommitsMoved,
    CommitsUnusable,
    DoesNotFold,
    FileNotShown,
    FolderChanged,
    InTheWay,
    LaterConflicts,
    ManifestMissing,
    NameTaken,
    NotACheckout,
    PatchNotFound,
    PatchRefused,
    PushPending,
    PushStopped,
    SplitRefused,
    StackEnd,
    Uncommittable,
    Unrefreshed,
    Unresolved,
)
from pseries.upstream.store import Store
from pseries.workflows.series import catalog
from pseries.workflows.verbs import checkout, push, refresh, reshape, stack, stack_view, undo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.workflows.conftest import Bench

    from pseries.workflows.verbs.stack import Work

AUTHOR = "A Tester <t@example.invalid>"
CORE, NET, OPS = "eng/core.py", "eng/net.py", "eng/nvidia/ops.py"
FIRST, SECOND, THIRD = "0001-read.patch", "0002-net.patch", "0003-save.patch"

_ONE = {**engine.FILES, CORE: engine.MODULE.replace(b"read()", b"read(99)")}
_TWO = {**_ONE, NET: engine.FILES[NET].replace(b"RETRIES = 2", b"RETRIES = 5")}
_THREE = {**_TWO, CORE: _TWO[CORE].replace(b"handle.write(data)", b"handle.write(data + data)"),
          "eng/added.py": b"ADDED = 1\n"}  # fmt: skip


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.invalid", *arguments],
        cwd=folder, check=check, capture_output=True, text=True,
    ).stdout  # fmt: skip


@pytest.fixture
def folder(bench: Bench) -> Path:
    """The folder of a locked series of three patches, with comments in its order file."""
    series = bench.series(
        {
            FIRST: bench.patch(dict(engine.FILES), _ONE, "Read less"),
            SECOND: bench.patch(_ONE, _TWO, "Try more often"),
            THIRD: bench.patch(_TWO, _THREE, "Save twice"),
        },
        order=f"# the whole file\n\n{FIRST}\n# about the net\n{SECOND} # inline\n{THIRD}\n",
    )
    return bench.series_dir / series.name


@pytest.fixture
def top(bench: Bench, folder: Path) -> Path:
    """A checkout of it."""
    location = catalog.Location(bench.series_dir, "the test's")
    series = catalog.load("eng-1.0", location)
    store = Store.open("eng")
    found = store.find("1.0")
    assert found is not None
    checkout.check_out(series, location, store, found, bench.tmp / "work")
    return bench.tmp / "work"


@pytest.fixture
def work(top: Path) -> Iterator[Work]:
    with stack.opened(top) as opened:
        yield opened


def names(work: Work) -> list[str]:
    return [entry.name for entry in work.stack.entries]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def edit(work: Work, path: str, old: bytes, new: bytes) -> None:
    file = work.checkout.folder / path
    data = file.read_bytes()
    assert old in data
    file.write_bytes(data.replace(old, new))


def revisions(done: refresh.Refreshed) -> dict[str, str]:
    return {each.name: each.revision.value for each in done.patches}


def is_clean(work: Work) -> bool:
    return git(work.checkout.folder, "status", "--porcelain") == ""


# --- checkout ---------------------------------------------------------------------------------


def test_a_checkout_shows_the_folders_that_the_series_touches(top: Path):
    assert (top / CORE).read_bytes() == _THREE[CORE]
    assert (top / "eng/added.py").is_file()
    assert not (top / "csrc").exists()
    assert not (top / "tests").exists()
    assert git(top, "log", "--format=%s").splitlines() == [
        "Save twice", "Try more often", "Read less", "eng 1.0",
    ]  # fmt: skip


def test_a_full_checkout_shows_everything(bench: Bench, folder: Path):
    location = catalog.Location(bench.series_dir, "the test's")
    store = Store.open("eng")
    found = store.find("1.0")
    assert found is not None
    series = catalog.load("eng-1.0", location)
    checkout.check_out(series, location, store, found, bench.tmp / "all", full=True)
    assert (bench.tmp / "all/csrc/fast.cu").is_file()
    assert (bench.tmp / "all" / OPS).is_file()


def test_a_checkout_is_refused_onto_something_and_without_a_lock(
    bench: Bench, top: Path, folder: Path
):
    location = catalog.Location(bench.series_dir, "the test's")
    store = Store.open("eng")
    found = store.find("1.0")
    assert found is not None
    series = catalog.load("eng-1.0", location)
    with pytest.raises(CheckoutInTheWay):
        checkout.check_out(series, location, store, found, top)
    (folder / "manifest.json").unlink()
    with pytest.raises(ManifestMissing):
        checkout.check_out(
            catalog.load("eng-1.0", location), location, store, found, bench.tmp / "other"
        )
    assert not (bench.tmp / "other").exists()
    assert list(bench.tmp.glob(".other*")) == []


def test_a_series_on_top_of_another_has_that_one_below(bench: Bench, folder: Path):
    four = {**_THREE, CORE: _THREE[CORE].replace(b"99", b"100")}
    above = bench.series(
        {"0001-more.patch": bench.patch(_THREE, four)}, name="eng-1.0-more",
        top='after = ["eng-1.0"]\n',
    )  # fmt: skip
    location = catalog.Location(bench.series_dir, "the test's")
    store = Store.open("eng")
    found = store.find("1.0")
    assert found is not None
    checkout.check_out(above, location, store, found, bench.tmp / "work")
    with stack.opened(bench.tmp / "work") as work:
        assert names(work) == ["0001-more.patch"]
        push.pop(work)
        assert (work.checkout.folder / CORE).read_bytes() == _THREE[CORE]


def test_outside_a_checkout_and_in_a_busy_one_verbs_are_refused(top: Path, bench: Bench):
    with pytest.raises(NotACheckout), stack.opened(bench.tmp):
        pass
    with stack.opened(top), pytest.raises(CheckoutBusy), stack.opened(top / "eng"):
        pass


# --- push, pop, goto --------------------------------------------------------------------------


def test_push_and_pop_move_by_one_by_number_by_name_and_all(work: Work):
    assert push.pop(work) == ((), (THIRD,), SECOND)
    assert not (work.checkout.folder / "eng/added.py").exists()
    assert push.pop(work, count=2) == ((), (SECOND, FIRST), "")
    assert (work.checkout.folder / CORE).read_bytes() == engine.MODULE
    assert push.push(work, words="0002") == ((FIRST, SECOND), (), SECOND)
    assert push.push(work, everything=True) == ((THIRD,), (), THIRD)
    assert push.pop(work, words=FIRST) == ((), (THIRD, SECOND), FIRST)
    assert push.goto(work, "0003-save") == ((SECOND, THIRD), (), THIRD)
    assert push.goto(work, THIRD) == ((), (), THIRD)
    assert push.pop(work, everything=True).top == ""
    assert is_clean(work)


def test_at_the_ends_there_is_one_sentence(work: Work):
    with pytest.raises(StackEnd, match=f"fully applied, ends at {THIRD}"):
        push.push(work)
    with pytest.raises(StackEnd, match=f"{THIRD} is on top already"):
        push.pop(work, words=THIRD)
    push.pop(work)
    with pytest.raises(StackEnd, match=f"{THIRD} is not applied"):
        push.pop(work, words=THIRD)
    with pytest.raises(StackEnd, match=f"{FIRST} is applied already"):
        push.push(work, words=FIRST)
    push.pop(work, everything=True)
    with pytest.raises(StackEnd, match="no patch is applied"):
        push.pop(work)
    with pytest.raises(StackEnd, match="no patch is applied"):
        refresh.refresh(work)


def test_a_name_that_means_none_or_several_is_refused_with_the_close_ones(work: Work):
    with pytest.raises(PatchNotFound) as raised:
        push.goto(work, "0002-met")
    assert raised.value.close == (SECOND,)
    with pytest.raises(PatchNotFound) as raised:
        push.goto(work, "000")
    assert raised.value.close == (FIRST, SECOND, THIRD)
    with pytest.raises(PatchNotFound):
        push.goto(work, "")


@pytest.mark.parametrize(
    "verb",
    [
        push.pop,
        lambda work: push.goto(work, FIRST),
        lambda work: reshape.delete(work, ""),
        lambda work: reshape.split(work, "x", [reshape.Choice(CORE, ())]),
        lambda work: reshape.fold(work, "x", b"", 1),
        refresh.refresh_all,
    ],
)
def test_a_verb_that_would_lose_edits_is_refused(work: Work, verb: Callable[[Work], object]):
    edit(work, NET, b"PORT = 1", b"PORT = 9")
    with pytest.raises(Unrefreshed) as raised:
        verb(work)
    assert raised.value.files == (NET,)
    assert b"PORT = 9" in (work.checkout.folder / NET).read_bytes()


def test_an_untracked_file_in_the_way_is_not_overwritten(work: Work):
    push.pop(work)
    (work.checkout.folder / "eng/added.py").write_bytes(b"MINE = 1\n")
    with pytest.raises(InTheWay):
        push.push(work)
    assert (work.checkout.folder / "eng/added.py").read_bytes() == b"MINE = 1\n"
    assert work.stack.top == 2


def test_pop_by_force_keeps_the_edits_for_undo(work: Work):
    edit(work, NET, b"PORT = 1", b"PORT = 9")
    push.pop(work, force=True)
    assert is_clean(work)
    assert work.stack.top == 2
    assert undo.undo(work) == f"pop {THIRD}"
    assert undo.undo(work) == "pop --force"
    assert b"PORT = 9" in (work.checkout.folder / NET).read_bytes()


# --- refresh ----------------------------------------------------------------------------------


def test_refresh_writes_the_folder_and_says_what_changed(work: Work, folder: Path):
    edit(work, NET, b"PORT = 1", b"PORT = 9")
    done = refresh.refresh(work)
    assert (done.patch, revisions(done)) == (THIRD, {THIRD: "content"})
    assert is_clean(work)
    series = catalog.load(str(folder), None)
    series.locked()
    assert series.patches[2].header.raw == engine.message("Save twice")
    assert b"+PORT = 9\n" in series.patches[2].data
    assert (folder / "series").read_text().startswith("# the whole file\n\n")


def test_refresh_of_a_lower_patch_moves_those_above(work: Work, folder: Path):
    edit(work, CORE, b"# The engine.\n", b"# The engine,\n# again.\n")
    done = refresh.refresh(work, FIRST)
    assert revisions(done) == {FIRST: "content", THIRD: "line numbers"}
    push.pop(work, everything=True)
    push.push(work, everything=True)
    assert b"# again.\n" in (work.checkout.folder / CORE).read_bytes()
    assert b"data + data" in (work.checkout.folder / CORE).read_bytes()
    catalog.load(str(folder), None).locked()


def test_an_edit_that_a_later_patch_changes_too_is_not_put_below_it(work: Work, folder: Path):
    before = contents(folder)
    edit(work, CORE, b"data + data", b"data * 2")
    with pytest.raises(LaterConflicts, match=SECOND):
        refresh.refresh(work, FIRST)
    assert contents(folder) == before
    assert b"data * 2" in (work.checkout.folder / CORE).read_bytes()


def test_new_files_are_taken_when_they_were_added(work: Work, folder: Path):
    before = contents(folder)
    (work.checkout.folder / "eng/more.py").write_bytes(b"")
    done = refresh.refresh(work)
    assert (done.patches, done.untracked) == ((), ("eng/more.py",))
    assert contents(folder) == before
    stack_view.track(work, ["eng/more.py"])
    (work.checkout.folder / NET).unlink()
    (work.checkout.folder / CORE).chmod(0o755)
    done = refresh.refresh(work)
    assert revisions(done) == {THIRD: "content"}
    assert [(each.kind, each.path) for each in stack_view.files(work)] == [
        ("A", "eng/added.py"), ("M", CORE), ("A", "eng/more.py"), ("D", NET),
    ]  # fmt: skip
    series = catalog.load(str(folder), None)
    series.locked()
    with pytest.raises(FileNotShown):
        stack_view.track(work, ["eng/none.py"])


def test_a_link_cannot_become_part_of_a_patch(work: Work, folder: Path):
    before = contents(folder)
    (work.checkout.folder / "eng/link.py").symlink_to("/etc/passwd")
    git(work.checkout.folder, "add", "--sparse", "eng/link.py")
    with pytest.raises(Uncommittable, match=r"eng/link\.py"):
        refresh.refresh(work)
    assert contents(folder) == before


def test_files_that_git_has_in_conflict_are_no_part_of_a_patch(work: Work):
    top = work.checkout.folder
    edit(work, NET, b"PORT = 1", b"PORT = 8")
    git(top, "stash")
    edit(work, NET, b"PORT = 1", b"PORT = 9")
    refresh.refresh(work)
    git(top, "stash", "pop", check=False)
    with pytest.raises(Unresolved, match=NET):
        refresh.refresh(work)


# --- plain git --------------------------------------------------------------------------------


def test_commits_that_git_changed_come_back(work: Work, folder: Path):
    top = work.checkout.folder
    edit(work, NET, b"PORT = 1", b"PORT = 9")
    git(top, "commit", "-qa", "--amend", "-m", "Save twice\n\nAnd a port.")
    with pytest.raises(CommitsMoved):
        push.pop(work)
    with pytest.raises(CommitsMoved):
        refresh.refresh(work)
    done = refresh.refresh_all(work)
    assert revisions(done) == {THIRD: "content"}
    patch = catalog.load(str(folder), None).patches[2]
    assert (patch.header.subject, patch.header.body) == ("Save twice", "And a port.")
    assert patch.header.date == "Tue, 1 Dec 2026 09:00:00 +0000"


def test_new_dropped_and_reordered_commits_come_back(work: Work, folder: Path):
    top = work.checkout.folder
    read, net, save = (entry.commit for entry in work.stack.entries)
    git(top, "reset", "-q", "--hard", work.stack.base)
    git(top, "cherry-pick", net)
    (top / NET).write_bytes((top / NET).read_bytes().replace(b"PORT = 1", b"PORT = 7"))
    git(top, "commit", "-qam", "Use port seven")
    git(top, "cherry-pick", read)
    done = refresh.refresh_all(work)
    assert revisions(done) == {THIRD: "gone", "0002-use-port-seven.patch": "new"}
    assert names(work) == [SECOND, "0002-use-port-seven.patch", FIRST]
    assert (folder / "series").read_text() == (
        f"# the whole file\n\n# about the net\n{SECOND} # inline\n"
        f"0002-use-port-seven.patch\n{FIRST}\n"
    )
    catalog.load(str(folder), None).locked()
    assert save not in {entry.commit for entry in work.stack.entries}


def test_patches_that_were_not_applied_stay(work: Work, folder: Path):
    push.goto(work, FIRST)
    git(work.checkout.folder, "commit", "-q", "--amend", "-m", "Read even less")
    assert revisions(refresh.refresh_all(work)) == {FIRST: "header"}
    assert names(work) == [FIRST, SECOND, THIRD]
    assert work.stack.top == 1
    assert push.push(work, everything=True).top == THIRD


def test_commits_that_do_not_stand_on_the_release_are_refused(work: Work, folder: Path):
    top, before = work.checkout.folder, contents(folder)
    git(top, "checkout", "-q", "-b", "side", work.stack.base)
    git(top, "commit", "-q", "--allow-empty", "-m", "side")
    git(top, "merge", "-q", "--no-ff", "-m", "merge", work.stack.head)
    with pytest.raises(CommitsUnusable):
        refresh.refresh_all(work)
    git(top, "checkout", "-q", "--orphan", "lost")
    git(top, "commit", "-q", "-m", "lost")
    with pytest.raises(CommitsUnusable):
        refresh.refresh_all(work)
    assert contents(folder) == before


# --- conflicts --------------------------------------------------------------------------------


@pytest.fixture
def stopped(work: Work) -> Work:
    """A push that stopped: the third patch changes a line that the second one changes now."""
    push.goto(work, SECOND)
    edit(work, CORE, b"handle.write(data)", b"handle.write(bytes(data))")
    done = refresh.refresh(work)
    assert revisions(done) == {SECOND: "content"}
    assert not work.stack.locked
    with pytest.raises(PushStopped) as raised:
        push.push(work)
    (place,) = raised.value.places
    line = (work.checkout.folder / CORE).read_bytes().split(b"\n").index(b"<<<<<<< HEAD") + 1
    assert place.where == f"{CORE}:{line}"
    return work


def test_a_push_that_stops_can_be_resolved(stopped: Work, folder: Path):
    for verb in (push.push, push.pop, lambda work: reshape.delete(work, "")):
        with pytest.raises(PushPending):
            verb(stopped)
    with pytest.raises(Unresolved, match=CORE):
        refresh.refresh(stopped)
    resolved = _THREE[CORE].replace(b"data + data", b"bytes(data + data)")
    (stopped.checkout.folder / CORE).write_bytes(resolved)
    assert revisions(refresh.refresh(stopped)) == {THIRD: "content"}
    assert (stopped.stack.top, stopped.stack.pending, is_clean(stopped)) == (3, "", True)
    series = catalog.load(str(folder), None)
    series.locked()
    assert series.patches[2].header.raw == engine.message("Save twice")


def test_a_push_that_stops_can_be_given_up(stopped: Work, folder: Path):
    before = contents(folder)
    assert undo.undo(stopped) == f"push {THIRD}"
    assert (stopped.stack.top, stopped.stack.pending, is_clean(stopped)) == (2, "", True)
    assert contents(folder) == before
    kept = stopped.notes[-1].split()[-1]
    assert "<<<<<<< HEAD" in git(stopped.checkout.folder, "show", f"{kept}:{CORE}")


def test_a_series_that_does_not_apply_whole_is_not_locked_and_says_so(stopped: Work, folder: Path):
    assert any("does not apply as it is" in note for note in stopped.notes)
    from pseries.errors import ManifestStale

    with pytest.raises(ManifestStale):
        catalog.load(str(folder), None).locked()


# --- which patches there are ------------------------------------------------------------------


def test_new_takes_the_edits_at_the_next_refresh(work: Work, folder: Path):
    push.pop(work)
    edit(work, NET, b"PORT = 1", b"PORT = 9")
    before = contents(folder)
    name = reshape.new(work, "", AUTHOR, "Use another port!")
    assert (name, work.stack.top) == ("0003-use-another-port.patch", 3)
    assert contents(folder) == before
    done = refresh.refresh(work)
    assert revisions(done) == {name: "new"}
    patch = catalog.load(str(folder), None).patches[2]
    assert (patch.header.author, patch.header.subject) == (AUTHOR, "Use another port!")
    assert names(work) == [FIRST, SECOND, name, THIRD]
    assert push.push(work).top == THIRD


@pytest.mark.parametrize("name", [SECOND, "0002-net", "a b", "../x", "-x", "x/y", "#x", "é\udcff"])
def test_a_name_that_is_taken_or_cannot_be_is_refused(work: Work, name: str):
    with pytest.raises(NameTaken):
        reshape.new(work, name, AUTHOR)
    with pytest.raises(NameTaken):
        reshape.rename(work, FIRST, name)


def test_an_empty_patch_has_no_file_and_says_so(work: Work, folder: Path):
    before = contents(folder)
    name = reshape.new(work, "nothing", AUTHOR)
    assert refresh.refresh(work).empty == (name,)
    assert contents(folder) == before
    assert stack_view.files(work) == ()


def test_a_new_patch_below_others_leaves_them_as_the_folder_has_them(work: Work, folder: Path):
    push.pop(work)
    name = reshape.new(work, "between", AUTHOR)
    assert [each.name for each in work.stack.entries if each.written != each.commit] == [name]
    assert refresh.refresh(work).patches == ()
    catalog.load(str(folder), None).locked()


def test_delete_takes_a_patch_out_from_anywhere(work: Work, folder: Path):
    before = contents(folder)
    done = reshape.delete(work, SECOND)
    assert revisions(done) == {SECOND: "gone"}
    assert b"RETRIES = 2" in (work.checkout.folder / NET).read_bytes()
    assert names(work) == [FIRST, THIRD]
    catalog.load(str(folder), None).locked()
    assert undo.undo(work) == f"delete {SECOND}"
    assert contents(folder) == before
    push.pop(work, everything=True)
    reshape.delete(work, THIRD)
    assert (names(work), work.stack.top) == ([FIRST, SECOND], 0)


def test_a_patch_that_others_need_is_not_deleted(work: Work, folder: Path):
    edit(work, CORE, b"read(99)", b"read(100)")
    refresh.refresh(work)
    before = contents(folder)
    with pytest.raises(LaterConflicts, match=THIRD):
        reshape.delete(work, FIRST)
    assert contents(folder) == before
    assert names(work) == [FIRST, SECOND, THIRD]


def test_rename_keeps_the_bytes_and_the_comments(work: Work, folder: Path):
    data = (folder / SECOND).read_bytes()
    done = reshape.rename(work, SECOND, "0002-wire")
    assert [(each.name, each.was) for each in done.patches] == [("0002-wire.patch", SECOND)]
    assert (folder / "0002-wire.patch").read_bytes() == data
    assert not (folder / SECOND).exists()
    assert "# about the net\n0002-wire.patch # inline\n" in (folder / "series").read_text()
    catalog.load(str(folder), None).locked()
    assert reshape.fork(work, "").patch == "0003-save-2.patch"


def test_a_header_is_read_replaced_and_appended_to(work: Work, folder: Path):
    assert reshape.header(work, FIRST) == (
        "Read less\n\nBecause the test says so.\n\nUpstream-Status: Pending\n"
    )
    done = reshape.set_header(work, FIRST, "Read little\n\nWhy not.\n")
    assert revisions(done) == {FIRST: "header"}
    reshape.set_header(work, FIRST, "Upstream-Status: Denied\n", append=True)
    header = catalog.load(str(folder), None).patches[0].header
    assert (header.subject, header.body) == ("Read little", "Why not.")
    assert header.trailers == (("Upstream-Status", "Denied"),)
    assert header.author == "A Tester <t@example.invalid>"
    for text in ("", "x\n\ndiff --git a/x b/x\n", "x\n\n---\nmore\n"):
        with pytest.raises(PatchRefused):
            reshape.set_header(work, FIRST, text)


def test_fold_takes_a_diff_or_a_patch_of_the_series(work: Work, bench: Bench, folder: Path):
    push.pop(work)
    after = {**_TWO, NET: _TWO[NET].replace(b"PORT = 1", b"PORT = 9")}
    done = reshape.fold(work, "x.diff", bench.patch(_TWO, after), 1)
    assert revisions(done) == {SECOND: "content"}
    assert b"PORT = 9" in (work.checkout.folder / NET).read_bytes()
    with pytest.raises(DoesNotFold):
        reshape.fold(work, "x.diff", bench.patch(_TWO, after), 1)
    done = reshape.fold_patch(work, THIRD)
    assert revisions(done) == {SECOND: "content", THIRD: "gone"}
    assert (names(work), (work.checkout.folder / CORE).read_bytes()) == (
        [FIRST, SECOND], _THREE[CORE],
    )  # fmt: skip
    with pytest.raises(StackEnd, match="is applied"):
        reshape.fold_patch(work, FIRST)
    catalog.load(str(folder), None).locked()


def test_split_by_file_and_by_hunk(work: Work, folder: Path):
    done = reshape.split(work, "0004-new-file", [reshape.Choice("eng/added.py", ())])
    assert revisions(done) == {THIRD: "content", "0004-new-file.patch": "new"}
    assert [each.path for each in stack_view.files(work)] == ["eng/added.py"]
    push.goto(work, FIRST)
    edit(work, CORE, b"    return path\n", b"    return path, 1\n")
    refresh.refresh(work)
    before = (work.checkout.folder / CORE).read_bytes()
    reshape.split(work, "0002-mode", [reshape.Choice(CORE, (2,))])
    assert (work.checkout.folder / CORE).read_bytes() == before
    diff = stack_view.diff(work, ())
    assert b"+    return path, 1" in diff
    assert b"read(99)" not in diff
    assert push.push(work, everything=True).top == "0004-new-file.patch"
    catalog.load(str(folder), None).locked()


@pytest.mark.parametrize(
    ("choices", "why"),
    [
        ([], "name files or hunks"),
        ([("eng/none.py", ())], "does not change it"),
        ([(CORE, (2,))], "it has 1 hunks"),
        ([(CORE, ()), ("eng/added.py", ())], "nothing would stay"),
        ([("eng/added.py", (1,))], "only a change can be split by hunks"),
    ],
)
def test_a_split_that_makes_no_sense_is_refused(
    work: Work, choices: list[tuple[str, tuple[int, ...]]], why: str
):
    with pytest.raises(SplitRefused, match=why):
        reshape.split(work, "x", [reshape.Choice(*choice) for choice in choices])


# --- what is in them --------------------------------------------------------------------------


def test_questions_about_patches_and_files(work: Work):
    push.pop(work)
    assert stack_view.series(work) == (
        (FIRST, True, False), (SECOND, True, True), (THIRD, False, False),
    )  # fmt: skip
    assert stack_view.neighbour(work, "", 1) == THIRD
    assert stack_view.neighbour(work, "", -1) == FIRST
    with pytest.raises(StackEnd):
        stack_view.neighbour(work, THIRD, 1)
    assert stack_view.patches(work, CORE) == (FIRST, THIRD)
    assert stack_view.patches(work, OPS) == ()
    assert [(e.patch, e.path) for e in stack_view.files(work, everything=True)] == [
        (FIRST, CORE), (SECOND, NET),
    ]  # fmt: skip


def test_annotate_and_graph_know_where_lines_come_from(work: Work):
    owned = {line.text.strip(): line.patch for line in stack_view.annotate(work, CORE)}
    assert owned[b"data = handle.read(99)"] == FIRST
    assert owned[b"handle.write(data + data)"] == THIRD
    assert owned[b"# The engine."] == ""
    assert stack_view.graph(work) == ()
    edit(work, CORE, b"read(99)", b"read(100)")
    refresh.refresh(work)
    assert stack_view.graph(work) == ((THIRD, FIRST, (CORE,)),)
    with pytest.raises(FileNotShown):
        stack_view.annotate(work, "eng/none.py")


def test_diffs_show_the_patch_the_edits_and_what_came_since_a_snapshot(work: Work):
    assert b"data + data" in stack_view.diff(work, ())
    assert stack_view.diff(work, (), edits=True) == b""
    edit(work, NET, b"PORT = 1", b"PORT = 8")
    assert b"PORT = 8" in stack_view.diff(work, (), edits=True)
    assert b"PORT = 8" in stack_view.diff(work, ())
    assert b"PORT = 8" not in stack_view.diff(work, (CORE,))
    assert b"+RETRIES = 5" in stack_view.diff(work, (), words=SECOND)
    with pytest.raises(StackEnd):
        stack_view.since(work, ())
    stack_view.remember(work)
    edit(work, NET, b"PORT = 8", b"PORT = 9")
    assert b"-PORT = 8\n+PORT = 9\n" in stack_view.since(work, ())


# --- undo, redo -------------------------------------------------------------------------------


def test_every_verb_is_undone_and_redone(work: Work, folder: Path):
    states = []

    def state() -> tuple[object, ...]:
        files = {
            str(p.relative_to(work.checkout.folder)): p.read_bytes()
            for p in work.checkout.folder.rglob("*")
            if p.is_file() and ".git" not in p.parts
        }
        return work.stack, contents(folder), files

    def step(verb: Callable[[], object]) -> None:
        states.append(state())
        verb()

    step(lambda: push.pop(work))
    step(lambda: reshape.rename(work, SECOND, "0002-wire"))
    step(lambda: reshape.set_header(work, FIRST, "Other\n\nWords.\n"))
    step(lambda: reshape.fold_patch(work, THIRD))
    step(lambda: reshape.split(work, "0004-new", [reshape.Choice("eng/added.py", ())]))
    step(lambda: reshape.delete(work, "0004-new"))
    last = state()
    assert len(undo.verbs(work)) == 6
    for before in reversed(states):
        undo.undo(work)
        assert state() == before
    with pytest.raises(StackEnd, match="nothing to undo"):
        undo.undo(work)
    for after in [*states[1:], last]:
        undo.redo(work)
        assert state() == after
    with pytest.raises(StackEnd, match="nothing to redo"):
        undo.redo(work)
    undo.undo(work)
    push.pop(work)
    with pytest.raises(StackEnd, match="nothing to redo"):
        undo.redo(work)


def test_undo_of_a_refresh_gives_the_edits_back_and_loses_no_later_ones(work: Work):
    edit(work, NET, b"PORT = 1", b"PORT = 9")
    refresh.refresh(work)
    edit(work, NET, b"HOST = 'a'", b"HOST = 'b'")
    with pytest.raises(Unrefreshed):
        undo.undo(work)
    refresh.refresh(work)
    undo.undo(work)
    assert b"HOST = 'b'" in (work.checkout.folder / NET).read_bytes()
    with pytest.raises(Unrefreshed):
        undo.undo(work)
    edit(work, NET, b"HOST = 'b'", b"HOST = 'c'")
    with pytest.raises(Unrefreshed):
        undo.redo(work)
    edit(work, NET, b"HOST = 'c'", b"HOST = 'b'")
    undo.redo(work)
    assert is_clean(work)


# --- the folder -------------------------------------------------------------------------------


def test_a_folder_that_somebody_changed_is_checked_out_anew(work: Work, bench: Bench, folder: Path):
    push.goto(work, SECOND)
    four = {**_THREE, CORE: _THREE[CORE].replace(b"99", b"100")}
    (folder / "0004-more.patch").write_bytes(bench.patch(_THREE, four, "More"))
    with (folder / "series").open("a") as order:
        order.write("0004-more.patch\n")
    engine.locked(folder)
    assert push.push(work, everything=True).pushed == (THIRD, "0004-more.patch")
    assert any("checked out anew" in note for note in work.notes)
    assert (work.checkout.folder / CORE).read_bytes() == four[CORE]


def test_where_both_changed_nothing_is_overwritten(work: Work, folder: Path):
    edit(work, NET, b"PORT = 1", b"PORT = 9")
    (folder / "series").write_text((folder / "series").read_text() + "# mine\n")
    before = contents(folder)
    for verb in (refresh.refresh, undo.undo, refresh.refresh_all):
        with pytest.raises(FolderChanged, match="series"):
            verb(work)
    assert contents(folder) == before


def test_a_verb_that_was_killed_while_it_wrote_the_folder_is_taken_back(
    top: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    before = contents(folder)
    written: list[str] = []
    real = stack.write_file

    def dies(path: Path, data: bytes) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(path.name)
        real(path, data)

    with stack.opened(top) as work:
        edit(work, CORE, b"# The engine.\n", b"# The engine,\n# again.\n")
        with monkeypatch.context() as patch:
            patch.setattr(stack, "write_file", dies)
            with pytest.raises(KeyboardInterrupt):
                refresh.refresh(work, FIRST)
    assert contents(folder) != before
    with stack.opened(top) as work:
        assert any("was taken back" in note for note in work.notes)
        assert contents(folder) == before
        assert revisions(refresh.refresh(work, FIRST)) == {FIRST: "content", THIRD: "line numbers"}
