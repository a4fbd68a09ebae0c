"""quilt's verbs as typed at a prompt."""

# Fixtures are imported by name from the module that makes them.
# ruff: noqa: F401, F811

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from tests.support import engine
from tests.workflows.test_stack import CORE, FIRST, SECOND, THIRD, folder

from pseries.cli import main

if TYPE_CHECKING:
    from tests.workflows.conftest import Bench

Run = "Callable[..., Said]"


@pytest.fixture
def work(
    bench: Bench,
    folder: Path,
    pseries: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    monkeypatch.chdir(bench.tmp)
    said = pseries("checkout", "eng-1.0", "work")
    assert said.code == 0, said.err
    monkeypatch.chdir(bench.tmp / "work")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "A Tester")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "t@example.invalid")
    return bench.tmp / "work"


def test_moving_through_the_stack(work: Path, pseries: Run):
    assert pseries("top").out == f"{THIRD}\n"
    assert pseries("pop").out == f"removed {THIRD}\nnow at {SECOND}\n"
    assert pseries("pop", "2").out.endswith("no patch is applied\n")
    assert pseries("push", "0002").out.endswith(f"now at {SECOND}\n")
    assert pseries("series", "-v").out == f"+ {FIRST}\n= {SECOND}\n  {THIRD}\n"
    assert pseries("next").out == f"{THIRD}\n"
    assert pseries("previous").out == f"{FIRST}\n"
    assert pseries("unapplied").out == f"{THIRD}\n"
    assert json.loads(pseries("push", "-a", "--json").out)["top"] == THIRD
    assert json.loads(pseries("applied", "--json").out) == {"patches": [FIRST, SECOND, THIRD]}
    assert pseries("goto", FIRST).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("push",), "the series is fully applied"),
        (("unapplied",), "the series is fully applied"),
        (("next",), "there is no patch after that"),
        (("patches", "eng/old.py"), "no patch changes eng/old.py"),
        (("undo",), "there is nothing to undo"),
    ],
)
def test_where_nothing_is_left_there_is_one_line_and_exit_1(
    work: Path, pseries: Run, words: tuple[str, ...], said: str
):
    found = pseries(*words)
    assert (found.code, found.out) == (1, "")
    assert found.err.startswith(f"pseries: {said}")
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("goto", "0002-met"), 1, f"there are {SECOND}"),
        (("new",), 2, "give the patch a name"),
        (("refresh", "--all", FIRST), 2, "not both"),
        (("header", "-a", "-r"), 2, "give one of"),
        (("split", "x", f"{CORE}:0"), 2, "no range of hunks"),
        (("split", "x", f"{CORE}:1-x"), 1, "does not change it"),
        (("new", SECOND), 1, "there is one already"),
        (("fold", "nothing.diff"), 1, "no file and no patch has this name"),
        (("annotate", "/etc/passwd"), 1, "no file of this checkout"),
        (("add", "eng/none.py"), 1, "no file of this checkout"),
    ],
)
def test_wrong_input(work: Path, pseries: Run, words: tuple[str, ...], code: int, said: str):
    found = pseries(*words)
    assert found.code == code
    assert said in found.err


