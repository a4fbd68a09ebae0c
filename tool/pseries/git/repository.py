"""The store's repository: GitPython with every command sealed off, and not where time counts.

GitPython merges ``os.environ`` into git's environment and looks git up by itself. So it gets a
command wrapper (its documented extension point, ``Repo.GitCommandWrapperType``) that goes through
:mod:`pseries.git.process`. Arguments are fixed words, checked names and full object ids: its option
filters are not relied on. This is the only module that imports it, and only where it is needed: it
takes a tenth of a second, which looking a release up need not wait for.
"""

from __future__ import annotations

import base64
import contextlib
import io
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pseries import durable
from pseries.errors import GitFailed, UpstreamInvalid
from pseries.git import process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import git

_FETCHED = "refs/pseries/fetched"
_FETCH_TIMEOUT = 1800.0
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+!-]*(/[A-Za-z0-9_][A-Za-z0-9._+!-]*)*")


@dataclass(frozen=True)
class Tag:
    """An annotated tag: its name below ``refs/tags/``, its message, and what it points to."""

    name: str
    message: str
    commit: str
    tree: str


@dataclass(frozen=True)
class Repository:
    """A bare repository of ours."""

    git_dir: Path

    @classmethod
    def create(cls, git_dir: Path) -> Repository:
        """Make a bare repository, all or nothing: it appears under its name when it is whole."""
        git_dir.parent.mkdir(parents=True, exist_ok=True)
        with durable.whole_folder(git_dir, synced=False) as new:
            _repo_class().init(
                new,
                expand_vars=False,
                bare=True,
                quiet=True,
                template="",
                allow_unsafe_options=True,
            )
            with (new / "config").open("a", encoding="ascii") as config:
                # Nothing is ever packed or thrown away behind our back.
                config.write("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
        return cls(git_dir)

    def tags(self, prefix: str) -> tuple[Tag, ...]:
        """Return the annotated tags of that name or below it (``prefix`` then ends in ``/``)."""
        form = "%(refname:strip=2)%00%(*objectname)%00%(*tree)%00%(contents)%00"
        listing = ["for-each-ref", f"--format={form}", "--", f"refs/tags/{prefix}"]
        said = process.run(listing, git_dir=self.git_dir).text
        fields = [field.removeprefix("\n") for field in said.split("\0")]
        found = zip(*[iter(fields)] * 4, strict=False)  # what follows the last one is empty
        tags = (Tag(name, message, commit, tree) for name, commit, tree, message in found)
        return tuple(tag for tag in tags if tag.commit)

    def set_tag(self, name: str, target: str) -> None:
        """Point a tag to a tag object, whether it exists or not: the one step that shows it."""
        ref = f"refs/tags/{checked_name(name)}"
        process.run(["update-ref", "--no-deref", "--", ref, checked_id(target)],
                    git_dir=self.git_dir)  # fmt: skip

    def delete_tag(self, name: str) -> None:
        """Delete a tag; raises :class:`GitFailed` if there is none."""
        repo = self._repo()
        repo.delete_tag(repo.tag(f"refs/tags/{checked_name(name)}"))

    def fetch(
        self,
        address: str,
        tag: str,
        login: tuple[str, str] | None = None,
        *,
        certificates: str = "",
        proxy: str = "",
    ) -> tuple[str, str]:
        """Fetch one tag, without its history, and return the ids of its commit and its tree.

        Args:
            address: ``https://`` without credentials, ``file://`` or an absolute path.
            tag: the tag's name.
            login: user and password, told to git through its environment and to that host only.
            certificates: a file with certificates to trust, unless ``GIT_SSL_CAINFO`` names one.
            proxy: the way out, unless the environment names one.

        Raises:
            UpstreamInvalid: address or tag has no allowed form.
            GitFailed: the fetch failed; the message is git's.
            GitLimit: it took longer than half an hour.
        """
        address = checked_address(address)
        process.run(
            [
                "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.version=2",
                "-c", "fetch.fsckObjects=true", "-c", "core.compression=0",
                "-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30",
                "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--force",
                "--end-of-options", address, f"refs/tags/{checked_name(tag)}:{_FETCHED}",
            ],
            git_dir=self.git_dir, extra=_way_out(certificates, proxy) | _login(address, login),
            network=True, timeout=_FETCH_TIMEOUT,
        )  # fmt: skip
        commit = self._repo().commit(_FETCHED)
        return commit.hexsha, commit.tree.hexsha

    def forget_fetched(self) -> None:
        """Drop the ref that :meth:`fetch` left; the objects stay."""
        process.run(["update-ref", "-d", _FETCHED], git_dir=self.git_dir)

    def _repo(self) -> git.Repo:
        return _repo_class()(self.git_dir, expand_vars=False)


def remote_tags(
    address: str,
    login: tuple[str, str] | None = None,
    *,
    certificates: str = "",
    proxy: str = "",
) -> tuple[str, ...]:
    """Return the names of the tags of a repository; arguments and errors as for a fetch."""
    address = checked_address(address)
    said = process.run(
        ["-c", "protocol.version=2", "-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30",
         "ls-remote", "--quiet", "--tags", "--refs", "--end-of-options", address],
        git_dir=None, extra=_way_out(certificates, proxy) | _login(address, login), network=True,
    )  # fmt: skip
    rows = said.stdout.decode("utf-8", "replace").split("\n")
    return tuple(row.partition("\trefs/tags/")[2] for row in rows if "\trefs/tags/" in row)


# --- shapes -----------------------------------------------------------------------------------


def checked_name(name: str) -> str:
    """Return ``name`` if it can only be a tag's name, or raise :class:`UpstreamInvalid`."""
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".", ".lock")):
        raise UpstreamInvalid("tag", name, "not a plain name of a tag")
    return name


