"""Three-way merges, renames, searches and diffs in a scratch store."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from pseries.errors import GitTooOld
from pseries.git import merge, process
from pseries.git.merge import MergeStore, Rename, Sides
from pseries.model.manifest import blob_id
from pseries.model.verdicts.verdict import Labels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAIN = 0o100644
LINES = [b"line %d\n" % number for number in range(1, 21)]


def text(*changes: tuple[int, bytes]) -> bytes:
    """Return twenty lines, some of them (from 1) replaced."""
    lines = list(LINES)
    for number, line in changes:
        lines[number - 1] = line
    return b"".join(lines)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MergeStore]:
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    with merge.merge_store(bare) as made:
        yield made


def tree(store: MergeStore, **files: bytes) -> str:
    return store.tree_of({name.replace("__", "/"): (PLAIN, data) for name, data in files.items()})


class TestMerge:
    def test_merges_many_texts_in_one_go_and_in_order(self, store: MergeStore) -> None:
        sides = [
            Sides(text(), text((2, b"ours\n")), text((18, b"theirs %d\n" % number)))
            for number in range(12)
        ]
        merged = store.merge(sides)
        assert [each.clean for each in merged] == [True] * 12
        assert merged[11].data == text((2, b"ours\n"), (18, b"theirs 11\n"))

    def test_a_conflict_shows_three_labelled_sides(self, store: MergeStore) -> None:
        sides = [
            Sides(text(), text((5, b"ours\n")), text((5, b"theirs\n"))),
            Sides(text(), text((5, b"ours\n")), text((15, b"theirs\n"))),
        ]
        stopped, clean = store.merge(sides, Labels(base="0.1", ours="0.2", theirs="a patch"))
        assert clean.clean
        assert not stopped.clean
        assert stopped.data == text(
            (5, b"<<<<<<< 0.2\nours\n||||||| 0.1\nline 5\n=======\ntheirs\n>>>>>>> a patch\n")
        )

    def test_labels_leave_lines_alone_that_look_like_markers(self, store: MergeStore) -> None:
        odd = b"<<<<<<< 0123456789abcdef\n"
        sides = Sides(text((1, odd)), text((1, odd), (9, b"o\n")), text((1, odd), (9, b"t\n")))
        (merged,) = store.merge([sides])
        assert merged.data.startswith(odd)

    def test_crlf_latin_1_and_a_missing_last_newline_survive(self, store: MergeStore) -> None:
        base = b"caf\xe9\r\n" + text().replace(b"\n", b"\r\n") + b"end"
        ours = base.replace(b"line 3\r", b"ours\r")
        theirs = base.replace(b"end", b"theirs")
        (merged,) = store.merge([Sides(base, ours, theirs)])
        assert merged.clean
        assert merged.data == ours.replace(b"end", b"theirs")

    def test_nothing_to_merge_costs_nothing(
        self, store: MergeStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process, "run", None)
        assert store.merge([]) == []

    def test_needs_git_2_38(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(process, "version", lambda: (2, 37, 9))
        with pytest.raises(GitTooOld, match=r"2\.37\.9 is too old to rebase a series: 2\.38"):
            merge.merge_store(tmp_path).__enter__()


class TestRenames:
    def test_finds_renamed_files_with_their_likeness(self, store: MergeStore) -> None:
        old = tree(store, a=text(), b=b"other\n")
        new = tree(store, c=text((1, b"x\n")), b=b"other\n")
        assert store.renames(old, new).files == {"a": Rename("c", 95)}

    def test_a_new_file_follows_its_folder(self, store: MergeStore) -> None:
        old = tree(store, pkg__old__a=text(), pkg__old__b=text((1, b"1\n")), pkg__stay=b"s\n")
        new = tree(store, pkg__new__a=text(), pkg__new__b=text((1, b"1\n")), pkg__stay=b"s\n")
        renames = store.renames(old, new)
        assert renames.folder("pkg/old/mine.py") == "pkg/new/mine.py"
        assert renames.folder("pkg/old/deeper/mine.py") == "pkg/new/deeper/mine.py"
        assert renames.folder("pkg/mine.py") is None
        assert renames.folder("mine.py") is None

    def test_a_folder_that_split_evenly_leads_nowhere(self, store: MergeStore) -> None:
        other = b"quite another text\n" * 9
        old = tree(store, old__a=text(), old__b=other)
        new = tree(store, one__a=text(), two__b=other)
        assert store.renames(old, new).folder("old/mine.py") is None

    def test_a_folder_that_is_still_there_keeps_new_files(self, store: MergeStore) -> None:
        old = tree(store, old__a=text(), old__b=b"b\n")
        new = tree(store, new__a=text(), old__b=b"b\n")
        assert store.renames(old, new).folder("old/mine.py") is None

    def test_a_renamed_folder_above_counts(self, store: MergeStore) -> None:
        old = tree(store, top__old__sub__a=text())
        new = tree(store, top__new__sub__a=text())
        assert store.renames(old, new).folder("top/old/mine.py") == "top/new/mine.py"


class TestFind:
    def test_finds_python_files_that_hold_a_text(self, store: MergeStore) -> None:
        made = store.tree_of(
            {
                "a/x.py": (PLAIN, b"def f(a):\n"),
                "a/y.py": (PLAIN, b"def g(a):\n"),
                "a/z.txt": (PLAIN, b"def f(a):\n"),
            }
        )
        assert store.find(made, [r"^(def|class) +f *\(", "def h[(]"]) == ("a/x.py",)
        assert store.find(made, ["def h[(]"]) == ()
        assert store.find(made, []) == ()

    def test_takes_no_option_from_a_text(self, store: MergeStore) -> None:
        made = store.tree_of({"x.py": (PLAIN, b"--open-files-in-pager=id\n")})
        assert store.find(made, ["--open-files-in-pager=id"]) == ("x.py",)


class TestDiffs:
    def test_writes_what_format_patch_writes(self, store: MergeStore) -> None:
        old, new = tree(store, a=text()), tree(store, a=text((10, b"new\n")))
        (diff,) = store.diffs([(old, new)])
        ids = blob_id(text()), blob_id(text((10, b"new\n")))
        assert diff.startswith(
            b"diff --git a/a b/a\nindex %s..%s 100644\n--- a/a\n+++ b/a\n@@ -7,7 +7,7 @@"
            % (ids[0].encode(), ids[1].encode())
        )

    def test_gives_each_pair_its_own_diff_and_equal_trees_none(self, store: MergeStore) -> None:
        one, two, three = (tree(store, a=text((1, b"%d\n" % number))) for number in range(3))
        first, same, second, again = store.diffs([(one, two), (two, two), (two, three), (one, two)])
        assert (b"+1\n" in first, same, b"+2\n" in second) == (True, b"", True)
        assert again == first

    def test_shows_renames_modes_and_folders_that_sort_behind_files(
        self, store: MergeStore
    ) -> None:
        old = store.tree_of({"a/x": (PLAIN, text()), "a.b": (PLAIN, b"1\n")})
        new = store.tree_of({"a/y": (PLAIN, text()), "a.b": (0o100755, b"1\n")})
        (diff,) = store.diffs([(old, new)])
        assert b"rename from a/x\nrename to a/y\n" in diff
        assert b"old mode 100644\nnew mode 100755\n" in diff
        said = process.run(["fsck", "--strict", old], git_dir=store.git_dir, accept=(0, 1, 2))
        assert b"not properly sorted" not in said.stdout + said.stderr

    def test_content_that_looks_like_a_pair_of_ids_does_not_cut(self, store: MergeStore) -> None:
        line = b"%s %s\n" % (b"0" * 40, b"1" * 40)
        (diff,) = store.diffs([(tree(store, a=text()), tree(store, a=text((4, line))))])
        assert b"+" + line in diff
