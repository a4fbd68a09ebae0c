"""Whose word is taken for what is written with our rights, and what a new file is given."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
from tests.site import faults, trees
from tests.support import engine

from pseries.errors import JournalInvalid, StateInvalid, StateNotOurs, TargetRefused
from pseries.site import journal, receipt, transaction
from pseries.site.change import Change, Image
from pseries.site.fs import SiteTree
from pseries.site.lock import exclusive, purge
from pseries.workflows.target import apply as applying
from pseries.workflows.target import rollback as rolling

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
USER = 1234
EVIL = b"#!/bin/sh\nid\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return trees.make(tmp_path / "site")


@pytest.fixture
def tree(site: Path) -> Iterator[SiteTree]:
    with SiteTree(site) as opened:
        yield opened


def given_away(site: Path, uid: int = USER) -> None:
    for path in (site, *site.rglob("*")):
        os.chown(path, uid, uid)


def planted(site: Path, mode: int) -> None:
    """Do what the owner of a tree may do: say that a file was something else before."""
    path = site / receipt.PATH
    document = json.loads(path.read_bytes())
    sha256 = hashlib.sha256(EVIL).hexdigest()
    before = document["applied"][0]["files"][0]["before"]
    before.update(sha256=sha256, size=len(EVIL), mode=mode)
    path.write_text(json.dumps(document))
    (site / ".pseries/objects" / sha256).write_bytes(EVIL)


# --- what state and journal may say ---------------------------------------------------------------


@root_only
def test_root_does_not_follow_a_state_that_the_owner_of_the_tree_wrote(
    site: Path, tree: SiteTree
) -> None:
    trees.apply(tree)
    planted(site, 0o755)
    given_away(site)
    before = trees.snapshot(site, control=True)
    with pytest.raises(
        StateNotOurs, match=r"\.pseries is not trusted: it belongs to the user 1234"
    ):
        rolling.rollback(site, None)
    for refused in (lambda: trees.roll_back(tree), lambda: purge(tree), lambda: trees.apply(tree)):
        with pytest.raises(StateNotOurs):
            refused()
    assert trees.snapshot(site, control=True) == before


@root_only
@pytest.mark.parametrize("path", [receipt.PATH, journal.PATH])
def test_a_file_of_somebody_else_is_no_better_in_a_folder_of_ours(
    site: Path, tree: SiteTree, path: str
) -> None:
    trees.interrupted(tree)
    os.chown(site / path, USER, USER)
    with pytest.raises(StateNotOurs, match="1234"):
        (receipt if path == receipt.PATH else journal).read(tree)


@root_only
def test_what_root_keeps_stays_with_root_in_a_tree_of_a_user(site: Path, tree: SiteTree) -> None:
    site.chmod(0o777)
    given_away(site)
    trees.apply(tree)
    kept = [site / ".pseries", *(site / ".pseries").rglob("*")]
    assert {path.stat().st_uid for path in kept} == {0}
    assert not any(path.stat().st_mode & 0o022 for path in kept)
    assert (site / "eng/mod.py").stat().st_uid == USER
    trees.roll_back(tree)
    assert (site / "eng/gone/old.py").stat().st_uid == USER


@root_only
@pytest.mark.parametrize(("writer", "trusted"), [(0, True), (USER, True), (USER + 1, False)])
def test_a_user_trusts_root_and_nobody_but_himself(
    site: Path, tree: SiteTree, writer: int, trusted: bool
) -> None:
    trees.apply(tree)
    given_away(site, writer)

    def as_user() -> int:
        os.setgid(USER)
        os.setuid(USER)
        try:
            return 42 if receipt.read(tree).applied else 1
        except StateNotOurs:
            return 43

    assert faults.in_child(as_user) == (42 if trusted else 43)


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1755])
def test_no_rights_come_out_of_a_state(site: Path, tree: SiteTree, mode: int) -> None:
    trees.apply(tree)
    planted(site, mode)
    with pytest.raises(StateInvalid, match="out of range"):
        receipt.read(tree)
    plan = journal.Plan((Change("eng/mod.py", None, Image("0" * 64, 1, mode)),))
    (site / journal.PATH).write_bytes(journal.render(plan))
    with pytest.raises(JournalInvalid, match="out of range"):
        journal.read(tree)


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1644])
@pytest.mark.parametrize("path", ["eng/mod.py", "eng/gone/old.py"])
def test_a_file_with_more_than_permissions_is_refused_by_name(
    site: Path, tree: SiteTree, mode: int, path: str
) -> None:
    change = trees.replacing(tree, path, b"new")
    (site / path).chmod(mode)
    before = trees.snapshot(site)
    with pytest.raises(TargetRefused, match=f"{path} is refused: it is setuid, setgid or sticky"):
        trees.apply(tree)
    with exclusive(tree, 5), pytest.raises(TargetRefused, match=path):
        transaction.commit(tree, [change], {hashlib.sha256(b"new").hexdigest(): b"new"}, ())
    assert trees.snapshot(site) == before


def test_no_file_is_made_with_more_than_permissions(site: Path, tree: SiteTree) -> None:
    tree.create("eng/new.py", b"", 0o6755)
    assert stat.S_IMODE((site / "eng/new.py").stat().st_mode) == 0o755


@root_only
def test_the_lock_leaves_another_name_of_a_file_alone(site: Path, tree: SiteTree) -> None:
    """A lock that is a hard link to a secret was made readable, and given away."""
    (site / ".pseries").mkdir()
    (site / "secret").touch(0o600)
    (site / "secret").chmod(0o600)
    os.link(site / "secret", site / ".pseries/lock")
    given_away(site)
    os.chown(site / ".pseries", 0, 0)
    os.chown(site / "secret", 0, 0)
    with exclusive(tree, 5):
        pass
    found = (site / "secret").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, 0)


@pytest.mark.parametrize(
    "attributes", [{"security.capability": "00"}, {"user.x": "0"}, {"user.x": "zz"}]
)
def test_other_attributes_than_those_of_users_are_not_taken(
    site: Path, tree: SiteTree, attributes: dict[str, str]
) -> None:
    trees.apply(tree)
    document = json.loads((site / receipt.PATH).read_bytes())
    document["applied"][0]["files"][0]["before"]["attributes"] = attributes
    (site / receipt.PATH).write_text(json.dumps(document))
    with pytest.raises(StateInvalid, match="attributes"):
        receipt.read(tree)


# --- what a file that has to be made is given -----------------------------------------------------


def marked(path: Path) -> dict[str, Any]:
    """Make a file private, somebody's, and labelled as far as this machine lets us."""
    path.chmod(0o600)
    try:
        os.setxattr(path, "user.origin", b"some\xffwhere")
    except OSError:
        pytest.skip("no extended attributes here")
    if os.geteuid() == 0:
        os.chown(path, USER, USER + 1)
    return marks(path)


