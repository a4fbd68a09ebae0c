"""Running the program in this process, as its entry point does."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.workflows.conftest import bench, whole  # noqa: F401 - the same made-up engine
from typer.testing import CliRunner

from pseries.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def pseries() -> Callable[..., Said]:
    """Return a function that runs ``pseries WORDS…``."""

    def run(*words: object) -> Said:
        result = CliRunner().invoke(main.program(list(map(str, words))), list(map(str, words)))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Said(result.exit_code, result.stdout, result.stderr)

    return run
