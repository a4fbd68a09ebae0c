"""What appears under its name is whole, and on the disk before it has the name."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from pseries import durable
from pseries.export import exchange
from pseries.workflows.series import folders


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is brought to the disk and what is renamed, by name, in order."""
    seen: list[tuple[str, str]] = []
    fsync, rename = os.fsync, Path.rename

    def synced(descriptor: int) -> None:
        seen.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        fsync(descriptor)

    def renamed(self: Path, target: Path) -> Path:
        seen.append(("rename", target.name))
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    return seen


FILES = {"series": b"1.patch\n", "1.patch": b"one\n"}


@pytest.mark.parametrize("write", [exchange.write_folder, folders.create])
def test_a_folder_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path,
    events: list[tuple[str, str]],
    write,  # type: ignore[no-untyped-def]
) -> None:
    write(tmp_path / "there" / "eng-1.0", FILES)
    at = events.index(("rename", "eng-1.0"))
    assert {("sync", name) for name in FILES} < set(events[:at])
    assert events[at + 1 :] == [("sync", "there")]
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"eng-1.0"}


def test_what_is_below_a_folder_is_too(tmp_path: Path, events: list[tuple[str, str]]) -> None:
    with durable.whole_folder(tmp_path / "whole") as new:
        (new / "a/b").mkdir(parents=True)
        (new / "a/b/c").touch()
    assert {name for what, name in events if what == "sync"} >= {"a", "b", "c"}
    assert (tmp_path / "whole").stat().st_mode & 0o777 == 0o755
    events.clear()
    with durable.whole_folder(tmp_path / "again", synced=False):
        pass
    assert events == [("rename", "again")]


def test_a_folder_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def stopped() -> None:
        with durable.whole_folder(tmp_path / "whole") as new:
            (new / "part").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_of_the_file_and_the_old_one_stays(tmp_path: Path) -> None:
    target = tmp_path / "manifest.json"
    durable.write_file(target, b"old\n")
    limits, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"manifest\.json"):
            durable.write_file(target, b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {target.name: b"old\n"}


@pytest.mark.parametrize("name", ["0001-x.patch", "n" * 249 + ".patch"])
def test_what_a_killed_process_left_is_known_by_its_name(tmp_path: Path, name: str) -> None:
    child = os.fork()
    if child == 0:
        try:
            with durable.whole_file(tmp_path / name):
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    (left,) = tmp_path.iterdir()
    assert durable.is_leftover(left.name, {"other", name})
    assert not durable.is_leftover(left.name, {"other"})
    assert not durable.is_leftover(f"{left.name}x", {name})
    assert not durable.is_leftover(name, {name})
