"""A transaction on real file systems: what it keeps, what it refuses, who may see what when."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.site import faults, trees

from pseries.errors import (
    BackupLost,
    TargetChanged,
    TargetNotWritable,
    TargetRefused,
    TransactionBlocked,
    TransactionInterrupted,
)
from pseries.site import bytecode, receipt, transaction
from pseries.site.change import Change, FolderChange, Image
from pseries.site.fs import SiteTree
from pseries.site.lock import exclusive
from pseries.site.transaction import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return trees.make(tmp_path / "site")


@pytest.fixture
def tree(site: Path) -> Iterator[SiteTree]:
    with SiteTree(site) as opened:
        yield opened


def change_one(
    tree: SiteTree, data: bytes = b"a = 2\n", path: str = "eng/mod.py"
) -> transaction.Committed:
    """Replace one file, with nothing around it."""
    change = trees.replacing(tree, path, data)
    assert change.after is not None
    with exclusive(tree, 5):
        return transaction.commit(tree, [change], {change.after.sha256: data}, ())


# --- what it does -----------------------------------------------------------------------------


def test_a_series_is_applied_and_rolled_back_to_the_last_byte_mode_and_nanosecond(
    site: Path, tree: SiteTree
) -> None:
    before = trees.snapshot(site, times=True)
    committed = trees.apply(tree)
    after = trees.snapshot(site)
    assert committed.warnings == ()
    assert committed.unlinked == ()
    assert (site / "eng/mod.py").read_bytes() == b"a = 2\n"
    assert after["eng/tool.py"].mode & 0o777 == 0o755
    assert after["eng/new/deep/x.py"].mode & 0o777 == 0o644
    assert "eng/gone" not in after
    assert "eng/__pycache__" in after
    assert "eng/__pycache__/mod.cpython-311.pyc" not in after
    trees.roll_back(tree)
    assert trees.snapshot(site, times=True) == before


def test_rollback_takes_away_what_was_compiled_since(site: Path, tree: SiteTree) -> None:
    before = trees.snapshot(site, times=True)
    trees.apply(tree)
    for source in ("eng/mod.py", "eng/new/deep/x.py"):
        cache = (site / source).parent / "__pycache__"
        cache.mkdir(exist_ok=True)
        for tag in ("cpython-311", "cpython-399.opt-2"):
            (cache / f"{Path(source).stem}.{tag}.pyc").write_bytes(b"compiled since")
    trees.roll_back(tree)
    assert trees.snapshot(site, times=True) == before


def test_rollback_gives_back_a_folder_with_its_mode_and_keeps_one_that_was_empty(
    site: Path, tree: SiteTree
) -> None:
    (site / "eng/gone").chmod(0o750)
    (site / "eng/new").mkdir(mode=0o700)
    before = trees.snapshot(site)
    trees.apply(tree)
    trees.roll_back(tree)
    assert trees.snapshot(site) == before


def test_a_folder_with_somebody_elses_file_stays(site: Path, tree: SiteTree) -> None:
    trees.apply(tree)
    (site / "eng/new/notes.txt").write_text("mine")
    trees.roll_back(tree)
    assert sorted(file.name for file in (site / "eng/new").iterdir()) == ["notes.txt"]


def test_folders_are_planned_with_the_files(site: Path, tree: SiteTree) -> None:
    site.chmod(0o2755)
    (site / "eng").chmod(0o2775)
    (site / "eng/both").mkdir()
    for name in ("eng/both/a.py", "eng/both/b.py"):
        (site / name).touch()
    changes = [
        trees.replacing(tree, "eng/new/deep/x.py", b""),
        trees.replacing(tree, "other/x.py", b""),
        trees.replacing(tree, "eng/both/a.py", None),
        trees.replacing(tree, "eng/gone/old.py", None),
        *bytecode.removals(tree, ["eng/gone/old.py", "eng/mod.py"]),
    ]
    assert transaction.folder_changes(tree, changes) == (
        FolderChange("eng/new", None, 0o2775),
        FolderChange("eng/new/deep", None, 0o2775),
        FolderChange("other", None, 0o2755),
        FolderChange("eng/gone/__pycache__", 0o755, None),
        FolderChange("eng/gone", 0o755, None),
    )
    changes.append(trees.replacing(tree, "eng/gone/new.py", b""))
    gone = [each.path for each in transaction.folder_changes(tree, changes) if each.before]
    assert gone == []


def test_files_get_another_whole_second_even_within_the_same(site: Path, tree: SiteTree) -> None:
    """Bytecode that an import writes while we work names second and size, nothing else (T33)."""
    now = time.time_ns()
    os.utime(site / "eng/mod.py", ns=(now, now))
    change_one(tree)
    assert (site / "eng/mod.py").stat().st_mtime_ns // 10**9 != now // 10**9


def test_stale_bytecode_never_runs(tmp_path: Path) -> None:
    site = tmp_path / "site"
    trees.install(site, {"eng/__init__.py": b"", "eng/mod.py": b"print('old')\n"})
    compile_it = "import compileall, sys; compileall.compile_dir(sys.argv[1], quiet=1, "
    for mode in ("invalidation_mode=__import__('py_compile').PycInvalidationMode.UNCHECKED_HASH)",
                 "optimize=2)"):  # fmt: skip
        subprocess.run([sys.executable, "-c", compile_it + mode, site], check=True)

    def says(*options: str) -> bytes:
        code = f"import sys; sys.path.insert(0, {str(site)!r}); import eng.mod"
        command = [sys.executable, "-B", *options, "-c", code]
        return subprocess.run(command, check=True, capture_output=True).stdout

    wish = trees.Wish({"eng/mod.py": b"print('new')\n"}, {})
    with SiteTree(site) as tree:
        assert (says(), says("-OO")) == (b"old\n", b"old\n")
        trees.apply(tree, wish)
        assert (says(), says("-OO")) == (b"new\n", b"new\n")
        trees.roll_back(tree)
        assert (says(), says("-OO")) == (b"old\n", b"old\n")
    assert len(list((site / "eng/__pycache__").glob("mod.*"))) == 2


def test_hard_links_are_broken_and_named(site: Path, tree: SiteTree, tmp_path: Path) -> None:
    """uv and conda link site-packages to a cache that other environments share (I01)."""
    for name in ("eng/mod.py", "eng/tool.py", "eng/gone/old.py"):
        os.link(site / name, tmp_path / Path(name).name)
    committed = trees.apply(tree)
    assert set(committed.unlinked) == {"eng/mod.py", "eng/tool.py", "eng/gone/old.py"}
    trees.roll_back(tree)
    trees.apply(tree)
    for name in ("eng/mod.py", "eng/tool.py", "eng/gone/old.py"):
        other = tmp_path / Path(name).name
        assert other.read_bytes() == trees.BEFORE[name]
        assert stat.S_IMODE(other.stat().st_mode) == 0o644
        assert other.stat().st_nlink == 1


def test_backups_are_copies(site: Path, tree: SiteTree, tmp_path: Path) -> None:
    """Whoever writes in place, here or in the cache, must not write into the backup as well."""
    os.link(site / "eng/mod.py", tmp_path / "cache.py")
    trees.apply(tree)
    (tmp_path / "cache.py").write_bytes(b"poisoned")
    trees.roll_back(tree)
    assert (site / "eng/mod.py").read_bytes() == b"a = 1\n"
    trees.apply(tree)
    for stored in (site / ".pseries/objects").iterdir():
        assert stored.stat().st_nlink == 1


@pytest.mark.parametrize("mode", [0o444, 0o600, 0o640, 0o664])
def test_mode_owner_and_attributes_are_kept(site: Path, tree: SiteTree, mode: int) -> None:
    file = site / "eng/mod.py"
    file.chmod(mode)
    with contextlib.suppress(OSError):
        os.setxattr(file, "user.origin", b"somewhere")
    attributes = {name: os.getxattr(file, name) for name in os.listxattr(file)}
    if os.geteuid() == 0:
        os.chown(file, 1000, 1001)
    before = file.stat()
    old = os.umask(0o077)
    try:
        assert change_one(tree).warnings == ()
    finally:
        os.umask(old)
    after = file.stat()
    assert file.read_bytes() == b"a = 2\n"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert {name: os.getxattr(file, name) for name in os.listxattr(file)} == attributes


@root_only
def test_what_root_adds_belongs_to_the_owner_of_the_folder(site: Path, tree: SiteTree) -> None:
    """Otherwise the user of an environment could not upgrade; what decides is kept by root."""
    for path in (site, *site.rglob("*")):
        os.chown(path, 1000, 1000)
    trees.apply(tree)
    own = {site / ".pseries", *(site / ".pseries").rglob("*")}
    assert {path.stat().st_uid for path in {site, *site.rglob("*")} - own} == {1000}
    assert {path.stat().st_uid for path in own} == {0}


@root_only
def test_an_owner_that_cannot_be_kept_is_a_warning(site: Path, tree: SiteTree) -> None:
    site.chmod(0o777)
    for path in site.rglob("*"):
        path.chmod(0o777)
    committed = {}

    def as_somebody() -> int:
        os.setgid(1000)
        os.setuid(1000)
        committed["it"] = change_one(tree)
        return 42 if "owner 0:0 could not be kept" in str(committed["it"].warnings) else 1

    assert faults.in_child(as_somebody) == 42
    assert (site / "eng/mod.py").read_bytes() == b"a = 2\n"
    assert (site / "eng/mod.py").stat().st_uid == 1000


# --- what it refuses --------------------------------------------------------------------------


def test_a_file_that_is_not_what_was_planned_with_stops_it(site: Path, tree: SiteTree) -> None:
    changes = [
        trees.replacing(tree, "eng/mod.py", b"new"),
        trees.replacing(tree, "eng/tool.py", b"new"),
        trees.replacing(tree, "eng/__init__.py", b"new"),
        trees.replacing(tree, "eng/new.py", b"new"),
    ]
    (site / "eng/mod.py").write_text("by hand")
    (site / "eng/tool.py").unlink()
    (site / "eng/__init__.py").chmod(0o600)
    (site / "eng/new.py").touch()
    before = trees.snapshot(site, times=True)
    with exclusive(tree, 5), pytest.raises(TargetChanged) as caught:
        transaction.commit(tree, changes, {Image.of(b"new", 0).sha256: b"new"}, ())
    whats = [problem.what.split(" ")[0:3] for problem in caught.value.problems]
    assert whats == [
        ["has", "the", "sha256"],
        ["is", "missing"],
        ["has", "the", "mode"],
        ["is", "there", "already"],
    ]
    assert trees.snapshot(site, times=True) == before
    assert trees.pending(site) is None


def test_links_are_refused_and_what_they_show_is_safe(
    site: Path, tree: SiteTree, tmp_path: Path
) -> None:
    changes, contents = trees.plan(tree)
    outside = tmp_path / "cache.py"
    (site / "eng/mod.py").rename(outside)
    (site / "eng/mod.py").symlink_to(outside)
    with exclusive(tree, 5), pytest.raises(TargetRefused, match="symbolic link"):
        transaction.commit(tree, changes.changes, contents, ())
    (site / "eng/mod.py").unlink()
    outside.rename(site / "eng/mod.py")
    (site / "eng").rename(tmp_path / "real")
    (site / "eng").symlink_to(tmp_path / "real")
    with exclusive(tree, 5), pytest.raises(TargetRefused, match="symbolic link"):
        transaction.commit(tree, changes.changes, contents, ())
    assert (tmp_path / "real/mod.py").read_bytes() == b"a = 1\n"


def test_its_own_files_cannot_be_changed_with_it(tree: SiteTree) -> None:
    for path in (".pseries/journal", ".pseries/objects/" + "0" * 64, ".pseries/lock"):
        change = Change(path, None, Image.of(b"x", 0o644))
        with exclusive(tree, 5), pytest.raises(ValueError, match="transaction itself"):
            transaction.commit(tree, [change], {}, ())


def test_a_path_twice_or_content_with_another_hash_is_a_bug(tree: SiteTree) -> None:
    change = trees.replacing(tree, "eng/mod.py", b"new")
    assert change.after is not None
    with exclusive(tree, 5):
        with pytest.raises(ValueError, match="twice"):
            transaction.commit(tree, [change, change], {}, ())
        with pytest.raises(ValueError, match="another sha256"):
            transaction.commit(tree, [change], {change.after.sha256: b"other"}, ())
    assert trees.pending(tree.root) is None


def test_a_lost_backup_is_named_before_anything_changes(site: Path, tree: SiteTree) -> None:
    trees.apply(tree)
    before = trees.snapshot(site, times=True)
    backup = Image.of(trees.BEFORE["eng/mod.py"], 0).sha256
    (site / ".pseries/objects" / backup).write_bytes(b"damaged")
    with pytest.raises(BackupLost, match=f"eng/mod.py .*{backup}"):
        trees.roll_back(tree)
    assert trees.snapshot(site, times=True) == before
    assert trees.pending(site) is None


def test_lost_bytecode_is_no_reason_to_stop(site: Path, tree: SiteTree) -> None:
    trees.apply(tree)
    bytecode = Image.of(b"bytecode of eng/__pycache__/mod.cpython-311.pyc", 0).sha256
    (site / ".pseries/objects" / bytecode).unlink()
    trees.roll_back(tree)
    assert (site / "eng/mod.py").read_bytes() == b"a = 1\n"
    assert not (site / "eng/__pycache__/mod.cpython-311.pyc").exists()


@root_only
def test_without_permission_nothing_changes(site: Path, tree: SiteTree) -> None:
    with exclusive(tree, 5):
        pass  # .pseries is root's as well
    change = trees.replacing(tree, "eng/mod.py", b"a = 2\n")
    assert change.after is not None
    contents = {change.after.sha256: b"a = 2\n"}
    before = trees.snapshot(site, times=True, control=True)

    def as_nobody() -> int:
        os.setuid(65534)
        with pytest.raises(TargetNotWritable, match="Permission denied"):
            transaction.commit(tree, [change], contents, ())
        return 42

    assert faults.in_child(as_nobody) == 42
    assert trees.snapshot(site, times=True, control=True) == before


def program(name: str) -> str:
    """Return the path of a program, or skip."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}")
    return found


