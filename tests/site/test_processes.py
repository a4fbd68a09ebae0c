"""Who runs from a target: whoever has one of its compiled files mapped."""

from __future__ import annotations

import mmap
import os
import signal
from typing import TYPE_CHECKING

from pseries.site import processes
from pseries.site.fs import SiteTree

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_process_that_maps_a_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "eng").mkdir()
    (tmp_path / "eng/_c.so").write_bytes(b"\x7fELF" + bytes(4096))
    ready, started = os.pipe()
    child = os.fork()
    if child == 0:
        with (tmp_path / "eng/_c.so").open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            os.write(started, mapped[:1])
            signal.pause()
    try:
        os.read(ready, 1)
        with (
            SiteTree(tmp_path) as tree,
            (tmp_path / "eng/_c.so").open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ),  # ourselves do not count
        ):
            assert processes.running(tree) == (child,)
            assert processes.running(tree, ["eng"]) == (child,)
            assert processes.running(tree, ["other", "en"]) == ()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with SiteTree(tmp_path) as tree:
        assert processes.running(tree) == ()


def test_without_proc_nobody_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PROC", str(tmp_path / "none"))
    with SiteTree(tmp_path) as tree:
        assert processes.running(tree) == ()
