"""The project's own series on real releases: verdicts that were checked by reading the sources.

Only the files that a series touches are fetched, by range requests from each release's wheel. They
are all that these verdicts depend on: no file was renamed, and what the patches import from the
engine is what they touch themselves.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import CACHE, REPOSITORY_SERIES

from pseries.git import merge
from pseries.model.layout import Layout
from pseries.model.rebase import Fate
from pseries.upstream import imports, index, settings
from pseries.upstream.release import Origin, Release
from pseries.upstream.store import Store
from pseries.workflows.rebase import session as rebasing
from pseries.workflows.rebase import successor
from pseries.workflows.rebase.carry import Rules
from pseries.workflows.rebase.march import Route, Ruling, Step, march
from pseries.workflows.rebase.session import Asked, Report
from pseries.workflows.series import catalog
from pseries.workflows.series.lock import touched
from pseries.workflows.series.means import Means

if TYPE_CHECKING:
    from pseries.git.merge import MergeStore

pytestmark = pytest.mark.index
PLAIN = 0o100644
NOWHERE = Path("/nonexistent")

Members = Callable[[str, str], dict[str, bytes]]
"""From the name of a series and a version to the touched files of that release."""

# The verdict on each patch, those that stop being left out. The bare facts behind it:
# 0.24.0    fp8.py: `process_weights_after_loading` takes a RoutedExperts there; only the annotation
#           of its first line differs, and 0001 adds behind that line.
# 0.27.x    all four files have new lines above; no line that the patches touch is different.
# 0.28.0 on fp8.py imports Literal: 0001 adds `import os` above that line.
# 0.30.0 on `process_weights_after_loading` begins with a check of its own, where 0001 begins with
#           another one: which goes first, only a person can say.
# 0.31.0 on fp8.py has no logger any more, below which 0001 puts a function; and o_proj.py got
#           functions at its end, where 0002 adds others. Without 0002, what 0003 and 0004 import
#           is not there.
VLLM = {
    "0.24.0": "woven, clean, clean, moved",
    "0.25.1": "clean, clean, clean, clean",
    "0.27.0": "moved, moved, moved, moved",
    "0.27.1": "moved, moved, moved, moved",
    "0.28.0": "woven, moved, moved, moved",
    "0.29.0": "woven, moved, moved, moved",
    "0.30.0": "conflict, moved, moved, moved",
    "0.31.0": "conflict, conflict, broken, broken",
    "0.32.0": "conflict, conflict, broken, broken",
    "0.33.0": "conflict, conflict, broken, broken",
}
# 0.5.15.post1 has the condition as it was. 0.5.16 has `and not _is_sm120` in it, laid out over
# more lines. In 0.5.23 the condition is a method, `_use_sparse_prefill`, which asks
# `get_platform().is_sm120`: the change is in, but not as a text or a syntax tree could show.
SGLANG = {
    "0.5.15.post1": "clean",
    "0.5.16": "merged upstream",
    "0.5.17": "merged upstream",
    "0.5.23": "conflict",
}
EVERY = [
    *(("vllm-0.26.0", version, verdicts) for version, verdicts in VLLM.items()),
    *(("sglang-0.5.15", version, verdicts) for version, verdicts in SGLANG.items()),
]


@pytest.fixture(scope="module")
def members(index_reachable: None) -> Iterator[Members]:
    with index.Client(settings.configured()) as client:
        project = cache(client.project)

        @cache
        def read(name: str, version: str) -> dict[str, bytes]:
            series = catalog.load(name, REPOSITORY_SERIES)
            layout = Layout(series.spec.upstream.root)
            paths = {layout.installed(path) or path: path for path in touched(series.patches)}
            kept = CACHE / "members" / f"{name}-{version}"
            if not kept.is_dir():
                listed = project(series.spec.upstream.distribution).release(version)
                wheel = next(file for file in listed if file.artefact.kind == "wheel")
                with client.wheel(wheel) as remote:
                    found = remote.read([path for path in paths if path in remote.names])
                for path, data in found.items():
                    (kept / path).parent.mkdir(parents=True, exist_ok=True)
                    (kept / path).write_bytes(data)
            there = {path: kept / path for path in paths if (kept / path).is_file()}
            return {paths[path]: file.read_bytes() for path, file in there.items()}

        yield read


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MergeStore]:
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    with merge.merge_store(bare) as made:
        yield made


def release(store: MergeStore, files: dict[str, bytes], version: str, root: str) -> Release:
    tree = store.tree_of({path: (PLAIN, data) for path, data in files.items()})
    return Release("x", version, tree, "", Origin("git", "", root))


def carried(
    name: str, version: str, members: Members, store: MergeStore
) -> tuple[dict[str, str], tuple[Step, ...]]:
    """Carry a series; a patch that stops is left out. Return the verdict on every patch."""
    series = catalog.load(name, REPOSITORY_SERIES)
    upstream = series.spec.upstream
    route = Route(
        series,
        release(store, members(name, upstream.version), upstream.version, upstream.root),
        release(store, members(name, version), version, upstream.root),
    )
    verdicts: dict[str, str] = {}
    rulings: dict[str, Ruling] = {}
    while True:
        steps = march(route, store, rulings, NOWHERE, Rules())
        for step in steps:
            if step.outcome.verdict is not None:
                verdicts[step.outcome.name] = str(step.outcome.verdict)
        halt = next((step.halt for step in steps if step.halt), None)
        if halt is None:
            return verdicts, steps
        rulings[halt.patch] = Ruling({}, skipped=True)


@pytest.mark.parametrize(("name", "version", "expected"), EVERY)
def test_verdicts(
    name: str, version: str, expected: str, members: Members, store: MergeStore
) -> None:
    verdicts, _ = carried(name, version, members, store)
    assert ", ".join(verdicts.values()) == expected


def test_sglang_0_5_16_holds_the_change_where_the_evidence_says(
    members: Members, store: MergeStore
) -> None:
    _, (step,) = carried("sglang-0.5.15", "0.5.16", members, store)
    outcome = step.outcome
    assert (outcome.fate, outcome.upstream_status) == (Fate.DROPPED, "Merged [0.5.16]")
    (file,) = outcome.files
    (hunk,) = file.hunks
    lines = members("sglang-0.5.15", "0.5.16")[file.path].split(b"\n")
    assert hunk.symbol == "DeepseekV4AttnBackend.forward"
    assert hunk.new_line is not None
    held = b" ".join(lines[hunk.new_line - 1 : hunk.new_line + 7])
    assert b"and not _is_sm120" in held
    assert "git sees a conflict" in " ".join(hunk.evidence) or "<<<<<<<" in " ".join(hunk.evidence)


def test_the_series_for_vllm_0_27_0_is_what_the_rebase_gives(
    members: Members, store: MergeStore
) -> None:
    _, steps = carried("vllm-0.26.0", "0.27.0", members, store)
    grown = [step.grown for step in steps if step.grown is not None]
    texts = successor.patch_texts(grown, store)
    committed = catalog.load("vllm-0.27.0", REPOSITORY_SERIES)
    assert texts == [patch.data for patch in committed.patches]


def test_going_up_and_down_again_gives_the_same_patches(
    members: Members, store: MergeStore
) -> None:
    series = catalog.load("vllm-0.27.0", REPOSITORY_SERIES)
    route = Route(
        series,
        release(store, members("vllm-0.26.0", "0.27.0"), "0.27.0", ""),
        release(store, members("vllm-0.26.0", "0.26.0"), "0.26.0", ""),
    )
    steps = march(route, store, {}, NOWHERE, Rules())
    texts = successor.patch_texts([step.grown for step in steps if step.grown], store)
    old = catalog.load("vllm-0.26.0", REPOSITORY_SERIES)
    assert texts == [patch.data for patch in old.patches]


@pytest.fixture
def carry_onto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, Path, str, Path], Report]:
    """Return ``carry_onto(series, its release, version, release)``: releases come from folders."""
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    location = catalog.Location(tmp_path / "series", "the test's")
    location.folder.mkdir()

    def carry(name: str, old: Path, version: str, new: Path) -> Report:
        series = catalog.load(name, REPOSITORY_SERIES)
        upstream = series.spec.upstream
        store = Store.open(upstream.distribution)
        with store.lock():
            imports.add_folder(store, upstream.version, old, upstream.root)
        shutil.copytree(series.folder, location.folder / name)
        asked = Asked(name, version, onto_path=new)
        return rebasing.start(asked, location, Means(offline=True))

    return carry


def unpacked(version: str, folder: Path) -> Path:
    with index.Client(settings.configured()) as client:
        listed = client.project("vllm").release(version)
        sdist = next(file for file in listed if file.artefact.kind == "sdist")
        with tarfile.open(client.download(sdist, CACHE / "files")) as archive:
            archive.extractall(folder, filter="data")
    return folder / f"vllm-{version}"


def test_an_unpacked_sdist_serves_as_the_release(
    index_reachable: None,
    carry_onto: Callable[[str, Path, str, Path], Report],
    tmp_path: Path,
) -> None:
    old, new = (unpacked(version, tmp_path) for version in ("0.26.0", "0.27.0"))
    report = carry_onto("vllm-0.26.0", old, "0.27.0", new)
    assert report.stopped is None
    committed = catalog.load("vllm-0.27.0", REPOSITORY_SERIES)
    carried = catalog.load(report.folder, None)
    assert [each.data for each in carried.patches] == [each.data for each in committed.patches]
    files = [[file[:6] for file in each.files] for each in committed.locked().patches]
    assert [[file[:6] for file in each.files] for each in carried.locked().patches] == files


def test_an_installed_tree_serves_as_the_release(
    carry_onto: Callable[[str, Path, str, Path], Report], installed: Callable[[str, str], Path]
) -> None:
    old, new = (installed("sglang", version) for version in ("0.5.15", "0.5.16"))
    report = carry_onto("sglang-0.5.15", old, "0.5.16", new)
    (outcome,) = report.patches
    assert (outcome.fate, str(outcome.verdict)) == (Fate.DROPPED, "merged upstream")
    assert catalog.load(report.folder, None).locked().patches == ()
