"""Which accelerators there are: through nvidia-smi, and through PyTorch in the target's Python.

nvidia-smi knows the devices of the host or container; PyTorch knows those that it may use, of any
vendor, and whether its build works with the driver at all. Either may be missing or broken.
"""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pseries.deploy import probe

if TYPE_CHECKING:
    from collections.abc import Iterator

SMI_SECONDS = 30.0
"""The driver is loaded on the first call where no persistence daemon runs: seconds a device."""
TORCH_SECONDS = 120.0
"""PyTorch is a gigabyte that is read from a cold disk."""
_MOST = 1024

_FIELDS = ("index", "name", "driver_version", "compute_cap", "memory.total", "mig.mode.current")
_OLD_FIELDS = _FIELDS[:3]
"""What every nvidia-smi knows; the capability came with driver 510."""
_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]")
_NONE = "No devices were found"
_MARK = "pseries:"

# Runs in whatever Python the target has; a driver that is broken makes any line of it raise.
_SCRIPT = """
import json
try:
    import torch
except ImportError as error:
    answer = {"missing": str(error)}
else:
    answer = {"torch": str(torch.__version__), "cuda": getattr(torch.version, "cuda", None),
              "hip": getattr(torch.version, "hip", None), "devices": []}
    try:
        for at in range(torch.cuda.device_count()):
            major, minor = torch.cuda.get_device_capability(at)
            answer["devices"].append([torch.cuda.get_device_name(at), "%d.%d" % (major, minor)])
    except Exception as error:
        answer["trouble"] = "%s: %s" % (type(error).__name__, error)
print("pseries:" + json.dumps(answer))
"""


class Gpu(NamedTuple):
    """One device; what is not known is "" or ``None``."""

    vendor: str
    name: str
    compute_capability: str = ""
    driver: str = ""
    memory_mib: int | None = None
    mig: bool = False


class Seen(NamedTuple):
    """The devices that one source names; ``trouble`` says why it names none, "" if it answered.

    Attributes:
        there: whether the source exists at all.
        devices: in its order.
        software: version of PyTorch and what it was built for, "" for nvidia-smi.
    """

    there: bool
    devices: tuple[Gpu, ...] = ()
    trouble: str = ""
    software: str = ""


def through_smi(*, timeout: float = SMI_SECONDS) -> Seen:
    """Ask nvidia-smi."""
    program = probe.find("nvidia-smi")
    if program is None:
        return Seen(there=False, trouble="there is no nvidia-smi")
    for fields in (_FIELDS, _OLD_FIELDS):
        query = f"--query-gpu={','.join(fields)}"
        said = probe.ask([program, query, "--format=csv,noheader,nounits"], timeout=timeout)
        if "is not a valid field" not in said.stdout + said.stderr:
            break
    if said.trouble:
        return Seen(there=True, trouble=said.trouble)
    if _NONE in said.stdout + said.stderr:
        return Seen(there=True)
    if said.status != 0:
        return Seen(there=True, trouble=_first_line(said) or f"it ended with {said.status}")
    try:
        devices = tuple(_rows(said.stdout, fields))
    except csv.Error:
        devices = ()
    if not devices and said.stdout.strip():
        return Seen(there=True, trouble=f"its answer is not understood: {_first_line(said)}")
    return Seen(there=True, devices=devices)


def _rows(text: str, fields: tuple[str, ...]) -> Iterator[Gpu]:
    for number, row in enumerate(csv.reader(text.splitlines(), skipinitialspace=True)):
        if number >= _MOST:
            return
        if len(row) != len(fields) or not row[0].strip().isdecimal():
            continue
        cells = [_known(cell) for cell in row] + [""] * (len(_FIELDS) - len(fields))
        _, name, driver, capability, memory, mig = cells
        yield Gpu(
            vendor="NVIDIA",
            name=name,
            compute_capability=capability if _CAPABILITY.fullmatch(capability) else "",
            driver=driver,
            memory_mib=int(memory) if re.fullmatch(r"[0-9]{1,9}", memory) else None,
            mig=mig == "Enabled",
        )


def _known(cell: str) -> str:
    """Return a cell, "" where it says that there is no value ("[N/A]", "[Not Supported]")."""
    text = cell.strip()
    return "" if text.startswith("[") or text == "N/A" else text[:200]


def through_torch(python: str, *, timeout: float = TORCH_SECONDS) -> Seen:
    """Ask PyTorch in an interpreter, run isolated (``-I``)."""
    said = probe.ask([python, "-I", "-c", _SCRIPT], timeout=timeout)
    if said.trouble:
        return Seen(there=True, trouble=said.trouble)
    answer = _answer(said.stdout)
    if answer is None:
        last = said.stderr.strip().rpartition("\n")[2][:200]
        return Seen(there=True, trouble=last or f"its answer is not understood ({said.status})")
    if "missing" in answer:
        return Seen(there=False, trouble="there is no PyTorch")
    hip = answer.get("hip")
    build = f"ROCm {hip}" if hip else f"CUDA {answer['cuda']}" if answer.get("cuda") else "CPU"
    devices = tuple(_devices(answer.get("devices"), amd=bool(hip)))
    software = f"{str(answer.get('torch'))[:60]} for {build[:60]}"
    return Seen(True, devices, str(answer.get("trouble") or "")[:200], software)


def _answer(stdout: str) -> dict[str, Any] | None:
    lines = [line for line in stdout.split("\n") if line.startswith(_MARK)]
    try:
        answer = json.loads(lines[-1].removeprefix(_MARK))
    except (IndexError, ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _devices(listed: Any, *, amd: bool) -> Iterator[Gpu]:
    for each in listed[:_MOST] if isinstance(listed, list) else ():
        if not isinstance(each, list) or len(each) != 2:
            continue
        name, capability = (str(word)[:200] for word in each)
        vendor = "AMD" if amd else "NVIDIA" if name.startswith(("NVIDIA", "Tesla")) else ""
        yield Gpu(vendor, name, capability if _CAPABILITY.fullmatch(capability) else "")


def _first_line(said: probe.Answer) -> str:
    lines = (line.strip()[:200] for line in (said.stdout + said.stderr).splitlines())
    return next(filter(None, lines), "")
