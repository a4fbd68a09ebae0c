"""The commands that export, as a user runs them."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import zipfile
from typing import TYPE_CHECKING

import pytest
import typer
from tests.export import samples
from tests.support import archives, engine
from tests.support.index_server import IndexServer, serving
from tests.workflows.conftest import CHANGED, Bench, bench, whole
from typer.testing import CliRunner

from pseries.cli import build, upstream
from pseries.cli.failures import Boundary
from pseries.upstream.store import Store
from pseries.workflows.series import catalog, release
from pseries.workflows.series.means import Means

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

    from pseries.model.series import Series

__all__ = ["bench", "whole"]


@pytest.fixture
def wheel(bench: Bench, whole: Series) -> Path:
    return samples.make(samples.Sample(dict(engine.FILES), version="1.0+cu129"), bench.tmp / "in")


@pytest.fixture
def server(bench: Bench, whole: Series) -> Iterator[IndexServer]:
    """Serve a release whose sdist and only wheel were yanked; the manifest pins both."""
    with serving() as index:
        sample = samples.Sample(dict(engine.FILES))
        data = samples.make(sample, bench.tmp / "in").read_bytes()
        index.add("eng", sample.filename, data, yanked="it \x1b[31mbroke\nour pods")
        sources = archives.sdist("eng", "1.0", {"PKG-INFO": b"Version: 1.0\n", **engine.FILES})
        index.add("eng", "eng-1.0.tar.gz", sources, yanked="")
        location = catalog.Location(bench.series_dir, "the test's")
        release.lock_folder("eng-1.0", location, Means(index_url=index.simple))
        yield index


def run(bench: Bench, command: str, *arguments: object) -> Result:
    app = typer.Typer(cls=Boundary, rich_markup_mode=None)
    app.callback()(lambda: None)
    build.register(app)
    upstream.register(app)
    series_dir = ["--series-dir", str(bench.series_dir)]
    options = series_dir if command.startswith("build") else []
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
    assert "pins: ==1.0 takes 1.0+cu129.t.1; ===1.0 and hashes" in done.stderr


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


@pytest.mark.parametrize("command", ["build-wheel", "build-sdist", "build-kit"])
def test_a_yanked_file_is_used_and_said_so(bench: Bench, server: IndexServer, command: str) -> None:
    done = run(bench, command, "--index-url", server.simple, "-o", bench.tmp / "out", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)
    file, reason = {"build-sdist": ("eng-1.0.tar.gz", "no reason given")}.get(
        command, ("eng-1.0-py3-none-any.whl", "it \\x1b[31mbroke\\nour pods")
    )
    assert f"{file} was yanked from the index: {reason}\n" in done.stderr


def test_a_yanked_file_is_imported_and_said_so(
    bench: Bench, server: IndexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PSERIES_CACHE", str(bench.tmp / "another"))
    done = run(bench, "upstream", "fetch", "eng", "1.0", "--index-url", server.simple)
    assert done.exit_code == 0, done.output
    assert "eng-1.0.tar.gz was yanked from the index: no reason given\n" in done.stderr


def hostile(folder: Path, how: str) -> Path:
    """Write a wheel that nobody should use."""
    sample = samples.Sample(dict(engine.FILES), version="1.0+x")
    if how == "damaged RECORD":
        sample.spoil_record = b"eng/tool.sh,|eng/fool.sh,"
    elif how == "wrong hash in RECORD":
        right = samples.digest(engine.FILES["eng/tool.sh"]).encode()
        sample.spoil_record = right + b"|" + samples.digest(b"other").encode()
    elif how == "leaves the tree":
        sample.files["../up.py"] = b"x"
    elif how == "not what is pinned":
        sample.version, sample.files["eng/more.py"] = "1.0", b"m = 1\n"
    path = samples.make(sample, folder)
    if how == "cut short":
        path.write_bytes(path.read_bytes()[:-30])
    elif how == "a link":
        info = zipfile.ZipInfo("eng/link.py")
        info.create_system, info.external_attr = 3, 0o120777 << 16
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(info, b"/etc/passwd")
    return path


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("damaged RECORD", "eng/tool.sh: is not listed in RECORD"),
        ("wrong hash in RECORD", "eng/tool.sh: has another content than RECORD says"),
        ("leaves the tree", "'../up.py': the path leaves the tree"),
        ("not what is pinned", "is not the file that the manifest names"),
        ("cut short", "cut short"),
        ("a link", "'eng/link.py': the member is a link"),
    ],
)
def test_a_wheel_that_nobody_should_use_ends_with_1_and_nothing_written(
    bench: Bench, server: IndexServer, how: str, said: str
) -> None:
    wheel = hostile(bench.tmp / "given", how)
    done = run(bench, "build-wheel", "--from", wheel, "-o", bench.tmp / "out")
    assert done.exit_code == 1
    assert said in done.stderr
    assert "→ do not use this" in done.stderr
    assert done.stdout == ""
    assert not (bench.tmp / "out").exists() or list((bench.tmp / "out").iterdir()) == []


@pytest.mark.parametrize(("command", "file"), [("build-wheel", ".whl"), ("build-sdist", ".tar.gz")])
@pytest.mark.parametrize(("how", "code"), [("cut", 5), ("replaced", 1)])
def test_a_download_that_is_not_whole_or_not_the_file_leaves_nothing(
    bench: Bench, server: IndexServer, command: str, file: str, how: str, code: int
) -> None:
    if how == "cut":
        server.cut_after = 400
    else:
        for served in server.files["eng"].values():
            served.sha256 = served.digest()
            served.data = served.data[:-1] + b"!"
    done = run(bench, command, "--index-url", server.simple, "-o", bench.tmp / "out")
    assert (done.exit_code, done.stdout) == (code, "")
    assert ("after 400 bytes" if how == "cut" else "is not the file that") in done.stderr
    assert not (bench.tmp / "out").exists()
    downloads = [path.name for path in Store.open("eng").downloads.iterdir()]
    assert not [name for name in downloads if not name.endswith(".lock")]
    assert any(file in name for name in downloads)


@pytest.mark.parametrize("json_too", [False, True])
def test_what_was_built_before_another_wheel_failed_is_said(
    bench: Bench, server: IndexServer, json_too: bool
) -> None:
    sample = samples.Sample(dict(engine.FILES), tag="cp38-abi3-manylinux_2_28_riscv64")
    data = samples.make(sample, bench.tmp / "in").read_bytes()
    server.add("eng", sample.filename, data)
    location = catalog.Location(bench.series_dir, "the test's")
    release.lock_folder("eng-1.0", location, Means(index_url=server.simple))
    served = server.files["eng"]["eng-1.0-py3-none-any.whl"]
    served.sha256, served.data = served.digest(), served.data[:-1] + b"!"
    words = ["--all", "--index-url", server.simple, "-o", bench.tmp / "out"]
    done = run(bench, "build-wheel", *words, *(["--json"] if json_too else []))
    assert done.exit_code == 1
    assert "is not the file that" in done.stderr
    (made,) = (bench.tmp / "out").iterdir()
    said = json.loads(done.stdout)[0]["path"] if json_too else done.stdout.splitlines()[0]
    assert said == str(made)


@pytest.mark.parametrize("command", ["build-wheel", "build-sdist", "build-kit", "index"])
def test_a_full_disk_ends_with_1_and_leaves_nothing(
    bench: Bench, server: IndexServer, command: str
) -> None:
    """No file can grow beyond a few hundred bytes, which is what a full disk comes to."""
    for each in ("build-wheel", "build-sdist"):  # so that all is downloaded
        done = run(bench, each, "--index-url", server.simple, "-o", bench.tmp / "out")
        assert done.exit_code == 0, done.output
    before = engine.snapshot(bench.tmp / "out")
    if command == "index":
        words = ["index", "out"]
    else:
        words = [command, "eng-1.0", "--series-dir", "series", "--offline", "-o", "out"]
    ended = subprocess.run(
        [sys.executable, "-m", "pseries", *words], cwd=bench.tmp, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700)),
        capture_output=True, text=True,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (1, ""), ended.stderr
    assert "File too large" in ended.stderr
    if command in {"build-wheel", "build-sdist"}:
        assert "File too large: out/eng-1.0+t.1" in ended.stderr
    after = engine.snapshot(bench.tmp / "out")
    if command == "index":  # each of its files is whole or not there
        after = {name: what for name, what in after.items() if name in before}
    assert after == before


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_alone(
    bench: Bench, server: IndexServer, terminal: bool
) -> None:
    ours, theirs = os.openpty()
    drawn: list[bytes] = []

    def watch() -> None:
        with contextlib.suppress(OSError):  # how a terminal ends
            while part := os.read(ours, 1 << 16):
                drawn.append(part)

    watcher = threading.Thread(target=watch)
    watcher.start()
    done = subprocess.run(
        [sys.executable, "-m", "pseries", "build-wheel", "--series-dir", "series",
         "--index-url", server.simple, "-o", "out"],
        cwd=bench.tmp, stdout=subprocess.PIPE, stderr=theirs if terminal else subprocess.PIPE,
        check=True,
        env={
            **os.environ, "TERM": "xterm", "COLUMNS": "120",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
    )  # fmt: skip
    os.close(theirs)
    watcher.join()
    os.close(ours)
    said = b"".join(drawn) if terminal else done.stderr
    shown = [what for what in (b"downloading", b"verifying", b"writing") if what in said]
    assert shown == ([b"downloading", b"verifying", b"writing"] if terminal else [])
    assert b"\x1b" not in done.stdout


def test_a_path_to_a_series_may_be_relative(
    bench: Bench, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.series_dir)
    bench.series_dir.rename(bench.tmp / "elsewhere")
    bench.series_dir.mkdir()
    for path in ("./eng-1.0", "eng-1.0/"):
        done = run(bench, "build-wheel", path, "--from", wheel, "-o", bench.tmp / "out")
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize("command", ["build-wheel", "build-kit"])
@pytest.mark.parametrize("name", [(), ("eng-1.0",)])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nope.whl", "No such file or directory: nope.whl"),
        ("eng-1.0-py3-none-any.whl", "No such file or directory: eng-1.0-py3-none-any.whl"),
        ("{tmp}/site", "Is a directory: {tmp}/site"),
        ("file://{tmp}/eng-1.0-py3-none-any.whl", "No such file or directory: {tmp}/eng-1.0-py3"),
        ("ftp://x/eng-1.0-py3-none-any.whl", "only https, http, file and paths"),
    ],
)
def test_a_wheel_that_is_not_there_is_said_so(
    bench: Bench, whole: Series, command: str, name: tuple[str, ...], given: str, said: str
) -> None:
    given, said = (text.format(tmp=bench.tmp) for text in (given, said))
    done = run(bench, command, *name, "--from", given, "-o", bench.tmp / "out")
    assert done.exit_code == 1
    assert said in done.stderr
    assert "→" in done.stderr


def test_output_must_be_a_folder(bench: Bench, wheel: Path) -> None:
    done = run(bench, "build-wheel", "--from", wheel, "-o", wheel)
    assert (done.exit_code, "is a file" in done.stderr) == (2, True)


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
