"""A rebase as a value: what is to be done, what was decided on the way, and where it stopped.

Carrying a series on is deterministic: the same series, releases and decisions give the same result.
So the state holds no half-made results. It names the inputs and keeps the decisions; going on means
to begin again with one decision more. That is why a process may be killed at any moment: whatever
was not written down is computed anew.

States never change. Each transition is a pure function from one to the next.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from pseries.errors import RebaseNotStopped
from pseries.model import paths
from pseries.model.fields import OBJECT_ID, SERIES_NAME, SHA256, Fields, parse_json

if TYPE_CHECKING:
    from pseries.errors import Problem
    from pseries.model.verdicts.verdict import FileVerdict, Verdict

FILE = "state.json"
SCHEMA = 1
_KINDS = re.compile(r"resolved|skipped")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rebase is asked to do. Whoever goes on with it must find the same inputs.

    ``digest`` is the old series'; ``old_tree`` and ``new_tree`` are ids in the store.
    """

    series: str
    digest: str
    target: str
    version: str
    tag: str
    old_tree: str
    new_tree: str
    weave: bool = True
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedFile:
    """A file as a person left it: git mode and sha256 of its bytes, ``None`` where deleted."""

    path: str
    mode: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided on a patch: to leave it out, or what the tree is after it."""

    patch: str
    skipped: bool = False
    files: tuple[ResolvedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """A patch that waits for a decision, and the name of the worktree to make it in."""

    patch: str
    worktree: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Creation:
    """Something that is being written beside the series and was not there before.

    ``sha256`` is of its content, so that an abort removes nothing that somebody changed since.
    """

    path: str
    sha256: str


class Phase(Enum):
    """Where a rebase is."""

    RUNNING = "running"
    """Nothing is written; what is known is the plan and the decisions."""
    STOPPED = "stopped"
    """A patch waits for a person."""
    WRITING = "writing"
    """All is decided; the new series is being put beside the old one."""


@dataclass(frozen=True, slots=True)
class State:
    """A rebase at one moment."""

    plan: Plan
    decisions: tuple[Decision, ...] = ()
    stop: Stop | None = None
    creations: tuple[Creation, ...] = ()

    @property
    def phase(self) -> Phase:
        """Where the rebase is."""
        if self.creations:
            return Phase.WRITING
        return Phase.RUNNING if self.stop is None else Phase.STOPPED


# --- transitions ------------------------------------------------------------------------------


def begin(plan: Plan) -> State:
    """Return the state before the first patch."""
    return State(plan)


def stopped(state: State, stop: Stop) -> State:
    """Return the state in which a patch waits for a person."""
    return replace(state, stop=stop, creations=())


def resolved(state: State, files: tuple[ResolvedFile, ...]) -> State:
    """Return the state in which the waiting patch has a person's result; raises if none waits."""
    return _decided(state, Decision(_waiting(state).patch, files=files))


def skipped(state: State) -> State:
    """Return the state in which the waiting patch is left out; raises if none waits."""
    return _decided(state, Decision(_waiting(state).patch, skipped=True))


def writing(state: State, creations: tuple[Creation, ...]) -> State:
    """Return the state in which nothing is left to decide and ``creations`` are being written."""
    return replace(state, stop=None, creations=creations)


def _waiting(state: State) -> Stop:
    if state.stop is None:
        raise RebaseNotStopped(state.plan.series)
    return state.stop


def _decided(state: State, decision: Decision) -> State:
    others = tuple(each for each in state.decisions if each.patch != decision.patch)
    return replace(state, decisions=(*others, decision), stop=None)


# --- the file ---------------------------------------------------------------------------------


def render(state: State) -> bytes:
    """Return the bytes of the state file; :func:`parse` is the inverse."""
    plan = state.plan
    document = {
        "schema": SCHEMA,
        "plan": {
            "series": plan.series,
            "digest": plan.digest,
            "target": plan.target,
            "version": plan.version,
            "tag": plan.tag,
            "old_tree": plan.old_tree,
            "new_tree": plan.new_tree,
            "weave": plan.weave,
            "strict": plan.strict,
        },
        "decisions": [_decision_document(each) for each in state.decisions],
        "stop": None
        if state.stop is None
        else {
            "patch": state.stop.patch,
            "worktree": state.stop.worktree,
            "files": list(state.stop.files),
        },
        "creations": [{"path": each.path, "sha256": each.sha256} for each in state.creations],
    }
    return (json.dumps(document, indent=1) + "\n").encode("ascii")


def _decision_document(decision: Decision) -> dict[str, Any]:
    return {
        "patch": decision.patch,
        "kind": "skipped" if decision.skipped else "resolved",
        "files": [
            {"path": file.path, "mode": file.mode and f"{file.mode:o}", "sha256": file.sha256}
            for file in decision.files
        ],
    }


