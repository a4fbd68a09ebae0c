"""A transaction that is killed, or refused, at every single call that changes a file."""

from __future__ import annotations

import bisect
import errno
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.site import faults, trees

from pseries.errors import TargetNotWritable, TransactionInterrupted
from pseries.site import bytecode, receipt, transaction
from pseries.site.change import Image
from pseries.site.fs import SiteTree
from pseries.site.lock import exclusive
from pseries.site.transaction import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: these tests make thousands of small trees."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    folder = memory / f"pseries-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


class Bench:
    """One kind of work on one tree, over and over from the same beginning."""

    def __init__(
        self, room: Path, prepare: Callable[[Path], object], work: Callable[[SiteTree], object]
    ):
        self.site = room / "site"
        self.pristine = room / "pristine"
        self.pristine.mkdir()
        prepare(self.pristine)
        self._work = work
        self.old = trees.snapshot(self.pristine, times=True)
        self.reset()
        self.calls = faults.count(self.run)
        self.new = trees.snapshot(self.site)
        self.reset()

    def reset(self, source: Path | None = None) -> None:
        """Go back to the beginning, or to a copy that was put away."""
        shutil.rmtree(self.site, ignore_errors=True)
        trees.clone(source or self.pristine, self.site)

    def run(self) -> object:
        with SiteTree(self.site) as tree:
            return self._work(tree)

    def check_unrecovered(self) -> None:
        """What ``status`` sees is never a clean tree that is not one."""
        now = trees.snapshot(self.site, times=True)
        if now == self.old or trees.snapshot(self.site) == self.new:
            return
        assert trees.pending(self.site) is not None

    def check_recovered(self, outcome: Outcome | None = None) -> str:
        """All is old, to the nanosecond, or all is new; and nothing else is left."""
        assert trees.pending(self.site) is None
        now = trees.snapshot(self.site)
        if now == self.new:
            side = "new"
            assert outcome is not Outcome.BACK
        else:
            assert trees.snapshot(self.site, times=True) == self.old
            side = "old"
            assert outcome is not Outcome.FORWARD
        control = (
            trees.snapshot(self.site / ".pseries") if (self.site / ".pseries").exists() else {}
        )
        assert {name.split("/")[0] for name in control} <= {"lock", "objects", "state.json"}
        return side

    def check_store(self) -> None:
        """Exactly the contents that a rollback needs are stored."""
        with SiteTree(self.site) as tree:
            assert trees.stored(self.site) == receipt.read(tree).backups()


def applied(site: Path) -> None:
    trees.make(site)
    with SiteTree(site) as tree:
        trees.apply(tree)


def one_of_each(tree: SiteTree) -> object:
    """A transaction that is nobody's receipt: nothing in ``.pseries`` is among its changes."""
    changes = [
        trees.replacing(tree, "eng/mod.py", b"a = 2\n", 0o755),
        trees.replacing(tree, "eng/new/deep/x.py", b"x = 1\n"),
        trees.replacing(tree, "eng/gone/old.py", None),
        *bytecode.removals(tree, ["eng/gone/old.py"]),
    ]
    contents = {Image.of(data, 0).sha256: data for data in (b"a = 2\n", b"x = 1\n")}
    with exclusive(tree, 10):
        folders = transaction.folder_changes(tree, changes)
        return transaction.commit(tree, changes, contents, folders)


WORK: dict[str, tuple[Callable[[Path], object], Callable[[SiteTree], object]]] = {
    "apply": (trees.make, trees.apply),
    "rollback": (applied, trees.roll_back),
    "bare": (trees.make, one_of_each),
}


@pytest.fixture(params=["apply", "rollback"])
def bench(request: pytest.FixtureRequest, room: Path) -> Iterator[Bench]:
    """Applying to a fresh tree, and rolling the same back."""
    bench = Bench(room, *WORK[request.param])
    yield bench
    # Every tree was a hard-linked copy: whatever is written in place shows up here.
    assert trees.snapshot(bench.pristine, times=True) == bench.old


