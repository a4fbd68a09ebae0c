"""A checkout in the hands of a hostile and of a tired user: nothing is lost, nothing misleads."""

# Fixtures are imported by name from the module that makes them.
# ruff: noqa: F401, F811

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import engine
from tests.workflows.test_stack import (
    _THREE,
    AUTHOR,
    CORE,
    FIRST,
    NET,
    OPS,
    SECOND,
    THIRD,
    contents,
    edit,
    folder,
    git,
    is_clean,
    names,
    revisions,
    stopped,
    top,
    work,
)

from pseries.errors import (
    BaseChanged,
    CheckoutInvalid,
    CheckoutNotOurs,
    CommitsMoved,
    CommitsUnusable,
    FileNotShown,
    FolderChanged,
    GitUnfinished,
    HeadAside,
    InTheWay,
    MessageRefused,
    StackEnd,
    StoreGone,
    Uncommittable,
    Unrefreshed,
    Unresolved,
)
from pseries.upstream.store import Store
from pseries.workflows.series import catalog, release
from pseries.workflows.series.means import Means
from pseries.workflows.verbs import checkout, push, refresh, reshape, stack, stack_view, undo

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.workflows.conftest import Bench

    from pseries.workflows.verbs.stack import Work

MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")
HIDDEN = "tests/test_core.py"
"""A file of the release that the sparse worktree does not show."""


# --- edits of every kind ----------------------------------------------------------------------


def test_a_commit_of_plain_git_that_adds_a_file_comes_back(work: Work, folder: Path):
    top = work.checkout.folder
    (top / "eng/plain.py").write_bytes(b"PLAIN = 1\n")
    git(top, "add", "eng/plain.py")
    git(top, "commit", "-qm", "Add a plain file")
    git(top, "rm", "-q", NET)
    git(top, "commit", "-qm", "No net")
    done = refresh.refresh_all(work)
    assert sorted(revisions(done).values()) == ["new", "new"]
    assert (top / "eng/plain.py").read_bytes() == b"PLAIN = 1\n"
    assert is_clean(work)
    catalog.load(str(folder), None).locked()
    undo.undo(work)
    assert (top / NET).exists()


@pytest.mark.parametrize("how", ["add", "patch", "intent", "rm", "chmod", "type", "cached"])
def test_edits_of_every_kind_are_seen_and_taken(work: Work, folder: Path, how: str):
    top = work.checkout.folder
    if how == "add":  # staged, and edited further
        edit(work, NET, b"PORT = 1", b"PORT = 2")
        git(top, "add", NET)
        edit(work, NET, b"PORT = 2", b"PORT = 9")
    elif how == "patch":  # one of two edits is staged
        edit(work, NET, b"PORT = 1", b"PORT = 9")
        git(top, "add", NET)
        edit(work, CORE, b"# The engine.", b"# The machine.")
    elif how == "intent":
        (top / "eng/later.py").write_bytes(b"LATER = 1\n")
        git(top, "add", "-N", "eng/later.py")
    elif how == "rm":
        (top / NET).unlink()
    elif how == "chmod":
        (top / CORE).chmod(0o755)
    elif how == "type":  # a file becomes a folder
        (top / NET).unlink()
        (top / NET).mkdir()
        (top / NET / "x.py").write_bytes(b"X = 1\n")
        git(top, "add", "eng")
    elif how == "cached":
        git(top, "rm", "-q", "--cached", NET)
    with pytest.raises(Unrefreshed):
        push.pop(work)
    before = {p: p.read_bytes() for p in top.rglob("*") if p.is_file() and ".git" not in p.parts}
    assert revisions(refresh.refresh(work)) == {THIRD: "content"}
    after = {p: p.read_bytes() for p in top.rglob("*") if p.is_file() and ".git" not in p.parts}
    assert before == after
    catalog.load(str(folder), None).locked()
    if how != "cached":
        assert is_clean(work)
        push.pop(work)
        push.push(work)
        after = {p: p.read_bytes() for p in top.rglob("*") if p.is_file() and ".git" not in p.parts}
        assert before == after


