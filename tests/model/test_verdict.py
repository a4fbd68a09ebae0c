"""The order of verdicts, and what they say about a whole."""

from __future__ import annotations

import pytest

from pseries.model.verdicts.verdict import Verdict, overall


def test_the_worst_part_speaks_for_the_whole():
    assert overall([Verdict.CLEAN, Verdict.MOVED]) is Verdict.MOVED
    assert overall([Verdict.WOVEN, Verdict.CLEAN, Verdict.REFORMATTED]) is Verdict.WOVEN
    assert overall([Verdict.FOLLOWED, Verdict.DISPLACED, Verdict.CONFLICT]) is Verdict.CONFLICT
    assert overall([Verdict.BROKEN, Verdict.MERGED]) is Verdict.BROKEN


def test_merged_upstream_is_only_what_is_merged_as_a_whole():
    assert overall([Verdict.MERGED, Verdict.MERGED]) is Verdict.MERGED
    assert overall([Verdict.MERGED, Verdict.MOVED]) is Verdict.PARTLY
    assert overall([Verdict.MERGED, Verdict.PARTLY]) is Verdict.PARTLY
    assert overall([Verdict.MERGED, Verdict.WOVEN]) is Verdict.WOVEN


def test_an_empty_change_is_clean():
    assert overall([]) is Verdict.CLEAN


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_is_taken_or_dropped_or_stops(verdict: Verdict):
    assert [verdict.taken, verdict is Verdict.MERGED, verdict.stops].count(True) == 1
    assert not (verdict.review and not verdict.taken)
