"""Packs written by us are judged by git: fsck, verify-pack, and ids that git gives the same."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pseries.errors import GitFailed
from pseries.git import pack
from pseries.git.pack import File
from pseries.git.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FILES = {
    "a.py": b"a = 1\n",
    "b/c/d.py": b"deep\n",
    "b.txt": b"sorts between b and b/\n",
    "b-1": b"",
    "caf\u00e9": b"x" * 70_000,
    'q"uote and space': b"\0\1\2",
    "lat\udce9n": b"latin",
}


@pytest.fixture
def git_dir(tmp_path: Path) -> Path:
    return Repository.create(tmp_path / "r.git").git_dir


def run(git_dir: Path, *arguments: str, stdin: bytes = b"", index: Path | None = None) -> bytes:
    git = shutil.which("git")
    assert git is not None
    environment = {"PATH": os.environ["PATH"], "GIT_DIR": str(git_dir), "HOME": "/nonexistent"}
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    done = subprocess.run(
        [git, *arguments], input=stdin, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(content: Mapping[str, bytes], piece: int = 1000) -> Iterator[File]:
    for path, data in content.items():
        chunks = (data[at : at + piece] for at in range(0, len(data), piece))
        yield File(path, path.endswith(".sh"), len(data), chunks)


def write(git_dir: Path, content: Iterator[File] | str, tag: str = "v1") -> str:
    return pack.write(git_dir, content, tag=tag, subject="eng 1.0", record=lambda: b"{}\n")


def by_git(git_dir: Path, content: Mapping[str, bytes]) -> str:
    """Return the tree that git itself makes of the files."""
    lines = []
    for path, data in content.items():
        blob = run(git_dir, "hash-object", "-w", "--stdin", stdin=data).strip()
        mode = b"100755" if path.endswith(".sh") else b"100644"
        lines.append(b"%s %s\t%s\0" % (mode, blob, path.encode("utf-8", "surrogateescape")))
    index = git_dir / "scratch-index"
    index.unlink(missing_ok=True)
    run(git_dir, "update-index", "-z", "--index-info", stdin=b"".join(lines), index=index)
    return run(git_dir, "write-tree", index=index).decode().strip()


def tree_of(git_dir: Path, tag: str) -> str:
    return run(git_dir, "rev-parse", f"{tag}^{{tree}}").decode().strip()


def test_git_agrees_with_every_id_and_finds_no_fault(git_dir: Path) -> None:
    tag = write(git_dir, files(FILES))
    run(git_dir, "update-ref", "refs/tags/v1", tag)
    assert b"error" not in run(git_dir, "fsck", "--strict", "--full")
    for index in git_dir.glob("objects/pack/*.idx"):
        run(git_dir, "verify-pack", str(index))
    assert tree_of(git_dir, tag) == by_git(git_dir, FILES)
    for path, data in FILES.items():
        name = os.fsencode(path) if path.isascii() else path.encode("utf-8", "surrogateescape")
        assert run(git_dir, "cat-file", "blob", os.fsdecode(tag.encode() + b":" + name)) == data


def test_a_commit_depends_on_files_and_subject_alone(git_dir: Path, tmp_path: Path) -> None:
    first = run(git_dir, "rev-parse", f"{write(git_dir, files(FILES))}^{{commit}}")
    other = Repository.create(tmp_path / "other.git").git_dir
    backwards = dict(reversed(FILES.items()))
    second = pack.write(
        other, files(backwards, 7), tag="w", subject="eng 1.0", record=lambda: b"other"
    )
    assert run(other, "rev-parse", f"{second}^{{commit}}") == first
    assert run(other, "cat-file", "commit", second).endswith(b"\n\neng 1.0\n")


def test_modes_are_two(git_dir: Path) -> None:
    tag = write(git_dir, files({"a.sh": b"", "a.py": b""}))
    listed = run(git_dir, "ls-tree", tag).decode().split("\n")
    assert [line.split()[0] for line in listed if line] == ["100644", "100755"]


def test_what_is_there_is_not_written_again(git_dir: Path) -> None:
    write(git_dir, files(FILES))
    write(git_dir, files({**FILES, "new": b"new"}), "v2")
    sizes = sorted(path.stat().st_size for path in git_dir.glob("objects/pack/*.pack"))
    assert len(sizes) == 2
    assert sizes[0] < 1500
    write(git_dir, files(FILES))
    assert len(list(git_dir.glob("objects/pack/*.pack"))) == 2


def test_the_same_content_twice_is_one_object(git_dir: Path) -> None:
    """Also where that is seen only at the end, because it came in many chunks."""
    data = b"0123456789" * 50_000
    tag = write(git_dir, files({"a": data, "b": data, "c": b"c" * 5000, "d": data}))
    assert run(git_dir, "cat-file", "blob", f"{tag}:c") == b"c" * 5000
    assert sum(path.stat().st_size for path in git_dir.glob("objects/pack/*.pack")) < 520_000
    run(git_dir, "update-ref", "refs/tags/v1", tag)
    assert b"error" not in run(git_dir, "fsck", "--strict", "--full")


def test_a_tree_that_is_there_can_be_the_content(git_dir: Path) -> None:
    tree = by_git(git_dir, FILES)
    assert tree_of(git_dir, write(git_dir, tree)) == tree


def test_a_release_without_files_is_the_empty_tree(git_dir: Path) -> None:
    assert tree_of(git_dir, write(git_dir, files({}))) == by_git(git_dir, {})


def test_an_error_on_the_way_leaves_nothing(git_dir: Path) -> None:
    def broken() -> Iterator[File]:
        yield from files(FILES)
        raise KeyError("in the middle")

    before = sorted(git_dir.rglob("*"))
    with pytest.raises(KeyError):
        write(git_dir, broken())
    assert sorted(git_dir.rglob("*")) == before


def test_a_size_that_is_not_kept_is_an_error(git_dir: Path) -> None:
    for chunks in ((b"abc",), (b"abc", b"defgh")):
        with pytest.raises(GitFailed, match="a file of 5 bytes gave"):
            write(git_dir, iter([File("a", executable=False, size=5, chunks=chunks)]))
    assert not list(git_dir.glob("objects/pack/*"))


def test_an_index_can_hold_offsets_beyond_two_gigabytes() -> None:
    names = {hashlib.sha256(bytes((n,))).digest()[:20]: (n << 30, n) for n in range(1, 6)}
    index = pack._index(names, bytes(20))
    assert index[:8] == b"\xfftOc\0\0\0\2"
    count = len(names)
    far = index[8 + 1024 + count * 28 : -40]
    assert [int.from_bytes(far[at : at + 8], "big") for at in range(0, len(far), 8)] == [
        names[name][0] for name in sorted(names) if names[name][0] >= 1 << 31
    ]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.dictionaries(
        st.lists(st.sampled_from(["a", "a-", "a.b", "ab", "b", "\u00e9"]), min_size=1, max_size=3)
        .map("/".join)
        .map(lambda path: path + ".f"),
        st.binary(max_size=300),
        max_size=12,
    )
)
def test_any_tree_is_gits_tree(git_dir: Path, content: dict[str, bytes]) -> None:
    assert tree_of(git_dir, write(git_dir, files(content))) == by_git(git_dir, content)


def test_files_are_readable_by_others_and_written_by_none(git_dir: Path) -> None:
    write(git_dir, files(FILES))
    assert {path.stat().st_mode & 0o777 for path in git_dir.glob("objects/pack/*")} == {0o444}