def test_a_folder_that_becomes_a_file_goes_both_ways(work: Work, folder: Path):
    top = work.checkout.folder
    (top / "eng/pack").mkdir()
    (top / "eng/pack/a.py").write_bytes(b"A = 1\n")
    stack_view.track(work, ["eng/pack/a.py"])
    refresh.refresh(work)
    reshape.new(work, "0004-flat", AUTHOR)
    shutil.rmtree(top / "eng/pack")
    (top / "eng/pack").write_bytes(b"flat\n")
    stack_view.track(work, ["eng/pack"])
    refresh.refresh(work)
    push.pop(work)
    assert (top / "eng/pack/a.py").read_bytes() == b"A = 1\n"
    push.push(work)
    assert (top / "eng/pack").read_bytes() == b"flat\n"
    push.pop(work)
    (top / "eng/pack/mine.txt").write_bytes(b"mine\n")
    with pytest.raises(InTheWay):
        push.push(work)
    assert (top / "eng/pack/mine.txt").read_bytes() == b"mine\n"
    assert (work.stack.top, is_clean(work)) == (3, False)


def test_a_file_outside_the_shown_folders_can_be_edited(work: Work, folder: Path):
    top = work.checkout.folder
    assert not (top / HIDDEN).exists()
    stack_view.track(work, [HIDDEN])
    assert (top / HIDDEN).read_bytes() == engine.EXTRA[HIDDEN]
    assert not (top / "csrc").exists()
    assert is_clean(work)
    edit(work, HIDDEN, b"True", b"False")
    assert revisions(refresh.refresh(work)) == {THIRD: "content"}
    assert b"+    assert False" in (folder / THIRD).read_bytes()
    push.pop(work)
    assert (top / HIDDEN).read_bytes() == engine.EXTRA[HIDDEN]


def test_a_file_put_outside_the_shown_folders_is_not_lost(work: Work):
    top = work.checkout.folder
    (top / HIDDEN).parent.mkdir()
    (top / HIDDEN).write_bytes(b"MINE = 1\n")
    with pytest.raises(Unrefreshed):
        push.pop(work)
    assert (top / HIDDEN).read_bytes() == b"MINE = 1\n"
    refresh.refresh(work)
    push.pop(work, everything=True)
    push.push(work, everything=True)
    assert (top / HIDDEN).read_bytes() == b"MINE = 1\n"


def test_a_link_in_the_place_of_a_folder_is_not_followed(work: Work, bench: Bench):
    top = work.checkout.folder
    shutil.move(top / "eng", bench.tmp / "elsewhere")
    (top / "eng").symlink_to(bench.tmp / "elsewhere")
    data = (bench.tmp / "elsewhere/core.py").read_bytes()
    with pytest.raises(Unrefreshed):
        push.pop(work)
    assert (bench.tmp / "elsewhere/core.py").read_bytes() == data


def test_an_ignored_file_in_the_way_is_not_overwritten(work: Work):
    top = work.checkout.folder
    push.pop(work)
    (top / ".git/info/exclude").write_text("added.py\n")
    (top / "eng/added.py").write_bytes(b"MINE = 1\n")
    with pytest.raises(InTheWay):
        push.push(work)
    assert (top / "eng/added.py").read_bytes() == b"MINE = 1\n"


# --- git in the middle of something -----------------------------------------------------------


def test_a_rebase_that_is_half_done_is_finished_first(work: Work, folder: Path):
    top, before = work.checkout.folder, contents(folder)
    git(top, "-c", "sequence.editor=sed -i 1s/pick/edit/", "rebase", "-qi", work.stack.base)
    for verb in (refresh.refresh_all, refresh.refresh, push.pop):
        with pytest.raises(GitUnfinished, match="rebase"):
            verb(work)
    assert contents(folder) == before
    git(top, "rebase", "--continue")
    assert refresh.refresh_all(work).patches == ()


def test_an_old_commit_that_is_only_looked_at_drops_nothing(work: Work, folder: Path):
    top, before = work.checkout.folder, contents(folder)
    git(top, "checkout", "-q", "--detach", "HEAD~1")
    for verb in (refresh.refresh_all, refresh.refresh, push.push, undo.undo):
        with pytest.raises(HeadAside, match=SECOND):
            verb(work)
    git(top, "checkout", "-q", "-")
    push.pop(work)
    assert contents(folder) == before
    git(top, "reset", "-q", "--hard", "HEAD~1")  # on the branch it is meant
    assert revisions(refresh.refresh_all(work)) == {SECOND: "gone"}


