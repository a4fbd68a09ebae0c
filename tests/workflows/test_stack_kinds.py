"""Patches of every kind through a checkout: a lower one changes and back, bytes are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import engine

from pseries.upstream.store import Store
from pseries.workflows.series import catalog
from pseries.workflows.verbs import checkout, push, refresh, reshape, stack, undo

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.workflows.conftest import Bench

LONG = b"".join(b"line %d\n" % number for number in range(60))
FILES: dict[str, bytes] = {
    "eng/__init__.py": b"VERSION = 1\n",
    "eng/a.py": LONG,
    "eng/b.py": LONG.replace(b"line", b"row"),
    "eng/crlf.py": LONG.replace(b"\n", b"\r\n"),
    "eng/latin.py": LONG.replace(b"line 30", b"caf\xe9"),
    "eng/bare.py": LONG.rstrip(b"\n"),
    "eng/tool.sh": b"#!/bin/sh\n" + LONG,
    "eng/blob.bin": bytes(range(256)) * 4,
    'eng/with blank/é "quoted".py': LONG,
}


def changed(path: str, old: bytes, new: bytes) -> dict[str, bytes | None]:
    assert old in FILES[path]
    return {path: FILES[path].replace(old, new, 1)}


QUOTED = 'eng/with blank/é "quoted".py'
KINDS: dict[str, dict[str, bytes | None]] = {
    "content": changed("eng/a.py", b"line 50", b"line fifty"),
    "rename": {"eng/a.py": None, "eng/z.py": FILES["eng/a.py"]},
    "rename and content": {
        "eng/a.py": None, "eng/z.py": FILES["eng/a.py"].replace(b"line 50", b"line fifty"),
    },
    "binary": {"eng/blob.bin": FILES["eng/blob.bin"] + b"\0more"},
    "new binary": {"eng/new.bin": b"\0\1\2"},
    "deleted binary": {"eng/blob.bin": None},
    "crlf": changed("eng/crlf.py", b"line 50\r\n", b"line fifty\r\n"),
    "line ends": {"eng/crlf.py": LONG},
    "latin-1": changed("eng/latin.py", b"caf\xe9", b"na\xefve"),
    "no newline": changed("eng/bare.py", b"line 58", b"line x"),
    "newline added": {"eng/bare.py": LONG},
    "newline removed": {"eng/a.py": LONG.rstrip(b"\n")},
    "empty file": {"eng/empty.py": b""},
    "deleted": {"eng/b.py": None},
    "odd path": changed(QUOTED, b"line 50", b"x"),
    "odd new path": {"eng/with blank/ü 'x'.py": b"X = 1\n"},
    "file to folder": {"eng/b.py": None, "eng/b.py/x.py": b"X = 1\n"},
}  # fmt: skip

WHOLE = {"line ends", "deleted", "file to folder"}
"""Those that conflict with any other change to the file."""


def after(before: Mapping[str, bytes], change: Mapping[str, bytes | None]) -> dict[str, bytes]:
    found = {path: data for path, data in before.items() if path not in change}
    return found | {path: data for path, data in change.items() if data is not None}


@pytest.fixture
def bench_of_kinds(bench: Bench) -> Bench:
    engine.add_release(FILES, bench.tmp / "kinds", version="2.0")
    return bench


def checked_out(bench: Bench, patches: dict[str, bytes]) -> tuple[Path, Path]:
    """Return the folder of a locked series of these patches, and a checkout of it."""
    series = bench.series(patches, name="eng-2.0", version="2.0")
    location = catalog.Location(bench.series_dir, "the test's")
    store = Store.open("eng")
    found = store.find("2.0")
    assert found is not None
    checkout.check_out(series, location, store, found, bench.tmp / "work")
    return bench.series_dir / "eng-2.0", bench.tmp / "work"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def replace(file: Path, old: bytes, new: bytes) -> None:
    data = file.read_bytes()
    assert old in data
    file.write_bytes(data.replace(old, new, 1))


def through(folder: Path, top: Path, edits: Mapping[str, tuple[bytes, bytes]]) -> None:
    """Change the first patch and change it back: the folder must hold the same bytes."""
    before = contents(folder)
    with stack.opened(top) as work:
        push.goto(work, "0001")
        for path, (old, new) in edits.items():
            replace(top / path, old, new)
        refresh.refresh(work)
        assert contents(folder) != before
        assert push.push(work, everything=True).pushed
        catalog.load(str(folder), None).locked()
        assert work.stack.locked
        push.goto(work, "0001")
        for path, (old, new) in edits.items():
            replace(top / path, new, old)
        refresh.refresh(work)
        push.push(work, everything=True)
    assert contents(folder) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_patch_of_every_kind_survives(kind: str, bench_of_kinds: Bench):
    """The first patch changes every text file near its top, so that the second one moves."""
    first = {
        path: data.replace(b" 2", b" two", 1)
        for path, data in FILES.items() if b" 2" in data and not path.endswith(".bin")
    }  # fmt: skip
    middle = FILES | first
    change = {
        path: None if data is None else data.replace(b" 2", b" two", 1)
        for path, data in KINDS[kind].items()
    }
    folder, top = checked_out(bench_of_kinds, {
        "0001-all.patch": bench_of_kinds.patch(FILES, middle),
        "0002-kind.patch": bench_of_kinds.patch(middle, after(middle, change)),
    })  # fmt: skip
    touched = [path for path in change if path in first and kind not in WHOLE]
    through(folder, top, dict.fromkeys(touched or ["eng/a.py"], (b" two", b" two and more")))


def test_a_change_of_mode_alone_survives(bench_of_kinds: Bench):
    first = bench_of_kinds.patch(FILES, FILES | changed("eng/tool.sh", b"line 2", b"line two"))
    mode = engine.message() + (
        b"diff --git a/eng/tool.sh b/eng/tool.sh\nold mode 100755\nnew mode 100644\n"
    )
    folder, top = checked_out(bench_of_kinds, {"0001-x.patch": first, "0002-mode.patch": mode})
    through(folder, top, {"eng/tool.sh": (b"line two", b"line 2 and more")})
    assert (top / "eng/tool.sh").stat().st_mode & 0o111 == 0


DIALECTS = {
    "-p0 with Index lines": (0, """\
