"""The commands that export, as a user runs them."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING

import pytest
import typer
from tests.export import samples
from tests.support import engine
from tests.workflows.conftest import CHANGED, Bench, bench, whole
from typer.testing import CliRunner

from pseries.cli import build
from pseries.cli.failures import Boundary

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from pseries.model.series import Series

__all__ = ["bench", "whole"]


@pytest.fixture
def wheel(bench: Bench, whole: Series) -> Path:
    return samples.make(samples.Sample(dict(engine.FILES), version="1.0+cu129"), bench.tmp / "in")


def run(bench: Bench, command: str, *arguments: object) -> Result:
    app = typer.Typer(cls=Boundary, rich_markup_mode=None)
    app.callback()(lambda: None)
    build.register(app)
    options = ["--series-dir", str(bench.series_dir)] if command != "index" else []
    return CliRunner().invoke(app, [command, *map(str, arguments), *options])


def test_build_wheel_prints_the_file_and_exactly_what_differs(bench: Bench, wheel: Path) -> None:
    done = run(bench, "build-wheel", "--from", wheel, "-o", bench.tmp / "out")
    assert done.exit_code == 0, done.output
    first, *rest = done.stdout.splitlines()
    assert first == str(bench.tmp / "out/eng-1.0+cu129.t.1-py3-none-any.whl")
    assert {tuple(line.split()) for line in rest} >= {
        ("changed", "eng/core.py"), ("added", "eng/wire.py"), ("removed", "eng/old.py"),
    }  # fmt: skip
    with zipfile.ZipFile(first) as built:
        assert built.read("eng/core.py") == CHANGED["eng/core.py"]
    assert "not pinned by the manifest" in done.stderr


def test_build_wheel_answers_in_json(bench: Bench, wheel: Path) -> None:
    done = run(bench, "build-wheel", "eng-1.0", "--from", wheel, "-o", bench.tmp / "out", "--json")
    (built,) = json.loads(done.stdout)
    assert built["version"] == "1.0+cu129.t.1"


def test_build_kit_and_index(bench: Bench, wheel: Path) -> None:
    out = bench.tmp / "out"
    run(bench, "build-wheel", "--from", wheel, "-o", out)
    done = run(bench, "build-kit", "--from", wheel, "-o", out)
    assert (done.exit_code, (out / "eng-1.0-kit/apply.py").is_file()) == (0, True)
    assert "apply.py --check" in done.stderr
    done = run(bench, "index", out)
    assert (done.exit_code, (out / "simple/eng/index.html").is_file()) == (0, True)


def test_a_refusal_says_why_and_what_next_and_leaves_nothing(bench: Bench, wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes()[:-30])
    done = run(bench, "build-wheel", "--from", wheel, "-o", bench.tmp / "out")
    assert done.exit_code == 1
    assert "cut short" in done.stderr
    assert "→" in done.stderr
    assert not (bench.tmp / "out").exists()


def test_an_empty_folder_makes_no_index(bench: Bench) -> None:
    done = run(bench, "index", bench.tmp / "checkout")
    assert (done.exit_code, "no wheel and no sdist" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    "options",
    [
        ("--from", "x.whl", "--all"),
        ("--all", "--platform", "x86_64"),
        ("--from-source", "--all"),
        ("--python-version", "three"),
        ("--python-version", "3"),
    ],
)
def test_options_that_make_no_sense_are_a_usage_error(
    bench: Bench, whole: Series, options: tuple[str, ...]
) -> None:
    assert run(bench, "build-wheel", *options).exit_code == 2