def test_on_a_detached_head_verbs_work(work: Work, folder: Path):
    top = work.checkout.folder
    git(top, "checkout", "-q", "--detach")
    push.pop(work)
    push.push(work)
    git(top, "commit", "-q", "--amend", "-m", "Other words")
    assert revisions(refresh.refresh_all(work)) == {THIRD: "header"}
    assert is_clean(work)


def test_branches_and_tags_of_odd_names_confuse_nothing(work: Work):
    top = work.checkout.folder
    head = work.stack.head
    for name in ("HEAD", "refs/pseries/now", "pseries/now", head[:12], "stash"):
        git(top, "tag", name, work.stack.base)
    for name in ("refs/heads/x", "pseries/now", "é"):
        git(top, "branch", name, work.stack.base)
    push.pop(work)
    push.push(work)
    assert work.stack.head == head
    undo.undo(work)
    undo.redo(work)
    assert is_clean(work)


def test_no_commit_at_all_is_said(work: Work):
    git(work.checkout.folder, "checkout", "-q", "--orphan", "nothing")
    with pytest.raises((CommitsMoved, CommitsUnusable)):
        push.pop(work)
    with pytest.raises(CommitsUnusable):
        refresh.refresh_all(work)


def test_gc_throws_nothing_away_that_is_needed(work: Work):
    top = work.checkout.folder
    edit(work, NET, b"PORT = 1", b"PORT = 9")
    push.pop(work, force=True)
    edit(work, CORE, b"# The engine.\n", b"# The engine,\n# again.\n")
    refresh.refresh(work, FIRST)
    undo.undo(work)
    git(top, "stash")
    git(top, "reflog", "expire", "--expire=all", "--all")
    git(top, "gc", "-q", "--prune=now")
    git(top, "fsck", "--connectivity-only")
    git(top, "reset", "-q", "--hard")
    undo.undo(work)
    undo.undo(work)
    assert b"PORT = 9" in (top / NET).read_bytes()
    git(top, "checkout", "-q", "HEAD", "--", ".")
    assert undo.verbs(work) == ()
    push.pop(work)
    push.push(work)


@pytest.mark.parametrize("date", ["@0 -0000", "@1 +1400", "@99999999999999 +0000", "@1 +9959"])
def test_a_date_that_git_takes_is_written_or_refused(work: Work, folder: Path, date: str):
    top = work.checkout.folder
    git(top, "commit", "-q", "--amend", "--date", date, "-m", "When")
    if "99" in date:
        with pytest.raises(MessageRefused, match="date"):
            refresh.refresh_all(work)
        return
    refresh.refresh_all(work)
    assert refresh.refresh_all(work).patches == ()
    catalog.load(str(folder), None).locked()


def test_a_commit_without_a_message_and_one_that_cannot_be_a_header(work: Work, folder: Path):
    top, before = work.checkout.folder, contents(folder)
    git(top, "commit", "-q", "--amend", "--allow-empty-message", "-m", "")
    with pytest.raises(MessageRefused, match="no message"):
        refresh.refresh_all(work)
    git(top, "commit", "-q", "--amend", "-m", "Do it\n\n---\nnotes")
    with pytest.raises(MessageRefused, match="---"):
        refresh.refresh_all(work)
    assert contents(folder) == before
    git(top, "commit", "-q", "--amend", "-m", "Do it")
    assert revisions(refresh.refresh_all(work)) == {THIRD: "header"}


def test_another_author_and_a_latin_1_message(work: Work, folder: Path):
    top = work.checkout.folder
    (top / "m").write_bytes(b"Caf\xe9\n\nna\xefve\n")
    git(
        top, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--amend", "-F", "m",
        "--author", "Jörg <j@x.invalid>",
    )  # fmt: skip
    (top / "m").unlink()
    assert revisions(refresh.refresh_all(work)) == {THIRD: "header"}
    data = (folder / THIRD).read_bytes()
    assert b"Caf" in data
    catalog.load(str(folder), None).locked()
    assert refresh.refresh_all(work).patches == ()


# --- a push that stopped ----------------------------------------------------------------------


def test_a_resolution_that_was_committed_is_taken(stopped: Work, folder: Path):
    top = stopped.checkout.folder
    data = (top / CORE).read_bytes().split(b"\n")
    data = [line for line in data if line[:7] not in MARKERS]
    git(top, "commit", "-qam", "with markers")
    with pytest.raises(Unresolved, match=CORE):
        refresh.refresh(stopped)
    (top / CORE).write_bytes(b"\n".join(data))
    git(top, "commit", "-qa", "--amend", "-m", "Resolved")
    assert revisions(refresh.refresh(stopped)) == {THIRD: "content"}
    assert (stopped.stack.top, is_clean(stopped)) == (3, True)
    catalog.load(str(folder), None).locked()


