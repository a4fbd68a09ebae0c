"""Import of an sdist into the upstream store, beside tar + git add + git commit of the same.

    PYTHONPATH=tool python bench/import_sdist.py vllm-0.26.0.tar.gz [--runs 5]

Both are whole processes that work into a repository which is there already, on the same disk, one
after the other, in turn. Ours verifies the file by sha256, checks every member and fsyncs; the
other does none of it.
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

from pseries.upstream import archive
from pseries.upstream.store import Store

OURS = """
import sys
from pathlib import Path
from pseries.upstream.imports import add_archive
from pseries.upstream.store import Store
store = Store.open(sys.argv[1], Path(sys.argv[4]))
with store.lock():
    print(add_archive(store, sys.argv[2], Path(sys.argv[3]), "").tree)
"""
LIMIT = 0.3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sdist", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    sdist = arguments.sdist.resolve()
    said = archive.named(sdist.name)
    assert said is not None, f"{sdist.name} is not named as an sdist"

    ours, theirs, memory = [], [], []
    for run in range(arguments.runs):
        with tempfile.TemporaryDirectory(prefix="pseries-bench-") as folder:
            theirs.append(by_git(sdist, Path(folder) / "git"))
            seconds, kilobytes = by_pseries(sdist, said, Path(folder) / "cache")
            ours.append(seconds)
            memory.append(kilobytes)
        print(f"run {run + 1}: pseries {ours[-1]:.2f} s, tar + git {theirs[-1]:.2f} s")
    ratio = statistics.median(ours) / statistics.median(theirs)
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    print(f"{'':12}{'median':>9}{'min':>9}{'max':>9}")
    for name, times in (("pseries", ours), ("tar + git", theirs)):
        print(f"{name:12}{statistics.median(times):8.2f}s{min(times):8.2f}s{max(times):8.2f}s")
    print(
        f"ratio {ratio:.2f} (of single runs {min(ratios):.2f} to {max(ratios):.2f}); may be {LIMIT}"
    )
    print(f"peak memory {max(memory) / 1024:.0f} MiB")
    return 0 if ratio <= LIMIT else 1


def by_git(sdist: Path, folder: Path) -> float:
    folder.mkdir()
    git = shutil.which("git") or "git"
    sealed = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    subprocess.run([git, "init", "--quiet"], cwd=folder, check=True, env=sealed)
    start = time.perf_counter()
    subprocess.run([shutil.which("tar") or "tar", "xzf", sdist], cwd=folder, check=True)
    subprocess.run([git, "add", "-A"], cwd=folder, check=True, env=sealed)
    subprocess.run([git, *who, "commit", "--quiet", "-m", "x"], cwd=folder, check=True, env=sealed)
    return time.perf_counter() - start


def by_pseries(sdist: Path, said: archive.Named, cache: Path) -> tuple[float, int]:
    release = (said.distribution, str(said.version), str(sdist), str(cache))
    store = Store.open(said.distribution, cache)
    with store.lock():
        store.repository()
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", OURS, *release], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    assert os.waitstatus_to_exitcode(status) == 0
    return seconds, used.ru_maxrss


if __name__ == "__main__":
    sys.exit(main())
