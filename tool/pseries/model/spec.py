"""``series.toml``: what people say of a series, read strictly.

Reading uses the standard library's parser where there is one (Python 3.11) because every command
reads this file; only a rewrite, which must keep comments and order, needs tomlkit.
"""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from pseries.errors import Problem
from pseries.model import paths
from pseries.model.fields import SERIES_NAME, Fields
from pseries.model.runtime import placeholder

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "series.toml"
SCHEMA = 1
SOURCES = ("git", "sdist", "wheel")
MOST_BYTES = 128 << 10
_MOST_DOTS = 50
"""In one line: readers of TOML take time that grows with the square of a key's parts."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")  # PEP 508, bounded
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.!_-]{0,99}")
_LABEL = re.compile(r"[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*")  # PEP 440 local version label
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+-]{0,199}")
_GIT = re.compile(r"(?:https://|file://|/)[^\s\x00-\x1f]+")
_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ONE_LINE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]*")
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ARCHITECTURE = re.compile(r"[A-Za-z0-9](?:[ -~]{0,98}[!-~])?")
_MEMLOCK = re.compile(r"(?:unlimited|[0-9]{1,18})?")
_ADDRESS = re.compile(r"/[!-~]{0,999}")


class Upstream(NamedTuple):
    """The release that a series is made for, and where to look for it.

    ``root`` is the folder of the git tree that installs into site-packages, "" for the top;
    ``git`` and ``tag`` are "" when there is no public repository.
    """

    distribution: str
    version: str
    git: str = ""
    tag: str = ""
    root: str = ""
    sources: tuple[str, ...] = SOURCES


class Hardware(NamedTuple):
    """The accelerator that a series was made for; capabilities such as ``"12.0"``."""

    name: str = ""
    compute_capability: tuple[str, ...] = ()


class Relocation(NamedTuple):
    """A build that ships the same code in another folder; both are canonical paths."""

    name: str
    source: str
    target: str


class Serve(NamedTuple):
    """How the patched engine is started: command words, environment, RLIMIT_MEMLOCK."""

    command: tuple[str, ...]
    memlock: str
    environment: tuple[tuple[str, str], ...]


class Smoke(NamedTuple):
    """One request that a served engine must answer; ``expect`` is a path in the answer."""

    path: str
    json: Mapping[str, Any]
    expect: str


class Operator(NamedTuple):
    """Where an operator of the engine is known to run, and where it is known not to."""

    name: str
    runs_on: tuple[str, ...]
    fails_on: tuple[str, ...]
    note: str


class Spec(NamedTuple):
    """The whole of ``series.toml``."""

    summary: str
    label: str
    after: tuple[str, ...]
    upstream: Upstream
    packages: tuple[str, ...]
    hardware: Hardware
    relocations: tuple[Relocation, ...]
    serve: Serve | None
    smokes: tuple[Smoke, ...]
    operators: tuple[Operator, ...] = ()


def parse(data: bytes, problems: list[Problem]) -> Spec:
    """Read ``series.toml``; what is wrong is appended to ``problems``, everything at once."""
    top = Fields(_toml(data, problems), FILE, problems)
    if (schema := top.number("schema", default=SCHEMA)) != SCHEMA:
        top.refuse("schema", f"{schema} is not known; this pseries reads {SCHEMA}")
    spec = Spec(
        summary=top.text("summary", matching=_ONE_LINE, meaning="one line of plain text"),
        label=top.text("label", matching=_LABEL, meaning="a PEP 440 local version label"),
        after=_after(top),
        upstream=_upstream(top.table("upstream")),
        packages=_packages(top.table("requires", required=False)),
        hardware=_hardware(top.table("hardware", required=False)),
        relocations=tuple(_relocation(table) for table in top.tables("relocate")),
        serve=None if (table := top.optional_table("serve")) is None else _serve(table),
        smokes=tuple(_smoke(table) for table in top.tables("smoke")),
        operators=_operators(top),
    )
    top.finish()
    return spec


def _after(top: Fields) -> tuple[str, ...]:
    names = top.texts("after")
    for name in names:
        if not SERIES_NAME.fullmatch(name):
            top.refuse("after", f"{name!r} is not the name of a series")
    return names


def _toml(data: bytes, problems: list[Problem]) -> dict[str, Any]:
    if len(data) > MOST_BYTES:
        problems.append(Problem(FILE, f"larger than {MOST_BYTES >> 10} KiB"))
        return {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.count(b".") > _MOST_DOTS:
            problems.append(Problem(f"{FILE}:{number}", f"more than {_MOST_DOTS} dots in a line"))
            return {}
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        problems.append(Problem(FILE, f"not UTF-8 at byte {error.start}"))
        return {}
    try:
        return _loads(text)
    except ValueError as error:
        problems.append(Problem(FILE, f"not TOML: {str(error)[:200]}"))
        return {}
    except RecursionError:
        problems.append(Problem(FILE, "not TOML that can be read: nested too deeply"))
        return {}


def _loads(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - `--help` needs none

        return tomllib.loads(text)
    import tomlkit  # noqa: PLC0415 - the slower reader, only before Python 3.11

    try:
        return dict(tomlkit.parse(text).unwrap())
    except tomlkit.exceptions.TOMLKitError as error:  # not each of them is a ValueError
        raise ValueError(str(error)) from error


def _upstream(table: Fields) -> Upstream:
    root = table.text("root", default="")
    if root and (trouble := paths.problem(root)):
        table.refuse("root", trouble)
    sources = table.texts("sources") or SOURCES
    for source in sources:
        if source not in SOURCES:
            table.refuse("sources", f"{source!r} is none of {', '.join(SOURCES)}")
    upstream = Upstream(
        distribution=table.text("distribution", matching=_NAME, meaning="a distribution name"),
        version=table.text("version", matching=_VERSION, meaning="a public PEP 440 version"),
        git=table.text("git", default="", matching=_GIT, meaning="an https or file address"),
        tag=table.text("tag", default="", matching=_TAG, meaning="a tag name"),
        root=root,
        sources=sources,
    )
    table.finish()
    return upstream


def _packages(table: Fields) -> tuple[str, ...]:
    packages = table.texts("packages")
    table.finish()
    return packages


def _hardware(table: Fields) -> Hardware:
    capabilities = table.texts("compute_capability")
    for capability in capabilities:
        if not _CAPABILITY.fullmatch(capability):
            table.refuse("compute_capability", f"{capability!r} is not of the form '12.0'")
    hardware = Hardware(table.text("name", default=""), capabilities)
    table.finish()
    return hardware


def _operators(top: Fields) -> tuple[Operator, ...]:
    found: list[Operator] = []
    for table in top.tables("operators"):
        operator = Operator(
            name=table.text("name", matching=_ARCHITECTURE, meaning="a name in one line"),
            runs_on=table.texts("runs_on"),
            fails_on=table.texts("fails_on"),
            note=table.text("note", default="", matching=_ONE_LINE, meaning="one line"),
        )
        for key, names in (("runs_on", operator.runs_on), ("fails_on", operator.fails_on)):
            for name in names:
                if not _ARCHITECTURE.fullmatch(name):
                    table.refuse(key, f"{name[:100]!r} is not the name of an architecture")
        for name in sorted({*operator.runs_on} & {*operator.fails_on}):
            table.refuse("fails_on", f"{name!r} is in runs_on as well")
        if not operator.runs_on and not operator.fails_on:
            table.refuse("runs_on", "neither this nor fails_on names an architecture")
        if operator.name and operator.name in {each.name for each in found}:
            table.refuse("name", f"{operator.name!r} is there twice")
        table.finish()
        found.append(operator)
    return tuple(found)


def _relocation(table: Fields) -> Relocation:
    relocation = Relocation(
        name=table.text("name", matching=_SLUG, meaning="a short name"),
        source=table.text("from"),
        target=table.text("to"),
    )
    for key, path in (("from", relocation.source), ("to", relocation.target)):
        if path and (trouble := paths.problem(path)):
            table.refuse(key, trouble)
    table.finish()
    return relocation


def _serve(table: Fields) -> Serve:
    environment = table.pairs("env")
    for name, value in environment:
        if not _VARIABLE.fullmatch(name):
            table.refuse("env", f"{name!r} is not the name of an environment variable")
        elif not _ONE_LINE.fullmatch(value):
            # It would end its line where a shell, a container engine or an image reads it.
            table.refuse("env", f"the value of {name} is not one line of plain text")
    serve = Serve(
        command=table.texts("command", required=True),
        memlock=table.text("memlock", default=""),
        environment=environment,
    )
    if not _MEMLOCK.fullmatch(serve.memlock):
        table.refuse("memlock", f"{serve.memlock!r} is neither 'unlimited' nor a number of bytes")
    if not "".join(serve.command[:1]):
        table.refuse("command", "its first word is empty")
    if not all(map(_ONE_LINE.fullmatch, serve.command)):
        table.refuse("command", "a word is not one line of plain text")
    _check_placeholders(table, "command", serve.command)
    table.finish()
    return serve


def _smoke(table: Fields) -> Smoke:
    smoke = Smoke(table.text("path"), table.free("json"), table.text("expect"))
    if smoke.path and not smoke.path.startswith("/"):
        table.refuse("path", f"{smoke.path!r} does not start with '/'")
    elif not _ADDRESS.fullmatch(smoke.path or "/"):
        table.refuse("path", "it is longer than 1000 characters, or not all printable ASCII")
    if not _is_json(smoke.json):
        table.refuse("json", "it holds a date, a time or a number that JSON does not have")
    _check_placeholders(table, "json", smoke.json)
    table.finish()
    return smoke


def _check_placeholders(table: Fields, key: str, value: Any) -> None:
    for name in placeholder.names(value):
        if name not in placeholder.KNOWN:
            known = ", ".join(f"{{{each}}}" for each in placeholder.KNOWN)
            table.refuse(key, f"{{{name}}} is no placeholder; there are: {known}")


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))
