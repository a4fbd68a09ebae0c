"""An answer that cannot be written, and text that would play with the terminal."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import typer

from pseries.cli import failures, render

if TYPE_CHECKING:
    from pathlib import Path

PSERIES = f'"{sys.executable}" -c "from pseries.cli.main import run; run()"'


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", ["list", "list --json", "--version"])
@pytest.mark.parametrize(
    ("into", "why"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_a_lost_answer_is_no_refusal(words: str, into: str, why: str, tmp_path: Path):
    if into == ">/dev/full" and not os.path.exists("/dev/full"):  # noqa: PTH110 - macOS
        pytest.skip("no /dev/full here")
    (tmp_path / "series/eng-1.0").mkdir(parents=True)
    (tmp_path / "series/eng-1.0/series").touch()
    said = shell(f"{PSERIES} {words} {into}", tmp_path)
    assert said.returncode == failures.UNHEARD
    last = said.stderr.splitlines()[-1]
    assert last == f"pseries: the answer could not be written: {why}; the command did its work"
    assert "Traceback" not in said.stderr


def test_a_failure_keeps_its_exit_code_without_any_stream(tmp_path: Path):
    said = shell(f"{PSERIES} show nothing >&- 2>&-", tmp_path)
    assert (said.returncode, said.stderr) == (1, "")


class Broken(io.StringIO):
    """A stream that fails when it is written out."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def flush(self) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "own", "code"),
    [
        (BrokenPipeError(32, "Broken pipe"), 0, None),
        (BrokenPipeError(32, "Broken pipe"), 4, 4),
        (OSError(28, "No space left on device"), 0, 6),
        (OSError(28, "No space left on device"), 4, 4),
    ],
)
def test_the_work_goes_on_and_decides(
    error: OSError,
    own: int,
    code: int | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(sys, "stdout", Broken(error))
    done = []

    def command() -> None:
        with failures.reported(debug=False):
            render.line("one")
            done.append(1)
            if own:
                raise typer.Exit(own)

    if code is None:
        command()
    else:
        with pytest.raises(typer.Exit) as caught:
            command()
        assert caught.value.exit_code == code
    assert done == [1]
    told = "could not be written" in capsys.readouterr().err
    assert told == (not isinstance(error, BrokenPipeError))
    monkeypatch.undo()
    assert render.lost() is None


def test_nothing_reorders_a_line(capsys: pytest.CaptureFixture[str]):
    render.line("a\u202eb\u2066c\u200fd\x1b[0m")
    assert capsys.readouterr().out == "a\\u202eb\\u2066c\\u200fd\\x1b[0m\n"
    render.table([("a\nb", "c")], indent="")
    assert capsys.readouterr().out == "a\\nb  c\n"
    assert render.short("x\n" * 300, 4) == "x\\nx\\n…"
