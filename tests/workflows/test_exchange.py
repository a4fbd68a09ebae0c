"""A series in the forms of other tools and back: the same bytes, whatever kind of patch."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import engine

from pseries.errors import ExportInTheWay, ExportRefused
from pseries.upstream import imports
from pseries.upstream.store import Store
from pseries.workflows.exchange import export as exporting
from pseries.workflows.exchange import import_
from pseries.workflows.exchange.import_ import Asked
from pseries.workflows.series import catalog, release
from pseries.workflows.series.means import Means

if TYPE_CHECKING:
    from pseries.model.series import Series

OFFLINE = Means(offline=True)
BASE: dict[str, bytes] = {
    **engine.FILES,
    "eng/crlf.py": engine.FILES["eng/net.py"].replace(b"\n", b"\r\n"),
    "eng/latin.py": "# Größe\nA = 1\nB = 2\nC = 3\n".encode("latin-1"),
    "eng/bare.py": b"A = 1\nB = 2",
    "eng/logo.bin": bytes(range(256)) * 4,
    'eng/odd "name" é.py': engine.MODULE,
    "eng/E=128,N=768 device.json": b"{}\n",
}


def stack(folder: Path) -> dict[str, bytes]:
    """Make a repository with a commit of every kind; return its patches as git writes them."""
    engine.write(folder, BASE)
    engine.git(folder, "init", "-q", "-b", "main")
    engine.git(folder, "add", "-A")
    engine.git(folder, "commit", "-qm", "base")
    engine.git(folder, "tag", "base")

    def edit(path: str, old: bytes, new: bytes) -> None:
        file = folder / path
        file.write_bytes(file.read_bytes().replace(old, new))

    def move(old: str, new: str) -> None:
        (folder / new).parent.mkdir(exist_ok=True)
        (folder / old).rename(folder / new)

    steps = {
        "rename": lambda: move("eng/core.py", "eng/moved/heart.py"),
        "rename and edit": lambda: (
            move("eng/net.py", "eng/wire.py"), edit("eng/wire.py", b"= 10", b"= 11")),
        "mode only": lambda: (folder / "eng/old.py").chmod(0o755),
        "binary": lambda: edit("eng/logo.bin", bytes(range(9)), bytes(9)),
        "crlf": lambda: edit("eng/crlf.py", b"= 10", b"= 12"),
        "latin-1": lambda: edit("eng/latin.py", b"A = 1", "A = 'ü'".encode("latin-1")),
        "no newline": lambda: edit("eng/bare.py", b"B = 2", b"B = 3"),
        "new empty": lambda: (folder / "eng/empty.py").write_bytes(b""),
        "deleted": (folder / "eng/old.py").unlink,
        "odd names": lambda: (
            edit('eng/odd "name" é.py', b"# The", b"# An"),
            edit("eng/E=128,N=768 device.json", b"{}", b"[]")),
        "Ümlaut in the subject, and quite a long one that git has to fold somewhere": (
            lambda: edit("eng/nvidia/ops.py", b"C = 3", b"C = 4")),
    }  # fmt: skip
    for subject, step in steps.items():
        step()
        engine.git(folder, "add", "-A")
        engine.git(folder, "commit", "-qm", f"{subject}\n\nBecause.\n\nUpstream-Status: Pending")
    out = folder.parent / "patches"
    engine.git(folder, "format-patch", "-q", "--full-index", "--binary", "-o", str(out), "base")
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Series:
    """Give a locked series with patches of every kind, headers and comments of every kind."""
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    patches = stack(tmp_path / "checkout")
    plain = tmp_path / "plain"
    engine.git(tmp_path / "checkout", "checkout", "-q", "base")
    engine.git(tmp_path / "checkout", "checkout-index", "-a", "--prefix", f"{plain}/")
    store = Store.open("eng")
    with store.lock():
        imports.add_folder(store, "1.0", plain, "")
    tree = engine.FILES["eng/tool.sh"]
    bare = (
        b"--- eng/tool.sh\n+++ eng/tool.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-echo hello\n+echo bye\n"
    )
    assert tree.endswith(b"echo hello\n")
    patches["bare.diff"] = bare
    patches["dep3.patch"] = (
        b"Description: Say more\n It is J\xf6rg's wish.\n .\n Twice.\nForwarded: not-needed\n---\n"
        + bare.replace(b"hello", b"x")
        .replace(b"bye", b"more")
        .replace(b"-echo x", b"-echo bye")
        .replace(b"--- eng", b"--- a/eng")
        .replace(b"+++ eng", b"+++ b/eng")
    )
    names = list(patches)
    order = "".join(
        f"# about {number}\n{name}{' -p0  # as it came' if name == 'bare.diff' else ''}\n"
        for number, name in enumerate(names)
    )
    folder = engine.make_series(tmp_path / "series", patches, order=f"{order}\n# the end\n")
    release.lock_folder("eng-1.0", catalog.Location(folder.parent, ""), Means(offline=True))
    return catalog.load("eng-1.0", catalog.Location(folder.parent, ""))


def back(source: Path, **options: object) -> dict[str, bytes]:
    """Import what was exported into a new series; return its files."""
    asked = Asked((source,), release="eng==1.0", variant="back", **options)  # type: ignore[arg-type]
    location = catalog.Location(Path("series").absolute(), "")
    report = import_.start(asked, location, OFFLINE)
    assert not report.refused, [(each.name, each.problems) for each in report.patches]
    return {path.name: path.read_bytes() for path in Path("series/eng-1.0-back").iterdir()}


def same(series: Series, found: dict[str, bytes]) -> None:
    wanted = {path.name: path.read_bytes() for path in Path(series.folder).iterdir()}
    for name in ("series", *series.order.names):
        assert found[name] == wanted[name], name
    extra = found.keys() - wanted.keys()
    assert extra <= {"README.md"}


@pytest.mark.parametrize("form", ["quilt", "mbox"])
def test_files_come_back_to_the_byte(series: Series, form: str, tmp_path: Path) -> None:
    exported = exporting.export(series, form, tmp_path / "out", OFFLINE, None)
    if form == "quilt":
        assert any("binary" in note for note in exported.notes)
    same(series, back(tmp_path / "out"))


def test_a_branch_comes_back_to_the_byte(series: Series, tmp_path: Path) -> None:
    target = tmp_path / "out"
    exporting.export(series, "git-branch", target, OFFLINE, None)
    assert not (target / "objects/info/alternates").exists()
    engine.git(target, "fsck", "--strict")
    same(series, back(target, between="pseries/eng-1.0..eng-1.0"))


def test_a_branch_holds_what_the_patches_make(series: Series, tmp_path: Path) -> None:
    exporting.export(series, "git-branch", tmp_path / "out", OFFLINE, None)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "-b", "eng-1.0", str(tmp_path / "out"), str(clone)],
                   check=True)  # fmt: skip
    assert (clone / "eng/latin.py").read_bytes().startswith("# Größe\nA = 'ü'".encode("latin-1"))
    assert (clone / "eng/crlf.py").read_bytes().startswith(b"TIMEOUT = 12\r\n")
    assert not (clone / "eng/old.py").exists()
    assert (clone / "eng/tool.sh").read_bytes() == b"#!/bin/sh\necho more\n"
    log = engine.git(clone, "log", "--format=%s|%ad|%an", "--reverse", "pseries/eng-1.0..").decode()
    assert len(log.splitlines()) == len(series.patches)
    assert "Ümlaut in the subject, and quite a long one that git has to fold somewhere|" in log


def test_a_commit_that_was_amended_is_taken_as_it_is(series: Series, tmp_path: Path) -> None:
    exporting.export(series, "git-branch", tmp_path / "out", OFFLINE, None)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "-b", "eng-1.0", str(tmp_path / "out"), str(clone)],
                   check=True)  # fmt: skip
    engine.git(clone, "fetch", "-q", "origin", "refs/notes/*:refs/notes/*")
    engine.write(clone, {"eng/tool.sh": b"#!/bin/sh\necho amended\n"})
    engine.git(clone, "commit", "-qa", "--amend", "-m", "Say other words")

    found = back(clone, between="pseries/eng-1.0..HEAD")

    names = list(series.order.names)
    assert all(found[name] == series.patches[n].data for n, name in enumerate(names[:-1]))
    new = found[f"{len(names):04}-Say-other-words.patch"]
    assert b"+echo amended\n" in new


def test_a_note_that_does_not_say_what_its_commit_does_is_not_believed(
    series: Series, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    exporting.export(series, "git-branch", target, OFFLINE, None)
    tip = engine.git(target, "rev-parse", "eng-1.0").decode().strip()
    note = engine.git(target, "notes", "--ref=pseries", "show", tip)
    (tmp_path / "note").write_bytes(note.replace(b"+echo more", b"+echo evil"))
    blob = engine.git(target, "hash-object", "-w", str(tmp_path / "note")).decode().strip()
    engine.git(target, "notes", "--ref=pseries", "add", "-f", "-C", blob, tip)

    found = back(target, between="pseries/eng-1.0..eng-1.0")

    last = found[series.order.names[-1]]
    assert b"+echo more" in last
    assert b"evil" not in last


def test_fromagers_folder_comes_back_but_for_what_it_has_no_room_for(
    series: Series, tmp_path: Path
) -> None:
    with pytest.raises(ExportRefused, match=r"logo\.bin is binary"):
        exporting.export(series, "fromager", tmp_path / "out", OFFLINE, None)
    assert not (tmp_path / "out").exists()
    binary = next(patch.name for patch in series.patches if "binary" in patch.name)
    folder = Path(series.folder)
    (folder / binary).unlink()
    order = (folder / "series").read_bytes().replace(binary.encode() + b"\n", b"")
    (folder / "series").write_bytes(order)
    without = catalog.load("eng-1.0", catalog.Location(folder.parent, ""), manifest=False)

    exported = exporting.export(without, "fromager", tmp_path / "out", OFFLINE, None)

    assert Path(exported.path).name == "eng-1.0"
    names = sorted(name for name in exported.files if name.endswith(".patch"))
    found = back(Path(exported.path))
    assert [name for name in names if name not in found] == []
    assert names == [name for name in exported.files if name != "series"]  # fromager sorts them
    kept = {patch.data for patch in without.patches if patch.strip == 1}
    assert kept <= set(found.values())


def test_gnu_patch_applies_fromagers_folder(series: Series, tmp_path: Path) -> None:
    """Fromager runs ``patch -p1`` on the files in the order of their names."""
    only = [patch for patch in series.patches if patch.name in ("bare.diff", "dep3.patch")]
    folder = Path(series.folder)
    for patch in series.patches:
        if patch not in only:
            (folder / patch.name).unlink()
    (folder / "series").write_bytes(b"bare.diff -p0\ndep3.patch\n")
    few = catalog.load("eng-1.0", catalog.Location(folder.parent, ""), manifest=False)
    exported = exporting.export(few, "fromager", tmp_path / "out", OFFLINE, None)
    tree = tmp_path / "plain"
    for file in sorted(Path(exported.path).glob("*.patch")):
        subprocess.run(["patch", "-p1", "-i", str(file)], cwd=tree, check=True, capture_output=True)
    assert (tree / "eng/tool.sh").read_bytes() == b"#!/bin/sh\necho more\n"


@pytest.mark.parametrize("form", list(exporting.FORMS))
def test_nothing_is_overwritten(series: Series, form: str, tmp_path: Path) -> None:
    if form == "fromager":
        target = tmp_path / "out" / "eng-1.0"
        target.mkdir(parents=True)
    else:
        target = tmp_path / "out"
        target.write_bytes(b"mine")
    refusal = ExportRefused if form == "fromager" else ExportInTheWay
    with pytest.raises(refusal):
        exporting.export(series, form, tmp_path / "out", OFFLINE, None)
    assert target.is_dir() or target.read_bytes() == b"mine"


def test_files_are_readable_whatever_the_umask(series: Series, tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        exporting.export(series, "quilt", tmp_path / "out", OFFLINE, None)
    finally:
        os.umask(old)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    assert modes == {0o644}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o755


def test_a_release_from_git_gives_a_branch_that_upstreams_clone_can_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch stands on upstream's own commit, however shallow the store has it."""
    from pseries.workflows.exchange import init

    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    upstream = tmp_path / "upstream"
    engine.write(upstream, {"eng/old.py": b"OLDER = 1\n"})
    engine.git(upstream, "init", "-q", "-b", "main")
    engine.git(upstream, "add", "-A")
    engine.git(upstream, "commit", "-qm", "first")
    engine.write(upstream, engine.FILES)
    engine.git(upstream, "add", "-A")
    engine.git(upstream, "commit", "-qm", "second")
    engine.git(upstream, "tag", "v1.0")
    begun = init.begin(init.Wanted("eng", "1.0", str(upstream)), "", None, OFFLINE)
    (tmp_path / "1.patch").write_bytes(
        b"--- a/eng/old.py\n+++ b/eng/old.py\n@@ -1 +1 @@\n-GONE = True\n+GONE = False\n"
    )
    location = catalog.Location(Path(begun.folder).parent, "")
    import_.start(Asked((tmp_path / "1.patch",), into=begun.series), location, OFFLINE)
    exported = exporting.export(
        catalog.load(begun.series, location), "git-branch", tmp_path / "out", OFFLINE, location
    )
    assert exported.notes == ()

    engine.git(upstream, "fetch", "-q", str(tmp_path / "out"), "eng-1.0:carried")

    base = engine.git(upstream, "merge-base", "carried", "main")
    assert base == engine.git(upstream, "rev-parse", "v1.0")
    assert engine.git(upstream, "log", "--format=%s", "main..carried") == b"1.patch\n"
    assert engine.git(upstream, "show", "carried:eng/old.py") == b"GONE = False\n"


def test_what_another_export_wrote_meanwhile_is_left_alone(
    series: Series, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at once to one name: the second fails, and the first's repository stays."""
    target = tmp_path / "out"
    fetched = release.fetch

    def slow(*words: object, **named: object) -> object:
        (target / "objects").mkdir(parents=True)
        return fetched(*words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(release, "fetch", slow)
    with pytest.raises((ExportInTheWay, OSError)):
        exporting.export(series, "git-branch", target, OFFLINE, None)
    assert (target / "objects").is_dir()
    assert [path.name for path in tmp_path.glob(".out*")] == []
