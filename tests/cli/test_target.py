"""apply, status, rollback and recover as typed at a prompt, right and wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer
from tests.site import faults
from tests.support import engine

from pseries.cli import main
from pseries.cli.failures import hint_of
from pseries.errors import TargetRefused
from pseries.workflows.target import apply as applying

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.workflows.conftest import Bench

    from pseries.model.series import Series

Run = "Callable[..., Said]"


@pytest.fixture
def here(bench: Bench, whole: Series, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Stand in the folder that holds ``series/``."""
    monkeypatch.chdir(bench.tmp)
    return bench


def test_the_ordinary_way(here: Bench, pseries: Run):
    said = pseries("apply", "eng-1.0", here.site)
    assert said.code == 0
    assert said.out.startswith("eng-1.0: applied (6 files): eng 1.0 in ")
    said = pseries("status", here.site)
    assert (said.code, said.out.splitlines()[0]) == (0, "eng-1.0: clean (eng 1.0)")
    assert pseries("status", here.site, "--expect", "series/eng-1.0").code == 0
    assert pseries("status", here.site, "--expect", "eng-1.1").code == 1
    said = pseries("apply", "eng-1.0", here.site)
    assert (said.code, "already applied" in said.out) == (0, True)
    said = pseries("rollback", here.site)
    assert (said.code, said.out.startswith("eng-1.0: rolled back (6 files)")) == (0, True)
    said = pseries("status", here.site)
    assert (said.code, said.out.startswith("no series is applied")) == (0, True)


def test_rollback_takes_a_name_a_folder_or_both(here: Bench, pseries: Run):
    for words in (("eng-1.0", here.site), (here.site,)):
        pseries("apply", "eng-1.0", here.site)
        assert pseries("rollback", *words).code == 0
    said = pseries("rollback", "eng-1.0", here.site)
    assert (said.code, "is not applied" in said.err) == (1, True)
    said = pseries("rollback", "--purge", here.site)
    assert (said.code, (here.site / ".pseries").exists()) == (0, False)


def test_a_name_is_not_taken_for_the_folder_of_the_series(
    here: Bench, pseries: Run, monkeypatch: pytest.MonkeyPatch
):
    """Inside `series/` a folder has the name of the series; it is no site-packages folder."""
    pseries("apply", "eng-1.0", here.site)
    monkeypatch.chdir(here.series_dir)
    said = pseries("rollback", "--purge", "eng-1.0")
    assert said.code == 1
    assert "eng-1.0 is not applied" in said.err
    assert pseries("status", here.site).out.startswith("eng-1.0: clean")


def test_check(here: Bench, pseries: Run):
    said = pseries("apply", "--check", "eng-1.0", here.site)
    assert (said.code, "applies" in said.out) == (0, True)
    assert not (here.site / ".pseries").exists()


def test_json(here: Bench, pseries: Run):
    assert json.loads(pseries("apply", "--json", "eng-1.0", here.site).out)["action"] == "applied"
    found = json.loads(pseries("status", "--json", here.site).out)
    assert found["clean"] is True
    assert found["series"][0]["series"] == "eng-1.0"
    assert json.loads(pseries("rollback", "--json", here.site).out)["series"] == "eng-1.0"
    pseries("apply", "eng-1.0", here.site)
    purged = json.loads(pseries("rollback", "--purge", "--json", here.site).out)["purged"]
    assert purged is not (here.site / ".pseries").exists()
    again = json.loads(pseries("rollback", "--purge", "--json", here.site).out)
    assert (again["series"], again["purged"]) == ("", True)
    assert json.loads(pseries("recover", "--json", here.site).out)["outcome"] == "nothing"


def test_drift_is_exit_4_with_a_table(here: Bench, pseries: Run):
    (here.site / "eng/core.py").write_bytes(b"x = 1\n")
    said = pseries("apply", "eng-1.0", here.site)
    assert said.code == 4
    assert "changed by hand  eng/core.py" in said.err
    assert "→" in said.err
    assert said.out == ""


def test_another_environment_that_is_active_is_named(
    here: Bench, pseries: Run, monkeypatch: pytest.MonkeyPatch
):
    for active, noted in ((sys.prefix, False), (str(here.tmp / "other"), True), ("", False)):
        monkeypatch.setenv("VIRTUAL_ENV", active)
        assert ("/other/bin/python" in pseries("status").err) == noted
        assert "/other/bin/python" not in pseries("status", here.site).err


