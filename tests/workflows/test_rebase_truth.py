"""Verdicts on real changes whose right answer is known, because upstream made them.

Every hunk of the change from vLLM 0.26.0 to 0.27.0 is taken as a patch on 0.26.0: on 0.27.0 it is
merged upstream. The same hunk with one word of its code changed is not.
"""

from __future__ import annotations

import hashlib
import random
import tarfile
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.support.merging import merge_file, pieces

from pseries.model.verdicts.judge import judge
from pseries.model.verdicts.verdict import Verdict
from pseries.upstream import index, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.index

HUNKS = 320
LONGEST = 1_500
"""Lines of the files that hunks are taken from: the test should take a minute, not ten."""

Sources = dict[str, bytes]


def python_files(version: str, folder: Path) -> Sources:
    """Return the Python files of vLLM's package in a release's sdist."""
    with index.Client(settings.configured()) as client:
        listed = client.project("vllm").release(version)
        path = client.download(next(one for one in listed if one.artefact.kind == "sdist"), folder)
    found = {}
    with tarfile.open(path) as sdist:
        for member in sdist:
            name = member.name.partition("/")[2]
            data = sdist.extractfile(member)
            if data is not None and name.startswith("vllm/") and name.endswith(".py"):
                found[name] = data.read()
    return found


@pytest.fixture(scope="module")
def releases(store_cache: Path) -> tuple[Sources, Sources]:
    folder = store_cache.parent / "files"
    return python_files("0.26.0", folder), python_files("0.27.0", folder)


def changed_files(releases: tuple[Sources, Sources]) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the files that changed, in an order that mixes them and is always the same."""
    old, new = releases
    names = [name for name, data in old.items() if data != new.get(name, data)]
    for name in sorted(names, key=lambda name: hashlib.sha1(name.encode()).digest()):  # noqa: S324
        if old[name].count(b"\n") <= LONGEST:
            yield name, old[name], new[name]


def test_what_upstream_took_is_merged_upstream_and_what_it_did_not_take_is_not(
    releases: tuple[Sources, Sources], tmp_path: Path
):
    chance = random.Random(5)  # noqa: S311 - the same words every time
    same: Counter[str] = Counter()
    other: Counter[str] = Counter()
    by_git = 0
    for name, base, ours in changed_files(releases):
        for piece in pieces(tmp_path, base, ours):
            theirs = piece.apply(base)
            merged = merge_file(tmp_path, base, ours, theirs)
            by_git += merged == ours
            found = judge(name, base, ours, theirs, merged=merged)
            same[found.verdict.value] += 1
            assert found.verdict is Verdict.MERGED or found.verdict.stops, (name, piece)
            assert found.data in {ours, None}
            if (altered := piece.changed(chance)) is None:
                continue
            theirs = altered.apply(base)
            merged = merge_file(tmp_path, base, ours, theirs)
            found = judge(name, base, ours, theirs, merged=merged)
            other[found.verdict.value] += 1
            assert found.verdict is not Verdict.MERGED, (name, altered)
            assert found.data is None or found.data.count(b"other_") > ours.count(b"other_")
        if same.total() >= HUNKS:
            break
    print(f"\n{same.total()} hunks of upstream's own: {dict(same)}; git alone: {by_git}")  # noqa: T201
    print(f"{other.total()} of them with one word changed: {dict(other)}")  # noqa: T201
    assert same.total() >= HUNKS
    assert same[Verdict.MERGED.value] >= 0.95 * same.total()


def test_sglang_0_5_16_holds_the_patch_for_0_5_15(
    distribution_files: Callable[[str, str, str, list[str]], Sources],
    pristine_release: Callable[[str], Sources],
    patched_release: Callable[[str], Sources],
    tmp_path: Path,
):
    ((path, base),) = pristine_release("sglang-0.5.15").items()
    theirs = patched_release("sglang-0.5.15")[path]
    member = path.removeprefix("python/")
    ours = distribution_files("sglang", "0.5.16", "wheel", [member])[member]
    merged = merge_file(tmp_path, base, ours, theirs)
    assert merged is None, "git sees a conflict here"
    found = judge(path, base, ours, theirs, merged=merged)
    assert found.verdict is Verdict.MERGED
    assert found.data == ours
    (hunk,) = found.hunks
    assert hunk.symbol == "DeepseekV4AttnBackend.forward"
    assert "upstream lines 1693-1700" in hunk.evidence[0]
    assert "syntax tree" in hunk.evidence[0]
    assert "<<<<<<<" in hunk.evidence[1]
    # without the line that matters upstream does not hold it
    without = ours.replace(b"                and not _is_sm120\n", b"")
    assert without != ours
    assert judge(path, base, without, theirs, merged=None).verdict is not Verdict.MERGED
