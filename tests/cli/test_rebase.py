"""``pseries rebase`` and ``pseries range-diff`` as typed: words, exit codes, JSON."""

# Fixtures are imported by name from the module that makes them.
# ruff: noqa: F401, F811

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Said
from tests.workflows.test_rebase import (
    OLD,
    READ,
    Project,
    changed,
    clashing,
    moving,
    project,
    resolve,
)

Pseries = Callable[..., Said]


def here(made: Project) -> tuple[str, ...]:
    return "--offline", "--series-dir", str(made.series_dir)


def test_prints_a_table_of_patches_files_and_hunks(pseries: Pseries, moving: Project) -> None:
    said = pseries("rebase", "--to", "v2.0", *here(moving))
    assert said.code == 0
    assert "0001-step.patch: moved, kept: Step 1" in said.out
    assert "hunk 1, line 8 → 11 in load: moved" in said.out
    assert "0002-step.patch: clean, kept: Step 2" in said.out
    assert said.out.rstrip().endswith(f"written: {moving.series_dir}/eng-2.0")
    again = pseries("rebase", "eng-1.0", "--to", "v2.0", *here(moving))
    assert "is there already, byte for byte the same" in again.out


def test_a_dry_run_says_that_nothing_was_written(pseries: Pseries, moving: Project) -> None:
    said = pseries("rebase", "--to", "2.0", "--dry-run", *here(moving))
    assert (said.code, said.out.splitlines()[-1]) == (0, "nothing was written: --dry-run")
    assert not (moving.series_dir / "eng-2.0").exists()


def test_json_holds_everything(pseries: Pseries, moving: Project) -> None:
    said = pseries("rebase", "--to", "2.0", "--json", *here(moving))
    found = json.loads(said.out)
    assert (found["series"], found["target"]) == ("eng-1.0", "eng-2.0")
    assert found["folder"] == str(moving.series_dir / "eng-2.0")
    patch = found["patches"][0]
    assert (patch["verdict"], patch["fate"], patch["resolver"]) == ("moved", "kept", "")
    assert patch["files"][0]["hunks"][0]["new_line"] == 11
    assert [pair["status"] for pair in found["range_diff"]] == ["=", "="]
    assert found["stopped"] is None


def test_a_whole_conversation(pseries: Pseries, clashing: Project) -> None:
    assert pseries("rebase", "--status", *here(clashing)[1:]).out == "no rebase is under way\n"
    said = pseries("rebase", "--to", "2.0", *here(clashing))
    folder = clashing.tmp / "project/.pseries/rebase/eng-1.0/0002-step"
    assert said.code == 3
    assert f"{folder}/eng/core.py:" in said.out
    assert f"{folder}/eng/net.py:" in said.out
    assert "+RETRIES = 3  # more" in said.out
    assert "not tried: it stands behind the patch that stopped" in said.out
    assert "pseries rebase eng-1.0 --continue; or --skip, or --abort" in said.err

    status = pseries("rebase", "--status", *here(clashing)[1:])
    assert (status.code, "stopped at 0002-step.patch" in status.out) == (0, True)
    found = json.loads(pseries("rebase", "--status", "--json", *here(clashing)[1:]).out)
    assert found["rebases"][0]["phase"] == "stopped"

    refused = pseries("rebase", "--continue", *here(clashing))
    assert refused.code == 3
    assert "eng/core.py:" in refused.err
    assert "a conflict marker is left" in refused.err
    assert "→ mend these, then: pseries rebase --continue" in refused.err

    resolve(folder)
    done = pseries("rebase", "--continue", *here(clashing))
    assert done.code == 0
    assert "0002-step.patch: conflict, kept, by hand: Step 2" in done.out


def test_a_stop_as_json(pseries: Pseries, clashing: Project) -> None:
    said = pseries("rebase", "--to", "2.0", "--json", *here(clashing))
    assert said.code == 3
    stopped = json.loads(said.out)["stopped"]
    assert stopped["patch"] == "0002-step.patch"
    assert [place["path"] for place in stopped["places"]] == ["eng/core.py", "eng/net.py"]


def test_skip_and_abort(pseries: Pseries, clashing: Project) -> None:
    pseries("rebase", "--to", "2.0", *here(clashing))
    said = pseries("rebase", "--abort", *here(clashing))
    assert (said.code, "given up" in said.out) == (0, True)
    assert pseries("rebase", "--abort", *here(clashing)).code == 1
    pseries("rebase", "--to", "2.0", *here(clashing))
    said = pseries("rebase", "--skip", *here(clashing))
    assert said.code == 0
    assert "0002-step.patch: conflict, skipped: Step 2" in said.out