@contextlib.contextmanager
def mounted(*arguments: str) -> Iterator[Path]:
    """Mount something, or skip with the reason."""
    target = Path(arguments[-1])
    said = subprocess.run(
        [program("mount"), *arguments], capture_output=True, text=True, check=False
    )
    if said.returncode != 0:
        pytest.skip(f"cannot mount: {said.stderr.strip()}")
    try:
        yield target
    finally:
        subprocess.run([program("umount"), "--lazy", target], check=True)


@root_only
def test_a_read_only_mount_is_one_clear_error_and_reading_works(site: Path, tmp_path: Path) -> None:
    where = tmp_path / "ro"
    where.mkdir()
    with mounted("--bind", str(site), str(where)):
        said = subprocess.run(
            [program("mount"), "-o", "remount,bind,ro", where],
            capture_output=True,
            text=True,
            check=False,
        )
        if said.returncode != 0:
            pytest.skip(f"cannot mount read-only: {said.stderr.strip()}")
        with SiteTree(where) as tree:
            assert trees.pending(where) is None
            assert receipt.read(tree).applied == ()
            with pytest.raises(TargetNotWritable, match="the file system is read-only"):
                trees.apply(tree)
            assert transaction.recover(tree).outcome is Outcome.NOTHING


@root_only
@pytest.mark.parametrize("unforeseen", [False, True])
@pytest.mark.parametrize("left", [4, 12, 24, 48, 96, 144, 208])
def test_a_disk_that_fills_up_leaves_all_as_it_was(
    tmp_path: Path, left: int, unforeseen: bool
) -> None:
    where = tmp_path / "small"
    where.mkdir()
    with mounted("-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", str(where)):
        site = trees.make(where / "site")
        (site / "eng/mod.py").write_bytes(b"# \xff\n" * 8000)
        with SiteTree(site) as tree:
            with exclusive(tree, 5):
                pass
            change = trees.replacing(tree, "eng/mod.py", b"# new\n" * 8000)
            assert change.after is not None
            with (where / "ballast").open("wb", buffering=0) as ballast:
                with contextlib.suppress(OSError):
                    while True:
                        ballast.write(bytes(4096))
                ballast.truncate(ballast.tell() - left * 1024)
            before = trees.snapshot(site, times=True, control=True)
            with exclusive(tree, 5), pytest.MonkeyPatch.context() as patch:
                if unforeseen:
                    patch.setattr(SiteTree, "room", lambda _: (None, None))
                try:
                    transaction.commit(tree, [change], {change.after.sha256: b"# new\n" * 8000}, ())
                except TargetNotWritable as error:
                    assert left < 208
                    refused = error
                else:
                    assert left >= 144
                    return
            now = trees.snapshot(site, times=True, control=True)
            if unforeseen:
                assert now.pop(".pseries/objects").data is None  # an empty folder
                assert "free some space" in refused.reason
            else:
                assert "KiB are needed" in refused.reason
            assert now == before


