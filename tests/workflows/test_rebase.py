"""Carrying a series to another release: the new folder, stops, resolutions, abort."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import engine

from pseries.errors import (
    AlreadyForRelease,
    BuiltOnOthers,
    FolderRefused,
    NoRebase,
    RebaseInProgress,
    RebaseInvalid,
    RebaseNotOurs,
    RebaseNotStopped,
    RebaseUnresolved,
    ReleaseTaken,
    SeriesExists,
    SeriesNotFound,
    SeriesUnclear,
    UpstreamInvalid,
)
from pseries.model.rebase import Fate, Phase, Resolver
from pseries.model.verdicts.verdict import Verdict
from pseries.upstream.release import Origin
from pseries.upstream.store import Store
from pseries.workflows.rebase import choice, desk
from pseries.workflows.rebase import session as rebasing
from pseries.workflows.rebase.session import Asked, Report
from pseries.workflows.series import catalog
from pseries.workflows.series.catalog import Location
from pseries.workflows.series.means import Means

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OFFLINE = Means(offline=True)
CORE = b'''"""The core."""

LIMIT = 10


def load(path, mode):
    handle = open(path, mode)
    data = handle.read()
    handle.close()
    return data


def save(path, data):
    """Save it."""
    handle = open(path, "w")
    handle.write(data)
    handle.close()
    return path


def size(path):
    data = load(path, "r")
    return len(data)
'''
NET = b"HOST = 'a'\nPORT = 1\nPATH = '/'\nUSER = ''\nTIMEOUT = 10\nRETRIES = 2\nPROXY = None\n"
OLD = {"eng/__init__.py": b"VERSION = 1\n", "eng/core.py": CORE, "eng/net.py": NET}
HEAD = b"# The head.\nimport os\n\nprint(os)\n"


def changed(files: Mapping[str, bytes], path: str, *pairs: tuple[bytes, bytes]) -> dict[str, bytes]:
    """Return the files with texts of one of them replaced; each must be there."""
    data = files[path]
    for old, new in pairs:
        assert old in data
        data = data.replace(old, new)
    return {**files, path: data}


@dataclass
class Project:
    """A folder with series, and a store with releases of ``eng``."""

    tmp: Path
    releases: int = 0
    diffs: int = 0

    @property
    def series_dir(self) -> Path:
        return self.tmp / "project" / "series"

    @property
    def location(self) -> Location:
        return Location(self.series_dir, "the test's")

    def release(self, version: str, files: Mapping[str, bytes]) -> None:
        self.releases += 1
        engine.add_release(files, self.tmp / f"release-{self.releases}", version)

    def series(self, *steps: Mapping[str, bytes], name: str = "eng-1.0", **options: str) -> None:
        """Make and lock a series of the patches between successive sets of files."""
        patches = {}
        for number, (before, after) in enumerate(pairwise(steps), 1):
            self.diffs += 1
            diff = engine.diff(before, after, self.tmp / f"diff-{self.diffs}")
            patches[f"{number:04}-step.patch"] = engine.message(f"Step {number}") + diff
        engine.locked(engine.make_series(self.series_dir, patches, name=name, **options))

    def rebase(self, to: str = "2.0", name: str | None = "eng-1.0", **options: bool) -> Report:
        return rebasing.start(Asked(name, to, **options), self.location, OFFLINE)

    def go_on(self) -> Report:
        return rebasing.go_on(None, self.location, OFFLINE)

    def patched(self, name: str, paths: list[str]) -> dict[str, bytes]:
        """Return the files of a release after the new series, as git applies it."""
        series = catalog.load(name, self.location)
        work = self.tmp / "check"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        source = self.tmp / f"release-{self.releases}"
        shutil.copytree(source, work, dirs_exist_ok=True)
        subprocess.run(["git", "init", "-q"], cwd=work, check=True)
        for patch in series.patches:
            subprocess.run(["git", "apply", "-"], input=patch.data, cwd=work, check=True)
        return {path: (work / path).read_bytes() for path in paths if (work / path).is_file()}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the release eng 1.0 in its store."""
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    made = Project(tmp_path)
    made.release("1.0", OLD)
    return made


