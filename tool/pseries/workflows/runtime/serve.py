"""Starting the engine that a series patches, as ``[serve]`` of the series says."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import (
    DistributionNotFound,
    DistributionRefused,
    InterpreterFailed,
    NotPatched,
    NotServed,
    Overlap,
    PlaceholderOpen,
    Problem,
    PythonNotFound,
    TargetChanged,
    WrongTree,
)
from pseries.model.runtime import placeholder, servelog
from pseries.site import interpreter
from pseries.site.fs import SiteTree
from pseries.workflows.target import apply as applying
from pseries.workflows.target import status as statuses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import IO

    from pseries.model.series import Series
    from pseries.model.spec import Serve, Spec

_PYTHON = ("python", "python3")
"""First words of a command that mean the target's interpreter, whatever it is called there."""


class Plan(NamedTuple):
    """What is started: the words of the command, what is added to the environment, the limit."""

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    memlock: str


class Target(NamedTuple):
    """The interpreter that the engine runs in, and where it is installed, if that was asked."""

    python: Path
    given: Path | None
    site: Path | None


def served(name: str, spec: Spec) -> Serve:
    """Return what a series says of serving.

    Raises:
        NotServed: nothing.
    """
    if spec.serve is None:
        raise NotServed(name, "[serve]")
    return spec.serve


def plan(name: str, spec: Spec, model: str | None, extra: Sequence[str] = ()) -> Plan:
    """Return what is started for a model, with words of the user's own behind the command.

    Raises:
        NotServed: the series does not say how.
        PlaceholderOpen: the command needs a value that was not given.
    """
    serve = served(name, spec)
    values = {} if model is None else {"model": model}
    for each in placeholder.names(serve.command):
        if each not in values:
            raise PlaceholderOpen(name, each, "the command")
    command = (*placeholder.fill(serve.command, values), *extra)
    return Plan(command, serve.environment, serve.memlock)


def target(distribution: str, site: Path | None, python: Path | None, *, check: bool) -> Target:
    """Return the interpreter that is meant, and the folder in which it finds the distribution.

    Args:
        distribution: what the series patches.
        site: a site-packages folder, whose own interpreter is looked for.
        python: an interpreter; neither means the running one.
        check: whether the interpreter has to import the distribution from where it is installed.

    Raises:
        PythonNotFound: no interpreter belongs to the folder.
        And what :func:`pseries.site.interpreter.locate` raises, with ``check``.
    """
    if site is not None:
        return _of_folder(distribution, site, check=check)
    given = None if python is None else interpreter.absolute(python)
    program = Path(sys.executable) if given is None else given
    return Target(program, given, interpreter.locate(given, distribution) if check else None)


def _of_folder(distribution: str, site: Path, *, check: bool) -> Target:
    with SiteTree(site) as tree:
        root = tree.root
    for python, given in _candidates(root):
        if not check:
            return Target(python, given, root)
        try:
            if interpreter.locate(given, distribution) == root:
                return Target(python, given, root)
        except (DistributionNotFound, DistributionRefused, InterpreterFailed, WrongTree):
            continue
    raise PythonNotFound(str(site))


def _candidates(site: Path) -> Iterator[tuple[Path, Path | None]]:
    """Yield the running interpreter if it has this folder, else those of its prefix."""
    if str(site) in {os.path.realpath(entry) for entry in sys.path}:
        yield Path(sys.executable), None
        return
    version, lib = site.parent, site.parent.parent
    if lib.name in ("lib", "lib64"):
        for name in (version.name, "python3", "python"):
            program = lib.parent / "bin" / name
            if program.is_file() and os.access(program, os.X_OK) and _is_ours(program):
                yield program, program


def _is_ours(program: Path) -> bool:
    """Say whether a program that nobody named may be run: it is root's, or the user's own."""
    owners = {program.lstat().st_uid, program.stat().st_uid}
    return owners <= {0, os.geteuid()}


def require_patched(
    series: Series, site: Path, fitting: Callable[[], Mapping[str, str]] = dict
) -> None:
    """Refuse a target that does not hold exactly what a series makes of it.

    A receipt says so in a moment. Without one (a patched wheel, a kit) every file is looked at.

    Raises:
        RecoveryNeeded: a change of the target is not finished.
        TargetChanged: something was changed since a series was applied.
        NotPatched: the series is not applied.
        And what ``apply --check`` raises.
    """
    with SiteTree(site) as tree:
        found = statuses.status(tree)
        if not found.clean:
            raise TargetChanged(str(tree.root), _changes(found))
    applied = tuple(each.series for each in found.series)
    if any(each.series == series.name and each.digest == series.digest for each in found.series):
        return
    try:
        action = applying.apply(series, site, check=True, fitting=fitting).action
    except Overlap:  # another series has its files
        raise NotPatched(series.name, str(site), applied) from None
    if action is applying.Action.FITS:
        raise NotPatched(series.name, str(site), applied)


def _changes(found: statuses.Status) -> tuple[Problem, ...]:
    problems = []
    for each in found.series:
        if each.underneath:
            problems.append(Problem(each.series, each.underneath))
        fine = (statuses.Now.AS_WRITTEN, statuses.Now.BENEATH)
        problems += [
            Problem(file.path, file.now.value) for file in each.files if file.now not in fine
        ]
    return tuple(problems)


def start(planned: Plan, goal: Target, *, series: str, digest: str, log: Path | None = None) -> int:
    """Start the engine and return its exit status, negative for the signal that ended it.

    Args:
        planned: the command and its environment.
        goal: the interpreter.
        series: said in the log, so that its readers find the last start.
        digest: the same.
        log: the file that the engine's output is appended to.

    Raises:
        MemlockRefused, CommandNotStarted: nothing was started.
    """
    from pseries.deploy import process  # noqa: PLC0415 - `status` and `apply` need none

    folders = [goal.python.parent, interpreter.scripts(goal.given)]
    program = (
        goal.python if planned.command[0] in _PYTHON else process.find(planned.command[0], folders)
    )
    process.raise_memlock(planned.memlock)
    environment = {**os.environ, **dict(planned.environment)}
    # As if the environment were activated: engines start tools of it (ninja, nvcc) by name.
    paths = [*map(str, folders), *filter(None, [environment.get("PATH")])]
    environment["PATH"] = os.pathsep.join(dict.fromkeys(paths))
    words = [str(program), *planned.command[1:]]
    if log is None:
        return process.run(words, environment, None)
    with _opened(log) as file:
        moment = datetime.now(timezone.utc).isoformat(timespec="seconds")
        file.write(servelog.start(series, digest, moment).encode())
        file.flush()
        return process.run(words, environment, file)


def _opened(log: Path) -> IO[bytes]:
    """Open a log to append to; a pipe that nobody reads is an error, not something to wait for."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(log, flags, 0o666)
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "ab")


def replaced(planned: Plan) -> tuple[str, ...]:
    """Return the variables of the series that have another value in our own environment."""
    return tuple(
        name for name, value in planned.environment if os.environ.get(name, value) != value
    )