@root_only
def test_a_file_bound_into_a_container_is_refused_beforehand(site: Path, tmp_path: Path) -> None:
    """``docker run -v ./patched.py:…/mod.py``: a mount point cannot be renamed over."""
    (tmp_path / "bound.py").write_bytes(b"a = 1\n")
    with (
        mounted("--bind", str(tmp_path / "bound.py"), str(site / "eng/mod.py")),
        SiteTree(site) as tree,
    ):
        with pytest.raises(TargetNotWritable, match="mount point"):
            trees.apply(tree)
        assert trees.pending(site) is None


@root_only
@pytest.mark.parametrize(("name", "flag"), [("eng/mod.py", "i"), ("eng/mod.py", "a"), ("eng", "a")])
def test_immutable_files_are_refused_beforehand(site: Path, name: str, flag: str) -> None:
    said = subprocess.run(
        [program("chattr"), f"+{flag}", site / name], capture_output=True, check=False
    )
    if said.returncode != 0:
        pytest.skip(f"cannot chattr: {said.stderr.decode().strip()}")
    try:
        with SiteTree(site) as tree:
            with pytest.raises(TargetNotWritable, match="immutable or append-only"):
                change_one(tree)
            with pytest.raises(TargetNotWritable, match="immutable or append-only"):
                trees.apply(tree)
        assert trees.pending(site) is None
    finally:
        subprocess.run([program("chattr"), f"-{flag}", site / name], check=True)


