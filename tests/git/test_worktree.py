"""The worktree that a person resolves a conflict in, and what git remembers of resolutions."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from pseries.errors import GitFailed, WorktreeRefused
from pseries.git import merge, worktree
from pseries.git.merge import MergeStore, Sides
from pseries.git.worktree import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAIN = 0o100644
BASE = b"".join(b"line %d\n" % number for number in range(1, 21))
OURS = BASE.replace(b"line 9\n", b"upstream\n")
THEIRS = BASE.replace(b"line 9\n", b"patch\n")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    path = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True)
    return path


@pytest.fixture
def store(bare: Path) -> Iterator[MergeStore]:
    with merge.merge_store(bare) as made:
        yield made


def conflict(store: MergeStore, path: str = "pkg/a.py", theirs: bytes = THEIRS) -> Conflict:
    (merged,) = store.merge([Sides(BASE, OURS, theirs)])
    return Conflict(path, (PLAIN, BASE), (PLAIN, OURS), (PLAIN, theirs), merged.data)


@pytest.fixture
def tree(store: MergeStore) -> Path:
    """A worktree of four files, one of them in conflict."""
    release = {"pkg/a.py": OURS, "pkg/b.py": BASE, "pkg/[c]*.py": b"c\n", "far/away.txt": b"x\n"}
    made = store.tree_of({path: (PLAIN, data) for path, data in release.items()})
    folder = store.git_dir.parent / "tree"
    worktree.create(
        folder,
        borrowed=store.git_dir,
        tree=made,
        before={"pkg/b.py": (PLAIN, b"before\n")},
        merged={"pkg/[c]*.py": (0o100755, b"merged\n"), "pkg/new.py": (PLAIN, b"new\n")},
        conflicts=[conflict(store)],
    )
    return folder


def git(folder: Path, *arguments: str) -> str:
    """Run the user's own git there, not the sealed one."""
    said = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return said.stdout


def test_the_users_git_sees_one_conflict_and_what_is_staged(tree: Path) -> None:
    status = git(tree, "status", "--porcelain").splitlines()
    assert sorted(status) == ["A  pkg/new.py", "M  pkg/[c]*.py", "UU pkg/a.py"]
    assert "++>>>>>>> patch" in git(tree, "diff")
    assert not (tree / "far").exists()
    assert not (tree / "pkg/b.py").exists()


def test_the_sparse_checkout_can_be_widened_by_plain_git(tree: Path) -> None:
    git(tree, "add", "pkg/a.py")
    git(tree, "sparse-checkout", "disable")
    assert (tree / "far/away.txt").read_bytes() == b"x\n"
    assert (tree / "pkg/b.py").read_bytes() == b"before\n"
    assert sorted(worktree.read(tree).changed) == ["pkg/[c]*.py", "pkg/a.py", "pkg/new.py"]


def test_reads_back_what_a_person_made_of_it(tree: Path) -> None:
    (tree / "pkg/a.py").write_bytes(b"resolved\n")
    (tree / "pkg/[c]*.py").unlink()
    (tree / "pkg/added.py").write_bytes(b"added\n")
    (tree / "pkg/stray.py").write_bytes(b"stray\n")
    (tree / "pkg/__pycache__").mkdir()
    (tree / "pkg/__pycache__/a.pyc").write_bytes(b"junk")
    git(tree, "add", "--sparse", "pkg/added.py")
    edited = worktree.read(tree)
    assert edited.changed == {
        "pkg/a.py": (PLAIN, b"resolved\n"),
        "pkg/[c]*.py": None,
        "pkg/added.py": (PLAIN, b"added\n"),
        "pkg/new.py": (PLAIN, b"new\n"),
    }
    assert edited.untracked == ("pkg/stray.py",)


def test_a_file_that_was_put_back_is_not_a_change(tree: Path) -> None:
    (tree / "pkg/a.py").write_bytes(OURS)
    assert "pkg/a.py" not in worktree.read(tree).changed


def test_a_commit_there_does_not_hide_the_change(tree: Path) -> None:
    (tree / "pkg/a.py").write_bytes(b"resolved\n")
    git(tree, "add", "--sparse", "-A")
    git(tree, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "mine")
    assert worktree.read(tree).changed["pkg/a.py"] == (PLAIN, b"resolved\n")


