"""A child of ours: limits, signals, status."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pseries.deploy import process
from pseries.errors import CommandNotStarted

TOOL = Path(process.__file__).parents[2]


def child(body: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own: limits are for good."""
    script = f"import sys; sys.path.insert(0, {str(TOOL)!r})\nimport resource\n"
    script += "from pseries.deploy import process\nfrom pseries import errors\n" + body
    return subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
    )


LIMIT = """
resource.setrlimit(resource.RLIMIT_MEMLOCK, (int(sys.argv[1]), int(sys.argv[2])))
{drop}
try:
    process.raise_memlock(sys.argv[3])
except errors.MemlockRefused as error:
    print(error)
print(resource.getrlimit(resource.RLIMIT_MEMLOCK))
"""
# What gives root its rights here, CAP_SYS_RESOURCE, goes with the user.
AS_NOBODY = "import os\nif os.geteuid() == 0: os.setgid(65534); os.setuid(65534)"
HARD = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]


def _may_raise() -> bool:
    script = "import resource as r; r.setrlimit(r.RLIMIT_MEMLOCK, (4096, 4096))\n"
    script += "r.setrlimit(r.RLIMIT_MEMLOCK, (-1, -1))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    return done.returncode == 0


small = pytest.mark.skipif(
    HARD != -1 and HARD < 1 << 17, reason=f"locked memory is limited to {HARD} bytes here"
)
powerful = pytest.mark.skipif(
    not _may_raise(), reason="nobody here may raise a hard limit (CAP_SYS_RESOURCE)"
)


@small
@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "after"),
    [
        (8192, 1 << 17, "65536", (65536, 1 << 17)),
        (8192, 65536, "65536", (65536, 65536)),
        (1 << 17, 1 << 17, "65536", (1 << 17, 1 << 17)),
        (8192, 8192, "", (8192, 8192)),
    ],
)
def test_the_limit_is_raised_and_never_lowered(
    soft: int, hard: int, wanted: str, after: tuple[int, int]
):
    said = child(LIMIT.format(drop=AS_NOBODY), str(soft), str(hard), wanted).stdout
    assert said == f"{after}\n"


@powerful
@pytest.mark.parametrize(("wanted", "after"), [("unlimited", (-1, -1)), ("65536", (65536, 65536))])
def test_root_raises_the_hard_limit_too(wanted: str, after: tuple[int, int]):
    assert child(LIMIT.format(drop=""), "8192", "8192", wanted).stdout == f"{after}\n"


@pytest.mark.skipif(HARD != -1, reason="locked memory is limited here")
def test_without_a_limit_there_is_nothing_to_raise():
    assert child(LIMIT.format(drop=AS_NOBODY), "8192", "-1", "unlimited").stdout == "(-1, -1)\n"


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "said"),
    [
        (8192, 8192, "unlimited", "must be unlimited; it is limited to 8192 bytes"),
        (8192, 16384, "65536", "must be 65536 bytes; it is limited to 16384 bytes"),
    ],
)
def test_without_the_right_it_is_refused(soft: int, hard: int, wanted: str, said: str):
    assert said in child(LIMIT.format(drop=AS_NOBODY), str(soft), str(hard), wanted).stdout


def test_status_output_and_environment(tmp_path: Path):
    with (tmp_path / "log").open("ab") as log:
        script = "import os, sys; print(os.environ['A']); print('e', file=sys.stderr); sys.exit(7)"
        assert process.run([sys.executable, "-c", script], {"A": "b"}, log) == 7
    assert sorted((tmp_path / "log").read_text().split()) == ["b", "e"]


def test_the_signal_that_ended_it_is_negative():
    assert process.run(["/bin/sh", "-c", "kill -KILL $$"], {}, None) == -signal.SIGKILL


def test_handlers_are_as_before():
    before = {each: signal.getsignal(each) for each in process.PASSED_ON}
    process.run(["/bin/true"], {}, None)
    with pytest.raises(CommandNotStarted):
        process.run(["/nonexistent"], {}, None)
    assert {each: signal.getsignal(each) for each in process.PASSED_ON} == before


def test_a_signal_that_comes_before_the_child_is_passed_on_too(monkeypatch: pytest.MonkeyPatch):
    real = subprocess.Popen

    def late(*words: object, **options: object) -> object:
        signal.raise_signal(signal.SIGTERM)
        return real(*words, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(process.subprocess, "Popen", late)
    assert process.run(["/bin/sleep", "20"], {}, None) == -signal.SIGTERM


def test_what_is_ignored_here_is_ignored_there():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert process.run(["/bin/sh", "-c", "kill -HUP $$; exit 5"], {}, None) == 5
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "No such file"),
        ("folder", "denied"),
        ("text", "Exec format"),
        ("plain", "denied"),
    ],
)
def test_what_cannot_be_started(tmp_path: Path, kind: str, reason: str):
    place = tmp_path / "program"
    if kind == "folder":
        place.mkdir()
    elif kind != "missing":
        place.write_text("no program\n")
        place.chmod(0o755 if kind == "text" else 0o644)
    with pytest.raises(CommandNotStarted, match=reason):
        process.run([str(place)], {}, None)


def test_a_program_is_looked_for_in_these_folders_only(tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "ls").write_text("#!/bin/sh\n")
    (two / "ls").chmod(0o755)
    assert process.find("ls", [one, two]) == two / "ls"
    assert process.find("/bin/ls", [one]) == Path("/bin/ls")
    with pytest.raises(CommandNotStarted, match="no such program in"):
        process.find("ls", [one])