def test_the_bench_itself_counts_every_kind_of_call(room: Path) -> None:
    """Each call by which the program changes files is one that the shim can kill at."""
    bench = Bench(room, trees.make, trees.apply)
    assert {
        "open",
        "write",
        "fsync",
        "rename",
        "unlink",
        "mkdir",
        "rmdir",
        "fchmod",
        "utime",
    } <= set(bench.calls)
    bench.reset()
    with faults.dying_at(1):
        bench.run()
    assert trees.snapshot(bench.site, times=True, control=True) == bench.old


def test_killed_at_every_call_it_recovers_to_all_old_or_all_new(bench: Bench) -> None:
    sides = []
    for number in range(1, len(bench.calls) + 1):
        for torn in (False, True) if bench.calls[number - 1] == "write" else (False,):
            bench.reset()
            assert faults.killed_at(number, bench.run, torn=torn)
            bench.check_unrecovered()
            outcome = trees.recover(bench.site).outcome
            sides.append(bench.check_recovered(outcome))
            if outcome is not Outcome.NOTHING:
                bench.check_store()
            assert trees.recover(bench.site).outcome is Outcome.NOTHING
            if torn and sides[-1] == "old":
                bench.run()
                assert bench.check_recovered() == "new"
                bench.check_store()
    bench.reset()
    assert not faults.killed_at(len(bench.calls) + 1, bench.run)
    # There is one commit point: everything before it is old, everything behind it is new.
    assert sides == sorted(sides, reverse=True)
    assert set(sides) == {"old", "new"}


def test_killed_again_while_recovering_it_still_recovers(room: Path) -> None:
    bench = Bench(room, trees.make, one_of_each)
    kept = room / "kept"
    sides: dict[int, str] = {}  # what each state on disk recovers to

    def fingerprint() -> int:
        return hash(tuple(sorted(trees.snapshot(bench.site, control=True).items())))

    def recover() -> str:
        bench.check_unrecovered()
        trees.recover(bench.site)
        return bench.check_recovered()

    for number in range(1, len(bench.calls) + 1):
        bench.reset()
        with faults.dying_at(number):
            bench.run()
        first = fingerprint()
        if trees.pending(bench.site) is None or first in sides:
            continue
        shutil.rmtree(kept, ignore_errors=True)
        trees.clone(bench.site, kept)
        steps = len(faults.count(lambda: trees.recover(bench.site)))
        sides[first] = bench.check_recovered()
        for again in range(1, steps + 1):
            bench.reset(kept)
            with faults.dying_at(again):
                trees.recover(bench.site)
            second = fingerprint()
            if second not in sides:
                sides[second] = recover()
            assert sides[second] == sides[first]
    assert set(sides.values()) == {"old", "new"}
    assert len(sides) > 30


@pytest.mark.parametrize("names", [False, True], ids=["nothing unsynchronised", "names first"])
@pytest.mark.parametrize("bench", WORK, indirect=True)
def test_a_power_cut_after_every_call_leaves_all_old_or_all_new(bench: Bench, names: bool) -> None:
    """What is relied on later is on disk before (T31): no file is empty, none is forgotten."""
    left = bench.site.with_name("left")
    sides = []
    for number in range(2, len(bench.calls) + 2):
        bench.reset()
        disk = faults.Disk(bench.site)
        # As a run leaves it that was killed before it could synchronise anything.
        (bench.site / ".pseries").mkdir(exist_ok=True)
        with disk.dying_at(number):
            bench.run()
        disk.left_after_a_cut(left, names=names)
        bench.reset(left)
        shutil.rmtree(left)
        bench.check_unrecovered()
        sides.append(bench.check_recovered(trees.recover(bench.site).outcome))
    assert sides == sorted(sides, reverse=True)
    assert sides[-1] == "new"


