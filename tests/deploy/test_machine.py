"""Limits, room and interpreters; nothing is changed by looking."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

from pseries.deploy import machine

if TYPE_CHECKING:
    from pathlib import Path

_ASK = (
    "import resource, sys; from pseries.deploy import machine;"
    "L = resource.RLIMIT_MEMLOCK; resource.setrlimit(L, (4096, 8192));"
    "import ctypes; drop = {drop};"
    "print([machine.memlock(word).enough for word in ('', '4096', '8192', '8193', 'unlimited')],"
    " resource.getrlimit(L) == (4096, 8192))"
)


def test_memlock_is_what_can_be_had_and_stays_as_it_is():
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    found = machine.memlock("")
    assert found.enough
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK) == before
    drop = "__import__('os').setresuid(65534, 65534, 65534)" if os.geteuid() == 0 else "None"
    said = subprocess.run(
        [sys.executable, "-c", _ASK.format(drop=drop)], capture_output=True, text=True, check=True
    ).stdout
    assert said == "[True, True, True, False, False] True\n"


def test_room(tmp_path: Path):
    room = machine.room(tmp_path)
    assert room is not None
    assert 0 < room.free <= room.total
    assert machine.room(tmp_path / "nothing") is None


def test_python_version(tmp_path: Path):
    version = ".".join(map(str, sys.version_info[:3]))
    assert (machine.python_version(sys.executable) or "").startswith(version)
    assert machine.python_version("/bin/false") is None
    assert machine.python_version("/nowhere") is None
