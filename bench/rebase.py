"""``pseries rebase`` beside ``git rebase --onto`` in a full clone: the same work, in one run.

Two rows: the series ``vllm-0.26.0`` carried to 0.27.0, and a made-up series of 500 patches, one
each on a Python file of vLLM. Patches that git carries and pseries stops at are left out and named:
so far each of them was one that git put into another function. Each side is a whole process and
ends with its result on disk: a locked series folder here, 500 commits and a checkout there. Both
releases are in the store before. Times are the best of the rounds; on a busy machine the ratio of
processor time, which is printed as well, says more.

    python bench/rebase.py [--rounds 3] [--patches 500]
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pseries.git import merge
from pseries.git.merge import MergeStore, Sides
from pseries.upstream import fetch, settings
from pseries.upstream.store import Store
from pseries.workflows.series import catalog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pseries.upstream.release import Release

ROOT = Path(__file__).resolve().parent.parent
SERIES = "vllm-0.26.0"
OLD, NEW = "0.26.0", "0.27.0"
MOST_RSS = 300 << 20
IDENTITY = "bench <bench@localhost> 0 +0000"
HEAD = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: bench <bench@localhost>
Date: Thu, 1 Jan 1970 00:00:00 +0000
Subject: [PATCH] probe {number}

Made up to be measured.

Upstream-Status: Inappropriate [bench]
---
"""


@dataclass(frozen=True)
class Timed:
    """Seconds of wall clock and of processor time, and bytes of memory at the peak."""

    seconds: float
    processor: float
    memory: int


@dataclass(frozen=True)
class Probe:
    """A made-up change: a file, its bytes before and after."""

    path: str
    before: bytes
    after: bytes


def run(command: list[str], cwd: Path, env: dict[str, str] | None = None) -> Timed:
    """Run a command that must succeed, and measure it."""
    begin = time.perf_counter()
    child = subprocess.Popen(
        command, cwd=cwd, env={**os.environ, **(env or {})},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    memory = 0
    while (ended := os.wait4(child.pid, os.WNOHANG))[0] == 0:
        memory = max(memory, peak(child.pid))
        time.sleep(0.005)
    said = child.stderr.read() if child.stderr else b""
    _, status, usage = ended
    seconds = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command[:6])} …: {child.returncode}\n{said.decode()[-2000:]}")
    return Timed(seconds, usage.ru_utime + usage.ru_stime, memory)