def parse(data: bytes, problems: list[Problem]) -> State:
    """Read a state file; what is wrong with it is appended to ``problems``, everything at once."""
    top = Fields(parse_json(FILE, data, problems), FILE, problems)
    if (schema := top.number("schema")) != SCHEMA:
        top.refuse("schema", f"{schema} is not known; this pseries reads {SCHEMA}")
    state = State(
        plan=_plan(top.table("plan")),
        decisions=tuple(_decision(table) for table in top.tables("decisions")),
        stop=None if (table := top.optional_table("stop")) is None else _stop(table),
        creations=tuple(_creation(table) for table in top.tables("creations")),
    )
    top.finish()
    return state


def _plan(table: Fields) -> Plan:
    plan = Plan(
        series=table.text("series", matching=SERIES_NAME, meaning="the name of a series"),
        digest=table.text("digest", matching=SHA256, meaning="a sha256"),
        target=table.text("target", matching=SERIES_NAME, meaning="the name of a series"),
        version=table.text("version"),
        tag=table.text("tag"),
        old_tree=table.text("old_tree", matching=OBJECT_ID, meaning="an object id"),
        new_tree=table.text("new_tree", matching=OBJECT_ID, meaning="an object id"),
        weave=table.flag("weave", default=True),
        strict=table.flag("strict"),
    )
    table.finish()
    return plan


def _decision(table: Fields) -> Decision:
    decision = Decision(
        patch=_checked_name(table, "patch"),
        skipped=table.text("kind", matching=_KINDS, meaning="'resolved' or 'skipped'") == "skipped",
        files=tuple(_resolved_file(each) for each in table.tables("files")),
    )
    table.finish()
    return decision


def _resolved_file(table: Fields) -> ResolvedFile:
    path, mode, sha256 = (
        table.text("path"),
        table.optional_text("mode"),
        table.optional_text("sha256"),
    )
    if (trouble := paths.problem(path)) is not None:
        table.refuse("path", trouble)
    if mode not in (None, "100644", "100755"):
        table.refuse("mode", f"{mode!r} is not a mode of a plain file")
        mode = None
    if sha256 is not None and not SHA256.fullmatch(sha256):
        table.refuse("sha256", f"{sha256!r} is not a sha256")
    if (mode is None) != (sha256 is None):
        table.refuse("mode", "mode and sha256 are given together, or neither for a deleted file")
    table.finish()
    return ResolvedFile(path, None if mode is None else int(mode, 8), sha256)


def _stop(table: Fields) -> Stop:
    stop = Stop(
        _checked_name(table, "patch"), _checked_name(table, "worktree"), table.texts("files")
    )
    table.finish()
    return stop


def _creation(table: Fields) -> Creation:
    creation = Creation(
        table.text("path"), table.text("sha256", matching=SHA256, meaning="a sha256")
    )
    if (trouble := paths.problem(creation.path)) is not None:
        table.refuse("path", trouble)
    table.finish()
    return creation


def _checked_name(table: Fields, key: str) -> str:
    name = table.text(key)
    if (trouble := paths.name_problem(name)) is not None:
        table.refuse(key, f"{name!r} is not the name of a file: {trouble}")
    return name


# --- what came of it --------------------------------------------------------------------------


class Fate(Enum):
    """What became of a patch in the new series."""

    KEPT = "kept"
    DROPPED = "dropped"
    """Upstream has the change."""
    EMPTY = "empty"
    """Nothing is left of it after a person's resolution."""
    SKIPPED = "skipped"
    STOPPED = "stopped"
    UNTRIED = "untried"
    """It stands behind a patch that stopped."""


class Resolver(Enum):
    """Who resolved a patch that did not carry by itself."""

    NOBODY = ""
    PERSON = "by hand"
    RECORD = "by a remembered resolution"


@dataclass(frozen=True, slots=True)
class PatchOutcome:
    """What became of one patch, and why.

    Attributes:
        name: its file name.
        subject: its subject.
        verdict: the worst of its files'; ``None`` if it was not tried.
        fate: whether it is in the new series.
        files: what became of each file.
        resolver: who decided where it stopped by itself.
        unverified: files that the release at hand does not hold: kept as they were.
        upstream_status: what its trailer should say from now on, "" for no change.
        dropped: the whole patch file if it is not in the new series.
    """

    name: str
    subject: str
    verdict: Verdict | None
    fate: Fate
    files: tuple[FileVerdict, ...] = ()
    resolver: Resolver = Resolver.NOBODY
    unverified: tuple[str, ...] = ()
    upstream_status: str = ""
    dropped: bytes | None = None