def test_status_of_a_changed_tree_is_exit_4(here: Bench, pseries: Run):
    pseries("apply", "eng-1.0", here.site)
    (here.site / "eng/core.py").write_bytes(b"x = 1\n")
    said = pseries("status", here.site)
    assert said.code == 4
    assert "eng-1.0: CHANGED" in said.out
    assert pseries("rollback", here.site).code == 1


def interrupt(here: Bench, whole: Series, pseries: Run) -> None:
    """Leave a change half done: killed when the first file was replaced."""
    calls = faults.count(lambda: applying.apply(whole, here.site))
    pseries("rollback", "--purge", here.site)
    last = len(calls) - calls[::-1].index("rename")
    assert faults.killed_at(last, lambda: applying.apply(whole, here.site))


def test_an_interrupted_change_is_exit_3_with_the_next_command(
    here: Bench, whole: Series, pseries: Run
):
    interrupt(here, whole, pseries)
    said = pseries("status", here.site)
    assert said.code == 3
    assert f"pseries recover {here.site}" in said.err
    said = pseries("recover", here.site)
    assert (said.code, said.out.startswith("rolled ")) == (0, True)
    assert pseries("status", here.site).code == 0


def test_apply_finishes_what_was_interrupted(here: Bench, whole: Series, pseries: Run):
    interrupt(here, whole, pseries)
    said = pseries("apply", "eng-1.0", here.site)
    assert said.code == 0
    assert "an interrupted change was rolled" in said.err
    assert pseries("status", here.site).code == 0


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (("apply",), 2, "Missing argument"),
        (("apply", "eng-1.0", "{site}", "more"), 2, "unexpected extra argument"),
        (("aply", "eng-1.0"), 2, "No such command"),
        (("apply", "eng-1.0", "{site}", "--force"), 2, "No such option"),
        (("apply", "eng-10", "{site}"), 1, "did you mean eng-1.0"),
        (("apply", "eng-1.0", "/nowhere"), 1, "/nowhere cannot be used"),
        (("apply", "eng-1.0", "{site}/eng/core.py"), 1, "cannot be used"),
        (("apply", "eng-1.0", "{site}", "--relocate", "x"), 1, "no relocation named 'x'"),
        (("apply", "eng-1.0", "{site}", "--python", "/x"), 2, "not both"),
        (("apply", "eng-1.0", "--python", "/nowhere/python"), 1, "could not be asked"),
        (("apply", "eng-1.0"), 1, "eng is not installed"),
        (("apply", "eng-1.0", "--python", "{site}"), 1, "packages: it is a folder\n"),
        (("apply", "eng-1.0", "--python", "{site}/eng/core.py"), 1, "packages: Permission denied"),
        (("apply", "series/eng-1.0/0001-read.patch", "{site}"), 1, "of the series: series/eng-1"),
        (("apply", "{site}", "eng-1.0"), 1, "the series comes first"),
        (("rollback", "/nowhere/site-packages"), 1, "/nowhere/site-packages cannot be used"),
        (("rollback", "series/eng-1.0", "{site}"), 1, "series eng-1.0 is not applied to {site}"),
        (("rollback", "series/none", "{site}"), 1, "series series/none is not applied to {site}"),
        (("apply", "eng-1.0", "{site}/eng"), 1, "the one that holds it: {site}\n"),
        (("rollback", "{site}", "eng-1.0"), 2, "the series comes first"),
        (("status", "{site}", "--expect", "eng-1.0"), 1, "series eng-1.0 is not applied to {site}"),
        (("status", "/nowhere"), 1, "cannot be used"),
        (("rollback", "{site}"), 1, "no series is applied"),
        (("rollback", "eng-1.0", "{site}"), 1, "is not applied"),
        (("recover", "/nowhere"), 1, "cannot be used"),
        (("show", "../x"), 1, "no series named"),
    ],
)  # fmt: skip
def test_wrong_input(here: Bench, pseries: Run, words: tuple[str, ...], code: int, what: str):
    before = engine.snapshot(here.site)
    said = pseries(*(word.format(site=here.site) for word in words))
    assert said.code == code
    assert what.format(site=here.site) in said.err
    assert "Traceback" not in said.err
    assert engine.snapshot(here.site) == before