def checked_id(name: str) -> str:
    """Return ``name`` if it is a full object id; raises ``ValueError``: none comes from users."""
    if not re.fullmatch(r"[0-9a-f]{40}", name):
        raise ValueError(f"{name!r} is not an object id")
    return name


def checked_address(address: str) -> str:
    """Return ``address`` if git may be pointed to it, or raise :class:`UpstreamInvalid`.

    Only ``https://`` without credentials, ``file:///`` and absolute paths: what starts with ``-``
    is an option, and ``ext::`` and its like run commands.
    """
    plain = address.isprintable() and "\\" not in address
    if not plain or not re.match(r"https://[A-Za-z0-9\[][^/@]*(/|$)|file:///|/", address):
        reason = "git fetches from https://, file:/// and absolute paths only"
        shown = re.sub("//[^/]*@", "//", address)
        raise UpstreamInvalid("git address", shown, reason)
    return address


def _way_out(certificates: str, proxy: str) -> dict[str, str]:
    """Return the variables for what the user's own git configuration, sealed off, may have said."""
    extra = {}
    if certificates and "GIT_SSL_CAINFO" not in os.environ:
        extra["GIT_SSL_CAINFO"] = certificates
    if proxy and not {"https_proxy", "HTTPS_PROXY", "ALL_PROXY"} & os.environ.keys():
        extra["https_proxy"] = proxy
    return extra


def _login(address: str, login: tuple[str, str] | None) -> dict[str, str]:
    """Return the variables that let git log in: not on a command line, and to one host only."""
    if login is None:
        return {}
    host = address.removeprefix("https://").partition("/")[0]
    word = base64.b64encode(":".join(login).encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.https://{host}/.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {word}",
    }


# --- GitPython --------------------------------------------------------------------------------


@cache
def _repo_class() -> type[git.Repo]:
    """Import GitPython and return its ``Repo`` with the sealed command wrapper."""
    # It runs "git version" unsealed when it is imported, and raises an ImportError where there is
    # no git, unless it is pointed to no git at all. Our first command says GitMissing.
    with _without_git_variables(GIT_PYTHON_REFRESH="quiet", GIT_PYTHON_GIT_EXECUTABLE=os.devnull):
        import git  # noqa: PLC0415 - see the head of this file

    class SealedGit(git.Git):
        """GitPython's commands, run by :mod:`pseries.git.process` in their repository."""

        def execute(self, command: str | Sequence[Any], *args: Any, **options: Any) -> Any:
            """Run one command and return what it printed, without the last newline."""
            if isinstance(command, str) or args or options:
                raise NotImplementedError(f"only plain commands are run, not with {options}")
            arguments = [str(argument) for argument in command[1:]]
            return process.run(arguments, git_dir=self._repository()).text

        def get_object_header(self, ref: str | bytes) -> Any:
            """Return id, kind (both as bytes, whatever GitPython's types say) and size."""
            return self._object("--batch-check", ref)[0]

        def stream_object_data(self, ref: str | bytes) -> Any:
            """Return id, kind, size and content of an object, from a process that is over."""
            header, content = self._object("--batch", ref)
            return (*header, io.BytesIO(content))

        def _object(self, how: str, ref: str | bytes) -> tuple[tuple[bytes, bytes, int], bytes]:
            name = ref if isinstance(ref, bytes) else ref.encode()
            run = process.run(["cat-file", how], git_dir=self._repository(), stdin=name + b"\n")
            said, _, content = run.stdout.partition(b"\n")
            fields = said.split()
            if len(fields) != 3:
                raise GitFailed(("cat-file", how), run.status, said.decode(errors="replace"))
            return (fields[0], fields[1], int(fields[2])), content[: int(fields[2])]

        def _repository(self) -> Path:
            return Path(str(self.working_dir))

    class SealedRepo(git.Repo):
        """A repository whose commands are sealed."""

        GitCommandWrapperType = SealedGit

        def __init__(self, *args: Any, **options: Any) -> None:
            with _without_git_variables():  # it takes GIT_DIR, GIT_COMMON_DIR and more from there
                super().__init__(*args, **options)

    return SealedRepo


@contextlib.contextmanager
def _without_git_variables(**others: str) -> Iterator[None]:
    """Take the variables that speak to git out of our own environment for a moment."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("GIT_")}
    for name in kept:
        del os.environ[name]
    os.environ.update(others)
    try:
        yield
    finally:
        for name in others:
            del os.environ[name]
        os.environ.update(kept)
