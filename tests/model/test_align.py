"""Alignments are what they claim to be, and merges by lines follow git's rule for conflicts."""

from __future__ import annotations

import random
import time

import pytest

from pseries.model.verdicts import align


def lines(text: str) -> list[bytes]:
    return [f"{word}\n".encode() for word in text.split()]


def changed(old: list[bytes], new: list[bytes], found: list[align.Edit]) -> list[bytes]:
    result: list[bytes] = []
    done = 0
    for edit in found:
        result += [*old[done : edit.old[0]], *new[slice(*edit.new)]]
        done = edit.old[1]
    return result + old[done:]


def variant(chance: random.Random, text: list[bytes], words: list[bytes]) -> list[bytes]:
    new = list(text)
    for _ in range(chance.randint(0, 4)):
        at = chance.randint(0, len(new))
        new[at : at + chance.randint(0, 2)] = chance.choices(words, k=chance.randint(0, 3))
    return new


@pytest.mark.parametrize("upward", [False, True])
def test_partners_are_equal_and_in_order_and_the_rest_is_edits(upward: bool):
    chance = random.Random(1)  # noqa: S311 - the same texts every time
    for _ in range(1500):
        words = [f"word{number}\n".encode() for number in range(chance.choice([2, 4, 20]))]
        old = chance.choices(words, k=chance.randint(0, 14))
        new = variant(chance, old, words)
        match = align.align(old, new, upward=upward)
        partners = [partner for partner in match if partner >= 0]
        assert partners == sorted(set(partners))
        assert all(old[at] == new[partner] for at, partner in enumerate(match) if partner >= 0)
        assert changed(old, new, align.edits(match, len(new))) == new


def test_one_side_alone_and_equal_sides_merge():
    chance = random.Random(2)  # noqa: S311 - the same texts every time
    words = [f"word{number}\n".encode() for number in range(5)]
    for _ in range(800):
        base = chance.choices(words, k=chance.randint(0, 12))
        ours = variant(chance, base, words)
        edits = align.edits(align.align(base, ours), len(ours))
        assert align.merge(ours, base, align.regions(edits, [])) == ours
        assert align.merge(base, ours, align.regions([], edits)) == ours
        assert align.merge(ours, ours, align.regions(edits, edits)) == ours


def merged(base: str, ours: str, theirs: str) -> list[bytes] | None:
    old, mine, other = lines(base), lines(ours), lines(theirs)
    by_ours = align.edits(align.align(old, mine), len(mine))
    by_theirs = align.edits(align.align(old, other), len(other))
    return align.merge(mine, other, align.regions(by_ours, by_theirs))


def test_edits_with_a_common_line_between_them_merge_and_touching_ones_do_not():
    assert merged("aa bb cc", "xx bb cc", "aa bb yy") == lines("xx bb yy")
    assert merged("aa bb cc", "xx bb cc", "aa yy cc") is None
    assert merged("aa bb", "aa xx bb", "aa yy bb") is None
    assert merged("aa bb", "aa xx bb", "aa xx bb") == lines("aa xx bb")


def test_ties_are_broken_downward_or_upward():
    old, new = lines("aa bb"), lines("aa bb aa bb")
    assert align.align(old, new) == [0, 1]
    assert align.align(old, new, upward=True) == [2, 3]


def test_lines_of_one_place_are_matched_first():
    old = lines("head_f same_one same_two head_g same_one same_two")
    new = lines("head_g same_one same_two")
    where = ["f"] * 3 + ["g"] * 3, ["g"] * 3
    assert align.align(old, new, where) == [-1, -1, -1, 0, 1, 2]
    # without places the tie is between two equally long matches of the same lines
    old, new = lines("open_f same_one end open_g same_one end"), lines("open_x same_one end")
    assert align.align(old, new, (["f"] * 3 + ["g"] * 3, ["g"] * 3))[4] == 1
    assert align.align(old, new, (["f"] * 3 + ["g"] * 3, ["f"] * 3))[1] == 1


def test_the_same_insertion_has_the_same_borders_whatever_else_differs():
    base = lines("head one end tail")
    patch = lines("head one end new_two end tail")
    upstream = lines("start head one end new_two end tail more")
    for upward in (False, True):
        first = align.edits(align.align(base, patch, upward=upward), len(patch))
        other = align.edits(align.align(base, upstream, upward=upward), len(upstream))
        assert first[0].old in [edit.old for edit in other]


def test_large_texts_take_no_time():
    chance = random.Random(3)  # noqa: S311 - the same texts every time
    old = [f"line {number % 900} {chance.randrange(40)}\n".encode() for number in range(12_000)]
    new = list(old)
    for _ in range(300):
        at = chance.randrange(len(new))
        new[at : at + chance.randint(0, 3)] = [b"other %d\n" % chance.randrange(99)]
    started = time.process_time()
    align.align(old, new)
    rewritten = [b"%d\n" % chance.randrange(50) for _ in range(12_000)]
    align.align(old, rewritten)
    align.align([b"%d\n" % chance.randrange(50) for _ in range(12_000)], rewritten)
    assert time.process_time() - started < 5
