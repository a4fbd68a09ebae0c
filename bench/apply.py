"""apply against quilt: the vLLM 0.26.0 series on an installed tree, and a series of 1,000 patches.

Both do the same change to the same files; quilt neither verifies nor syncs. Usage:

    python bench/apply.py SITE_PACKAGES [--rounds N]

SITE_PACKAGES holds vllm 0.26.0, made by ``pip install --no-deps --target``; it is copied by hard
links and left alone.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pseries.upstream import imports
from pseries.upstream.store import Store
from pseries.workflows.series import catalog, release
from pseries.workflows.series.means import Means

SERIES = Path(__file__).resolve().parent.parent / "series"
MANY = 1000


def seconds(command: list[str], **options: object) -> float:
    start = time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options
    )
    return time.perf_counter() - start


def pseries(*words: object) -> list[str]:
    return [sys.executable, "-m", "pseries", *map(str, words)]


def copied(tree: Path, target: Path) -> Path:
    shutil.copytree(tree, target, copy_function=os.link, symlinks=True)
    return target


def quilt_push(tree: Path, series: Path) -> float:
    environment = {**os.environ, "QUILT_PATCHES": str(series), "QUILT_PC": str(tree / ".pc")}
    return seconds(["quilt", "--quiltrc=-", "push", "-a", "-q"], cwd=tree, env=environment)


def quilt_pop(tree: Path, series: Path) -> float:
    environment = {**os.environ, "QUILT_PATCHES": str(series), "QUILT_PC": str(tree / ".pc")}
    return seconds(["quilt", "--quiltrc=-", "pop", "-a", "-q"], cwd=tree, env=environment)


def report(what: str, ours: list[float], theirs: list[float], bound: float) -> None:
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    ratio = statistics.median(ratios)
    print(
        f"{what}: pseries {statistics.median(ours):.3f} s, quilt {statistics.median(theirs):.3f} s,"
        f" ratio {ratio:.2f} (min {min(ratios):.2f}, max {max(ratios):.2f}; bound {bound})"
    )


def small(site: Path, work: Path, rounds: int) -> None:
    ours_tree = copied(site, work / "ours")
    theirs_tree = copied(site, work / "theirs")
    series = SERIES / "vllm-0.26.0"
    ours, theirs = [], []
    for number in range(rounds + 1):  # the first warms the caches
        mine = seconds(pseries("apply", "--series-dir", SERIES, "vllm-0.26.0", ours_tree))
        other = quilt_push(theirs_tree, series)
        if number:
            ours.append(mine)
            theirs.append(other)
        seconds(pseries("rollback", ours_tree))
        quilt_pop(theirs_tree, series)
    report("apply vllm-0.26.0, 4 patches", ours, theirs, 1.5)


def generated(work: Path) -> tuple[Path, Path]:
    """Make an installed tree and a locked series of a thousand patches; return both folders.

    Twenty files, each patch one line of one function.
    """
    names = [f"eng/m{number}.py" for number in range(20)]
    lines = [f"def f{n}():\n    return 0\n\n\n\n\n\n\n" for n in range(MANY // 20)]
    site = work / "many"
    for name in names:
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("".join(lines))
    info = site / "eng-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: eng\nVersion: 1.0\n")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    folder = work / "series/eng-1.0"
    folder.mkdir(parents=True)
    (folder / "series.toml").write_text(
        'summary = "s"\nlabel = "l"\n[upstream]\ndistribution = "eng"\nversion = "1.0"\n'
    )
    order = []
    for number in range(MANY):
        name, function = names[number % 20], number // 20
        at = function * 8 + 1
        above = "".join(" \n" for _ in range(3)) if function else ""
        start, extra = (at - 3, 3) if function else (at, 0)
        body = f"{above} def f{function}():\n-    return 0\n+    return {number}\n" + " \n" * 3
        count = extra + 5
        patch = f"--- a/{name}\n+++ b/{name}\n@@ -{start},{count} +{start},{count} @@\n{body}"
        (folder / f"{number:04}.patch").write_text(patch)
        order.append(f"{number:04}.patch\n")
    (folder / "series").write_text("".join(order))
    os.environ["PSERIES_CACHE"] = str(work / "cache")
    store = Store.open("eng")
    with store.lock():
        imports.add_folder(store, "1.0", copied(site / "eng", work / "checkout/eng").parent, "")
    start = time.perf_counter()
    release.lock_folder("eng-1.0", catalog.Location(folder.parent, "bench"), Means(offline=True))
    print(f"lock of {MANY} patches: {time.perf_counter() - start:.1f} s")
    return site, folder


def many(work: Path) -> None:
    site, folder = generated(work)
    theirs_tree = copied(site, work / "many-quilt")
    mine = seconds(pseries("apply", "--series-dir", folder.parent, "eng-1.0", site))
    other = quilt_push(theirs_tree, folder)
    report(f"apply of {MANY} patches", [mine], [other], 0.1)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("site", type=Path)
    options.add_argument("--rounds", type=int, default=7)
    chosen = options.parse_args()
    # Beside the tree, so that hard links can be made.
    with tempfile.TemporaryDirectory(dir=chosen.site.resolve().parent) as work:
        small(chosen.site, Path(work), chosen.rounds)
        many(Path(work))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"largest process: {peak / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