@pytest.mark.parametrize("names", [False, True], ids=["nothing unsynchronised", "names first"])
def test_a_power_cut_while_files_are_made_again_from_the_store(room: Path, names: bool) -> None:
    left, kept = room / "left", room / "kept"
    bench = Bench(room, trees.make, trees.apply)
    with SiteTree(bench.site) as tree:
        trees.interrupted(tree)
    for staged in bench.site.rglob(".pseries-*.new"):
        staged.unlink()
    trees.clone(bench.site, kept)
    calls = len(faults.count(lambda: trees.recover(bench.site)))
    for number in range(1, calls + 2):
        bench.reset(kept)
        disk = faults.Disk(bench.site)
        with disk.dying_at(number):
            trees.recover(bench.site)
        disk.left_after_a_cut(left, names=names)
        bench.reset(left)
        shutil.rmtree(left)
        trees.recover(bench.site)
        assert bench.check_recovered() == "new"


@pytest.mark.parametrize("moment", [0.0, 0.001, 0.002, 0.004, 0.008])
def test_killed_by_the_system_at_any_moment_it_recovers(room: Path, moment: float) -> None:
    bench = Bench(room, trees.make, trees.apply)
    child = os.fork()
    if child == 0:
        bench.run()
        os._exit(0)
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    bench.check_unrecovered()
    bench.check_recovered(trees.recover(bench.site).outcome)


@pytest.mark.parametrize(
    ("code", "lasting"),
    [(errno.ENOSPC, False), (errno.ENOSPC, True), (errno.EROFS, True)],
    ids=["no space once", "no space any more", "read-only from then on"],
)
def test_refused_at_every_call_it_undoes_everything_or_says_what_to_do(
    bench: Bench, code: int, lasting: bool
) -> None:
    only = faults.TAKING_ROOM if code == errno.ENOSPC and lasting else ()
    said = set()
    for number in range(1, len(bench.calls) + 1):
        if only and bench.calls[number - 1] not in only:
            continue
        bench.reset()
        try:
            with faults.refused_at(number, code, only=only, lasting=lasting):
                bench.run()
        except TargetNotWritable:
            said.add("undone")
            if code == errno.EROFS:  # it may keep us from tidying up in our own folder
                (bench.site / ".pseries" / "journal.new").unlink(missing_ok=True)
            assert bench.check_recovered() == "old"
        except TransactionInterrupted:
            said.add("interrupted")
            assert trees.pending(bench.site) is not None
            bench.check_recovered(trees.recover(bench.site).outcome)
        else:
            said.add("done")
            assert bench.check_recovered() == "new"
    assert "undone" in said


def test_a_full_disk_before_the_commit_never_asks_for_recovery(bench: Bench) -> None:
    """On a disk that is full, names can still be removed: everything is undone at once."""
    numbers = range(1, len(bench.calls) + 1)
    # The number of calls that leave all as it was when nothing comes after them.
    before = bisect.bisect(numbers, False, key=lambda number: side_after(bench, number) == "new")
    for number in numbers[:before]:
        if bench.calls[number - 1] in faults.TAKING_ROOM:
            bench.reset()
            with (
                faults.refused_at(number, errno.ENOSPC, only=faults.TAKING_ROOM, lasting=False),
                pytest.raises(TargetNotWritable, match="free some space"),
            ):
                bench.run()
            assert bench.check_recovered() == "old"


def side_after(bench: Bench, number: int) -> str:
    bench.reset()
    with faults.dying_at(number):
        bench.run()
    trees.recover(bench.site)
    return bench.check_recovered()


def test_control_c_before_the_commit_undoes_and_after_it_finishes(bench: Bench) -> None:
    sides = []
    for number in range(1, len(bench.calls) + 1, 3):
        bench.reset()

        def interrupt(
            now: int, name: str, call: Callable[[], object], arguments: object, at: int = number
        ) -> object:
            if now == at:
                os.kill(os.getpid(), signal.SIGINT)
            return call()

        def interrupted() -> None:
            with faults.at_calls(interrupt), pytest.raises(KeyboardInterrupt):
                bench.run()

        # In a child, which has no threads but its own: a signal that is held goes to any thread
        # of the process that does not hold it, and other tests leave such threads behind.
        assert faults.in_child(interrupted) == 0
        sides.append(bench.check_recovered())
    assert set(sides) == {"old", "new"}
