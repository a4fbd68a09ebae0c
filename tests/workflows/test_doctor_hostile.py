"""The doctor among metadata, interpreters and requirements that lie, hang or explode."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.support import engine
from tests.workflows.test_doctor import KERNELS, check, examine, kernels, series
from tests.workflows.test_doctor import no_gpu as no_gpu  # noqa: PLC0414 - a fixture

from pseries.deploy import gpu, machine, probe
from pseries.errors import PseriesError
from pseries.workflows.runtime import doctor
from pseries.workflows.runtime.doctor import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workflows.conftest import Bench


def metadata(site: Path, info: str, text: str) -> None:
    (site / info / "METADATA").write_text(text)


@pytest.mark.parametrize("line", [
    "Requires-Dist: x; " + "(" * 5000 + "os_name == 'x'" + ")" * 5000,
    "Requires-Dist: x; os_name == 'x'" + " and os_name == 'x'" * 20_000,
    "Requires-Dist: x>=" + "1" * 5000,
    "Requires-Dist: \x1b[31m",
    "Requires-Dist:",
    "Requires-Python: >=" + "1" * 5000,
    "Requires-Python: >=" + ",>=".join(["3"] * 20_000),
    "Requires-Python: \x1b[31m",
    "Requires-Python: ===\x1b[31m",
    "X: " + "y" * (5 << 20),
], ids=range(10))  # fmt: skip
def test_metadata_of_strangers(bench: Bench, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = series(bench)
    kernels(bench, "1.0")
    monkeypatch.setattr(machine, "python_version", lambda _python: "3.12.1")
    metadata(bench.site, "eng-1.0.dist-info",
             f"Metadata-Version: 2.1\nName: eng\nVersion: 1.0\n{line}\n")  # fmt: skip
    report = examine(made, bench.site)
    assert check(report, "kernels").verdict is Verdict.UNMET


@pytest.mark.parametrize("version", ["1" * 5000, "garbage", "\x1b[31m", "2.0+"])
def test_versions_that_are_none(bench: Bench, version: str) -> None:
    made = series(bench)
    kernels(bench)
    metadata(bench.site, "kernels-2.1.dist-info",
             f"Metadata-Version: 2.1\nName: kernels\nVersion: {version}\n")  # fmt: skip
    try:
        report = examine(made, bench.site)
    except PseriesError:
        return
    assert not report.met


@pytest.mark.parametrize("version", ["3.14.0a0+", "3.13.1+", "garbage", "", "\x1b[31m"])
def test_interpreters_of_any_version(
    bench: Bench, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that is built from a checkout calls itself 3.14.0a0+."""
    made = series(bench)
    kernels(bench)
    metadata(bench.site, "eng-1.0.dist-info",
             "Name: eng\nVersion: 1.0\nRequires-Python: >=3.10\n")  # fmt: skip
    monkeypatch.setattr(machine, "python_version", lambda _python: version)
    place = doctor._Place(bench.site, (bench.site,), bench.site / "python")
    monkeypatch.setattr(doctor, "_place", lambda *_: place)
    verdict = check(examine(made, bench.site), "python").verdict
    assert verdict is (Verdict.MET if version.startswith("3.") else Verdict.UNKNOWN)


@pytest.mark.parametrize("text", [
    'kernels>=2; extra == "x"', 'kernels>=2; python_version ~= "x"', 'kernels>=2; os_name > "x"',
    'kernels>=2; python_version == "' + "1" * 5000 + '"', "kernels>=" + "1" * 5000,
    "kernels @ file:///etc/passwd", "kernels @ https://x.example/y", "kernels[x]>=2",
    "kernels; " + "(" * 5000 + "os_name == 'x'" + ")" * 5000, "kernels ; \x1b",
], ids=range(10))  # fmt: skip
def test_requirements_of_a_strangers_series(bench: Bench, text: str) -> None:
    kernels(bench)
    quoted = text.replace("\x1b", "\\u001b")
    try:
        made = series(bench, rest=f"[requires]\npackages = ['''{quoted}''']\n")
    except PseriesError:
        return
    assert examine(made, bench.site).checks


def script(folder: Path, text: str, name: str = "python") -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize("text", [
    "echo garbage", "exit 3", "kill -9 $$", "printf '\\033[31m\\377\\000'", "echo '[1]'",
    "echo '{}'",
    "yes", "sleep 1000", "sleep 1000 & echo x", "(setsid sleep 20 &) ; echo x",
    "echo '\"x\"'", "echo null",
    "echo '" + "[" * 50_000 + "'",
], ids=range(13))  # fmt: skip
def test_programs_that_are_no_interpreter(
    bench: Bench, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pseries.site import interpreter

    monkeypatch.setattr(interpreter, "TIMEOUT", 3)
    begun = time.monotonic()
    with pytest.raises(PseriesError):
        doctor.examine(series(bench), {}, python=script(tmp_path, text))
    assert time.monotonic() - begun < 30


def test_a_program_that_says_too_much_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It would else fill the memory for a minute."""
    from pseries.errors import InterpreterFailed
    from pseries.site import interpreter

    monkeypatch.setattr(interpreter, "MOST_SAID", 1 << 20, raising=False)
    monkeypatch.setattr(interpreter, "TIMEOUT", 5)
    with pytest.raises(InterpreterFailed, match="status -25"):
        interpreter.folders(script(tmp_path, "exec yes"))


@pytest.mark.parametrize("text", [
    "yes", "sleep 1000", "(setsid sleep 20 &) ; echo '\"3.12\"'", "echo '" + "[" * 50_000 + "'",
    "trap '' TERM; sleep 1000", "exec >&- 2>&-; sleep 1000", "head -c 3000000 /dev/zero",
])  # fmt: skip
def test_what_is_asked_gets_an_answer_or_a_reason_in_time(tmp_path: Path, text: str) -> None:
    begun = time.monotonic()
    probe.ask([str(script(tmp_path, text))], timeout=1)
    assert time.monotonic() - begun < 4


@pytest.mark.parametrize("said", [
    "0, " + "x" * 500_000 + ", 1, 9.0, 1, N/A", "0, \"a\nb\x1b[31m\", 1, 9.0, 1, N/A",
    "0, x, 1, 9.0, 99999999999999999999, N/A", "0," * 100_000, "\0", '"',
    "٣, x, 1, 9.0, 1, N/A", "\n".join(f"{at}, x, 1, 9.0, 1, N/A" for at in range(20_000)),
])  # fmt: skip
def test_an_nvidia_smi_that_lies(bench: Bench, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(probe, "find", lambda _: "/smi")
    monkeypatch.setattr(probe, "ask", lambda *_, **__: probe.Answer(0, said, ""))
    seen = gpu.through_smi()
    assert len(seen.devices) <= 1024
    assert all(len(each.name) <= 200 for each in seen.devices)


def test_a_package_that_is_a_link_or_a_pipe(bench: Bench, tmp_path: Path) -> None:
    import os

    made = series(bench)
    engine.install(bench.site, {**KERNELS, "kernels/a.py": b""}, "2.1", "kernels")
    for name in ("__init__.py", "a.py"):
        (bench.site / "kernels" / name).unlink()
    (bench.site / "kernels/__init__.py").symlink_to("/dev/zero")
    os.mkfifo(bench.site / "kernels/a.py")
    assert check(examine(made, bench.site), "calls").verdict in (Verdict.MET, Verdict.UNKNOWN)
