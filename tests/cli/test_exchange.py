"""init, capture, import and export as commands: words, exit codes, JSON."""

from __future__ import annotations

import json
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import engine
from tests.workflows.conftest import CHANGED as WHOLE
from tests.workflows.conftest import Bench

from pseries.cli import main
from pseries.workflows.series import catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Said

    Run = Callable[..., Said]

NET = "eng/net.py"
CHANGED = {**engine.FILES, NET: engine.FILES[NET].replace(b"= 10", b"= 20")}


@pytest.fixture(autouse=True)
def here(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bench.tmp)
    monkeypatch.setattr(catalog, "shipped", lambda: None)
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ann Author")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ann@example.invalid")


def source(bench: Bench, **files: bytes) -> Path:
    folder = bench.tmp / "in"
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / f"{name}.patch").write_bytes(data)
    return folder


def test_every_command_of_the_family_is_there() -> None:
    from pseries.cli import exchange

    assert {"init", "capture", "import", "export"} == set(main.FAMILIES["exchange"].commands)
    assert exchange.register


def test_import_says_what_became_of_each(bench: Bench, pseries: Run) -> None:
    folder = source(bench, **{"0001-a": bench.patch(dict(engine.FILES), CHANGED, "Wait longer")})
    said = pseries("import", folder, "--for", "eng==1.0", "--offline")
    assert said.code == 0
    assert said.out == (
        "eng-1.0 (eng 1.0), order: by the numbers in the names\n"
        "  0001-a.patch: taken, fits by blob ids: Wait longer\n"
        f"1 taken; written: {bench.tmp}/series/eng-1.0\n"
    )
    again = pseries("import", folder, "--into", "eng-1.0", "--offline")
    assert again.code == 0
    assert "already there (0001-a.patch)" in again.out
    assert "nothing was written: every patch is there" in again.out
    assert pseries("apply", "eng-1.0", bench.site).code == 0


def test_a_refusal_says_what_to_do(bench: Bench, pseries: Run) -> None:
    bad = b"--- a/eng/none.py\n+++ b/eng/none.py\n@@ -1 +1 @@\n-a\n+b\n"
    said = pseries("import", source(bench, bad=bad), "--for", "eng==1.0", "--offline")
    assert said.code == 1
    assert "bad.patch: the release has no eng/none.py" in said.out
    assert "1 refused: nothing was written" in said.out
    assert "--exclude GLOB" in said.err
    assert not (bench.tmp / "series").exists()


def test_another_release_that_fits_is_named(bench: Bench, pseries: Run) -> None:
    engine.add_release({**engine.FILES, NET: b"# 2\n"}, bench.tmp / "two", "2.0")
    data = b"--- a/eng/net.py\n+++ b/eng/net.py\n@@ -1 +1 @@\n-# 2\n+# 3\n"
    said = pseries("import", source(bench, one=data), "--for", "eng==1.0", "--offline")
    assert said.code == 1
    assert "fits 2.0 by its lines" in said.out
    assert "--for eng==2.0" in said.err


def test_import_in_json(bench: Bench, pseries: Run) -> None:
    folder = source(bench, a=bench.patch(dict(engine.FILES), CHANGED), b=b"<html>\n")
    said = pseries("import", folder, "--for", "eng==1.0", "--offline", "--json")
    document = json.loads(said.out)
    assert said.code == 1
    assert document["refused"] is True
    assert [each["fate"] for each in document["patches"]] == ["taken", "refused"]
    assert document["patches"][0]["fits"] == [{"version": "1.0", "how": "by blob ids"}]


@pytest.mark.parametrize("words", [
    ("import",),
    ("import", "in", "--into", "x", "--for", "eng"),
    ("import", "in", "in", "--range", "a..b"),
    ("import", "in", "--first", "--after", "x"),
    ("import", "in", "-p", "x"),
    ("export", "eng-1.0", "--as", "zip", "-o", "out"),
    ("export", "eng-1.0", "-o", "out"),
    ("init", "eng"),
    ("init", "eng", "1.0", "--git", "/x", "--from", "/y"),
    ("capture", "eng", "."),
    ("capture", ".", "eng", "--split", "hunk"),
    ("capture", "site", "eng", "--python", "/x"),
    ("capture", "site"),
    ("capture", "./nowhere"),
    ("capture", "site", "eng", "eng"),
    ("capture",),
])  # fmt: skip
def test_usage(bench: Bench, pseries: Run, words: tuple[str, ...]) -> None:
    assert pseries(*words).code == 2