@root_only
def test_a_sticky_folder_of_others_is_refused_beforehand(site: Path, tree: SiteTree) -> None:
    for path in (site, site / "eng"):
        path.chmod(0o1777)

    def as_nobody() -> int:
        os.setuid(65534)
        with pytest.raises(TargetNotWritable, match="sticky"):
            change_one(tree)
        return 42

    assert faults.in_child(as_nobody) == 42
    assert not (site / ".pseries/journal").exists()


# --- recovery where others were at work -------------------------------------------------------


def test_recovery_stops_at_a_file_it_does_not_know_and_names_it(site: Path, tree: SiteTree) -> None:
    trees.interrupted(tree)
    (site / "eng/mod.py").write_text("by hand")
    (site / "eng/tool.py").unlink()
    before = trees.snapshot(site, times=True)
    with pytest.raises(TransactionBlocked) as caught:
        trees.recover(site)
    assert [problem.where for problem in caught.value.problems] == ["eng/mod.py", "eng/tool.py"]
    assert trees.snapshot(site, times=True) == before
    assert trees.pending(site) is not None


def test_recovery_can_keep_such_a_file_aside_and_go_on(site: Path, tree: SiteTree) -> None:
    trees.interrupted(tree)
    (site / "eng/mod.py").write_text("by hand")
    (site / "eng/tool.py").unlink()
    (site / "eng/gone/old.py").write_text("by hand, too")
    with exclusive(tree, 5):
        recovery = transaction.recover(tree, aside=True)
    assert recovery.outcome is Outcome.FORWARD
    kept = dict(recovery.kept)
    assert (site / kept["eng/mod.py"]).read_text() == "by hand"
    assert (site / kept["eng/gone/old.py"]).read_text() == "by hand, too"
    assert (site / "eng/mod.py").read_bytes() == b"a = 2\n"
    assert not (site / "eng/gone").exists()
    assert trees.pending(site) is None