def peak(pid: int) -> int:
    """Return the most memory a process has had since it began; ``ru_maxrss`` holds ours as well."""
    with contextlib.suppress(OSError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return 0


def git(*arguments: str, cwd: Path, stdin: bytes = b"") -> str:
    """Run git for the preparation and return what it printed."""
    words = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", *arguments]
    return (
        subprocess.run(words, cwd=cwd, input=stdin, check=True, capture_output=True)
        .stdout.decode()
        .strip()
    )


# --- preparation --------------------------------------------------------------------------------


def clone(folder: Path, store: Store, trees: tuple[str, str]) -> None:
    """Make a full clone that holds both releases as commits ``old`` and ``new``."""
    folder.mkdir()
    git("init", "-q", cwd=folder)
    git("fetch", "-q", str(store.git_dir), "refs/tags/*:refs/releases/*", cwd=folder)
    old = git("commit-tree", "-m", "old", trees[0], cwd=folder)
    new = git("commit-tree", "-m", "new", "-p", old, trees[1], cwd=folder)
    git("tag", "old", old, cwd=folder)
    git("tag", "new", new, cwd=folder)
    git("config", "gc.auto", "0", cwd=folder)
    git("checkout", "-q", "-b", "work", "old", cwd=folder)


def probes(store: MergeStore, old: Release, new: Release, count: int) -> Iterator[Probe]:
    """Yield changes to Python functions that git merges into the new release without a conflict."""
    names = sorted(
        (name for name in store.names(old.tree) & store.names(new.tree)
         if name.startswith("vllm/") and name.endswith(".py")),
        key=lambda name: hashlib.sha256(name.encode()).hexdigest(),
    )  # fmt: skip
    names = names[: 3 * count]
    before, there = store.pick(old.tree, names), store.pick(new.tree, names)
    found = [
        Probe(name, before[name][1], after)
        for name in names
        if (after := with_probe(before[name][1])) is not None
    ]
    merged = store.merge([Sides(each.before, there[each.path][1], each.after) for each in found])
    clean = (each for each, result in zip(found, merged, strict=True) if result.clean)
    yield from islice(clean, count)


def with_probe(data: bytes) -> bytes | None:
    """Return a Python file with a line more before the last statement of its longest function."""
    functions = [
        node for node in ast.walk(ast.parse(data))
        if isinstance(node, ast.FunctionDef) and len(node.body) > 3
    ]  # fmt: skip
    if not functions:
        return None
    longest = max(functions, key=lambda node: (node.end_lineno or 0) - node.lineno)
    last = longest.body[-1]
    lines = data.split(b"\n")
    lines.insert(last.lineno - 1, b" " * last.col_offset + b"pseries_probe = True")
    return b"\n".join(lines)


def made_up(folder: Path, store: MergeStore, changes: list[Probe]) -> None:
    """Write a series of the changes."""
    series = folder / "series" / SERIES
    series.mkdir(parents=True)
    pairs = [
        tuple(store.tree_of({each.path: (0o100644, data)}) for data in (each.before, each.after))
        for each in changes
    ]
    diffs = store.diffs([(before, after) for before, after in pairs])
    names = []
    for number, diff in enumerate(diffs, 1):
        name = f"{number:04}-probe.patch"
        (series / name).write_bytes(HEAD.format(number=number).encode() + diff)
        names.append(name)
    (series / "series").write_text("".join(f"{name}\n" for name in names))
    shutil.copy(ROOT / "series" / SERIES / "series.toml", series)
    words = ["lock", SERIES, "--offline", "--series-dir", str(folder / "series")]
    run([sys.executable, "-m", "pseries", *words], ROOT, environment(folder / "series"))


def commits(folder: Path, name: str, changes: list[tuple[str, bytes]]) -> None:
    """Write one commit a change onto ``old``, as a branch."""
    stream = []
    for number, (path, data) in enumerate(changes, 1):
        start = "from refs/tags/old^0\n" if number == 1 else ""
        message = f"probe {number}"
        stream.append(
            f"commit refs/heads/{name}\nauthor {IDENTITY}\ncommitter {IDENTITY}\n"
            f"data {len(message)}\n{message}\n{start}M 100644 inline {path}\n"
            f"data {len(data)}\n".encode()
            + data
            + b"\n"
        )
    git("fast-import", "--quiet", cwd=folder, stdin=b"".join(stream))


def branch_of(folder: Path, name: str, series: Path) -> None:
    """Make a branch of a series' patches with ``git am``."""
    git("checkout", "-q", "-B", name, "old", cwd=folder)
    order = catalog.load_spec(str(series), None)[1]
    git("am", "-q", *(str(series / patch) for patch in order.names), cwd=folder)
    git("checkout", "-q", "work", cwd=folder)


# --- measuring ----------------------------------------------------------------------------------


def ours(series_dir: Path) -> Timed:
    """Measure the whole command; the new folder is taken away again."""
    command = [
        sys.executable, "-m", "pseries", "rebase", SERIES, "--to", f"v{NEW}", "--offline",
        "--series-dir", str(series_dir),
    ]  # fmt: skip
    timed = run(command, ROOT, environment(series_dir))
    shutil.rmtree(series_dir / f"vllm-{NEW}")
    return timed


def environment(series_dir: Path) -> dict[str, str]:
    """Return what makes our process run as an installed program does: from compiled modules."""
    compiled = str(series_dir.parent.parent / "compiled")
    return {
        "PYTHONPATH": str(ROOT / "tool"),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": compiled,
    }


def stops(series_dir: Path) -> str | None:
    """Return the patch that a rebase stops at."""
    words = [sys.executable, "-m", "pseries", "rebase", SERIES, "--to", NEW, "--offline"]
    said = subprocess.run(
        [*words, "--dry-run", "--json", "--series-dir", str(series_dir)],
        cwd=ROOT, env={**os.environ, **environment(series_dir)}, check=False, capture_output=True,
    )  # fmt: skip
    stopped = json.loads(said.stdout)["stopped"]
    if stopped is None:
        return None
    place = stopped["places"][0]
    print(f"left out: {stopped['patch']} {place['path']}: {'; '.join(place['evidence'])}")
    return str(stopped["patch"])


def theirs(folder: Path, name: str) -> Timed:
    """Measure ``git rebase --onto``; the branch and the checkout are put back."""
    git("checkout", "-q", "-f", "-B", "work", name, cwd=folder)
    words = [
        "git",
        "-c",
        "user.name=b",
        "-c",
        "user.email=b@b",
        "rebase",
        "-q",
        "--onto",
        "new",
        "old",
    ]
    timed = run([*words, "work"], folder)
    git("checkout", "-q", "-f", "-B", "work", "old", cwd=folder)
    return timed


def row(what: str, rounds: int, series_dir: Path, branch: tuple[Path, str], most: float) -> bool:
    """Measure one row, print it, and say whether it is within its limits."""
    pairs = [(ours(series_dir), theirs(*branch)) for _ in range(rounds)]
    mine, other = (min(pair[side].seconds for pair in pairs) for side in (0, 1))
    busy = [min(pair[side].processor for pair in pairs) for side in (0, 1)]
    memory = max(pair[0].memory for pair in pairs)
    ratio = mine / other
    good = ratio <= most and memory <= MOST_RSS
    print(
        f"{what:28} {mine:8.2f} s {other:8.2f} s {ratio:5.2f} x (<= {most})"
        f"   processor {busy[0]:6.2f} s {busy[1]:6.2f} s {busy[0] / busy[1]:5.2f} x"
        f"   {memory >> 20} MiB (<= {MOST_RSS >> 20})   {'ok' if good else 'TOO MUCH'}"
    )
    return good


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--patches", type=int, default=500)
    options = arguments.parse_args()
    spec, _ = catalog.load_spec(SERIES, catalog.Location(ROOT / "series", "the repository's"))
    store = Store.open("vllm")
    releases = []
    for version in (OLD, NEW):
        wanted = type(spec.upstream)("vllm", version, sources=("sdist",))
        releases.append(fetch.fetch(wanted, store, settings.configured()))
    old, new = releases
    with tempfile.TemporaryDirectory(prefix="pseries-bench-") as name:
        tmp = Path(name)
        clone(tmp / "clone", store, (old.tree, new.tree))
        real = tmp / "real" / "series"
        shutil.copytree(ROOT / "series" / SERIES, real / SERIES)
        branch_of(tmp / "clone", "real", real / SERIES)
        with merge.merge_store(store.git_dir) as scratch:
            changes = list(probes(scratch, old, new, options.patches))
            made_up(tmp / "made-up", scratch, changes)
            while (stop := stops(tmp / "made-up/series")) is not None:
                del changes[int(stop[:4]) - 1]
                shutil.rmtree(tmp / "made-up")
                made_up(tmp / "made-up", scratch, changes)
        commits(tmp / "clone", "made-up", [(each.path, each.after) for each in changes])
        print(f"{'':28} {'pseries':>10} {'git':>10}")
        good = [
            row(f"{SERIES} to {NEW}", options.rounds, real, (tmp / "clone", "real"), 0.25),
            row(
                f"{len(changes)} made-up patches", options.rounds, tmp / "made-up/series",
                (tmp / "clone", "made-up"), 0.5,
            ),
        ]  # fmt: skip
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
