"""`build-wheel` beside `cp` + `sha256sum`, and beside `wheel unpack` + `wheel pack`.

    PYTHONPATH=tool python bench/build_wheel.py SERIES WHEEL [--runs 5] [--no-pack]

Whole processes on the same disk, one after the other, in turn, the wheel in the page cache. Ours
reads, hashes, patches, copies and fsyncs; the others do not sync, and unpack + pack patches
nothing. The first run of ours also compares every member's content with RECORD, once for a wheel.
Processor time (user + sys) is printed beside the clock's, which other work on the machine disturbs.
Needs the `wheel` package for the second comparison.
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
from typing import NamedTuple

OURS = """
import sys
from pathlib import Path
from pseries.workflows.exports import build
from pseries.workflows.series import catalog
from pseries.workflows.series.means import Means
series = catalog.load(sys.argv[1], catalog.locate())
for built in build.build_wheels(series, Path(sys.argv[3]), given=sys.argv[2], means=Means()):
    pass
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
LIMIT_COPY, LIMIT_PACK, LIMIT_MEMORY = 1.5, 0.03, 100


class Cost(NamedTuple):
    """Seconds on the clock and of the processors."""

    wall: float
    cpu: float

    def plus(self, other: Cost) -> Cost:
        """Return the sum."""
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def over(self, other: Cost) -> Cost:
        """Return the ratios."""
        return Cost(self.wall / other.wall, self.cpu / other.cpu)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("series")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-pack", action="store_true", help="leave the slow comparison out")
    arguments = parser.parse_args()
    wheel = arguments.wheel.resolve()
    wheel.read_bytes()

    ours: list[Cost] = []
    copies: list[Cost] = []
    memory = []
    with tempfile.TemporaryDirectory(prefix="pseries-bench-") as name:
        folder = Path(name)
        first, _ = by_pseries(arguments.series, wheel, folder)
        for _ in range(arguments.runs):
            copies.append(by_copy(wheel, folder))
            cost, kilobytes = by_pseries(arguments.series, wheel, folder)
            ours.append(cost)
            memory.append(kilobytes // 1024)
        packed = None if arguments.no_pack else by_wheel(wheel, folder)
    print(f"build-wheel           {spread(ours)}   first time {first.wall:.2f} s")
    print(f"cp + sha256sum        {spread(copies)}")
    ratio = middle(ours).over(middle(copies))
    print(f"ratio                 {ratio.wall:.2f} (<= {LIMIT_COPY}); CPU {ratio.cpu:.2f}")
    print(f"memory                {max(memory)} MB (<= {LIMIT_MEMORY})")
    good = ratio.wall <= LIMIT_COPY and max(memory) <= LIMIT_MEMORY
    if packed is not None:
        ratio = middle(ours).over(packed)
        print(f"wheel unpack + pack   {packed.wall:.1f} s, CPU {packed.cpu:.1f} s")
        print(f"ratio                 {ratio.wall:.3f} (<= {LIMIT_PACK}); CPU {ratio.cpu:.3f}")
        good = good and ratio.wall <= LIMIT_PACK
    return 0 if good else 1


def middle(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(each) for each in zip(*costs, strict=True)))


def spread(costs: list[Cost]) -> str:
    walls = [cost.wall for cost in costs]
    wall, cpu = middle(costs)
    return f"{wall:.2f} s ({min(walls):.2f} to {max(walls):.2f}), CPU {cpu:.2f} s"


def timed(*command: str, **options: str) -> tuple[Cost, str]:
    environment = {**os.environ, **options}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Cost(wall, user + system), done.stdout


def by_pseries(series: str, wheel: Path, folder: Path) -> tuple[Cost, int]:
    out = folder / "ours"
    options = {
        "PSERIES_CACHE": str(folder / "cache"),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }
    cost, said = timed(sys.executable, "-c", OURS, series, str(wheel), str(out), **options)
    shutil.rmtree(out)
    return cost, int(said)


def by_copy(wheel: Path, folder: Path) -> Cost:
    target = folder / wheel.name
    copied, _ = timed("cp", str(wheel), str(target))
    hashed, _ = timed("sha256sum", str(target))
    target.unlink()
    return copied.plus(hashed)


def by_wheel(wheel: Path, folder: Path) -> Cost:
    tree = folder / "tree"
    unpacked, _ = timed(sys.executable, "-m", "wheel", "unpack", "-d", str(tree), str(wheel))
    (top,) = tree.iterdir()
    packed, _ = timed(sys.executable, "-m", "wheel", "pack", "-d", str(folder), str(top))
    shutil.rmtree(tree)
    return unpacked.plus(packed)


if __name__ == "__main__":
    sys.exit(main())