@pytest.mark.parametrize(("words", "error", "hint"), [
    (("import", "nowhere", "--for", "eng==1.0"), "no such file", "--range REV..REV"),
    (("import", "in", "--range", "a..b", "--for", "eng==1.0"), "is refused", "of a git repo"),
    (("import", "in"), "nothing says which distribution", "--for DISTRIBUTION==VERSION"),
    (("import", "in", "--into", "eng-1.1"), "no series named 'eng-1.1'", "did you mean eng-1.0"),
    (("import", "in", "--into", "eng-1.0", "--after", "0009"), "'0009'", "pseries"),
    (("export", "eng-1.0", "--as", "quilt", "-o", "in"), "in is there already", "--output"),
    (("capture", "site", "eng"), "as released", "pseries status"),
    (("capture", "eng"), "eng is not installed", "give the site-packages folder"),
    (("capture", "eng", "--python", "/x"), "/x could not be asked", "ENV/bin/python"),
    (("capture", "site", "enq"), "enq is not installed", "site-packages"),
    (("init", "eng", "x"), "not a version", "correct it"),
])  # fmt: skip
def test_refusals_say_what_and_what_next(
    bench: Bench, whole: object, pseries: Run, words: tuple[str, ...], error: str, hint: str
) -> None:
    source(bench, a=bench.patch(dict(engine.FILES), CHANGED))
    before = engine.snapshot(bench.tmp / "series")
    said = pseries(*words, *(["--offline"] if words[0] != "export" else []))
    assert said.code == 1
    assert error in said.err
    assert hint in said.err
    assert engine.snapshot(bench.tmp / "series") == before


@pytest.mark.parametrize("form", ["quilt", "mbox", "git-branch", "fromager"])
def test_export_says_how_to_use_it(bench: Bench, whole: object, pseries: Run, form: str) -> None:
    said = pseries("export", "eng-1.0", "--as", form, "-o", "out", "--offline")
    assert said.code == 0
    assert said.out.startswith("out")
    assert "→" in said.err
    document = pseries("export", "eng-1.0", "--as", form, "-o", "two", "--offline", "--json")
    assert json.loads(document.out)["form"] == form


def test_init_then_import(bench: Bench, pseries: Run) -> None:
    said = pseries("init", "eng==1.0", "--variant", "mine", "--offline")
    assert said.code == 0
    assert said.out.splitlines()[0] == f"written: {bench.tmp}/series/eng-1.0-mine"
    folder = source(bench, a=bench.patch(dict(engine.FILES), CHANGED))
    assert pseries("import", folder, "--into", "eng-1.0-mine", "--offline").code == 0
    assert pseries("lint", "eng-1.0-mine").code == 0
    document = pseries("init", "eng", "1.0", "--variant", "two", "--offline", "--json")
    assert json.loads(document.out)["series"] == "eng-1.0-two"


def test_capture_says_what_it_found(bench: Bench, pseries: Run) -> None:
    (bench.site / NET).write_bytes(CHANGED[NET])
    (bench.site / "eng/core.py.rej").write_bytes(b"x")
    said = pseries("capture", bench.site, "eng", "--offline")
    assert said.code == 0
    assert "0001-eng-net.patch\n      edited eng/net.py  +1 -1\n" in said.out
    assert "eng/core.py.rej: looks like what an editor or a tool left behind" in said.out
    assert "verified: to that tree the series is already applied" in said.out
    assert pseries("apply", "eng-1.0", bench.site, "--check").code == 0
    assert pseries("lint", "eng-1.0", "--strict").code == 0
    document = json.loads(
        pseries("capture", bench.site, "eng", "--offline", "--variant", "b", "--json").out
    )
    assert document["verified"] is True
    assert document["patches"][0]["files"][0]["path"] == NET


def test_capture_finds_the_tree_of_an_interpreter(bench: Bench, pseries: Run) -> None:
    environment = bench.tmp / "env"
    venv.create(environment, symlinks=True, with_pip=False)
    (site,) = environment.glob("lib/python3*/site-packages")
    (engine.install(site) / NET).write_bytes(CHANGED[NET])
    said = pseries("capture", "eng", "--python", environment / "bin/python", "--offline", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["patches"][0]["files"][0]["path"] == NET
    assert pseries("status", "--python", environment / "bin/python").code == 0


def test_a_branch_of_a_series_that_stands_on_another(
    bench: Bench, whole: object, pseries: Run
) -> None:
    above = {**WHOLE, "eng/wire.py": WHOLE["eng/wire.py"].replace(b"= 5", b"= 6")}
    bench.series(
        {"0003-more.patch": bench.patch(WHOLE, above, "More")},
        name="eng-1.0-more", top='after = ["eng-1.0"]',
    )  # fmt: skip
    said = pseries("export", "eng-1.0-more", "--as", "git-branch", "-o", "out", "--offline")
    assert said.code == 0, said.err
    assert engine.git(bench.tmp / "out", "show", "eng-1.0-more:eng/wire.py") == above["eng/wire.py"]
    subjects = engine.git(
        bench.tmp / "out", "log", "--format=%s", "pseries/eng-1.0-more..eng-1.0-more"
    )
    assert subjects == b"More\n"
