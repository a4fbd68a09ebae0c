"""Accelerators: what real and fake nvidia-smi and PyTorch say, and what they may do instead."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

from pseries.deploy import gpu, probe
from pseries.deploy.gpu import Gpu, Seen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

H200 = "NVIDIA H200"
Smi = "Callable[[str], None]"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a program ``nvidia-smi`` on PATH; its argument is its script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def write(script: str) -> None:
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return write


def test_several_devices(smi: Smi):
    smi(
        'case "$1" in --query-gpu=index,name,driver_version,compute_cap,*) ;; *) exit 9;; esac\n'
        "echo '0, NVIDIA H200, 570.86.15, 9.0, 143771, Disabled'\n"
        "echo '1, NVIDIA H200, 570.86.15, 9.0, 143771, Enabled'\n"
        "echo '2, NVIDIA RTX 6000D, 575.1, 12.0, [N/A], [N/A]'\n"
    )
    assert gpu.through_smi() == Seen(
        there=True,
        devices=(
            Gpu("NVIDIA", H200, "9.0", "570.86.15", 143771),
            Gpu("NVIDIA", H200, "9.0", "570.86.15", 143771, mig=True),
            Gpu("NVIDIA", "NVIDIA RTX 6000D", "12.0", "575.1"),
        ),
    )


def test_a_driver_that_does_not_know_the_capability(smi: Smi):
    smi(
        'case "$1" in *compute_cap*) echo \'Field "compute_cap" is not a valid field to query.\';'
        " exit 2;; esac\necho '0, Tesla V100, 450.1'"
    )
    assert gpu.through_smi().devices == (Gpu("NVIDIA", "Tesla V100", "", "450.1"),)


@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        ("echo 'No devices were found'; exit 6", ""),
        ("exit 0", ""),
        ("echo 'NVIDIA-SMI has failed because it could not communicate'; exit 9",
         "NVIDIA-SMI has failed because it could not communicate"),
        ("exit 12", "it ended with 12"),
        ("echo '<html>'", "its answer is not understood: <html>"),
        ("head -c 4096 /dev/urandom", "its answer is not understood"),
        ("echo '0, NVIDIA H200'", "its answer is not understood"),
        ("head -c 3000000 /dev/zero", "it said more than 1024 KiB"),
        ("while :; do echo '0, a, b, c, d, e'; done", "it said more than 1024 KiB"),
        ("kill -SEGV $$", "it ended with -11"),
    ],
)  # fmt: skip
def test_odd_answers(smi: Smi, script: str, trouble: str):
    smi(script)
    seen = gpu.through_smi()
    assert (seen.there, seen.devices) == (True, ())
    assert seen.trouble.startswith(trouble) if trouble else seen.trouble == ""


def test_one_that_hangs_is_ended_with_all_that_it_started(smi: Smi, tmp_path: Path):
    smi(f"sleep 300 & echo $! > {tmp_path}/pid\necho '0, NVIDIA'\nsleep 300")
    began = time.monotonic()
    assert gpu.through_smi(timeout=0.5).trouble == "it did not answer within 0.5 s"
    assert time.monotonic() - began < 20
    state = _state(int((tmp_path / "pid").read_text()))
    assert state in (None, "Z")  # gone, or waiting for whoever reaps


def _state(pid: int) -> str | None:
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
                state = file.read().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return None
        if state == "Z":
            return state
        time.sleep(0.05)
    return state


def test_no_nvidia_smi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu.through_smi() == Seen(there=False, trouble="there is no nvidia-smi")


def test_the_current_folder_is_not_searched(smi: Smi, tmp_path: Path, monkeypatch):
    smi("echo '0, planted, 1, 9.0, 1, Disabled'")
    monkeypatch.chdir(tmp_path / "bin")
    monkeypatch.setenv("PATH", ".:relative")
    assert gpu.through_smi().there is False


# --- PyTorch --------------------------------------------------------------------------------------


@pytest.fixture
def torch(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that makes a Python with a module ``torch``; its argument is its text."""

    def make(text: str) -> str:
        (tmp_path / "torch.py").write_text(text)
        python = tmp_path / "python"
        python.write_text(
            f'#!/bin/sh\nshift\nexec "{sys.executable}" -c '
            f'"import sys; sys.path.insert(0, \'{tmp_path}\'); exec(sys.argv[2])" "$@"\n'
        )
        python.chmod(0o755)
        return str(python)

    return make


FAKE = """
__version__ = "2.8.0+cu128"
class version:
    cuda, hip = "12.8", None
class cuda:
    device_count = staticmethod(lambda: 2)
    get_device_name = staticmethod(lambda at: "NVIDIA H200")
    get_device_capability = staticmethod(lambda at: (9, 0))
"""


def test_torch_names_its_devices(torch: Callable[[str], str]):
    seen = gpu.through_torch(torch(FAKE))
    assert seen.devices == (Gpu("NVIDIA", H200, "9.0"),) * 2
    assert (seen.software, seen.trouble) == ("2.8.0+cu128 for CUDA 12.8", "")
    amd = FAKE.replace('"12.8", None', 'None, "6.2"').replace("NVIDIA H200", "MI300X")
    seen = gpu.through_torch(torch(amd))
    assert seen.devices[0] == Gpu("AMD", "MI300X", "9.0")
    assert seen.software.endswith("for ROCm 6.2")
    assert (
        gpu.through_torch(torch(FAKE.replace("NVIDIA H200", "PPU-ZW810E"))).devices[0].vendor == ""
    )


@pytest.mark.parametrize(
    ("text", "there", "trouble"),
    [
        ("raise ImportError('libcudart.so.12')", False, "there is no PyTorch"),
        ("raise RuntimeError('no driver')", True, "RuntimeError: no driver"),
        (FAKE.replace("lambda: 2", "lambda: 1 // 0"), True, "ZeroDivisionError"),
        ("import os; os._exit(3)", True, "its answer is not understood (3)"),
        ("import sys; sys.stdout.write('x' * 3000000)", True, "it said more than 1024 KiB"),
        ("import time; time.sleep(100)", True, "it did not answer within 2 s"),
        ("print('pseries:[1]'); import os; os._exit(0)", True, "its answer is not understood (0)"),
        ("print('pseries:' + '[' * 99999); import os; os._exit(0)", True, "its answer is not"),
    ],
)
def test_a_broken_torch(torch: Callable[[str], str], text: str, there: bool, trouble: str):
    seen = gpu.through_torch(torch(text), timeout=2 if "sleep" in text else 100)
    assert (seen.there, seen.devices) == (there, ())
    assert seen.trouble.startswith(trouble)


def test_an_interpreter_that_is_none():
    assert gpu.through_torch("/nowhere/python").trouble == "No such file or directory"
    assert probe.ask([f"{os.sep}\0"], timeout=1).trouble != ""
