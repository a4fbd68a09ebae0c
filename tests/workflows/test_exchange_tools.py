"""Real quilt, StGit, git-buildpackage and git: their series in, ours out, on real releases."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import REPOSITORY_SERIES
from tests.support import engine

from pseries.workflows.exchange import export as exporting
from pseries.workflows.exchange import import_
from pseries.workflows.exchange.import_ import Asked
from pseries.workflows.series import catalog
from pseries.workflows.series.means import Means

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.index

REQUIRE_TOOLS = os.environ.get("PSERIES_REQUIRE_TOOLS") == "1"
OFFLINE = Means(offline=True)
VLLM, SGLANG = "vllm-0.26.0", "sglang-0.5.15"
FILE = "vllm/model_executor/layers/quantization/fp8.py"
OTHER = "vllm/models/deepseek_v4/attention.py"

Files = dict[str, bytes]
Release = "Callable[[str], dict[str, bytes]]"


def need(name: str) -> str:
    """Return a tool, or skip saying why; where tools are required that is a failure."""
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is not installed"
        if REQUIRE_TOOLS:
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def run(folder: Path, *command: str, **variables: str) -> str:
    said = subprocess.run(
        command, cwd=folder, text=True, capture_output=True, check=False,
        env={**os.environ, "EDITOR": "true", "DEBEMAIL": "t@example.invalid", "DEBFULLNAME": "T",
             **variables},
    )  # fmt: skip
    assert said.returncode == 0, (command, said.stdout, said.stderr)
    return said.stdout


def read(folder: Path, files: Files) -> Files:
    return {path: (folder / path).read_bytes() for path in files if (folder / path).exists()}


def take(tmp: Path, *sources: Path, **options: object) -> Files:
    """Import patches for vLLM 0.26.0 into a new series; return its files."""
    location = catalog.Location(tmp / "series", "the test's")
    asked = Asked(sources, release="vllm==0.26.0", **options)  # type: ignore[arg-type]
    report = import_.start(asked, location, OFFLINE)
    assert not report.refused, [(each.name, each.problems) for each in report.patches]
    assert not any(each.changes for each in report.patches)
    catalog.load(VLLM, location).locked()
    return {path.name: path.read_bytes() for path in (tmp / "series" / VLLM).iterdir()}


def given_back(tmp: Path) -> Files:
    """Export the imported series as a quilt folder; return its files."""
    series = catalog.load(VLLM, catalog.Location(tmp / "series", "the test's"))
    exporting.export(series, "quilt", tmp / "back", OFFLINE, None)
    return {path.name: path.read_bytes() for path in (tmp / "back").iterdir()}


@pytest.fixture
def work(
    pristine_release: Callable[[str], Files], real_store: Path, tmp_path: Path
) -> Callable[[], Path]:
    """Give a git checkout with the files of the real vLLM 0.26.0 that its series touches."""

    def make() -> Path:
        folder = tmp_path / "work"
        engine.write(folder, pristine_release(VLLM))
        engine.git(folder, "init", "-q", "-b", "main")
        engine.git(folder, "config", "user.name", "T")
        engine.git(folder, "config", "user.email", "t@example.invalid")
        engine.git(folder, "add", "-A")
        engine.git(folder, "commit", "-qm", "vLLM 0.26.0")
        engine.git(folder, "tag", "v0.26.0")
        return folder

    return make


def edit(folder: Path, path: str, number: int) -> None:
    """Change one line of a real file, and add one."""
    file = folder / path
    lines = file.read_bytes().split(b"\n")
    at = 40 + 25 * number
    lines[at] = lines[at] + b"  # changed %d" % number
    lines.insert(at + 1, b"# added %d" % number)
    file.write_bytes(b"\n".join(lines))


# --- ours, by their tools ----------------------------------------------------------------------


@pytest.mark.parametrize("name", [SGLANG, VLLM])
def test_quilt_pushes_and_pops_our_series(
    name: str, pristine_release: Callable[[str], Files],
    patched_release: Callable[[str], Files], tmp_path: Path,
) -> None:  # fmt: skip
    need("quilt")
    pristine, patched = pristine_release(name), patched_release(name)
    engine.write(tmp_path, pristine)
    patches = str(REPOSITORY_SERIES.folder / name)

    run(tmp_path, "quilt", "push", "-a", "--fuzz=0", QUILT_PATCHES=patches)
    assert read(tmp_path, pristine) == patched
    run(tmp_path, "quilt", "pop", "-a", QUILT_PATCHES=patches)
    assert read(tmp_path, pristine) == pristine


def test_git_am_takes_our_mailbox(
    work: Callable[[], Path], patched_release: Callable[[str], Files], tmp_path: Path
) -> None:
    folder = work()
    series = catalog.load(VLLM, REPOSITORY_SERIES)
    exporting.export(series, "mbox", tmp_path / "all.mbox", OFFLINE, None)

    run(folder, "git", "am", "-q", str(tmp_path / "all.mbox"))

    patched = patched_release(VLLM)
    assert read(folder, patched) == patched
    subjects = engine.git(folder, "log", "--reverse", "--format=%s|%an", "v0.26.0..").decode()
    assert subjects.splitlines() == [
        f"{patch.header.subject}|pseries maintainers" for patch in series.patches
    ]


@pytest.mark.parametrize("tool", ["quilt", "stg", "gbp"])
def test_our_quilt_folder_is_theirs(
    tool: str, work: Callable[[], Path], patched_release: Callable[[str], Files], tmp_path: Path
) -> None:
    need(tool)
    folder = work()
    series = catalog.load(VLLM, REPOSITORY_SERIES)
    if tool == "gbp":
        debianize(folder)
        exporting.export(series, "quilt", folder / "debian/patches", OFFLINE, None)
        engine.git(folder, "add", "-A")
        engine.git(folder, "commit", "-qm", "patches")
        run(folder, "gbp", "pq", "import")
    elif tool == "quilt":
        exporting.export(series, "quilt", folder / "patches", OFFLINE, None)
        run(folder, "quilt", "push", "-a", "--fuzz=0")
    else:
        exporting.export(series, "quilt", tmp_path / "out", OFFLINE, None)
        run(folder, "stg", "init")
        run(folder, "stg", "import", "--series", str(tmp_path / "out" / "series"))
    assert read(folder, patched_release(VLLM)) == patched_release(VLLM)


# --- theirs, by us -----------------------------------------------------------------------------


def test_a_series_of_quilts(work: Callable[[], Path], tmp_path: Path) -> None:
    need("quilt")
    folder = work()
    for number, path in enumerate((FILE, OTHER, FILE)):
        run(folder, "quilt", "new", f"step-{number}.{'diff' if number == 1 else 'patch'}")
        run(folder, "quilt", "add", path)
        edit(folder, path, number)
        run(folder, "quilt", "refresh", *(["-p", "ab"] if number == 2 else []))
        if number:
            subprocess.run(
                ["quilt", "header", "-r"], cwd=folder, check=True, capture_output=True,
                input=b"Description: Step %d\n And why.\nForwarded: no\n" % number,
            )  # fmt: skip
    order = folder / "patches" / "series"
    order.write_bytes(b"# ours\n" + order.read_bytes() + b"\n# the end\n")
    theirs = {path.name: path.read_bytes() for path in (folder / "patches").iterdir()}
    assert b"Index: " in theirs["step-0.patch"]

    ours = take(tmp_path, folder / "patches")

    assert {name: ours[name] for name in theirs} == theirs
    assert given_back(tmp_path) == theirs


@pytest.mark.parametrize("options", [(), ("-p",), ("-n", "-e", "diff")])
def test_a_series_of_stgits(
    options: tuple[str, ...], work: Callable[[], Path], tmp_path: Path
) -> None:
    need("stg")
    folder = work()
    run(folder, "stg", "init")
    for number, path in enumerate((FILE, OTHER)):
        run(folder, "stg", "new", "-m", f"Step {number}\n\nAnd why.", f"step-{number}")
        edit(folder, path, number)
        run(folder, "stg", "refresh")
    out = tmp_path / "exported"
    run(folder, "stg", "export", "-d", str(out), *options)
    theirs = {path.name: path.read_bytes() for path in out.iterdir()}
    named = {name: name if options or name == "series" else f"{name}.patch" for name in theirs}

    if options:
        ours = take(tmp_path, out)
    else:  # StGit gives its files no ending; ours have one, and that is said
        location = catalog.Location(tmp_path / "series", "the test's")
        report = import_.start(Asked((out,), release="vllm==0.26.0"), location, OFFLINE)
        assert [each.changes for each in report.patches] == [
            ("was named step-0",), ("was named step-1",),
        ]  # fmt: skip
        ours = {path.name: path.read_bytes() for path in Path(report.folder).iterdir()}

    assert {ours[named[name]] for name in theirs if name != "series"} == {
        data for name, data in theirs.items() if name != "series"
    }
    expected = theirs["series"]
    for name in theirs if not options else ():
        expected = expected.replace(b"\n%s\n" % name.encode(), b"\n%s.patch\n" % name.encode())
    assert ours["series"] == expected
    assert given_back(tmp_path) == {named[name]: ours[named[name]] for name in theirs}


def debianize(folder: Path) -> None:
    """Make a Debian source package of a checkout (3.0, quilt)."""
    engine.write(folder, {
        "debian/source/format": b"3.0 (quilt)\n",
        "debian/changelog": b"vllm (0.26.0-1) unstable; urgency=low\n\n  * First.\n\n"
                            b" -- T <t@example.invalid>  Tue, 01 Dec 2026 09:00:00 +0000\n",
        "debian/control": b"Source: vllm\nMaintainer: T <t@example.invalid>\n",
    })  # fmt: skip
    engine.git(folder, "add", "-A")
    engine.git(folder, "commit", "-qm", "debian")


def test_a_series_of_git_buildpackages(work: Callable[[], Path], tmp_path: Path) -> None:
    need("gbp")
    folder = work()
    debianize(folder)
    run(folder, "gbp", "pq", "import")
    for number, path in enumerate((FILE, OTHER)):
        edit(folder, path, number)
        topic = "\n\nGbp-Pq: Topic fixes\n" if number else ""
        engine.git(folder, "commit", "-qam", f"Step {number}\n\nAnd why.{topic}")
    run(folder, "gbp", "pq", "export")
    patches = folder / "debian/patches"
    theirs = {str(path.relative_to(patches)): path.read_bytes()
              for path in patches.rglob("*") if path.is_file()}  # fmt: skip
    assert sorted(theirs) == ["0001-Step-0.patch", "fixes/0002-Step-1.patch", "series"]

    location = catalog.Location(tmp_path / "series", "the test's")
    report = import_.start(Asked((folder,), release="vllm==0.26.0"), location, OFFLINE)

    ours = {path.name: path.read_bytes() for path in Path(report.folder).iterdir()}
    assert [each.changes for each in report.patches] == [
        (), ("fixes/0002-Step-1.patch was in a folder",),
    ]  # fmt: skip
    assert ours["0001-Step-0.patch"] == theirs["0001-Step-0.patch"]
    assert ours["fixes-0002-Step-1.patch"] == theirs["fixes/0002-Step-1.patch"]
    assert ours["series"] == theirs["series"].replace(b"fixes/", b"fixes-")


def test_a_series_of_git_format_patchs(work: Callable[[], Path], tmp_path: Path) -> None:
    """A folder without an order file, and a mailbox, of the same commits."""
    folder = work()
    for number, path in enumerate((FILE, OTHER, FILE)):
        edit(folder, path, number)
        engine.git(folder, "commit", "-qam", f"Step {number}: für alle\n\nAnd why.")
    out = tmp_path / "out"
    engine.git(folder, "format-patch", "-q", "-o", str(out), "v0.26.0")
    (tmp_path / "all.mbox").write_bytes(engine.git(folder, "format-patch", "--stdout", "v0.26.0"))
    theirs = {path.name: path.read_bytes() for path in out.iterdir()}

    ours = take(tmp_path, out)
    assert {name: ours[name] for name in theirs} == theirs
    shutil.rmtree(tmp_path / "series")
    ours = take(tmp_path, tmp_path / "all.mbox")
    assert {name: ours[name] for name in theirs} == theirs
    shutil.rmtree(tmp_path / "series")
    ours = take(tmp_path, folder, between="v0.26.0..main")
    assert sorted(name for name in ours if name.endswith(".patch")) == sorted(theirs)
