"""docs/walkthrough.md is true: its commands are run, and print what it shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/walkthrough.md"

pytestmark = pytest.mark.index


def steps() -> list[tuple[str, list[str]]]:
    """Return each command of the page with the lines that are shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("    "):
            continue
        text = line[4:]
        if text.startswith("$ "):
            found.append((text[2:], []))
        elif text == ">" or text.startswith("> "):
            command, shown = found[-1]
            found[-1] = (f"{command}\n{text[2:]}", shown)
        else:
            found[-1][1].append(text)
    return found


def test_the_walkthrough(real_store: Path, tmp_path: Path):
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GIT_AUTHOR_NAME": "A Tester",
        "GIT_AUTHOR_EMAIL": "t@example.invalid",
    }
    (tmp_path / "series").mkdir()
    page = steps()
    assert len(page) > 15
    for command, shown in page:
        said = subprocess.run(
            ["bash", "-ec", command], cwd=tmp_path, env=environment, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert said.returncode == 0, (command, said.stdout, said.stderr)
        for line in shown:
            assert line in said.stdout.splitlines(), (command, said.stdout, said.stderr)
    assert (tmp_path / "to-upstream.mbox").read_text().count("\nSubject: [PATCH") == 1
