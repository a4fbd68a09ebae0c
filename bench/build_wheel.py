"""`build-wheel` beside `cp` + `sha256sum`, and beside `wheel unpack` + `wheel pack`.

    PYTHONPATH=tool python bench/build_wheel.py SERIES WHEEL [--runs 5] [--no-pack]

Whole processes on the same disk, one after the other, in turn, the wheel in the page cache. Ours
reads, hashes, patches, copies and fsyncs; the others do not sync, and unpack + pack patches
nothing. The first run of ours also compares every member's content with RECORD, once for a wheel.
Needs the `wheel` package for the second comparison.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OURS = """
import sys
from pathlib import Path
from pseries.workflows import build, catalog
series = catalog.load(sys.argv[1], catalog.locate())
for built in build.build_wheels(series, Path(sys.argv[3]), given=sys.argv[2]):
    pass
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
LIMIT_COPY, LIMIT_PACK, LIMIT_MEMORY = 1.5, 0.03, 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("series")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-pack", action="store_true", help="leave the slow comparison out")
    arguments = parser.parse_args()
    wheel = arguments.wheel.resolve()
    wheel.read_bytes()

    ours, copies, memory = [], [], []
    with tempfile.TemporaryDirectory(prefix="pseries-bench-") as name:
        folder = Path(name)
        first, _ = by_pseries(arguments.series, wheel, folder)
        for _ in range(arguments.runs):
            copies.append(by_copy(wheel, folder))
            seconds, kilobytes = by_pseries(arguments.series, wheel, folder)
            ours.append(seconds)
            memory.append(kilobytes // 1024)
        packed = None if arguments.no_pack else by_wheel(wheel, folder)
    print(f"build-wheel           {spread(ours)}   first time {first:.2f} s")
    print(f"cp + sha256sum        {spread(copies)}")
    ratio = statistics.median(ours) / statistics.median(copies)
    print(f"ratio                 {ratio:.2f} (must be <= {LIMIT_COPY})")
    print(f"memory                {max(memory)} MB (must be <= {LIMIT_MEMORY})")
    good = ratio <= LIMIT_COPY and max(memory) <= LIMIT_MEMORY
    if packed is not None:
        ratio = statistics.median(ours) / packed
        print(f"wheel unpack + pack   {packed:.1f} s")
        print(f"ratio                 {ratio:.3f} (must be <= {LIMIT_PACK})")
        good = good and ratio <= LIMIT_PACK
    return 0 if good else 1


def spread(seconds: list[float]) -> str:
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    return f"{middle:.2f} s ({low:.2f} to {high:.2f})"


def timed(*command: str, **options: str) -> tuple[float, str]:
    environment = {**os.environ, **options}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode
    begin = time.perf_counter()
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return time.perf_counter() - begin, done.stdout


def by_pseries(series: str, wheel: Path, folder: Path) -> tuple[float, int]:
    out = folder / "ours"
    options = {
        "PSERIES_CACHE": str(folder / "cache"),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }
    seconds, said = timed(sys.executable, "-c", OURS, series, str(wheel), str(out), **options)
    shutil.rmtree(out)
    return seconds, int(said)


def by_copy(wheel: Path, folder: Path) -> float:
    target = folder / wheel.name
    copied, _ = timed("cp", str(wheel), str(target))
    hashed, _ = timed("sha256sum", str(target))
    target.unlink()
    return copied + hashed


def by_wheel(wheel: Path, folder: Path) -> float:
    tree = folder / "tree"
    unpacked, _ = timed(sys.executable, "-m", "wheel", "unpack", "-d", str(tree), str(wheel))
    (top,) = tree.iterdir()
    packed, _ = timed(sys.executable, "-m", "wheel", "pack", "-d", str(folder), str(top))
    shutil.rmtree(tree)
    return unpacked + packed


if __name__ == "__main__":
    sys.exit(main())
