"""Which compiled files go when their source changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pseries.errors import TargetRefused
from pseries.site import bytecode
from pseries.site.change import Change
from pseries.site.fs import SiteTree

if TYPE_CHECKING:
    from pathlib import Path

STALE = (
    "eng/__pycache__/mod.cpython-310.pyc",
    "eng/__pycache__/mod.cpython-311.opt-1.pyc",
    "eng/__pycache__/mod.cpython-311.opt-2.pyc",
    "eng/__pycache__/mod.cpython-311.pyc",
    "eng/__pycache__/mod.pypy310.pyc",
    "eng/mod.pyc",
)
OTHER = (
    "eng/__pycache__/mod.cpython-311.pyc.140",
    "eng/__pycache__/mod.txt",
    "eng/__pycache__/mod_b.cpython-311.pyc",
    "eng/__pycache__/mod.x.y.z.pyc",
    "eng/mod_b.pyc",
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "eng/__pycache__").mkdir(parents=True)
    for path in STALE + OTHER:
        (tmp_path / path).write_text(path)
    return tmp_path


def test_every_tag_and_level_of_a_changed_module_goes_and_nothing_else(site: Path) -> None:
    with SiteTree(site) as tree:
        found = bytecode.removals(tree, ["eng/mod.py", "eng/data.json", "eng/new.py", "top.py"])
    assert [change.path for change in found] == list(STALE)
    assert all(change.derived and change.after is None and change.before for change in found)
    assert {change.before.mode for change in found if change.before} == {0o644}


@pytest.mark.parametrize("name", ["eng/__pycache__", "eng/__pycache__/mod.cpython-311.pyc"])
def test_links_are_refused_because_they_would_go_on_being_imported(
    site: Path, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "it"
    (site / name).rename(elsewhere)
    (site / name).symlink_to(elsewhere)
    with SiteTree(site) as tree, pytest.raises(TargetRefused, match="symbolic link"):
        bytecode.removals(tree, ["eng/mod.py"])


def test_what_was_removed_returns_and_what_came_since_goes(site: Path) -> None:
    with SiteTree(site) as tree:
        removed = bytecode.removals(tree, ["eng/mod.py"])
        for path in STALE[:3]:
            (site / path).unlink()
        (site / STALE[3]).write_text("compiled since")
        (site / "eng/__pycache__/mod.cpython-312.pyc").write_text("compiled since")
        returns = {
            change.path: change for change in bytecode.returns(tree, ["eng/mod.py"], removed)
        }
    old = {change.path: change.before for change in removed}
    assert returns.keys() == {*STALE, "eng/__pycache__/mod.cpython-312.pyc"}
    assert {path: change.after for path, change in returns.items() if change.after} == old
    assert returns[STALE[0]] == Change(STALE[0], None, old[STALE[0]], derived=True)
    assert returns["eng/__pycache__/mod.cpython-312.pyc"].after is None