def test_edit_refresh_undo(work: Path, pseries: Run, monkeypatch: pytest.MonkeyPatch):
    editor = work.parent / "editor"
    editor.write_text("#!/bin/sh\nfor f; do echo '# edited' >> $f; done\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    assert pseries("edit", CORE, "eng/brand_new.py").code == 0
    said = pseries("diff", "-z")
    assert said.out.count("+# edited") == 2
    assert pseries("refresh").out == f"{THIRD}: content\n"
    assert pseries("header", "-e").out == f"{THIRD}: header\n"
    assert pseries("header").out.endswith("# edited\n")
    assert pseries("undo").out.startswith(f"undone: header {THIRD}")
    assert pseries("redo").code == 0
    assert "header" in pseries("undo", "--list").out
    monkeypatch.setenv("VISUAL", "/nonexistent/editor")
    said = pseries("edit", CORE)
    assert (said.code, "set EDITOR" in said.err) == (1, True)


def test_a_file_is_named_from_the_folder_that_one_is_in(
    work: Path, pseries: Run, monkeypatch: pytest.MonkeyPatch
):
    (work / CORE).write_bytes((work / CORE).read_bytes() + b"# x\n")
    monkeypatch.chdir(work / "eng")
    assert "+# x" in pseries("diff", "-z", "core.py").out
    assert pseries("patches", "core.py").out == f"{FIRST}\n{THIRD}\n"
    assert pseries("patches", CORE).out == f"{FIRST}\n{THIRD}\n"
    assert pseries("diff", "-z", "net.py").out == ""


def test_what_leaves_edits_out_says_so(bench: Bench, work: Path, pseries: Run):
    for words in (("lint",), ("export", "--as", "mbox", "-o", "../all.mbox")):
        assert "edits" not in pseries(words[0], "eng-1.0", *words[1:]).err
    (work / CORE).write_bytes((work / CORE).read_bytes() + b"# mine\n")
    bench.series({}, name="eng-1.0-other")
    note = f"edits that are in no patch are left out: {CORE}"
    for words in (("lint",), ("export", "--as", "mbox", "-o", "../again.mbox")):
        assert note in pseries(words[0], "eng-1.0", *words[1:]).err
    assert note not in pseries("lint", "eng-1.0-other").err
    said = pseries("build-sdist", "--offline")  # of the checkout, although there are two series
    assert note in said.err
    assert "several could be meant" not in said.err
    pseries("refresh")
    assert "edits" not in pseries("lint", "eng-1.0").err


def test_questions(work: Path, pseries: Run):
    assert pseries("files", "-v").out == f"A eng/added.py\nM {CORE}\n"
    assert "+RETRIES = 5" in pseries("diff", "-P", "0002").out
    said = pseries("annotate", CORE)
    assert "1\t    data = handle.read(99)\n" in said.out
    assert f"1\t{FIRST}\n" in said.err
    assert pseries("graph", "--dot").out.startswith("digraph series {\n")
    assert json.loads(pseries("graph", "--json").out)["needs"] == []
    assert pseries("snapshot").code == 0
    assert pseries("diff", "--snapshot").out == ""


def test_verbs_can_be_shortened_as_long_as_they_are_clear():
    assert main.expanded(["--debug", "pus", "-a"]) == ["--debug", "push", "-a"]
    assert main.expanded(["unap"]) == ["unapplied"]
    assert main.expanded(["apply"]) == ["apply"]
    assert main.expanded(["xyz", "pus"]) == ["xyz", "pus"]
    assert main.expanded([]) == []
    with pytest.raises(typer.BadParameter, match="applied, apply"):
        main.expanded(["appl"])
    said = subprocess.run(
        [sys.executable, "-m", "pseries", "appl"], capture_output=True, text=True, check=False
    )
    assert (said.returncode, "'appl' can be applied, apply" in said.stderr) == (2, True)


def test_a_new_patch_needs_a_name_in_git(
    work: Path, pseries: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delenv("GIT_AUTHOR_NAME")
    said = pseries("new", "x")
    assert (said.code, "user.name" in said.err) == (1, True)
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = From Settings\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    assert pseries("new", "x").code == 0
    log = subprocess.run(["git", "log", "-1", "--format=%an <%ae>"], cwd=work,
                         capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert log == "From Settings <t@example.invalid>\n"


def test_a_shell_completes_series_and_patches(work: Path):
    def completed(words: str) -> str:
        return subprocess.run(
            [str(Path(sys.executable).with_name("pseries"))],
            env={**os.environ, "_PSERIES_COMPLETE": "complete_bash", "COMP_WORDS": words,
                 "COMP_CWORD": str(len(words.split()))},
            capture_output=True, text=True, check=False,
        ).stdout  # fmt: skip

    assert completed("pseries goto ").split() == [FIRST, SECOND, THIRD]
    assert completed("pseries show ").split() == ["eng-1.0"]
    assert "refresh" in completed("pseries ")


def test_a_series_that_is_not_locked_is_not_checked_out(
    bench: Bench,
    folder: Path,
    pseries: Run,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(bench.tmp)
    (folder / "manifest.json").unlink()
    said = pseries("checkout", "eng-1.0")
    assert (said.code, "pseries lock eng-1.0" in said.err) == (1, True)
    engine.locked(folder)
    made = json.loads(pseries("checkout", "eng-1.0", "--json").out)
    assert made == {
        "series": "eng-1.0",
        "folder": str(bench.tmp / "eng-1.0"),
        "patches": [FIRST, SECOND, THIRD],
    }
    said = pseries("checkout", "eng-1.0")
    assert said.code == 1
    assert "eng-1.0" in said.err


def test_a_count_of_nothing_is_wrong_usage(work: Path, pseries: Run):
    for verb in ("push", "pop"):
        said = pseries(verb, "0")
        assert (said.code, said.out) == (2, "")
        assert "from 1 on" in said.err
        assert pseries("top").out == f"{THIRD}\n"
    assert pseries("pop", "99").out.endswith("no patch is applied\n")


def test_edit_shows_a_file_that_the_worktree_leaves_out(
    work: Path, pseries: Run, monkeypatch: pytest.MonkeyPatch
):
    editor = work.parent / "editor"
    editor.write_text("#!/bin/sh\nfor f; do echo '# edited' >> $f; done\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    assert pseries("edit", "tests/test_core.py").code == 0
    whole = engine.EXTRA["tests/test_core.py"]
    assert (work / "tests/test_core.py").read_bytes() == whole + b"# edited\n"
    assert "+# edited" in pseries("diff", "-z").out


@pytest.mark.parametrize(
    "words",
    [
        ("pop",), ("push",), ("goto", FIRST), ("delete",), ("split", "x", CORE), ("fold", THIRD),
        ("refresh", "--all"), ("pop", "-a"),
    ],
)  # fmt: skip
def test_edits_are_named_and_kept(work: Path, pseries: Run, words: tuple[str, ...]):
    pseries("pop")
    (work / CORE).write_bytes((work / CORE).read_bytes() + b"# mine\n")
    said = pseries(*words)
    assert (said.code, said.out) == (1, "")
    assert CORE in said.err
    assert "→ pseries refresh takes them into the top patch, git stash keeps" in said.err
    assert (work / CORE).read_bytes().endswith(b"# mine\n")


@pytest.mark.parametrize(
    "words",
    [
        ("goto",), ("push",), ("pop",), ("next",), ("previous",), ("files",), ("diff", "-P"),
        ("refresh",), ("delete",), ("rename", "x", "-P"), ("header",), ("fold",),
    ],
)  # fmt: skip
def test_a_patch_that_is_not_there_is_answered_with_close_ones(
    work: Path, pseries: Run, words: tuple[str, ...]
):
    said = pseries(*words, "0002-met.patch")
    assert said.code == 1
    assert SECOND in said.err
    assert "pseries series -v" in said.err


@pytest.mark.parametrize(
    "words",
    [("top",), ("pop",), ("refresh",), ("files",), ("applied",), ("header",), ("delete",),
     ("diff",), ("fork", "x"), ("rename", "x"), ("split", "x", CORE)],
)  # fmt: skip
def test_where_nothing_is_applied_there_is_one_line(
    work: Path, pseries: Run, words: tuple[str, ...]
):
    pseries("pop", "-a")
    said = pseries(*words)
    assert (said.code, said.out, said.err) == (1, "", "pseries: no patch is applied\n")


def test_edits_without_a_patch_are_told_where_to_go(work: Path, pseries: Run):
    pseries("pop", "-a")
    (work / CORE).write_bytes((work / CORE).read_bytes() + b"# edit\n")
    said = pseries("refresh")
    assert (said.code, "pseries new NAME" in said.err) == (1, True)


def test_a_folder_that_a_pop_took_along_is_named(work: Path, pseries: Run, tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    said = pseries("top")
    assert (said.code, "the current folder was removed" in said.err) == (1, True)
    os.chdir(work)


def test_a_checkout_is_not_made_where_something_is(work: Path, pseries: Run):
    said = pseries("checkout", "eng-1.0", str(work), "--series-dir", str(work.parent / "series"))
    assert said.code == 1
    assert "is there already" in said.err
    assert "pseries checkout SERIES DIR" in said.err


def test_import_in_a_checkout_puts_patches_above_the_top_one(
    work: Path, bench: Bench, pseries: Run
):
    assert pseries("pop").code == 0
    before = {path: (work / path).read_bytes() for path in (CORE, "eng/net.py")}
    after = {**before, "eng/net.py": before["eng/net.py"].replace(b"PORT = 1", b"PORT = 9")}
    foreign = bench.tmp / "port.patch"
    foreign.write_bytes(bench.patch(before, after, "Another port"))
    said = pseries("import", "--offline", foreign)
    assert said.code == 0, said.err
    assert pseries("series", "-v").out == f"+ {FIRST}\n= {SECOND}\n  port.patch\n  {THIRD}\n"
    assert pseries("push").out == "applied port.patch\nnow at port.patch\n"
    assert (work / "eng/net.py").read_bytes() == after["eng/net.py"]
    (work / CORE).write_bytes(before[CORE] + b"# edit\n")
    said = pseries("import", "--offline", foreign)
    assert (said.code, "no patch yet" in said.err) == (1, True)
    assert pseries("refresh").code == 0
    assert pseries("new", "empty").code == 0
    said = pseries("import", "--offline", foreign)
    assert (said.code, "empty.patch" in said.err) == (1, True)


def test_what_is_made_and_tracked_in_json(work: Path, pseries: Run):
    assert json.loads(pseries("new", "more", "--json").out) == {"patch": "more.patch"}
    (work / "eng/fresh.py").touch()
    said = pseries("add", "eng/fresh.py", "--json")
    assert json.loads(said.out) == {"files": ["eng/fresh.py"]}


def test_names_that_mean_nothing_are_said_so(work: Path, pseries: Run):
    said = pseries("fold", "nope.diff")
    assert said.code == 1
    assert "no file and no patch has this name: nope.diff" in said.err
    assert "'000' is the name of no patch, or of several; there are" in pseries("fold", "000").err
    said = pseries("diff", "nope.py")
    assert (said.code, said.out, said.err) == (0, "", "nothing is changed in nope.py\n")
    assert pseries("diff").err == ""
    pseries("new", "empty")
    said = pseries("import", "nope.patch")
    assert (said.code, "nope.patch: there is no such file" in said.err) == (1, True)


def test_no_editor_is_started_without_a_terminal(
    work: Path, pseries: Run, monkeypatch: pytest.MonkeyPatch
):
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{work.parent}:{os.environ['PATH']}")
    (work.parent / "vi").write_text("#!/bin/sh\ntouch started\n")
    (work.parent / "vi").chmod(0o755)
    said = pseries("edit", CORE)
    assert (said.code, "there is no terminal, and EDITOR is not set" in said.err) == (1, True)
    assert "set EDITOR to a program" in said.err
    assert not (work / "started").exists()
