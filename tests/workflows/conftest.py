"""A made-up engine: its release in a store, a series for it, and an installed copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import engine

if TYPE_CHECKING:
    from pseries.model.series import Series

CHANGED = {
    **{
        path: data
        for path, data in engine.FILES.items()
        if path not in ("eng/old.py", "eng/net.py")
    },
    "eng/core.py": engine.MODULE.replace(
        b"    data = handle.read()", b"    data = handle.read(99)"
    ),
    "eng/new/extra.py": b"ADDED = 1\n",
    "eng/wire.py": engine.FILES["eng/net.py"].replace(b"RETRIES = 2", b"RETRIES = 5"),
    "eng/nvidia/ops.py": engine.FILES["eng/nvidia/ops.py"].replace(b"C = 3", b"C = 33"),
}
"""The engine after the series: an edit, a new file in a new folder, a rename, a deletion."""


@dataclass(frozen=True)
class Bench:
    """Where the parts of a test are."""

    tmp: Path
    series_dir: Path
    site: Path

    def series(self, patches: dict[str, bytes], **options: str) -> Series:
        """Write and lock a series."""
        return engine.locked(engine.make_series(self.series_dir, patches, **options))

    def patch(self, before: dict[str, bytes], after: dict[str, bytes], subject: str = "x") -> bytes:
        """Return a patch between two sets of files."""
        number = len(list(self.tmp.glob("diff-*")))
        return engine.message(subject) + engine.diff(before, after, self.tmp / f"diff-{number}")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Give a store with the release eng 1.0 and an installed copy of it."""
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    engine.add_release({**engine.FILES, **engine.EXTRA}, tmp_path / "checkout")
    return Bench(tmp_path, tmp_path / "series", engine.install(tmp_path / "site"))


@pytest.fixture
def whole(bench: Bench) -> Series:
    """Give a locked series of two patches that changes files in every way there is."""
    middle = {**engine.FILES, "eng/core.py": CHANGED["eng/core.py"]}
    return bench.series(
        {
            "0001-read.patch": bench.patch(dict(engine.FILES), middle),
            "0002-rest.patch": bench.patch(middle, CHANGED),
        }
    )
