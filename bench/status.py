"""status on a patched tree against a Typer program that does nothing.

Usage: ``python bench/status.py SITE_PACKAGES``, a tree that a series was applied to.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

NOTHING = """
import typer
app = typer.Typer(add_completion=False)
@app.command()
def main() -> None: ...
app()
"""


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("site", type=Path)
    options.add_argument("--rounds", type=int, default=15)
    chosen = options.parse_args()
    status = [sys.executable, "-m", "pseries", "status", str(chosen.site)]
    nothing = [sys.executable, "-c", NOTHING]
    pairs = [(seconds(status), seconds(nothing)) for _ in range(chosen.rounds + 1)][1:]
    ratios = [ours / theirs for ours, theirs in pairs]
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(
        f"status: {ours * 1000:.0f} ms, a Typer program that does nothing: {theirs * 1000:.0f} ms,"
        f" ratio {statistics.median(ratios):.2f} (min {min(ratios):.2f}, max {max(ratios):.2f};"
        " bound 2)"
    )


if __name__ == "__main__":
    main()
