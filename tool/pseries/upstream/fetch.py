"""Getting a release into the store from the first of its sources that has it.

Sources are tried in the order that the series gives. One that is out of reach costs seconds and is
reported; the next is tried. What is pinned must match: a file with another hash is not "not found".
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from pseries.errors import (
    ArtefactMismatch,
    GitFailed,
    GitLimit,
    IndexInvalid,
    IndexUnreachable,
    Problem,
    ReleaseNotFound,
    ReleaseNotStored,
    ReleaseUnreachable,
    UpstreamInvalid,
)
from pseries.git.repository import checked_address, checked_name, remote_tags
from pseries.upstream.imports import add_archive
from pseries.upstream.release import Origin, checked_root, public, version_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pseries.model.spec import Upstream
    from pseries.upstream.index import Client, Listed, Project
    from pseries.upstream.release import Progress, Release
    from pseries.upstream.settings import Settings
    from pseries.upstream.store import Store


@dataclass(frozen=True)
class SourceFailed:
    """A source could not serve the release; the next one is tried."""

    source: str
    reason: str


@dataclass(frozen=True)
class FileYanked:
    """The file that is used was yanked from the index (PEP 592)."""

    filename: str
    reason: str


@dataclass(frozen=True)
class FileUnverified:
    """The index gives no sha256 for a file, and none is pinned: only the connection vouches."""

    filename: str


@dataclass(frozen=True)
class StoreInUse:
    """Another process imports into the same store; this one waits."""

    distribution: str


Event = SourceFailed | FileYanked | FileUnverified | StoreInUse
Report = Callable[[Event], None]


def fetch(
    wanted: Upstream,
    store: Store,
    settings: Settings,
    *,
    pins: Mapping[str, str] | None = None,
    offline: bool = False,
    progress: Progress | None = None,
    report: Report | None = None,
) -> Release:
    """Return the release from the store, fetched first if it is not there.

    Args:
        wanted: what to fetch and where to look for it; without a tag, ``v<version>`` is meant.
        store: the store of its distribution.
        settings: how to reach the package index.
        pins: sha256 by file name, from the manifest.
        offline: no network; what the store, a local path or a ``file://`` index has is served.
        progress: told what goes on.
        report: told what the user should know although it is no failure.

    Raises:
        ReleaseUnreachable: a source that may have it could not be asked, and no other has it.
        ReleaseNotStored: the same, where ``offline`` is why.
        ReleaseNotFound: no source has it.
        ArtefactMismatch: a file is not the pinned one.
        UpstreamInvalid: a name, version, address or tag has no allowed form.
        ArchiveRefused: the file of the release breaks a rule.
    """
    version = version_text(wanted.version)
    attempt = _Attempt(
        wanted, version, store, settings, pins or {}, offline, progress, report or _ignore
    )
    found = attempt.stored()
    if found is not None:
        return found
    with store.lock(lambda: attempt.report(StoreInUse(store.distribution))):
        return attempt.stored() or attempt.fetched()


def _ignore(event: Event) -> None:
    del event


class _NotHere(Exception):
    """A source does not serve the release.

    ``silent``: it, or a part of it, could not be asked. ``absent``: it knows of no such version.
    """

    def __init__(
        self,
        reason: str,
        *,
        silent: bool = False,
        absent: bool = False,
        nearest: tuple[str, ...] = (),
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.silent = silent
        self.absent = absent
        self.nearest = nearest


@dataclass
class _Attempt:
    """One call of :func:`fetch`, and what it learns on the way."""

    wanted: Upstream
    version: str
    store: Store
    settings: Settings
    pins: Mapping[str, str]
    offline: bool
    progress: Progress | None
    report: Report
    project: Project | None = None
    unlisted: _NotHere | None = None

    def stored(self) -> Release | None:
        """Return the release if the store has it, under the right folder and as it is pinned."""
        found = self.store.find(self.version)
        if found is None:
            return None
        if found.artefact is not None:
            self._check(found.artefact.filename, found.artefact.sha256)
        if found.source == "git" or found.recorded.root == self.wanted.root:
            return found
        if found.source == "folder":
            reason = f"the store has it from a folder, under {found.recorded.root!r}: add it again"
            raise UpstreamInvalid("root", self.wanted.root, reason)
        return None

    def fetched(self) -> Release:
        """Try each source in turn."""
        checked_root(self.wanted.root)
        failed: list[tuple[str, _NotHere]] = []
        for source in self.wanted.sources:
            if failed and not (self.offline and failed[-1][1].silent):  # the user has said so
                self.report(SourceFailed(failed[-1][0], failed[-1][1].reason))
            try:
                return self._from_git() if source == "git" else self._from_index(source)
            except _NotHere as error:
                failed.append((source, error))
        name = self.store.distribution
        reasons = tuple(Problem(source, error.reason) for source, error in failed)
        nearest = next((error.nearest for _, error in failed if error.nearest), ())
        absent = any(error.absent and not error.silent for _, error in failed)
        if any(error.silent for _, error in failed) and not absent:
            if self.offline:
                wanted = self.wanted
                raise ReleaseNotStored(
                    name, self.version, public(wanted.git), wanted.tag, wanted.root,
                    tuple(wanted.sources), reasons,
                )  # fmt: skip
            raise ReleaseUnreachable(name, self.version, reasons)
        raise ReleaseNotFound(name, self.version, reasons, nearest)

    def _check(self, filename: str, sha256: str) -> None:
        pinned = self.pins.get(filename, sha256)
        if sha256 and pinned != sha256:
            raise ArtefactMismatch(filename, pinned, sha256, "the manifest")

    # --- git ---

    def _from_git(self) -> Release:
        if not self.wanted.git:
            raise _NotHere("no address is given")
        address, login = _split(self.wanted.git)
        tag = checked_name(self.wanted.tag or f"v{self.version}")
        if checked_address(address).startswith("https://"):
            login = self._probe(address, login)
        repository = self.store.repository()
        if self.progress is not None:
            self.progress(f"fetching {tag} from {public(address)}", 0, None)
        try:
            commit, tree = repository.fetch(
                address,
                tag,
                login,
                certificates=self.settings.cert or os.environ.get("REQUESTS_CA_BUNDLE", ""),
                proxy=self.settings.proxy,
            )
        except GitLimit as error:
            raise _NotHere(str(error), silent=True) from None
        except GitFailed as error:
            raise _git_failure(error, tag) from None
        try:
            origin = Origin("git", public(address), self.wanted.root, upstream=commit)
            return self.store.write(self.version, tree, lambda: origin)
        finally:
            repository.forget_fetched()

    def _probe(self, address: str, login: tuple[str, str] | None) -> tuple[str, str] | None:
        """Ask the host what git would ask first, for git itself waits minutes for it.

        Returns:
            The login to use: the address's, or the one in the user's netrc file.
        """
        from pseries.upstream import net  # noqa: PLC0415 - hundreds of ms, only where it is needed

        with net.Session(self.settings, offline=self.offline) as session:
            reason = net.probe(session, f"{address.rstrip('/')}/info/refs", login)
        if reason is not None:
            raise _NotHere(reason, silent=True)
        return login or net.netrc_login(address)

    # --- the index ---

    def _from_index(self, source: str) -> Release:
        from pseries.upstream import index  # noqa: PLC0415 - hundreds of ms, only where it is needed

        with index.Client(self.settings, offline=self.offline) as client:
            file = self._choose(client, source)
            artefact = file.artefact
            self._check(artefact.filename, artefact.sha256)
            expected = self.pins.get(artefact.filename, "")
            announce(file, expected, self.report)
            try:
                path = client.download(
                    file, self.store.downloads, expected=expected, progress=self.progress
                )
            except IndexUnreachable as error:
                raise _NotHere(str(error), silent=True) from None
        return add_archive(
            self.store, self.version, path, self.wanted.root, sha256=expected or artefact.sha256,
            url=file.url, progress=self.progress,
        )  # fmt: skip

    def _choose(self, client: Client, source: str) -> Listed:
        """Return the file to import: always the same of several, a pinned one before others."""
        project = self._listed(client)
        files = project.release(self.version)
        of_kind = [file for file in files if file.artefact.kind == source]
        if not of_kind:
            silent = bool(project.silent)
            # One that could not be asked may have it: then nobody knows that it is not there.
            which = "the index that answered" if silent else "the index"
            unasked = "".join(f"{each}; " for each in project.silent)
            if files:
                raise _NotHere(f"{unasked}{which} has no {source} of it", silent=silent)
            what = "this version" if project.files else f"a project {project.distribution!r}"
            raise _NotHere(
                f"{unasked}{which} has not {what}", silent=silent, absent=True,
                nearest=project.nearest(self.version),
            )  # fmt: skip
        return min(of_kind, key=self._preference)

    def _listed(self, client: Client) -> Project:
        """Ask the index once for all sources, and once only if it does not answer."""
        if self.unlisted is None and self.project is None:
            try:
                self.project = client.project(self.store.distribution)
            except (IndexUnreachable, IndexInvalid) as error:
                silent = isinstance(error, IndexUnreachable)
                self.unlisted = _NotHere(str(error), silent=silent)
        if self.project is None:
            raise self.unlisted or _NotHere("the index was not asked", silent=True)
        return self.project

    def _preference(self, file: Listed) -> tuple[bool, bool, bool, int, str]:
        """Pinned, not yanked, for any platform or .tar.gz, small (less compiled code), by name."""
        filename = file.artefact.filename
        return (
            filename not in self.pins,
            file.yanked is not None,
            not filename.endswith(("-none-any.whl", ".tar.gz")),
            file.artefact.size or 0,
            filename,
        )


def tags(address: str, settings: Settings, *, offline: bool = False) -> tuple[str, ...]:
    """Return the tags of a repository.

    Raises:
        UpstreamInvalid: the address has no allowed form, or nobody can be asked offline.
        ReleaseUnreachable: it cannot be reached, or is no repository.
    """
    plain, login = _split(address)
    if checked_address(plain).startswith("https://"):
        from pseries.upstream import net  # noqa: PLC0415 - hundreds of ms, only where needed

        with net.Session(settings, offline=offline) as session:
            reason = net.probe(session, f"{plain.rstrip('/')}/info/refs", login)
        if reason is not None:
            raise _tags_unreachable(plain, reason)
        login = login or net.netrc_login(plain)
    try:
        return remote_tags(
            plain, login, proxy=settings.proxy,
            certificates=settings.cert or os.environ.get("REQUESTS_CA_BUNDLE", ""),
        )  # fmt: skip
    except GitFailed as error:
        raise _tags_unreachable(plain, _git_failure(error, "").reason) from None


def _tags_unreachable(address: str, reason: str) -> ReleaseUnreachable:
    return ReleaseUnreachable(f"the tags of {public(address)}", "", (Problem("git", reason),))


def announce(file: Listed, expected: str, report: Report) -> None:
    """Report what an index says of a file, or fails to say, before it is used."""
    if file.yanked is not None:
        report(FileYanked(file.artefact.filename, file.yanked))
    if not (expected or file.artefact.sha256):
        report(FileUnverified(file.artefact.filename))


def _split(address: str) -> tuple[str, tuple[str, str] | None]:
    """Return a git address without its credentials, and these."""
    parts = urlsplit(address)
    login, at, host = parts.netloc.rpartition("@")
    if parts.scheme != "https" or not at:
        return address, None
    user, _, password = login.partition(":")
    return urlunsplit(parts._replace(netloc=host)), (unquote(user), unquote(password))


def _git_failure(error: GitFailed, tag: str) -> _NotHere:
    """Tell "there is no such tag" from "it could not be asked"."""
    said = [line for line in error.stderr.splitlines() if line.strip()]
    if any("couldn't find remote ref" in line for line in said):
        return _NotHere(f"it has no tag {tag!r}")
    if any("dubious ownership" in line for line in said):
        reason = "the repository belongs to another user, and git reads no such: take a copy of it"
        return _NotHere(reason, silent=True)
    return _NotHere(said[0].removeprefix("fatal: ") if said else str(error), silent=True)