def test_a_merged_patch_shows_its_evidence(pseries: Pseries, project: Project) -> None:
    mine = changed(OLD, "eng/core.py", READ)
    project.series(OLD, mine)
    project.release("2.0", mine)
    said = pseries("rebase", "--to", "2.0", *here(project))
    assert said.code == 0
    assert "0001-step.patch: merged upstream, dropped: Step 1" in said.out
    assert "Upstream-Status: Merged [2.0]" in said.out
    assert "nothing is left to carry" in said.err
    for command in ("show", "lint"):
        assert pseries(command, "eng-2.0", "--series-dir", project.series_dir).code == 0


def test_what_has_to_be_read_is_named(pseries: Pseries, project: Project) -> None:
    project.series(OLD, changed(OLD, "eng/core.py", (b"open(path, mode)", b"open(path, mode, 0)")))
    project.release(
        "2.0",
        changed(OLD, "eng/core.py", (b"handle = open(path, mode)", b"file = open(path, mode)")),
    )
    said = pseries("rebase", "--to", "2.0", *here(project))
    assert said.code == 0
    assert "read these before you use the series: 0001-step.patch" in said.out


@pytest.mark.parametrize(
    "words", [(), ("--continue", "--abort"), ("--to", "2.0", "--skip"), ("--status", "--skip")]
)
def test_one_thing_at_a_time(pseries: Pseries, moving: Project, words: tuple[str, ...]) -> None:
    said = pseries("rebase", *words, *here(moving))
    assert said.code == 2
    assert "give one of --to, --continue" in said.err


@pytest.mark.parametrize("option", ["--dry-run", "--strict", "--no-weave", "--onto-path=/tmp"])
@pytest.mark.parametrize("mode", ["--continue", "--skip", "--abort", "--status"])
def test_an_option_that_would_do_nothing_is_refused(
    pseries: Pseries, clashing: Project, mode: str, option: str
) -> None:
    pseries("rebase", "--to", "2.0", *here(clashing))
    said = pseries("rebase", mode, option, *here(clashing))
    assert said.code == 2
    assert f"{option.partition('=')[0]} goes with --to" in said.err


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (("--continue",), 1, "no rebase of any series is in progress"),
        (("--to", "main"), 1, "no version in it"),
        (("--to", "1.0"), 1, "is for 1.0 already"),
        (("nothing", "--to", "2.0"), 1, "no series named 'nothing'"),
        (("--to", "7.0"), 5, "is not in the store, and --offline"),
    ],
)
def test_refusals(
    pseries: Pseries,
    moving: Project,
    words: tuple[str, ...],
    code: int,
    what: str,
) -> None:
    said = pseries("rebase", *words, *here(moving))
    assert (said.code, what in said.err) == (code, True), said.err


def test_range_diff(pseries: Pseries, moving: Project) -> None:
    moving.release(
        "3.0",
        changed(OLD, "eng/core.py", (b"    handle.close()\n    return data", b"    return data")),
    )
    pseries("rebase", "--to", "3.0", *here(moving))
    words = ("range-diff", "eng-1.0", "eng-3.0", "--series-dir", moving.series_dir)
    said = pseries(*words)
    assert said.code == 0
    assert "1: 0001-step.patch ! 1: 0001-step.patch  Step 1" in said.out
    assert "2: 0002-step.patch = 2: 0002-step.patch  Step 2" in said.out
    pairs = json.loads(pseries(*words, "--json").out)["pairs"]
    assert [pair["status"] for pair in pairs] == ["!", "="]


def test_control_characters_of_a_patch_do_not_reach_the_terminal(
    pseries: Pseries,
    project: Project,
) -> None:
    project.series(OLD, changed(OLD, "eng/core.py", READ))
    path = project.series_dir / "eng-1.0/0001-step.patch"
    path.write_bytes(path.read_bytes().replace(b"Step 1", b"Step \x1b[2J1"))
    project.release("2.0", changed(OLD, "eng/core.py", (b"handle.read()", b"handle.\x0cread()")))
    said = pseries("rebase", "--to", "2.0", *here(project))
    assert "\x1b" not in said.out + said.err
    assert Path(project.series_dir).is_dir()
