"""What a server's log says since its last start."""

from __future__ import annotations

from pseries.model.runtime import servelog


def test_only_what_came_since_the_last_start_counts():
    mark = servelog.start("eng-1.0", "abcdef" * 10, "2026-12-01T00:00:00+00:00")
    lines = ["ERROR old\n", mark, "INFO fine\n", "(core pid=1) ERROR 12-01 [core.py:7] bad\n"]
    assert servelog.errors(lines) == ("(core pid=1) ERROR 12-01 [core.py:7] bad",)
    assert servelog.errors([*lines, mark]) == ()
    assert servelog.errors(lines[:1]) == ("ERROR old",)


def test_a_part_of_a_word_is_no_error_and_many_are_cut():
    assert servelog.errors(["NOERRORS\n", "max_ERROR_rate\n", "Error: x\n"]) == ()
    assert len(servelog.errors(["ERROR\n"] * 1000)) == servelog.MOST_ERRORS
    assert len(servelog.errors(["ERROR" + " x" * 9999])[0]) == 500


def test_a_name_cannot_forge_a_line():
    assert servelog.start("a\nERROR", "d", "t").count("\n") == 1