def test_an_environment_stands_for_its_site_packages(
    here: Bench, pseries: Run, monkeypatch: pytest.MonkeyPatch
):
    """`status ENV` once said of a patched environment that no series is applied, and exit 0."""
    environment = here.tmp / "env"
    site = engine.install(environment / "lib/python3.11/site-packages")
    (environment / "lib64").symlink_to("lib")
    assert pseries("apply", "eng-1.0", environment).code == 0
    assert pseries("status", environment).out.startswith("eng-1.0: clean")
    assert f"nothing was interrupted in {site}" in pseries("recover", environment).out
    assert f"in {site}" in pseries("doctor", "eng-1.0", environment).out
    assert pseries("rollback", environment).out == f"eng-1.0: rolled back (6 files): {site}\n"
    said = pseries("status", here.tmp)
    assert "is it a site-packages folder?" in said.err
    assert "is it" not in pseries("status", site).err


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "path", "said", "hint"),
    [
        (_link, "eng/core.py", "is a symbolic link", "--link-mode=copy"),
        (_folder, "eng/core.py", "is a folder, not a file", "reinstall the package"),
        (lambda path: path.chmod(0o4644), "eng/core.py", "is setuid", "chmod ug-s,-t {path}"),
        (lambda path: path.symlink_to("/tmp"), ".pseries", "symbolic link", "move it away"),
    ],
)
def test_what_to_do_fits_what_is_refused(
    here: Bench, pseries: Run, make: Callable[[Path], None], path: str, said: str, hint: str
):
    make(here.site / path)
    found = pseries("apply", "eng-1.0", here.site)
    assert found.code == 1
    assert said in found.err
    assert hint.format(path=here.site / path) in found.err.splitlines()[-1]


def test_what_may_not_be_read_is_a_matter_of_rights():
    error = TargetRefused("/site", "eng/core.py", "access", "cannot be read: Permission denied")
    assert str(error) == "/site/eng/core.py is refused: it cannot be read: Permission denied"
    assert "run it as the owner" in hint_of(error)


def test_without_git(here: Bench, pseries: Run, monkeypatch: pytest.MonkeyPatch):
    from pseries.git import process

    monkeypatch.setenv("PATH", "/nowhere")
    process.executable.cache_clear()
    before = engine.snapshot(here.site)
    said = pseries("apply", "eng-1.0", here.site)
    process.executable.cache_clear()
    assert (said.code, "git was not found" in said.err) == (1, True)
    assert engine.snapshot(here.site) == before


def test_every_command_is_known_to_its_family():
    listed = [command for family in main.FAMILIES.values() for command in family.commands]
    assert _commands(main.program()) == set(listed)
    assert len(listed) == len(set(listed))
    for _, commands in main.FAMILIES.values():
        for command in commands:
            assert _commands(main.program(["--debug", command, "--help"])) == set(commands)


def test_help_lists_every_command_under_its_family(pseries: Run):
    said = pseries("--help").out
    titles = [family.title for family in main.FAMILIES.values()]
    places = [said.index(f"\n{title}:\n") for title in titles]
    assert places == sorted(places)
    for family, begin, end in zip(main.FAMILIES.values(), places, [*places[1:], None], strict=True):
        lines = said[begin:end].splitlines()[2:]
        listed = [line.split()[0] for line in lines if line.startswith("  ")]
        assert tuple(listed[: len(family.commands)]) == family.commands
    assert "pseries apply SERIES SITE_PACKAGES" in said


def test_an_interruption_at_the_start_is_no_traceback(tmp_path: Path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    code = f"{path}; from pseries.__main__ import main; main()"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (130, "pseries: interrupted before it had begun\n")


def _commands(app: typer.Typer) -> set[str]:
    known: list[Any] = [*app.registered_commands, *app.registered_groups]
    return {command.name or command.callback.__name__ for command in known}


def test_start_up_imports_no_more_than_it_needs():
    """`status` and `--help` must not pay for the network, repository or table libraries."""
    code = (
        "import sys; from pseries.cli import main; main.program(); from pseries.workflows.target"
        " import apply, status;"
        "print(sorted({'git', 'requests', 'pypi_simple', 'rich', 'tomlkit', 'unidiff', 'pydantic',"
        " 'packaging', 'filelock', 'platformdirs'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    assert said.stdout.strip() == "[]"