READ = (b"data = handle.read()", b"data = handle.read(99)")
RETRY = (b"RETRIES = 2", b"RETRIES = 5")
LONGER = (b"    return path\n", b"    print(path)\n    return path\n")


@pytest.fixture
def moving(project: Project) -> Project:
    """Two patches, and a release that moves their lines without touching them."""
    first = changed(OLD, "eng/core.py", READ)
    project.series(OLD, first, changed(first, "eng/net.py", RETRY))
    project.release("2.0", changed(OLD, "eng/core.py", (b'"""The core."""\n', HEAD)))
    return project


def outcomes(report: Report) -> list[tuple[Verdict | None, Fate]]:
    return [(outcome.verdict, outcome.fate) for outcome in report.patches]


class TestNewSeries:
    def test_writes_a_locked_series_that_applies_without_offset(self, moving: Project) -> None:
        report = moving.rebase()
        assert outcomes(report) == [(Verdict.MOVED, Fate.KEPT), (Verdict.CLEAN, Fate.KEPT)]
        series = catalog.load("eng-2.0", moving.location)
        series.locked()
        assert series.spec.upstream.version == "2.0"
        (hunk,) = report.patches[0].files[0].hunks
        assert (hunk.old_line, hunk.new_line, hunk.symbol) == (8, 11, "load")
        files = moving.patched("eng-2.0", ["eng/core.py", "eng/net.py"])
        wanted = changed(OLD, "eng/core.py", (b'"""The core."""\n', HEAD), READ)["eng/core.py"]
        assert files == {"eng/core.py": wanted, "eng/net.py": NET.replace(*RETRY)}

    def test_keeps_what_people_wrote_and_changes_only_what_the_release_changes(
        self, moving: Project
    ) -> None:
        old = moving.series_dir / "eng-1.0"
        (old / "series").write_bytes(b"# first\n0001-step.patch # why\n\n  0002-step.patch\n")
        toml = (old / "series.toml").read_text().replace('version = "1.0"', 'version = "1.0"  # v')
        (old / "series.toml").write_text(toml + '\n# last\n[serve]\ncommand = [ "x" ] # c\n')
        (old / "README.md").write_text("# eng 1.0\n\nVerified.\n")
        (old / "notes.txt").write_text("mine\n")
        moving.rebase()
        new = moving.series_dir / "eng-2.0"
        assert (new / "series").read_bytes() == (old / "series").read_bytes()
        assert (new / "notes.txt").read_text() == "mine\n"
        assert (new / "0002-step.patch").read_bytes() == (old / "0002-step.patch").read_bytes()
        rewritten = toml.replace('"1.0"  # v', '"2.0"  # v')
        assert (new / "series.toml").read_text().startswith(rewritten)
        first, second = ((each / "0001-step.patch").read_bytes() for each in (old, new))
        lines = [a for a, b in zip(first.split(b"\n"), second.split(b"\n"), strict=True) if a != b]
        assert [line.split(b" ")[0] for line in lines] == [b"index", b"@@"]

    def test_a_patch_that_meets_what_it_was_made_for_stays_as_somebody_wrote_it(
        self, moving: Project
    ) -> None:
        old = moving.series_dir / "eng-1.0"
        there = (old / "0002-step.patch").read_bytes()
        kept = (line for line in there.splitlines(True) if not line.startswith(b"diff --git "))
        bare = b"".join(line for line in kept if not line.startswith(b"index "))
        odd = bare.replace(b"@@\n", b"@@ by hand\n") + b"-- \n2.1\n"
        assert len(odd) < len(there)
        (old / "0002-step.patch").write_bytes(odd)
        engine.locked(old)
        moving.rebase()
        assert (moving.series_dir / "eng-2.0" / "0002-step.patch").read_bytes() == odd
        files = moving.patched("eng-2.0", ["eng/net.py"])
        assert files == {"eng/net.py": NET.replace(*RETRY)}

    def test_a_readme_does_not_claim_what_was_not_verified_again(self, moving: Project) -> None:
        (moving.series_dir / "eng-1.0" / "README.md").write_text("# eng 1.0\n\nVerified.\n")
        moving.rebase()
        moving.release("3.0", OLD)
        moving.rebase("3.0", "eng-2.0")
        note = "> Carried from `eng-1.0` by `pseries rebase`: what is below was written for eng 1.0"
        for version in ("2.0", "3.0"):
            text = (moving.series_dir / f"eng-{version}" / "README.md").read_text()
            again = f", and nothing of it was verified again on eng {version}.\n\n"
            assert text == note + again + "# eng 1.0\n\nVerified.\n"

    def test_is_deterministic_and_says_when_it_is_there_already(self, moving: Project) -> None:
        moving.rebase()
        first = engine.snapshot(moving.series_dir)
        again = moving.rebase()
        assert again.unchanged
        assert engine.snapshot(moving.series_dir) == first

    def test_refuses_a_folder_that_holds_something_else(self, moving: Project) -> None:
        moving.rebase()
        (moving.series_dir / "eng-2.0" / "0002-step.patch").write_bytes(b"mine\n")
        before = engine.snapshot(moving.tmp / "project")
        with pytest.raises(SeriesExists, match=r"0002-step\.patch: is not what the rebase gives"):
            moving.rebase()
        assert engine.snapshot(moving.tmp / "project") == before

    @pytest.mark.parametrize("what", ["file", "link"])
    def test_refuses_what_is_no_folder(self, moving: Project, what: str) -> None:
        there = moving.series_dir / "eng-2.0"
        there.write_text("mine\n") if what == "file" else there.symlink_to("/nonexistent")
        with pytest.raises(SeriesExists, match="is no folder"):
            moving.rebase()
        assert rebasing.status(None, moving.location) == ()

    def test_what_editors_leave_is_not_carried_and_what_is_left_is_named(
        self, moving: Project
    ) -> None:
        old = moving.series_dir / "eng-1.0"
        (old / "notes").mkdir()
        (old / "link").symlink_to("/etc/passwd")
        for name in ("0001-step.patch~", "series.orig", "#README.md#", ".swp", "LICENSE"):
            (old / name).write_text("x\n")
        report = moving.rebase()
        names = {each.name for each in (moving.series_dir / "eng-2.0").iterdir()}
        assert names == {
            "series", "series.toml", "manifest.json", "LICENSE",
            "0001-step.patch", "0002-step.patch",
        }  # fmt: skip
        left = "not taken over: #README.md#, .swp, 0001-step.patch~, link, notes, series.orig"
        assert left in report.notes

    def test_a_dry_run_writes_nothing(self, moving: Project) -> None:
        before = engine.snapshot(moving.tmp / "project")
        report = moving.rebase(dry_run=True)
        assert [pair.status.value for pair in report.range_diff] == ["=", "="]
        assert report.folder == ""
        assert engine.snapshot(moving.tmp / "project") == before

    def test_goes_down_and_comes_back_to_the_same_bytes(self, moving: Project) -> None:
        moving.rebase()
        old = moving.series_dir / "eng-1.0"
        files = {path.name: path.read_bytes() for path in old.iterdir()}
        shutil.rmtree(old)
        moving.rebase("v1.0", "eng-2.0")
        assert {path.name: path.read_bytes() for path in old.iterdir()} == files

    def test_keeps_the_variant_and_the_way_a_tag_is_written(self, moving: Project) -> None:
        (moving.series_dir / "eng-1.0").rename(moving.series_dir / "eng-1.0-gpu")
        toml = moving.series_dir / "eng-1.0-gpu/series.toml"
        toml.write_text(toml.read_text().replace("[upstream]", '[upstream]\ntag = "rel-1.0"'))
        engine.locked(moving.series_dir / "eng-1.0-gpu")
        report = moving.rebase("v2.0", "eng-1.0-gpu")
        assert report.target == "eng-2.0-gpu"
        spec = catalog.load("eng-2.0-gpu", moving.location).spec
        assert (spec.upstream.tag, spec.label) == ("rel-2.0", "t.1")

    def test_a_series_on_top_of_another_needs_that_one_first(self, moving: Project) -> None:
        first = changed(OLD, "eng/core.py", READ)
        second = changed(first, "eng/net.py", RETRY)
        moving.series(
            second, changed(second, "eng/core.py", LONGER),
            name="eng-1.0-top", top='after = ["eng-1.0"]  # below',
        )  # fmt: skip
        with pytest.raises(BuiltOnOthers, match=r"eng-2\.0"):
            moving.rebase(name="eng-1.0-top")
        moving.rebase()
        moving.rebase(name="eng-1.0-top")
        new = catalog.load("eng-2.0-top", moving.location)
        new.locked()
        assert new.spec.after == ("eng-2.0",)
        assert "# below" in (moving.series_dir / "eng-2.0-top/series.toml").read_text()

    def test_a_path_serves_as_a_release_that_is_on_no_index(self, moving: Project) -> None:
        fork = moving.tmp / "fork"
        engine.write(fork, changed(OLD, "eng/net.py", (b"HOST = 'a'\n", b"")))
        asked = Asked("eng-1.0", "9.0", onto_path=fork)
        report = rebasing.start(asked, moving.location, OFFLINE)
        assert outcomes(report)[1] == (Verdict.MOVED, Fate.KEPT)
        catalog.load("eng-9.0", moving.location).locked()
        again = rebasing.start(asked, moving.location, OFFLINE)
        assert again.unchanged

    def test_a_path_does_not_take_the_place_of_a_release(self, moving: Project) -> None:
        fork = moving.tmp / "fork"
        engine.write(fork, OLD)
        store = Store.open("eng")
        stored = store.find("2.0")
        assert stored is not None
        with store.lock():
            kept = store.write("5.0", stored.tree, lambda: Origin("sdist", "eng-5.0.tar.gz", ""))
        with pytest.raises(ReleaseTaken, match=r"eng 5\.0 is in the store from eng-5\.0\.tar\.gz"):
            rebasing.start(Asked("eng-1.0", "5.0", onto_path=fork), moving.location, OFFLINE)
        assert store.find("5.0") == kept
        with pytest.raises(FolderRefused, match="there is no such folder"):
            rebasing.start(
                Asked("eng-1.0", "5.0", onto_path=moving.tmp / "frok"), moving.location, OFFLINE
            )
        fine = Asked("eng-1.0", "5.0.post99", onto_path=fork)
        assert rebasing.start(fine, moving.location, OFFLINE).target == "eng-5.0.post99"