def test_undo_after_a_push_was_given_up_goes_on_backwards(stopped: Work, folder: Path):
    before = contents(folder)
    undo.undo(stopped)
    assert stopped.stack.pending == ""
    undo.undo(stopped)
    assert stopped.stack.pending == ""
    assert contents(folder) != before  # the refresh that brought the conflict
    assert stopped.stack.top == 2


def test_an_untracked_file_in_the_way_of_a_push_that_conflicts(work: Work, folder: Path):
    push.goto(work, SECOND)
    edit(work, CORE, b"handle.write(data)", b"handle.write(bytes(data))")
    refresh.refresh(work)
    before = contents(folder)
    (work.checkout.folder / "eng/added.py").write_bytes(b"MINE = 1\n")
    with pytest.raises(InTheWay):
        push.push(work)
    assert (work.stack.pending, work.stack.top) == ("", 2)
    assert (work.checkout.folder / "eng/added.py").read_bytes() == b"MINE = 1\n"
    assert contents(folder) == before


# --- what is around ---------------------------------------------------------------------------


def test_a_store_that_was_removed_is_named_and_can_be_filled_again(top: Path, bench: Bench):
    shutil.rmtree(bench.tmp / "cache")
    with pytest.raises(StoreGone, match="cache"), stack.opened(top):
        pass
    engine.add_release({**engine.FILES, **engine.EXTRA}, bench.tmp / "again")
    with stack.opened(top) as work:
        push.pop(work)
        push.push(work)


def test_a_series_folder_that_was_moved_is_named(top: Path, folder: Path):
    folder.rename(folder.with_name("other"))
    with pytest.raises(CheckoutInvalid, match=r"eng-1\.0"), stack.opened(top):
        pass


def test_paths_are_understood_from_any_folder(work: Work):
    top = work.checkout.folder
    assert stack_view.inside(work, "../eng/core.py", top / "eng") == CORE
    assert stack_view.inside(work, "./core.py", top / "eng") == CORE
    assert stack_view.inside(work, "nvidia/ops.py", top / "eng") == OPS
    assert stack_view.inside(work, "new/x.py", top / "eng") == "eng/new/x.py"
    assert stack_view.inside(work, CORE, top / "eng") == CORE
    (top / NET).unlink()
    assert stack_view.inside(work, "net.py", top / "eng") == NET
    for wrong in ("../../x", "/etc/passwd", "..", ".git/config", ""):
        with pytest.raises(FileNotShown):
            stack_view.track(work, [stack_view.inside(work, wrong, top)])


# --- strangers --------------------------------------------------------------------------------


