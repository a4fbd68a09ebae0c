"""The store: what is written comes back, once and whole, whoever else writes or is killed."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import archives

from pseries.errors import NoSuchRelease, StoreBusy, StoreUnreadable, UpstreamInvalid
from pseries.git import pack
from pseries.git.pack import File
from pseries.upstream import store as stores
from pseries.upstream.imports import add_archive
from pseries.upstream.release import Origin
from pseries.upstream.store import Store, cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILES = {"eng/a.py": b"a = 1\n", "eng/b.py": b"b = 1\n"}


def content(files: dict[str, bytes] = FILES) -> Iterator[File]:
    return (File(path, False, len(data), (data,)) for path, data in files.items())


def put(store: Store, version: str, files: dict[str, bytes] = FILES, url: str = "/x") -> None:
    with store.lock():
        store.write(version, content(files), lambda: Origin("folder", url, ""))


def test_an_empty_store_makes_nothing(store: Store) -> None:
    assert store.releases() == ()
    assert store.find("1.0") is None
    assert not store.cache.exists()
    assert Store.all(store.cache) == ()


def test_a_release_comes_back(store: Store) -> None:
    put(store, "1.10", {**FILES, "new": b""}, "/y")
    put(store, "1.0")
    put(store, "1.9")
    first, _, second = store.releases()
    assert second.version == "1.10"
    assert (first.distribution, first.version, first.origin) == ("eng", "1.0", "/x")
    assert store.find("1.0") == store.find("v1.00") == first
    assert store.find("1") is None
    assert second.tree != first.tree
    assert Store.all(store.cache) == (store,)


def test_a_release_can_be_replaced_and_removed(store: Store) -> None:
    put(store, "1.0")
    before = store.find("1.0")
    put(store, "1.0", {"other": b""})
    after = store.find("1.0")
    assert before is not None
    assert after is not None
    assert before.tree != after.tree
    assert len(store.releases()) == 1
    assert store.remove("1.0") == after
    assert store.releases() == ()
    with pytest.raises(NoSuchRelease, match="there are: none"):
        store.remove("1.0")


def test_what_is_to_be_removed_and_is_not_there_is_refused_with_what_is(store: Store) -> None:
    put(store, "1.0")
    for name, version in (("eng", "1.0.1"), ("enq", "1.0")):
        with pytest.raises(NoSuchRelease, match=r"is not in the store; close: eng 1\.0$"):
            Store.open(name, store.cache).remove(version)
    with pytest.raises(NoSuchRelease, match=r"there are: eng 1\.0$"):
        Store.open("quite-another", store.cache).remove("7")
    assert [path.name for path in (store.cache / "upstream").glob("[!e]*")] == []


def test_a_release_is_not_removed_beside_another_process(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "1.0")
    monkeypatch.setattr(stores, "_PATIENCE", 0.05)
    waits: list[bool] = []
    with store.lock(), pytest.raises(StoreBusy):
        Store.open("eng", store.cache).remove("1.0", lambda: waits.append(True))
    assert waits == [True]
    assert store.find("1.0") is not None


def test_what_other_releases_share_survives_a_removal(
    store: Store, git: Callable[..., str]
) -> None:
    put(store, "1.0")
    put(store, "1.1")
    store.remove("1.0")
    kept = store.find("1.1")
    assert kept is not None
    assert git(store.git_dir, "ls-tree", "-r", "--name-only", kept.tree).split() == sorted(FILES)
    git(store.git_dir, "fsck", "--full", "--strict")


def test_the_commit_depends_on_the_files_and_not_on_the_source(
    store: Store, tmp_path: Path
) -> None:
    put(store, "1.0")
    other = Store.open("eng", tmp_path / "other")
    put(other, "1.0", dict(reversed(FILES.items())), url="/elsewhere")
    one, two = store.find("1.0"), other.find("1.0")
    assert one is not None
    assert two is not None
    assert (one.tree, one.commit) == (two.tree, two.commit)
    assert one != two


def test_names_cannot_leave_the_cache(tmp_path: Path) -> None:
    for name in ("../x", "/x", "a/b", "", "."):
        with pytest.raises(UpstreamInvalid):
            Store.open(name, tmp_path)
    assert Store.open("Flash_Infer", tmp_path).git_dir == tmp_path / "upstream/flash-infer.git"


def test_the_cache_is_the_users_or_the_named_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.delenv("PSERIES_CACHE", raising=False)
    assert cache_folder() == Path("/somewhere/pseries")
    monkeypatch.setenv("PSERIES_CACHE", "/named")
    assert Store.open("eng").git_dir == Path("/named/upstream/eng.git")
    monkeypatch.setenv("PSERIES_CACHE", "relative")
    assert cache_folder() == Path.cwd() / "relative"


def test_a_record_that_is_not_ours_is_an_error(store: Store) -> None:
    put(store, "1.0")
    with store.lock():
        repository = store.repository()
        release = store.find("1.0")
        assert release is not None
        tag = pack.write(
            store.git_dir, release.tree, tag="pseries/2.0", subject="x", record=lambda: b"hello"
        )
        repository.set_tag("pseries/2.0", tag)
    with pytest.raises(StoreUnreadable, match=r"tag pseries/2\.0: the record is not JSON"):
        store.find("2.0")
    with pytest.raises(StoreUnreadable):
        store.releases()
    assert store.find("1.0") == release
    store.repository().delete_tag("pseries/2.0")
    store.repository().set_tag("pseries/latest", tag)
    with pytest.raises(StoreUnreadable, match="Invalid version"):
        store.releases()


def test_an_error_in_the_middle_changes_nothing(store: Store) -> None:
    def broken() -> Iterator[File]:
        yield from content()
        raise KeyError("in the middle")

    def not_told() -> Origin:
        raise KeyError("at the end")

    put(store, "1.0")
    before = store.releases()
    with store.lock():
        with pytest.raises(KeyError):
            store.write("1.0", broken(), lambda: Origin("folder", "", ""))
        with pytest.raises(KeyError):
            store.write("1.1", content({"new": b"new"}), not_told)
    assert store.releases() == before
    assert not list(store.git_dir.glob("objects/pack/tmp_*"))


def test_what_a_killed_import_left_is_cleared_away(store: Store) -> None:
    put(store, "1.0")
    old, new = (store.git_dir / "objects/pack" / f"tmp_pack_{name}" for name in ("old", "new"))
    lock = store.git_dir / "refs/tags/pseries/1.0.lock"
    for path in (old, new, lock):
        path.touch()
    os.utime(old, (0, 0))
    put(store, "1.0", {"other": b""})
    assert not old.exists()
    assert not lock.exists()
    assert new.exists(), "it may be another process's"


def test_a_busy_store_is_waited_for_and_said_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_PATIENCE", 0.2)
    told: list[int] = []
    with store.lock(lambda: told.append(1)):
        assert told == []
        busy = store.lock(lambda: told.append(2))
        with pytest.raises(StoreBusy, match=r"in use by another process for 0\.2 s"), busy:
            pass
    assert told == [2]
    with store.lock():
        pass


# --- several processes, and death -------------------------------------------------------------

IMPORT = """
import sys
from pathlib import Path
from pseries.upstream.imports import add_archive
from pseries.upstream.store import Store
store = Store.open("eng", Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
with store.lock():
    print(add_archive(store, "1.0", Path(sys.argv[2]), "").tree)
"""


@pytest.fixture
def sdist(tmp_path: Path) -> Path:
    files = {
        f"eng/{number}.py": hashlib.shake_128(b"%d" % number).hexdigest(5000).encode()
        for number in range(1500)
    }
    path = tmp_path / "eng-1.0.tar.gz"
    path.write_bytes(archives.sdist("eng", "1.0", files))
    return path


@pytest.fixture
def importing(store: Store, sdist: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Return a function that starts a process which imports once it is told to."""
    started = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", IMPORT, str(store.cache), str(sdist)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_processes_at_once_give_one_release(
    store: Store, importing: Callable[[], subprocess.Popen[str]]
) -> None:
    processes = [importing() for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    (release,) = store.releases()
    assert said == {release.tree}
    assert len(list(store.git_dir.glob("objects/pack/*.pack"))) == 1


def test_a_killed_import_leaves_the_release_whole_or_absent(
    store: Store,
    sdist: Path,
    importing: Callable[[], subprocess.Popen[str]],
    git: Callable[..., str],
) -> None:
    outcomes = set()
    for step in range(12):
        process = importing()
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        time.sleep(step * 0.03)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = store.find("1.0")
        outcomes.add(found is not None)
        if store.git_dir.exists():
            git(store.git_dir, "fsck", "--full", "--strict", "--connectivity-only")
        if found is not None:
            assert len(git(store.git_dir, "ls-tree", "-r", found.tree).splitlines()) == 1500
            store.remove("1.0")
    with store.lock():
        release = add_archive(store, "1.0", sdist, "")
    assert store.releases() == (release,)
    assert False in outcomes