def test_recovery_does_not_need_what_waited_beside_the_targets(site: Path, tree: SiteTree) -> None:
    trees.interrupted(tree)
    waiting = list(site.rglob(".pseries-*.new"))
    assert waiting
    waiting[0].write_text("torn")
    for file in waiting[1:]:
        file.unlink()
    assert trees.recover(site).outcome is Outcome.FORWARD
    assert (site / "eng/mod.py").read_bytes() == b"a = 2\n"
    assert not list(site.rglob(".pseries-*.new"))


def test_recovery_without_any_copy_says_so(site: Path, tree: SiteTree) -> None:
    trees.interrupted(tree)
    for file in site.rglob(".pseries-*.new"):
        file.unlink()
    for stored in trees.stored(site):
        (site / ".pseries/objects" / stored).unlink()
    with pytest.raises(TransactionInterrupted, match="neither stored nor beside"):
        trees.recover(site)
    assert trees.pending(site) is not None


def test_bytecode_that_python_wrote_meanwhile_does_not_stop_it(site: Path, tree: SiteTree) -> None:
    trees.interrupted(tree)
    (site / "eng/__pycache__/mod.cpython-311.pyc").write_bytes(b"compiled a moment ago")
    assert trees.recover(site).outcome is Outcome.FORWARD
    assert not (site / "eng/__pycache__/mod.cpython-311.pyc").exists()