def test_what_the_checkouts_own_git_would_run_is_not_run(work: Work, bench: Bench):
    top, ran = work.checkout.folder, bench.tmp / "ran"
    git(top, "config", "core.fsmonitor", f"touch {ran}; false")
    (top / ".git/hooks").mkdir(exist_ok=True)
    for name in ("post-index-change", "reference-transaction", "post-checkout"):
        hook = top / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
        hook.chmod(0o755)
    push.pop(work)
    refresh.refresh(work)
    assert not ran.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_checkout_of_another_user_is_refused_as_git_refuses_it(
    top: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    os.chown(top / ".git", 65534, -1)
    settings = bench.tmp / "settings"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    with pytest.raises(CheckoutNotOurs, match="65534"), stack.opened(top):
        pass
    git(top, "config", "--file", str(settings), "safe.directory", str(top))
    with stack.opened(top):
        pass
    settings.unlink()
    monkeypatch.setenv("SUDO_UID", "65534")
    with stack.opened(top):
        pass


def test_links_and_submodules_near_the_patched_files_stay(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    """A release from git holds what no patch can: it is in the way of none."""
    upstream = bench.tmp / "upstream"
    engine.write(upstream, engine.FILES)
    (upstream / "eng/alias.py").symlink_to("core.py")
    (upstream / "eng/loop").symlink_to("..")
    git(upstream, "init", "-q", "-b", "main")
    git(upstream, "add", "-A")
    git(upstream, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},eng/sub")
    git(upstream, "commit", "-qm", "x")
    git(upstream, "tag", "v3.0")
    rest = f'git = "{upstream}"\ntag = "v3.0"\nsources = ["git"]\n'
    after = {**engine.FILES, CORE: engine.MODULE.replace(b"read()", b"read(99)")}
    made = engine.make_series(
        bench.series_dir, {"0001-x.patch": bench.patch(dict(engine.FILES), after)},
        name="eng-3.0", version="3.0", rest=rest,
    )  # fmt: skip
    location = catalog.Location(bench.series_dir, "the test's")
    store, found = release.fetch(catalog.load("eng-3.0", location), Means())
    engine.locked(made)
    top = bench.tmp / "work"
    checkout.check_out(catalog.load("eng-3.0", location), location, store, found, top)
    assert (top / "eng/alias.py").is_symlink()
    with stack.opened(top) as work:
        assert is_clean(work)
        push.pop(work)
        push.push(work)
        edit(work, NET, b"PORT = 1", b"PORT = 9")
        assert revisions(refresh.refresh(work)) == {"0001-x.patch": "content"}
        assert is_clean(work)
        before = contents(made)
        (top / "eng/alias.py").unlink()
        (top / "eng/alias.py").symlink_to("net.py")
        with pytest.raises(Uncommittable, match="alias"):
            refresh.refresh(work)
        with pytest.raises(FileNotShown):
            stack_view.track(work, ["eng/alias.py"])
        assert contents(made) == before
    catalog.load("eng-3.0", location).locked()


def test_a_series_below_that_changed_is_named(bench: Bench, folder: Path):
    three = {**_THREE}
    four = {**three, CORE: three[CORE].replace(b"99", b"100")}
    above = bench.series(
        {"0001-more.patch": bench.patch(three, four)}, name="eng-1.0-more",
        top='after = ["eng-1.0"]\n',
    )  # fmt: skip
    location = catalog.Location(bench.series_dir, "the test's")
    store = Store.open("eng")
    found = store.find("1.0")
    assert found is not None
    checkout.check_out(above, location, store, found, bench.tmp / "above")
    checkout.check_out(
        catalog.load("eng-1.0", location), location, store, found, bench.tmp / "below"
    )
    with stack.opened(bench.tmp / "below") as work:
        edit(work, CORE, b"# The engine.", b"# The machine.")
        refresh.refresh(work)
    before = contents(bench.series_dir / "eng-1.0-more")
    with stack.opened(bench.tmp / "above") as work:
        edit(work, NET, b"PORT = 1", b"PORT = 9")
        with pytest.raises(BaseChanged, match=r"eng-1\.0"):
            refresh.refresh(work)
        assert contents(bench.series_dir / "eng-1.0-more") == before
        assert b"PORT = 9" in (bench.tmp / "above" / NET).read_bytes()


def test_two_checkouts_of_one_series_do_not_overwrite_each_other(bench: Bench, top: Path):
    location = catalog.Location(bench.series_dir, "the test's")
    store = Store.open("eng")
    found = store.find("1.0")
    assert found is not None
    other = bench.tmp / "other"
    checkout.check_out(catalog.load("eng-1.0", location), location, store, found, other)
    with stack.opened(top) as work:
        edit(work, NET, b"PORT = 1", b"PORT = 9")
        refresh.refresh(work)
    with stack.opened(other) as work:
        edit(work, NET, b"PORT = 1", b"PORT = 8")
        with pytest.raises(FolderChanged):
            refresh.refresh(work)
        git(other, "stash", "-q")
        push.pop(work)
        push.push(work)
        assert b"PORT = 9" in (other / NET).read_bytes()


def test_half_an_object_of_a_full_disk_is_not_taken_for_a_whole_one(
    work: Work, monkeypatch: pytest.MonkeyPatch
):
    real, left, failed = Path.write_bytes, [0], 0

    def full(self: Path, data: bytes) -> int:
        if "objects" in self.parts:
            left[0] -= 1
        if left[0] < 0:
            real(self, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return real(self, data)

    while work.stack.top == 3:
        left[0] = failed
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", full)
            try:
                push.pop(work)
            except OSError:
                assert work.stack.top == 3
                failed += 1
    assert failed > 2
    undo.undo(work)
    git(work.checkout.folder, "fsck", "--strict")
    assert not list(work.checkout.git_dir.glob("objects/*/tmp_obj*"))