def marks(path: Path) -> dict[str, Any]:
    found = path.stat()
    values = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return {"mode": found.st_mode, "owner": (found.st_uid, found.st_gid), "attributes": values}


def test_a_deleted_file_comes_back_as_it_was(site: Path, tree: SiteTree) -> None:
    was = marked(site / "eng/gone/old.py")
    trees.apply(tree)
    assert not (site / "eng/gone/old.py").exists()
    assert trees.roll_back(tree).warnings == ()
    assert marks(site / "eng/gone/old.py") == was


def test_a_state_from_before_owners_were_kept_is_read(site: Path, tree: SiteTree) -> None:
    trees.apply(tree)
    document = json.loads((site / receipt.PATH).read_bytes())
    made = document["applied"][0]
    for change in [*made["files"], *made["bytecode"], made["record"]]:
        for key in ("uid", "gid", "attributes"):
            change.get("before", {}).pop(key, None)
    (site / receipt.PATH).write_text(json.dumps(document))
    trees.roll_back(tree)
    assert (site / "eng/gone/old.py").read_bytes() == b"old = 1\n"


def renaming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a series that renames eng/net.py to eng/mid.py, and that to eng/wire.py."""
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    engine.add_release({**engine.FILES, **engine.EXTRA}, tmp_path / "checkout")
    rest = {path: data for path, data in engine.FILES.items() if path != "eng/net.py"}
    sides = [
        dict(engine.FILES),
        {**rest, "eng/mid.py": engine.FILES["eng/net.py"]},
        {**rest, "eng/wire.py": engine.FILES["eng/net.py"]},
    ]
    patches = {
        f"000{number}-move.patch": engine.message("move")
        + engine.diff(before, after, tmp_path / f"diff-{number}")
        for number, (before, after) in enumerate(itertools.pairwise(sides), 1)
    }
    return engine.locked(engine.make_series(tmp_path / "series", patches))


def test_a_renamed_file_keeps_mode_owner_and_attributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = renaming(tmp_path, monkeypatch)
    site = engine.install(tmp_path / "engine")
    was = marked(site / "eng/net.py")
    applying.apply(series, site)
    assert marks(site / "eng/wire.py") == was
    assert not (site / "eng/net.py").exists()
    rolling.rollback(site, None)
    assert marks(site / "eng/net.py") == was


def test_a_renamed_file_keeps_them_over_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source is gone by the time that the interrupted change is finished."""
    series = renaming(tmp_path, monkeypatch)
    site = engine.install(tmp_path / "engine")
    was = marked(site / "eng/net.py")
    names = faults.count(lambda: applying.apply(series, site))
    rolling.rollback(site, None)
    with faults.dying_at(len(names) - names[::-1].index("rename")):
        applying.apply(series, site)
    assert not (site / "eng/net.py").exists()
    (site / "eng/wire.py").unlink(missing_ok=True)
    for staged in site.rglob(".pseries-*.new"):
        staged.unlink()
    trees.recover(site)
    assert marks(site / "eng/wire.py") == was
