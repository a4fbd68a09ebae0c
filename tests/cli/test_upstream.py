"""upstream list, add and remove as typed at a prompt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support import archives, engine

from pseries.site.distribution import site_of
from pseries.upstream import imports
from pseries.upstream.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from tests.cli.conftest import Said
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


def test_an_environment_stands_for_its_site_packages(
    bench: Bench, whole: Series, pseries: Run, monkeypatch: pytest.MonkeyPatch
):
    """All of an environment was once taken for a checkout, and a rebase found each file moved."""
    monkeypatch.chdir(bench.tmp)
    site = engine.install(bench.tmp / "env/lib/python3.11/site-packages", version="3.0")
    assert pseries("upstream", "add", "eng", "3.0", "env").code == 0
    found = Store.open("eng").find("3.0")
    assert found is not None
    assert found.origin == str(site)
    assert pseries("upstream", "remove", "eng", "3.0").code == 0
    said = pseries("rebase", "eng-1.0", "--to", "3.0", "--onto-path", "env", "--offline")
    assert said.code == 0, said.err
    assert "moved" not in said.out
    assert Store.open("eng").find("3.0") == found
    words = ("init", "eng", "3.0", "--from", "env", "--variant", "new", "--offline", "--json")
    assert json.loads(pseries(*words).out)["root"] == ""
    (bench.tmp / "env/.git").mkdir()  # a checkout, at whose top there is an environment
    assert site_of(bench.tmp / "env") == bench.tmp / "env"


def test_a_folder_takes_the_place_of_a_release_only_if_that_is_said(
    pseries: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "eng-1.0-py3-none-any.whl"
    wheel.write_bytes(archives.wheel("eng", "1.0", engine.FILES))
    store = Store.open("eng")
    with store.lock():
        imports.add_archive(store, "1.0", wheel, "")
    engine.write(tmp_path / "fork", engine.FILES)

    said = pseries("upstream", "add", "eng", "1.0", tmp_path / "fork")
    assert said.code == 1
    assert f"eng 1.0 is in the store from {wheel.name}" in said.err
    assert "1.0.post99" in said.err
    assert "upstream add --replace" in said.err
    assert pseries("upstream", "list").out.split()[:3] == ["eng", "1.0", "wheel"]

    assert pseries("upstream", "add", "--replace", "eng", "1.0", tmp_path / "fork").code == 0
    assert pseries("upstream", "list").out.split()[:3] == ["eng", "1.0", "folder"]
    assert pseries("upstream", "add", "eng", "1.0", tmp_path / "fork").code == 0
