"""The list of what is applied: an exact inverse, and nothing in it taken on trust."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.site import trees

from pseries.errors import Problem, StateInvalid, TargetRefused
from pseries.site import receipt
from pseries.site.change import Change, FolderChange, Image
from pseries.site.fs import SiteTree
from pseries.site.receipt import Receipt, State

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

_IMAGES = st.builds(
    Image,
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.integers(0, 1 << 40),
    st.integers(0, 0o777),
    st.none() | st.integers(0, 1 << 62),
    st.none() | st.tuples(st.integers(0, 1 << 31), st.integers(0, 1 << 31)),
    st.dictionaries(
        st.text("a.\udce9", max_size=3).map("user.".__add__), st.binary(max_size=3).map(bytes.hex)
    ).map(lambda found: tuple(found.items())),
)
_NAMES = st.text("abc\udce9é", min_size=1, max_size=4)


def _changes(
    folder: str, *, derived: bool = False, suffix: str = ".py"
) -> st.SearchStrategy[tuple[Change, ...]]:
    sides = st.tuples(_IMAGES | st.none(), _IMAGES | st.none()).filter(any)
    return st.dictionaries(_NAMES, sides, max_size=3).map(
        lambda found: tuple(
            Change(f"{folder}/{name}{suffix}", *both, derived) for name, both in found.items()
        )
    )


_TEXTS = st.text(min_size=1)
_RECEIPTS = st.builds(
    Receipt,
    series=_TEXTS,
    digest=_TEXTS,
    distribution=_TEXTS,
    version=_TEXTS,
    applied_at=_TEXTS,
    tool=_TEXTS,
    drift_accepted=st.booleans(),
    relocate=st.none() | _TEXTS,
    direct_url=st.none() | _TEXTS,
    record=st.builds(Change, st.just("eng.dist-info/RECORD"), _IMAGES, _IMAGES, st.just(False)),
    files=_changes("files"),
    bytecode=_changes("bytecode", derived=True, suffix=".pyc"),
    folders=st.dictionaries(_NAMES, st.integers(0, 0o7777), max_size=2).map(
        lambda found: tuple(
            FolderChange(f"made/{name}", None, mode) for name, mode in found.items()
        )
    ),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(_RECEIPTS, max_size=2))
def test_any_state_is_read_as_it_was_written(receipts: list[Receipt]) -> None:
    state = State(tuple(receipts))
    problems: list[Problem] = []
    data = receipt.render(state)
    assert receipt.parse(data, problems) == state
    assert problems == []
    assert receipt.render(receipt.parse(data, problems)) == data


def test_the_inverse_of_an_inverse_is_the_change(tmp_path: Path) -> None:
    with SiteTree(trees.make(tmp_path / "site")) as tree:
        made, _ = trees.plan(tree)
    for change in (*made.changes, *made.folders):
        assert change.inverse() != change
        assert change.inverse().inverse() == change
    assert made.changes[-1].path == trees.RECORD


def test_a_target_without_state_has_nothing_applied(tmp_path: Path) -> None:
    with SiteTree(trees.make(tmp_path / "site")) as tree:
        assert receipt.read(tree) == State()
        change, data = receipt.writing(tree, State())
        assert change.before is None
        trees.apply(tree)
        state = receipt.read(tree)
        assert [each.series for each in state.applied] == ["eng-1.0-test"]
        change, data = receipt.writing(tree, state)
        assert change.before is not None
        assert change.after is not None
        assert change.before.sha256 == change.after.sha256
        assert data == (tree.root / receipt.PATH).read_bytes()


def _document(tree: SiteTree) -> dict[str, Any]:
    made, _ = trees.plan(tree)
    document: dict[str, Any] = json.loads(receipt.render(State((made,))))
    return document


def test_everything_that_is_wrong_is_named_at_once(tmp_path: Path) -> None:
    with SiteTree(trees.make(tmp_path / "site")) as tree:
        document = _document(tree)
        first = document["applied"][0]
        first["surprise"] = 1
        del first["series"]
        first["drift_accepted"] = "yes"
        first["record"]["before"]["sha256"] = "xyz"
        first["files"][0]["path"] = "../../etc/passwd"
        first["files"][1]["before"]["mode"] = 0o10000
        first["files"][2] = {"path": "eng/gone/old.py"}
        first["folders"][0] = {"path": "eng/new", "before": 1, "after": 1}
        first["bytecode"][0]["before"]["size"] = -1
        (tree.root / ".pseries").mkdir()
        (tree.root / receipt.PATH).write_text(json.dumps(document))
        with pytest.raises(StateInvalid) as caught:
            receipt.read(tree)
    said = str(caught.value)
    for expected in (
        "surprise: the key is unknown",
        "series: the key is missing",
        "true or false is expected",
        "'xyz' is not a sha256",
        "leaves the tree",
        "4096 is out of range",
        "a change needs a file before or after it",
        "not both",
        "-1 is out of range",
    ):
        assert expected in said


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda d: d.update(schema=2), "use the pseries that wrote it"),
        (lambda d: d["applied"][0]["files"].append(d["applied"][0]["files"][0]), "changed twice"),
        (lambda d: d["applied"][0]["files"][0].update(path=".pseries/lock"), "not the package's"),
    ],
)
def test_a_state_that_cannot_be_trusted_is_refused(
    tmp_path: Path, edit: Any, complaint: str
) -> None:
    with SiteTree(trees.make(tmp_path / "site")) as tree:
        document = _document(tree)
        edit(document)
        (tree.root / ".pseries").mkdir()
        (tree.root / receipt.PATH).write_text(json.dumps(document))
        with pytest.raises(StateInvalid, match=complaint):
            receipt.read(tree)


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"\xff", b"{", b"[" * 100_000])
def test_rubbish_is_refused_without_a_traceback(tmp_path: Path, data: bytes) -> None:
    site = trees.make(tmp_path / "site")
    (site / ".pseries").mkdir()
    (site / receipt.PATH).write_bytes(data)
    with SiteTree(site) as tree, pytest.raises(StateInvalid):
        receipt.read(tree)


def test_a_state_behind_a_link_is_refused(tmp_path: Path) -> None:
    site = trees.make(tmp_path / "site")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/state.json").write_bytes(receipt.render(State()))
    (site / ".pseries").symlink_to(tmp_path / "elsewhere")
    with SiteTree(site) as tree, pytest.raises(TargetRefused, match="symbolic link"):
        receipt.read(tree)
    with SiteTree(site) as tree, pytest.raises(TargetRefused, match="symbolic link"):
        trees.apply(tree)
    assert {file.name for file in (tmp_path / "elsewhere").iterdir()} == {"state.json"}
