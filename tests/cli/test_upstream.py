"""upstream as typed at a prompt: what is in the store, and taking it out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support import engine

from pseries.upstream.store import Store

if TYPE_CHECKING:
    import pytest
    from tests.workflows.conftest import Bench

    from pseries.model.series import Series

Run = "Callable[..., Said]"


def test_remove_takes_one_release_out(bench: Bench, pseries: Run):
    engine.add_release(engine.FILES, bench.tmp / "other", version="2.0")
    said = pseries("upstream", "remove", "Eng", "2.0")
    assert said.out == f"removed: eng 2.0 ({bench.tmp}/other)\n"
    assert str(Store.open("eng").git_dir) in said.err
    assert [each["version"] for each in json.loads(pseries("upstream", "list", "--json").out)] == [
        "1.0"
    ]
    said = pseries("upstream", "remove", "eng", "2.0")
    assert (said.code, "close: eng 1.0" in said.err) == (1, True)
    assert "→ see what there is: pseries upstream list" in said.err
    assert json.loads(pseries("upstream", "remove", "eng", "1.0", "--json").out)["version"] == "1.0"
    assert "the store is empty" in pseries("upstream", "list").err


def test_a_checkout_outlives_its_release(
    bench: Bench, whole: Series, pseries: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(bench.tmp)
    assert pseries("checkout", "eng-1.0", "work").code == 0
    assert pseries("upstream", "remove", "eng", "1.0").code == 0
    monkeypatch.chdir(bench.tmp / "work")
    assert pseries("pop", "-a").code == 0
    assert pseries("push", "-a").code == 0


def test_list_says_what_there_is_instead(bench: Bench, pseries: Run):
    said = pseries("upstream", "list", "enq")
    assert (said.code, said.out) == (0, "")
    assert "the store has no enq, but: eng" in said.err