Fix it

Index: eng/b.py
===================================================================
--- eng/b.py.orig\t2026-01-01 00:00:00
+++ eng/b.py\t2026-01-01 00:00:01
@@ -50,3 +50,3 @@ def foreign():
 row 49
-row 50
+row fifty
 row 51
"""),
    "-p2": (2, """\
From: Ann <ann@x.invalid>
Subject: Fix it

--- x/y/eng/b.py
+++ x/y/eng/b.py
@@ -50,3 +50,3 @@
 row 49
-row 50
+row fifty
 row 51
"""),
    "more context and a signature": (1, """\
Description: Fix it
 Because.
---
 a comment | 2 +-

diff --git a/eng/b.py b/eng/b.py
--- a/eng/b.py
+++ b/eng/b.py
@@ -46,11 +46,11 @@ other words
 row 45
 row 46
 row 47
 row 48
 row 49
-row 50
+row fifty
 row 51
 row 52
 row 53
 row 54
 row 55
-- \n2.39.5

"""),
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_patch_that_git_would_write_otherwise_is_left_alone(dialect: str, bench_of_kinds: Bench):
    strip, text = DIALECTS[dialect]
    data = text.encode()
    first = bench_of_kinds.patch(FILES, FILES | changed("eng/a.py", b"line 2", b"line two"))
    order = f"0001-x.patch\n0002-odd.patch -p{strip} # odd\n"
    series = engine.make_series(
        bench_of_kinds.series_dir, {"0001-x.patch": first, "0002-odd.patch": data},
        name="eng-2.0", version="2.0", order=order,
    )  # fmt: skip
    engine.locked(series)
    location = catalog.Location(bench_of_kinds.series_dir, "the test's")
    store = Store.open("eng")
    found = store.find("2.0")
    assert found is not None
    top = bench_of_kinds.tmp / "work"
    checkout.check_out(catalog.load("eng-2.0", location), location, store, found, top)
    with stack.opened(top) as work:
        assert refresh.refresh(work).patches == ()
        replace(top / "eng/a.py", b"line 40", b"line forty")
        done = refresh.refresh(work, "0001")
        assert [each.name for each in done.patches] == ["0001-x.patch"]
        assert (series / "0002-odd.patch").read_bytes() == data
        replace(top / "eng/b.py", b"row 10", b"row ten")
        refresh.refresh(work)
        assert b"+row ten" in (series / "0002-odd.patch").read_bytes()
        assert (series / "series").read_text() == order
        catalog.load(str(series), None).locked()
        undo.undo(work)
        assert (series / "0002-odd.patch").read_bytes() == data


def test_a_patch_without_a_change_keeps_its_file(bench_of_kinds: Bench):
    first = bench_of_kinds.patch(FILES, FILES | changed("eng/a.py", b"line 2", b"line two"))
    folder, top = checked_out(bench_of_kinds, {"0001-x.patch": first})
    with stack.opened(top) as work:
        replace(top / "eng/a.py", b"line two", b"line 2")
        done = refresh.refresh(work)
        assert done.empty == ("0001-x.patch",)
        undo.undo(work)
        reshape.header(work, "0001")
    assert (folder / "0001-x.patch").read_bytes() == first