class TestWhichSeries:
    @pytest.fixture
    def several(self, moving: Project) -> Project:
        moving.series(
            OLD, changed(OLD, "eng/net.py", RETRY), name="eng-0.3", version="0.3", order=""
        )
        return moving

    def test_takes_the_only_one(self, moving: Project) -> None:
        assert choice.series_for(None, "v2.0", moving.location) == "eng-1.0"

    def test_takes_the_nearest_version(self, moving: Project) -> None:
        shutil.copytree(moving.series_dir / "eng-1.0", moving.series_dir / "eng-0.3")
        toml = moving.series_dir / "eng-0.3/series.toml"
        toml.write_text(toml.read_text().replace('"1.0"', '"0.3"'))
        assert choice.series_for(None, "v1.2", moving.location) == "eng-1.0"
        assert choice.series_for(None, "v0.4", moving.location) == "eng-0.3"
        with pytest.raises(SeriesUnclear, match=r"meant for latest: eng-0\.3, eng-1\.0$"):
            choice.series_for(None, "latest", moving.location)

    def test_two_at_the_same_distance_are_not_guessed(self, moving: Project) -> None:
        shutil.copytree(moving.series_dir / "eng-1.0", moving.series_dir / "eng-1.0-b")
        with pytest.raises(SeriesUnclear):
            choice.series_for(None, "v2.0", moving.location)

    def test_takes_the_one_around_the_current_folder(
        self, moving: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(moving.series_dir / "eng-1.0", moving.series_dir / "eng-1.0-b")
        monkeypatch.chdir(moving.series_dir / "eng-1.0-b")
        assert Path(choice.series_for(None, "v2.0", moving.location)).name == "eng-1.0-b"

    def test_latest_is_the_newest_final_release(self, moving: Project) -> None:
        moving.release("2.1", OLD)
        moving.release("3.0rc1", OLD)
        series = catalog.load("eng-1.0", moving.location)
        assert choice.version_for(series, "latest", Means(offline=True)) == "2.1"

    @pytest.mark.parametrize("tag", ["v2.0", "2.0", "release/2.0", "eng-2.0", "2.0.0"])
    def test_reads_versions_out_of_tags(self, tag: str) -> None:
        assert choice.version_of(tag) == choice.version_of("2.0")

    @pytest.mark.parametrize("tag", ["main", "", "--upload-pack=x", "v"])
    def test_refuses_what_is_no_version(self, tag: str) -> None:
        with pytest.raises(UpstreamInvalid):
            choice.version_of(tag)

    def test_refuses_a_local_label(self, moving: Project) -> None:
        with pytest.raises(UpstreamInvalid, match=r"public version: 2\.0$"):
            moving.rebase("2.0+cu129")

    @pytest.mark.parametrize("tag", ["v1.0", "1.0.0"])
    def test_refuses_the_release_that_the_series_is_for(self, moving: Project, tag: str) -> None:
        with pytest.raises(AlreadyForRelease):
            moving.rebase(tag)

    def test_latest_never_goes_down(self, moving: Project) -> None:
        moving.rebase()
        series = moving.series_dir / "eng-2.0"
        toml = series / "series.toml"
        toml.write_text(toml.read_text().replace('"2.0"', '"3.0rc1"'))
        series.rename(moving.series_dir / "eng-3.0rc1")
        with pytest.raises(AlreadyForRelease, match=r"is for 3\.0rc1 already"):
            moving.rebase("latest", name="eng-3.0rc1")


@pytest.fixture
def clashing(project: Project) -> Project:
    """Three patches; the second meets two changes of the new release in two files."""
    first = changed(OLD, "eng/core.py", (b"LIMIT = 10", b"LIMIT = 11"))
    second = changed(first, "eng/core.py", READ)
    second = changed(second, "eng/net.py", RETRY)
    project.series(OLD, first, second, changed(second, "eng/core.py", LONGER))
    new = changed(OLD, "eng/core.py", (b"data = handle.read()", b"data = handle.readlines()[0]"))
    project.release("2.0", changed(new, "eng/net.py", (b"RETRIES = 2", b"RETRIES = 3  # more")))
    return project


def resolve(folder: Path, choose: Callable[[bytes], bytes] | None = None) -> None:
    """Resolve every conflict by taking the patch's side."""
    for path in folder.rglob("*.py"):
        lines: list[bytes] = []
        side = b" "
        for line in path.read_bytes().splitlines(keepends=True):
            mark = line[:1] if line[:7] == line[:1] * 7 and line[:1] in b"<|=>" else b""
            side = mark or side
            if mark == b">":
                side = b" "
            elif not mark and side in b" =":
                lines.append(line)
        path.write_bytes(b"".join(lines))


class TestStop:
    def test_shows_every_place_of_the_patch_at_once(self, clashing: Project) -> None:
        report = clashing.rebase()
        assert [fate for _, fate in outcomes(report)] == [Fate.KEPT, Fate.STOPPED, Fate.UNTRIED]
        assert report.stopped is not None
        folder = Path(report.stopped.worktree)
        places = [(place.path, place.line) for place in report.stopped.places]
        assert [path for path, _ in places] == ["eng/core.py", "eng/net.py"]
        for place in report.stopped.places:
            lines = (folder / place.path).read_bytes().split(b"\n")
            assert lines[place.line - 1] == b"<<<<<<< upstream 2.0"
            assert any(line == b"||||||| base 1.0" for line in lines)
            assert any(line == b">>>>>>> 0002-step.patch" for line in lines)
        assert "+    data = handle.readlines()[0]\n" in report.stopped.places[0].upstream
        assert "+RETRIES = 3  # more\n" in report.stopped.places[1].upstream
        assert not (clashing.series_dir / "eng-2.0").exists()

    def test_keeps_its_things_out_of_the_series_and_of_git(self, clashing: Project) -> None:
        before = engine.snapshot(clashing.series_dir)
        clashing.rebase()
        assert engine.snapshot(clashing.series_dir) == before
        root = clashing.tmp / "project"
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        said = subprocess.run(
            ["git", "status", "--porcelain", "-uall"], cwd=root, check=True, capture_output=True
        ).stdout
        assert b".pseries" not in said

    def test_does_not_go_on_while_markers_or_errors_remain(self, clashing: Project) -> None:
        report = clashing.rebase()
        assert report.stopped is not None
        folder = Path(report.stopped.worktree)
        with pytest.raises(RebaseUnresolved) as stopped:
            clashing.go_on()
        wheres = {problem.where.partition(":")[0] for problem in stopped.value.problems}
        assert wheres == {"eng/core.py", "eng/net.py"}
        resolve(folder)
        (folder / "eng/net.py").write_bytes(b"RETRIES = (\n")
        with pytest.raises(RebaseUnresolved, match=r"eng/net\.py:1: does not compile"):
            clashing.go_on()
        (folder / "eng/net.py").write_bytes(b"A = 1\n=======\n")
        with pytest.raises(RebaseUnresolved, match=r"eng/net\.py:2"):
            clashing.go_on()

    def test_goes_on_with_the_resolution_and_remembers_it(self, clashing: Project) -> None:
        report = clashing.rebase()
        assert report.stopped is not None
        resolve(Path(report.stopped.worktree))
        done = clashing.go_on()
        assert [fate for _, fate in outcomes(done)] == [Fate.KEPT] * 3
        assert done.patches[1].resolver is Resolver.PERSON
        files = clashing.patched("eng-2.0", ["eng/core.py", "eng/net.py"])
        assert b"handle.read(99)" in files["eng/core.py"]
        assert b"print(path)" in files["eng/core.py"]
        assert b"RETRIES = 5\n" in files["eng/net.py"]
        assert not (clashing.tmp / "project/.pseries").exists()
        records = sorted(path.name for path in clashing.series_dir.glob(".resolutions/*/*"))
        assert records == ["postimage", "postimage", "preimage", "preimage"]
        assert catalog.names(clashing.location) == ("eng-1.0", "eng-2.0")

    def test_a_teammate_gets_the_same_series_without_a_stop(self, clashing: Project) -> None:
        report = clashing.rebase()
        assert report.stopped is not None
        resolve(Path(report.stopped.worktree))
        clashing.go_on()
        first = {p.name: p.read_bytes() for p in (clashing.series_dir / "eng-2.0").iterdir()}
        shutil.rmtree(clashing.series_dir / "eng-2.0")
        again = clashing.rebase()
        assert again.patches[1].resolver is Resolver.RECORD
        assert again.patches[1].verdict is Verdict.CONFLICT
        assert {
            p.name: p.read_bytes() for p in (clashing.series_dir / "eng-2.0").iterdir()
        } == first

    def test_a_memory_of_one_file_still_stops_for_the_other(self, clashing: Project) -> None:
        report = clashing.rebase()
        assert report.stopped is not None
        resolve(Path(report.stopped.worktree))
        clashing.go_on()
        shutil.rmtree(clashing.series_dir / "eng-2.0")
        for record in clashing.series_dir.glob(".resolutions/*/postimage"):
            if b"RETRIES" in record.read_bytes():
                shutil.rmtree(record.parent)
        again = clashing.rebase()
        assert again.stopped is not None
        assert again.stopped.recalled == ("eng/core.py",)
        assert [place.path for place in again.stopped.places if place.upstream] != []
        text = (Path(again.stopped.worktree) / "eng/core.py").read_bytes()
        assert b"handle.read(99)" in text
        assert b"<<<<<<<" not in text

    def test_skip_leaves_the_patch_out(self, clashing: Project) -> None:
        clashing.rebase()
        report = rebasing.skip(None, clashing.location, OFFLINE)
        assert [fate for _, fate in outcomes(report)] == [Fate.KEPT, Fate.SKIPPED, Fate.KEPT]
        assert report.patches[1].dropped is not None
        series = catalog.load("eng-2.0", clashing.location)
        assert series.order.names == ("0001-step.patch", "0003-step.patch")
        assert not clashing.series_dir.joinpath(".resolutions").exists()

    def test_abort_restores_every_byte(self, clashing: Project) -> None:
        before = engine.snapshot(clashing.tmp / "project")
        report = clashing.rebase()
        assert report.stopped is not None
        resolve(Path(report.stopped.worktree))
        assert rebasing.abort(None, clashing.location).stays == ()
        assert engine.snapshot(clashing.tmp / "project") == before
        with pytest.raises(NoRebase):
            rebasing.abort(None, clashing.location)

    def test_says_what_is_under_way(self, clashing: Project) -> None:
        assert rebasing.status(None, clashing.location) == ()
        report = clashing.rebase()
        assert report.stopped is not None
        (status,) = rebasing.status(None, clashing.location)
        assert (status.series, status.target, status.phase) == ("eng-1.0", "eng-2.0", Phase.STOPPED)
        assert (status.patch, status.files) == ("0002-step.patch", ("eng/core.py", "eng/net.py"))
        assert status.worktree == report.stopped.worktree
        with pytest.raises(RebaseInProgress, match=r"stopped at 0002-step\.patch"):
            clashing.rebase()

    def test_a_series_may_be_named_by_its_path(self, clashing: Project) -> None:
        path = str(clashing.series_dir / "eng-1.0")
        assert rebasing.status(path, None) == ()
        with pytest.raises(NoRebase):
            rebasing.go_on(path, None, OFFLINE)
        clashing.rebase(name=path)
        (status,) = rebasing.status(path, None)
        assert status.series == "eng-1.0"
        assert rebasing.skip(path, None, OFFLINE).stopped is None

    def test_one_of_several_has_to_be_named(self, clashing: Project) -> None:
        shutil.copytree(clashing.series_dir / "eng-1.0", clashing.series_dir / "eng-1.0-b")
        names = ("eng-1.0", "eng-1.0-b")
        for name in names:
            clashing.rebase(name=name)
        said = r"several could be meant of those being rebased: eng-1\.0, eng-1\.0-b$"
        with pytest.raises(SeriesUnclear, match=said):
            rebasing.abort(None, clashing.location)
        rebasing.abort(names[1], clashing.location)
        rebasing.abort(None, clashing.location)
        assert rebasing.status(None, clashing.location) == ()

    def test_nothing_is_under_way_of_a_series_that_is_there(self, clashing: Project) -> None:
        assert rebasing.status("eng-1.0", clashing.location) == ()
        with pytest.raises(SeriesNotFound, match=r"eng-1\.0"):
            rebasing.status("eng-1.9", clashing.location)

    def test_a_lost_worktree_is_made_again(self, clashing: Project) -> None:
        report = clashing.rebase()
        assert report.stopped is not None
        shutil.rmtree(report.stopped.worktree)
        again = clashing.go_on()
        assert again.stopped == report.stopped
        assert Path(report.stopped.worktree, "eng/core.py").is_file()

    def test_refuses_to_go_on_with_another_series(self, clashing: Project) -> None:
        clashing.rebase()
        patch = clashing.series_dir / "eng-1.0/0003-step.patch"
        patch.write_bytes(patch.read_bytes().replace(b"Step 3", b"Step x"))
        with pytest.raises(RebaseInvalid, match="is not what it was when the rebase began"):
            clashing.go_on()
        rebasing.abort(None, clashing.location)

    def test_a_damaged_state_is_refused_and_can_be_aborted(self, clashing: Project) -> None:
        clashing.rebase()
        place = desk.find(clashing.series_dir, None)
        (place.folder / "state.json").write_text('{"schema": 9, "plan": 3}')
        with pytest.raises(RebaseInvalid):
            clashing.go_on()
        rebasing.abort(None, clashing.location)
        assert not (clashing.tmp / "project/.pseries").exists()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    @pytest.mark.parametrize("part", [".", "state.json", "0002-step/.git"])
    def test_another_users_rebase_is_shown_and_not_gone_on_with(
        self, clashing: Project, part: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings = clashing.tmp / "settings"
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
        monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        report = clashing.rebase()
        assert report.stopped is not None
        resolve(Path(report.stopped.worktree))
        folder = desk.find(clashing.series_dir, None).folder
        os.chown(folder / part, 65534, -1)
        before = engine.snapshot(clashing.tmp / "project")
        for refused in (
            clashing.rebase, clashing.go_on,
            lambda: rebasing.skip(None, clashing.location, OFFLINE),
            lambda: rebasing.abort(None, clashing.location),
        ):  # fmt: skip
            with pytest.raises(RebaseNotOurs, match="65534"):
                refused()
        assert engine.snapshot(clashing.tmp / "project") == before
        (status,) = rebasing.status(None, clashing.location)
        assert status.phase is Phase.STOPPED
        subprocess.run(
            ["git", "config", "--file", settings, "safe.directory", str(folder)], check=True
        )
        assert clashing.go_on().stopped is None

    def test_nothing_waits_after_an_interruption_between_two_stops(self, clashing: Project) -> None:
        report = clashing.rebase()
        assert report.stopped is not None
        place = desk.find(clashing.series_dir, None)
        state = place.load()
        assert state is not None
        from pseries.model import rebase

        place.save(rebase.resolved(state, ()))
        with pytest.raises(RebaseNotStopped):
            rebasing.skip(None, clashing.location, OFFLINE)

    def test_a_resolution_may_add_and_delete_files(self, clashing: Project) -> None:
        report = clashing.rebase()
        assert report.stopped is not None
        folder = Path(report.stopped.worktree)
        resolve(folder)
        (folder / "eng/net.py").unlink()
        (folder / "eng/wire.py").write_bytes(b"NEW = 1\n")
        (folder / "eng/core.py~").write_bytes(b"an editor's\n")
        with pytest.raises(RebaseUnresolved, match=r"eng/wire\.py: git does not know it"):
            clashing.go_on()
        subprocess.run(["git", "add", "--sparse", "eng/wire.py"], cwd=folder, check=True)
        clashing.go_on()
        files = clashing.patched("eng-2.0", ["eng/core.py", "eng/net.py", "eng/wire.py"])
        assert sorted(files) == ["eng/core.py", "eng/wire.py"]

    def test_a_resolution_that_leaves_nothing_drops_the_patch(self, clashing: Project) -> None:
        report = clashing.rebase()
        assert report.stopped is not None
        folder = Path(report.stopped.worktree)
        for path in ("eng/core.py", "eng/net.py"):
            said = subprocess.run(
                ["git", "show", f"HEAD:{path}"], cwd=folder, check=True, capture_output=True
            )
            (folder / path).write_bytes(said.stdout)
        done = clashing.go_on()
        assert done.patches[1].fate is Fate.EMPTY
        assert catalog.load("eng-2.0", clashing.location).order.names == (
            "0001-step.patch", "0003-step.patch",
        )  # fmt: skip

    def test_a_stop_does_not_touch_a_series_that_is_there(self, clashing: Project) -> None:
        (clashing.series_dir / "eng-2.0").mkdir()
        with pytest.raises(SeriesExists):
            clashing.rebase()
        assert not (clashing.tmp / "project/.pseries").exists()
