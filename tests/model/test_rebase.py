"""The states of a rebase, the steps between them, and the file they are kept in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pseries.errors import Problem, RebaseNotStopped
from pseries.model import rebase
from pseries.model.rebase import Creation, Decision, Phase, Plan, ResolvedFile, State, Stop

SHA1, SHA256 = "a1" * 20, "b2" * 32
PLAN = Plan("eng-1.0", SHA256, "eng-2.0", "2.0", "v2.0", SHA1, SHA1[::-1])
STOP = Stop("0002-x.patch", "0002-x", ("eng/a.py",))
FILES = (ResolvedFile("eng/a.py", 0o100755, SHA256), ResolvedFile("eng/b.py", None, None))


def read(data: bytes) -> tuple[State, list[Problem]]:
    problems: list[Problem] = []
    return rebase.parse(data, problems), problems


class TestSteps:
    def test_runs_stops_and_runs_again_with_one_decision_more(self) -> None:
        begun = rebase.begin(PLAN)
        assert begun.phase is Phase.RUNNING
        stopped = rebase.stopped(begun, STOP)
        assert stopped.phase is Phase.STOPPED
        resolved = rebase.resolved(stopped, FILES)
        assert (resolved.phase, resolved.stop) == (Phase.RUNNING, None)
        assert resolved.decisions == (Decision("0002-x.patch", False, FILES),)
        assert begun == rebase.begin(PLAN)

    def test_a_later_decision_on_a_patch_counts(self) -> None:
        state = rebase.resolved(rebase.stopped(rebase.begin(PLAN), STOP), FILES)
        again = rebase.skipped(rebase.stopped(state, STOP))
        assert again.decisions == (Decision("0002-x.patch", True),)

    def test_writing_has_nothing_left_to_decide(self) -> None:
        state = rebase.writing(rebase.begin(PLAN), (Creation("eng-2.0", SHA256),))
        assert state.phase is Phase.WRITING
        for step in (rebase.skipped, lambda state: rebase.resolved(state, ())):
            with pytest.raises(RebaseNotStopped):
                step(state)

    def test_states_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            rebase.begin(PLAN).stop = STOP  # type: ignore[misc]


NAMES = st.from_regex(r"[a-z][a-z0-9.]{0,20}", fullmatch=True)
HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
IDS = st.text("0123456789abcdef", min_size=40, max_size=40)
PATHS = st.lists(NAMES.filter(lambda n: set(n) != {"."}), min_size=1, max_size=3).map("/".join)
RESOLVED = st.one_of(
    st.builds(ResolvedFile, PATHS, st.sampled_from((0o100644, 0o100755)), HEX),
    st.builds(ResolvedFile, PATHS, st.none(), st.none()),
)
STATES = st.builds(
    State,
    st.builds(Plan, NAMES, HEX, NAMES, NAMES, NAMES, IDS, IDS, st.booleans(), st.booleans()),
    st.lists(
        st.builds(Decision, NAMES, st.booleans(), st.lists(RESOLVED, max_size=2).map(tuple)),
        max_size=3,
    ).map(tuple),
    st.none() | st.builds(Stop, NAMES, NAMES, st.lists(PATHS, max_size=2).map(tuple)),
    st.lists(st.builds(Creation, PATHS, HEX), max_size=2).map(tuple),
)


class TestFile:
    @given(STATES)
    def test_is_read_back_the_same(self, state: State) -> None:
        data = rebase.render(state)
        again, problems = read(data)
        assert (again, problems) == (state, [])
        assert rebase.render(again) == data

    @pytest.mark.parametrize(
        ("key", "value", "what"),
        [
            ("schema", 2, "2 is not known"),
            ("plan", None, "the key is missing"),
            ("plan.series", "../x", "not the name of a series"),
            ("plan.target", "a/b", "not the name of a series"),
            ("plan.digest", "x", "not a sha256"),
            ("plan.new_tree", "--help", "not an object id"),
            ("plan.weave", "yes", "true or false"),
            ("plan.wave", True, "nearest known key is 'weave'"),
            ("stop.worktree", "../../etc", "not the name of a file"),
            ("stop.worktree", "..", "not the name of a file"),
            ("decisions.0.kind", "maybe", "'resolved' or 'skipped'"),
            ("decisions.0.files.0.path", "../../x", "leaves the tree"),
            ("decisions.0.files.0.mode", "120000", "not a mode of a plain file"),
            ("decisions.0.files.0.sha256", None, "together"),
            ("creations.0.path", "/etc", "absolute"),
            ("creations.0.sha256", "", "not a sha256"),
        ],
    )
    def test_refuses_what_it_would_not_have_written(self, key: str, value: Any, what: str) -> None:
        state = rebase.resolved(rebase.stopped(rebase.begin(PLAN), STOP), FILES)
        state = State(state.plan, state.decisions, STOP, (Creation("eng-2.0", SHA256),))
        document = json.loads(rebase.render(state))
        *way, last = key.split(".")
        place = document
        for step in way:
            place = place[int(step) if step.isdecimal() else step]
        if value is None and last == "plan":
            del place[last]
        else:
            place[last] = value
        _, problems = read(json.dumps(document).encode())
        assert what in "; ".join(map(str, problems))

    @pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b"null", b"[" * 100_000])
    def test_takes_any_bytes(self, data: bytes) -> None:
        assert read(data)[1]
