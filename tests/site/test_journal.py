"""The journal: read strictly, and committed by its second line alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.site import trees

from pseries.errors import JournalInvalid, Problem
from pseries.site import journal
from pseries.site.change import Change, FolderChange, Image
from pseries.site.fs import SiteTree
from pseries.site.transaction import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return trees.make(tmp_path / "site")


@pytest.fixture
def tree(site: Path) -> Iterator[SiteTree]:
    with SiteTree(site) as opened:
        yield opened


def test_a_torn_commit_record_is_no_commit(site: Path, tree: SiteTree) -> None:
    trees.interrupted(tree)
    whole = (site / journal.PATH).read_bytes()
    before = trees.snapshot(site, times=True, control=True)
    end = whole.index(b"\n") + 1
    for cut in (end, end + 1, len(whole) - 1):
        (site / journal.PATH).write_bytes(whole[:cut])
        problems: list[Problem] = []
        assert journal.parse(whole[:cut], problems).committed is False
        assert problems == []
    assert journal.parse(whole, problems).committed is True
    assert trees.recover(site).outcome is Outcome.BACK
    assert trees.pending(site) is None
    assert before != trees.snapshot(site, control=True)


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (b"", "does not end"),
        (b"{}\n", "schema"),
        (b"[]\n", "a table is expected"),
        (b'{"schema":2,"changes":[]}\n', "use the pseries that wrote it"),
        (b'{"schema":1,"changes":[{"path":"../x","after":1}],"folders":[]}\n', "leaves the tree"),
        (b'{"schema":1,"changes":[{"path":"\\ud800"}],"folders":[]}\n', "no file name can have"),
        (b'{"schema":1,"changes":[],"folders":[{"path":"/etc","before":1}]}\n', "absolute"),
        (b'{"schema":1,"changes":[],"folders":[{"path":".pseries","before":1}]}\n', "itself"),
        (b'{"schema":1,"changes":[],"folders":[],"more":1}\n', "unknown"),
        (b'{"schema":1,"changes":[{"path":"a.py","derived":true}]}\n', "only bytecode"),
        (b'{"schema":1,"changes":[],"folders":[]}\nrubbish\n', "not the commit"),
        (b"\xff\xfe\n", "not JSON"),
        (b"[" * 100_000 + b"\n", "not JSON"),
    ],
)
def test_a_journal_that_cannot_be_trusted_is_never_followed(
    site: Path, document: bytes, complaint: str
) -> None:
    (site / ".pseries").mkdir()
    (site / journal.PATH).write_bytes(document)
    before = trees.snapshot(site, times=True, control=True)
    for look in (trees.pending, trees.recover):
        with pytest.raises(JournalInvalid, match=complaint):
            look(site)
    after = trees.snapshot(site, times=True, control=True)
    after.pop(".pseries/lock")
    assert after == before


def test_a_plan_is_read_as_it_was_written(tree: SiteTree) -> None:
    made, _ = trees.plan(tree)
    plan = journal.Plan(
        (*made.changes, Change("eng/caf\udce9.py", None, Image("0" * 64, 3, 0o640, 0))),
        (FolderChange("a/b", None, 0o2775), FolderChange("c", 0, None)),
    )
    problems: list[Problem] = []
    assert journal.parse(journal.render(plan), problems) == journal.Journal(plan, False)
    assert problems == []
    json.loads(journal.render(plan))
