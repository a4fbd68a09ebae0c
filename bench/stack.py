"""push -a, pop -a and an idle refresh of 1,000 patches in a checkout, against quilt.

Usage: ``python bench/stack.py [--rounds N]``; quilt takes minutes a round.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from apply import copied, generated, pseries, quilt_pop, quilt_push, report, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        site, folder = generated(work)
        theirs = copied(site, work / "quilt")
        tree = work / "worktree"
        checkout = seconds(pseries("checkout", "--series-dir", folder.parent, folder.name, tree))
        print(f"checkout: {checkout:.1f} s")
        pushes, pops, idle, quilt_pushes, quilt_pops = [], [], [], [], []
        for _ in range(rounds):
            pops.append(seconds(pseries("pop", "-a"), cwd=tree))
            quilt_pushes.append(quilt_push(theirs, folder))
            pushes.append(seconds(pseries("push", "-a"), cwd=tree))
            quilt_pops.append(quilt_pop(theirs, folder))
            idle.append(seconds(pseries("refresh"), cwd=tree))
        report("push -a of 1,000 patches", pushes, quilt_pushes, 0.2)
        report("pop -a of 1,000 patches", pops, quilt_pops, 0.2)
        print(f"refresh without a change: {min(idle):.2f} s (bound 1 s)")


if __name__ == "__main__":
    main()
