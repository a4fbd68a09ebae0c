"""The upstream store: one bare git repository a distribution, one tag a release.

``<cache>/upstream/<name>.git`` holds ``refs/tags/pseries/<version>``: an annotated tag that says
where the release came from, on a commit whose tree is the release in canonical paths. The
commit depends on nothing but name, version and files: the same files give the same commit from
whatever source. It is a cache: to remove it costs another download and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from packaging.version import Version

from pseries.errors import NoSuchRelease, StoreBusy, StoreUnreadable
from pseries.git import pack
from pseries.git.repository import Repository, Tag
from pseries.upstream.release import (
    Release,
    distribution_name,
    read_record,
    version_text,
    write_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pseries.upstream.release import Origin

PREFIX = "pseries/"
_PATIENCE = 900.0
"""Seconds to wait for another process that imports into the same store."""
_ABANDONED = 3600.0
"""Seconds after which a temporary file is nobody's any more."""


def cache_folder() -> Path:
    """Return the user's cache folder: ``PSERIES_CACHE``, else where the system keeps caches."""
    own = os.environ.get("PSERIES_CACHE")
    return Path(own).absolute() if own else platformdirs.user_cache_path("pseries")


@dataclass(frozen=True)
class Store:
    """The releases of one distribution. Nothing is made on disk before the first release comes."""

    distribution: str
    cache: Path

    @classmethod
    def open(cls, distribution: str, cache: Path | None = None) -> Store:
        """Return the store of ``distribution``; raises :class:`UpstreamInvalid` for a bad name."""
        return cls(distribution_name(distribution), cache_folder() if cache is None else cache)

    @classmethod
    def all(cls, cache: Path | None = None) -> tuple[Store, ...]:
        """Return every store there is, by name."""
        cache = cache_folder() if cache is None else cache
        names = sorted(
            path.name.removesuffix(".git") for path in (cache / "upstream").glob("*.git")
        )
        return tuple(cls.open(name, cache) for name in names)

    @property
    def git_dir(self) -> Path:
        """The bare repository."""
        return self.cache / "upstream" / f"{self.distribution}.git"

    @property
    def downloads(self) -> Path:
        """Where verified files of the index are kept."""
        return self.cache / "files" / self.distribution

    def releases(self) -> tuple[Release, ...]:
        """Return every release in the store, by version.

        Raises:
            StoreUnreadable: a tag's record is not ours, or a newer program's.
        """
        if not self.git_dir.is_dir():
            return ()
        found = [self._release(tag) for tag in Repository(self.git_dir).tags(PREFIX)]
        return tuple(sorted(found, key=lambda release: Version(release.version)))

    def find(self, version: str) -> Release | None:
        """Return the release of that version, or ``None``; raises like :meth:`releases`."""
        if not self.git_dir.is_dir():
            return None
        tags = Repository(self.git_dir).tags(PREFIX + version_text(version))
        return self._release(tags[0]) if tags else None

    def remove(self, version: str, waiting: Callable[[], None] | None = None) -> Release:
        """Forget a release and return it.

        Its objects stay: other releases share them, and checkouts read them from here.

        Args:
            version: its version.
            waiting: as for :meth:`lock`.

        Raises:
            NoSuchRelease: it is not in the store.
            StoreBusy: another process writes to the store.
        """
        if self.find(version) is not None:  # else not even a lock is to be left behind
            with self.lock(waiting):
                found = self.find(version)
                if found is not None:
                    Repository(self.git_dir).delete_tag(PREFIX + version_text(version))
                    return found
        raise self._no_such(version_text(version))

    def _no_such(self, version: str) -> NoSuchRelease:
        import difflib  # noqa: PLC0415 - only a failure pays for it

        known = tuple(
            f"{release.distribution} {release.version}"
            for store in self.all(self.cache)
            for release in store.releases()
        )
        close = tuple(difflib.get_close_matches(f"{self.distribution} {version}", known, n=5))
        return NoSuchRelease(self.distribution, version, known, close)

    def write(
        self, version: str, content: Iterable[pack.File] | str, origin: Callable[[], Origin]
    ) -> Release:
        """Write a release, in place of one of the same version; call it under :meth:`lock`.

        Args:
            version: the version, in normal form.
            content: the files in canonical paths, or a tree that is in the repository already.
            origin: says where it came from, once the last file was read.

        Raises:
            GitFailed: git could not write it. Then, as after any error that comes out of
                ``content``, the store is as it was before.
        """
        self._prepare()
        tag = pack.write(
            self.git_dir,
            content,
            tag=PREFIX + version,
            subject=f"{self.distribution} {version}",
            record=lambda: write_record(origin()),
        )
        repository = Repository(self.git_dir)
        repository.set_tag(PREFIX + version, tag)
        return self._release(repository.tags(PREFIX + version)[0])

    def repository(self) -> Repository:
        """Return the repository, made if it is missing; call it under :meth:`lock`."""
        self._prepare()
        return Repository(self.git_dir)

    @contextlib.contextmanager
    def lock(self, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        """Keep other processes from writing to this store; raises :class:`StoreBusy`.

        Args:
            waiting: told, once, that another process is at work.
        """
        from filelock import FileLock, Timeout  # noqa: PLC0415 - slow; whoever only reads needs none

        path = self.git_dir.with_suffix(".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if waiting is not None:
                waiting()
            try:
                lock.acquire(timeout=_PATIENCE)
            except Timeout:
                raise StoreBusy(str(self.git_dir), _PATIENCE) from None
        try:
            yield
        finally:
            lock.release()

    def _prepare(self) -> None:
        """Make the repository if it is missing, and clear away what a killed import left."""
        if not self.git_dir.is_dir():
            Repository.create(self.git_dir)
        for stale in self.git_dir.glob(f"refs/tags/{PREFIX}*.lock"):
            stale.unlink(missing_ok=True)
        for pattern in ("objects/pack/tmp_*", "objects/??/tmp_obj_*"):
            for path in self.git_dir.glob(pattern):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > _ABANDONED:
                        path.unlink()

    def _release(self, tag: Tag) -> Release:
        version = tag.name.removeprefix(PREFIX)
        try:
            Version(version)
            recorded = read_record(tag.message)
        except ValueError as error:
            raise StoreUnreadable(str(self.git_dir), tag.name, str(error)) from None
        return Release(self.distribution, version, tag.tree, tag.commit, recorded)