def test_refuses_links_and_a_folder_that_is_no_worktree(tree: Path, tmp_path: Path) -> None:
    (tree / "pkg/a.py").unlink()
    (tree / "pkg/a.py").symlink_to("/etc/passwd")
    with pytest.raises(WorktreeRefused, match="symbolic link"):
        worktree.read(tree)
    (tmp_path / "empty").mkdir()
    with pytest.raises(WorktreeRefused, match="not a git worktree"):
        worktree.read(tmp_path / "empty")


def test_what_settings_of_the_worktree_name_is_not_run(tree: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    git(tree, "config", "core.fsmonitor", f"touch {ran}; false")
    assert "pkg/a.py" in worktree.read(tree).changed
    assert not ran.exists()
    # A tree that is missing would be fetched from where the settings say, by what they name.
    (start,) = (tree / ".git/refs/pseries/start").read_text().split()
    top = git(tree, "rev-parse", f"{start}^{{tree}}").strip()
    (tree / ".git/objects" / top[:2] / top[2:]).unlink()
    git(tree, "config", "core.repositoryFormatVersion", "1")
    git(tree, "config", "extensions.partialClone", "origin")
    git(tree, "config", "remote.origin.url", str(tmp_path))
    git(tree, "config", "remote.origin.uploadPack", f"touch {ran}; false")
    with pytest.raises(GitFailed):
        worktree.read(tree)
    assert not ran.exists()


def test_attributes_of_the_tree_change_no_byte(store: MergeStore) -> None:
    crlf = OURS.replace(b"\n", b"\r\n")
    release = {"pkg/a.py": OURS, "b.py": crlf, ".gitattributes": b"* text eol=lf filter=evil\n"}
    made = store.tree_of({path: (PLAIN, data) for path, data in release.items()})
    folder = store.git_dir.parent / "tree"
    worktree.create(
        folder, borrowed=store.git_dir, tree=made, before={},
        merged={"b.py": (PLAIN, crlf + b"more\r\n")}, conflicts=[conflict(store)],
    )  # fmt: skip
    assert (folder / "b.py").read_bytes() == crlf + b"more\r\n"
    assert sorted(git(folder, "status", "--porcelain").split()) == ["M", "UU", "b.py", "pkg/a.py"]


class TestResolutions:
    def remember(self, records: Path, learned: dict[str, bytes]) -> None:
        for name, data in learned.items():
            (records / name).parent.mkdir(parents=True, exist_ok=True)
            (records / name).write_bytes(data)

    def test_a_resolution_is_reused_elsewhere_and_for_another_release(
        self, store: MergeStore, tmp_path: Path
    ) -> None:
        first = conflict(store)
        learned = worktree.learn(first, OURS.replace(b"upstream\n", b"both\n"))
        assert sorted(name.partition("/")[2] for name in learned) == ["postimage", "preimage"]
        self.remember(tmp_path / "records", learned)
        assert worktree.recall(tmp_path / "records", [first]) == {
            "pkg/a.py": OURS.replace(b"upstream\n", b"both\n")
        }
        longer = Conflict(
            "other/place.py", first.base, first.ours, first.theirs, b"more\n" + first.text
        )
        recalled = worktree.recall(tmp_path / "records", [longer])
        assert recalled == {"other/place.py": b"more\n" + OURS.replace(b"upstream\n", b"both\n")}

    def test_another_conflict_is_not_resolved(self, store: MergeStore, tmp_path: Path) -> None:
        self.remember(tmp_path / "records", worktree.learn(conflict(store), OURS))
        other = conflict(store, theirs=BASE.replace(b"line 9\n", b"something else\n"))
        assert worktree.recall(tmp_path / "records", [other]) == {}
        assert worktree.recall(tmp_path / "none", [other]) == {}

    def test_recalling_changes_no_record(self, store: MergeStore, tmp_path: Path) -> None:
        records = tmp_path / "records"
        self.remember(records, worktree.learn(conflict(store), OURS))
        other = conflict(store, theirs=BASE.replace(b"line 9\n", b"something else\n"))
        before = {path: path.stat().st_mtime_ns for path in records.rglob("*")}
        worktree.recall(records, [conflict(store), other])
        assert {path: path.stat().st_mtime_ns for path in records.rglob("*")} == before

    def test_a_conflict_without_text_teaches_nothing(self) -> None:
        gone = Conflict("a.py", (PLAIN, BASE), None, (PLAIN, THEIRS), THEIRS)
        assert worktree.learn(gone, b"resolved\n") == {}