def test_a_file_that_changes_at_the_very_last_moment_is_not_overwritten(
    site: Path, tree: SiteTree
) -> None:
    renames = []

    def meddle(number: int, name: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if name == "rename":
            renames.append(number)
            if len(renames) == 2:  # the first is the journal, the second a target
                (site / "eng/tool.py").write_text("by hand")
        return call()

    with faults.at_calls(meddle), pytest.raises(TransactionBlocked, match=r"eng/tool\.py"):
        trees.apply(tree)
    assert (site / "eng/tool.py").read_text() == "by hand"
    assert trees.pending(site) is not None


def test_a_commit_recovers_first(site: Path, tree: SiteTree) -> None:
    change = trees.replacing(tree, "eng/__init__.py", b"# new\n")
    trees.interrupted(tree)
    assert change.after is not None
    with exclusive(tree, 5):
        transaction.commit(tree, [change], {change.after.sha256: b"# new\n"}, ())
    assert (site / "eng/mod.py").read_bytes() == b"a = 2\n"
    assert (site / "eng/__init__.py").read_bytes() == b"# new\n"


def test_recovery_by_another_user_can_read_what_root_stored(site: Path, tree: SiteTree) -> None:
    trees.apply(tree)
    modes = {file.stat().st_mode & 0o777 for file in (site / ".pseries/objects").iterdir()}
    assert modes == {0o644}
    (site / "eng/mod.py").chmod(0o600)
    change_one(tree, b"secret\n")
    with exclusive(tree, 5), pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction, "_sweep", lambda _: None)
        change = trees.replacing(tree, "eng/mod.py", b"other\n")
        assert change.after is not None
        transaction.commit(tree, [change], {change.after.sha256: b"other\n"}, ())
    assert change.before is not None
    stored = site / ".pseries/objects" / change.before.sha256
    assert stored.stat().st_mode & 0o777 == 0o600
