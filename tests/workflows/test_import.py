"""Patches of every dialect taken into a series: all of them or none, each with its fate."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support import engine

from pseries.errors import ImportUnclear, RangeRefused, SeriesExists, SourceRefused
from pseries.upstream import imports
from pseries.upstream.store import Store
from pseries.workflows.exchange import import_
from pseries.workflows.exchange.ground import Fit
from pseries.workflows.exchange.import_ import Asked, Fate, Imported
from pseries.workflows.series import catalog
from pseries.workflows.series.means import Means

ROOTED: dict[str, bytes] = {
    **{f"python/{path}": data for path, data in engine.FILES.items()},
    "python/pyproject.toml": b"[project]\n",
    "tests/test_eng.py": b"assert True\n",
    "csrc/fast.cu": b"int fast;\n",
    "utils/net.py": engine.FILES["eng/net.py"],
}
"""A repository that keeps its package in a folder."""


@dataclass
class Desk:
    """A store with releases of ``eng``, and a folder to work in."""

    tmp: Path
    count: int = field(default=0)

    def release(self, files: dict[str, bytes], version: str = "1.0", root: str = "") -> None:
        folder = self.tmp / f"release-{version}"
        engine.write(folder, files)
        store = Store.open("eng")
        with store.lock():
            imports.add_folder(store, version, folder, root)

    def diff(self, before: dict[str, bytes], after: dict[str, bytes]) -> bytes:
        self.count += 1
        return engine.diff(before, after, self.tmp / f"diff-{self.count}")

    def source(self, files: dict[str, bytes], name: str = "in") -> Path:
        folder = self.tmp / name
        for path, data in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return folder

    def take(self, *sources: Path, release: str = "eng==1.0", **options: object) -> Imported:
        location = catalog.Location(self.tmp / "series", "the test's")
        into = options.get("into", "")
        asked = Asked(sources, release="" if into else release, **options)  # type: ignore[arg-type]
        return import_.start(asked, location, Means(offline=True))

    def written(self, name: str = "eng-1.0") -> dict[str, bytes]:
        folder = self.tmp / "series" / name
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    def digests(self) -> dict[str, object]:
        return dict(engine.snapshot(self.tmp / "series")) if (self.tmp / "series").exists() else {}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


NET = "eng/net.py"
FIRST = {**engine.FILES, NET: engine.FILES[NET].replace(b"= 10", b"= 20")}
SECOND = {**FIRST, NET: FIRST[NET].replace(b"= 20", b"= 30")}


def fates(report: Imported) -> list[str]:
    return [each.fate.value for each in report.patches]


def edit(prefixes: tuple[str, str] = ("a/", "b/"), path: str = NET, value: int = 20) -> bytes:
    """Return a plain diff of the engine, as many a tool writes it."""
    lines = engine.FILES[NET].decode().splitlines(keepends=True)
    text = "".join(f" {line}" for line in lines[1:4])
    return (
        f"--- {prefixes[0]}{path}\n+++ {prefixes[1]}{path}\n"
        f"@@ -1,4 +1,4 @@\n-{lines[0]}+TIMEOUT = {value}\n{text}"
    ).encode()


# --- order -------------------------------------------------------------------------------------


def test_a_quilt_folder_keeps_every_byte(desk: Desk) -> None:
    desk.release(engine.FILES)
    one, two = desk.diff(engine.FILES, FIRST), desk.diff(FIRST, SECOND)
    order = b"# the first things first\r\n  one.patch\r\n\r\ntwo.diff -p1   # as ever\r\n# end"
    files = {"one.patch": b"Words only\n\n" + one, "two.diff": two, "series": order}

    report = desk.take(desk.source(files))

    assert fates(report) == ["taken", "taken"]
    assert [each.how for each in report.patches] == [Fit.IDS, Fit.IDS]
    assert {name: desk.written()[name] for name in files} == files
    assert not any(each.changes for each in report.patches)
    catalog.load("eng-1.0", catalog.Location(desk.tmp / "series", "")).locked()


def test_no_prefix_stays_as_it_is_with_its_level_in_the_order_file(desk: Desk) -> None:
    desk.release(engine.FILES)
    data = edit(("", ""))
    report = desk.take(desk.source({"1.patch": data, "series": b"1.patch -p0 # so\n"}))
    assert fates(report) == ["taken"]
    assert desk.written()["1.patch"] == data
    assert desk.written()["series"] == b"1.patch -p0 # so\n"


def test_numbers_decide_where_there_is_no_order_file(desk: Desk) -> None:
    """O01: a glob takes 1, 10, 11, 2; and 0028-x-reanchor before 0028-x."""
    desk.release(engine.FILES)
    values = list(range(10, 21))
    files = {}
    for number, (old, new) in enumerate(pairwise(values), 1):
        data = edit(value=new).replace(b"TIMEOUT = 10\n", b"TIMEOUT = %d\n" % old, 1)
        files[f"{number}.patch"] = data
    report = desk.take(desk.source(files))
    assert [each.name for each in report.patches] == [f"{n}.patch" for n in range(1, 11)]
    assert fates(report) == ["taken"] * 10


def test_two_of_one_number_are_taken_by_name_and_said(desk: Desk) -> None:
    desk.release(engine.FILES)
    one, two = desk.diff(engine.FILES, FIRST), desk.diff(FIRST, SECOND)
    source = desk.source({"0028-x-reanchor.patch": two, "0028-x.patch": one})
    report = desk.take(source)
    assert [each.name for each in report.patches] == ["0028-x.patch", "0028-x-reanchor.patch"]
    assert "0028-x.patch, 0028-x-reanchor.patch" in report.notes[0]


def test_fromagers_folder_says_its_release(desk: Desk) -> None:
    desk.release(engine.FILES)
    source = desk.source({"001-t.patch": edit()}, "patches/eng-1.0")
    assert fates(desk.take(source, release="")) == ["taken"]
    assert "eng-1.0" in {path.name for path in (desk.tmp / "series").iterdir()}


def test_debians_folders_become_parts_of_names(desk: Desk) -> None:
    desk.release(engine.FILES)
    source = desk.source({
        "debian/patches/series": b"# all\nfixes/one.patch\n",
        "debian/patches/fixes/one.patch": edit(),
        "debian/patches/old.patch": b"unused",
    })  # fmt: skip
    report = desk.take(source)
    assert [each.name for each in report.patches] == ["fixes-one.patch"]
    assert desk.written()["series"] == b"# all\nfixes-one.patch\n"
    assert any("old.patch" in note for note in report.notes)


@pytest.mark.parametrize(("order", "words"), [
    (b"1.patch\nnope.patch\n", "nope.patch is not in"),
    (b"1.patch\n1.patch\n", "listed already"),
    (b"1.patch -R\n", "-R is not supported"),
    (b"my fix.patch\n", "names with blanks"),
    (b"1.patch\n../1.patch\n", "lies in a folder"),
    (b"# nothing\n", "lists no patch"),
])  # fmt: skip
def test_a_bad_order_file_is_refused_before_anything(desk: Desk, order: bytes, words: str) -> None:
    """Q01."""
    desk.release(engine.FILES)
    with pytest.raises(SourceRefused, match=words):
        desk.take(desk.source({"1.patch": edit(), "my fix.patch": edit(), "series": order}))
    assert desk.digests() == {}


# --- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefixes", [
    ("a/", "b/"), ("i/", "w/"), ("c/", "w/"), ("eng.orig/", "eng/"), ("old/", "new/"),
])  # fmt: skip
def test_prefixes_of_any_name_are_taken_off(desk: Desk, prefixes: tuple[str, str]) -> None:
    """P01."""
    desk.release(engine.FILES)
    data = edit(prefixes)
    report = desk.take(desk.source({"1.patch": data}))
    assert fates(report) == ["taken"]
    assert desk.written()["1.patch"] == data


DATED = "a/site-packages/eng/net.py\t2026-02-14 08:00:00 +0200"
UNDATED = [
    ("a/eng/net.py", "b/eng/net.py"),
    ("eng/net.py", "eng/net.py"),
    ("a/site-packages/eng/net.py", "b/site-packages/eng/net.py"),
    ("a/build/lib/eng/net.py", "b/build/lib/eng/net.py"),
    (
        "a/usr/local/lib/python3.12/dist-packages/eng/net.py",
        "b/usr/local/lib/python3.12/dist-packages/eng/net.py",
    ),
    (
        "/usr/local/lib/python3.12/dist-packages/eng/net.py",
        "/usr/local/lib/python3.12/dist-packages/eng/net.py",
    ),
    (
        "$VENV/lib/python3.12/site-packages/eng/net.py",
        "$VENV/lib/python3.12/site-packages/eng/net.py",
    ),
    ("site//eng/net.py", "new//eng/net.py"),
    ("a/net.py", "b/net.py"),
]
FROM_ANYWHERE = [
    *((old, new, False) for old, new in UNDATED),
    *((old, new, True) for old, new in UNDATED),
    ("./eng/net.py", "../new/eng/net.py", False),
    ("eng/net.py.orig", "eng/net.py", False),
    (DATED, DATED.replace("a/", "b/", 1), False),
    (DATED.replace("\t", " "), DATED.replace("a/", "b/", 1), False),
]


@pytest.mark.parametrize(("old", "new", "git"), FROM_ANYWHERE)
def test_paths_from_anywhere_become_the_repositorys(
    desk: Desk, old: str, new: str, git: bool
) -> None:
    """P02: a checkout, a container's root, site-packages, the package itself."""
    desk.release({k: v for k, v in ROOTED.items() if k != "utils/net.py"}, root="python")
    body = edit().split(b"\n", 2)[2]
    data = f"--- {old}\n+++ {new}\n".encode() + body
    if git:
        data = f"diff --git {old} {new}\nindex 1111111..2222222 100644\n".encode() + data

    report = desk.take(desk.source({"1.patch": b"Words\n\n" + data}))

    assert fates(report) == ["taken"]
    taken = desk.written()["1.patch"]
    assert b"--- a/python/eng/net.py" in taken
    assert taken.startswith(b"Words\n\n")
    assert taken.endswith(body)
    assert "rewritten to a/ and b/" in report.patches[0].changes[0]


def test_a_canonical_patch_keeps_its_bytes_beside_look_alike_paths(desk: Desk) -> None:
    """P01: ``utils/net.py`` is there too, but the names say which one is meant."""
    desk.release(ROOTED, root="python")
    for number, prefixes in enumerate((("a/", "b/"), ("", ""))):
        data = edit(prefixes, "python/eng/net.py")
        report = desk.take(desk.source({"1.patch": data}, f"in{number}"), variant=f"v{number}")
        assert fates(report) == ["taken"]
        assert desk.written(f"eng-1.0-v{number}")["1.patch"] == data


def test_another_projects_files_are_not_taken_for_ours(desk: Desk) -> None:
    """Seen in a real set: ``sgl-kernel/python/sgl_kernel/__init__.py`` is not ``sglang``'s."""
    files = {
        "python/eng/__init__.py": b"V = 1\n",
        "python/setup.py": b"V = 1\n",
        "setup.py": b"V = 1\n",
    }
    desk.release(files, root="python")
    for path in (
        "eng-kernel/python/eng_kernel/__init__.py",
        "eng-kernel/setup.py",
        "x/y/z/setup.py",
    ):
        data = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-V = 1\n+V = 2\n".encode()
        report = desk.take(desk.source({"1.patch": data}, path.replace("/", "_")))
        assert fates(report) == ["refused"], path
        assert f"the release has no {path}" in str(report.patches[0].problems[0])


def test_names_that_can_be_read_twice_are_refused(desk: Desk) -> None:
    """P01: ``eng/utils/net.py`` under -p1 is another distribution's file."""
    files = {"eng/__init__.py": b"", "eng/utils/net.py": engine.FILES[NET],
             "utils/net.py": engine.FILES[NET]}  # fmt: skip
    desk.release(files)
    source = desk.source({"1.patch": edit(("", ""), "eng/utils/net.py"), "series": b"1.patch\n"})

    report = desk.take(source)

    assert fates(report) == ["refused"]
    assert "several ways" in str(report.patches[0].problems[0])
    assert desk.digests() == {}
    assert fates(desk.take(desk.source({"1.patch": edit(("", ""), "eng/utils/net.py")}, "b"))) == [
        "taken"
    ]


def test_a_new_file_goes_where_its_folder_is(desk: Desk) -> None:
    desk.release(ROOTED, root="python")
    data = (
        b"diff --git a/eng/nvidia/new.py b/eng/nvidia/new.py\nnew file mode 100644\n"
        b"--- /dev/null\n+++ b/eng/nvidia/new.py\n@@ -0,0 +1 @@\n+N = 1\n"
    )
    report = desk.take(desk.source({"1.patch": data}))
    assert fates(report) == ["taken"]
    assert b"+++ b/python/eng/nvidia/new.py\n" in desk.written()["1.patch"]


def test_odd_names_survive_a_rewrite(desk: Desk) -> None:
    """P03: blanks, quotes, octal escapes, in a rename and in an edit."""
    before = {"eng/__init__.py": b"", "eng/A b.py": engine.MODULE, 'eng/q"ué.py': engine.MODULE}
    after = {"eng/__init__.py": b"", "eng/C d é.py": engine.MODULE,
             'eng/q"ué.py': engine.MODULE.replace(b"# The", b"# This")}  # fmt: skip
    desk.release({f"src/{path}": data for path, data in before.items()}, root="src")
    report = desk.take(desk.source({"1.patch": desk.diff(before, after)}))
    assert fates(report) == ["taken"]
    taken = desk.written()["1.patch"]
    assert b"rename from src/eng/A b.py\n" in taken
    assert b'rename to "src/eng/C d \\303\\251.py"\n' in taken
    assert b'"b/src/eng/q\\"u\\303\\251.py"' in taken


def test_what_no_wheel_holds_is_refused_file_by_file_and_can_be_left_out(desk: Desk) -> None:
    """P02: tests and compiled sources are not in a release that came from a wheel."""
    desk.release(engine.FILES)
    repository = {**engine.FILES, **engine.EXTRA}
    after = {**repository, NET: FIRST[NET], "tests/test_core.py": b"x\n", "csrc/fast.cu": b"y\n"}
    source = desk.source({"1.patch": desk.diff(repository, after)})

    refused = desk.take(source)
    taken = desk.take(source, exclude=("tests/*", "csrc/*"))

    assert fates(refused) == ["refused"]
    words = [problem.what for problem in refused.patches[0].problems]
    assert words == ["the release has no csrc/fast.cu", "the release has no tests/test_core.py"]
    assert fates(taken) == ["taken"]
    assert taken.patches[0].changes == ("left out as asked: csrc/fast.cu, tests/test_core.py",)
    assert b"tests/" not in desk.written()["1.patch"]


def test_nothing_is_left_of_a_patch_that_is_all_left_out(desk: Desk) -> None:
    desk.release(engine.FILES)
    report = desk.take(desk.source({"1.patch": edit()}), exclude=("eng/*",))
    assert fates(report) == ["refused"]
    assert "nothing is left of it" in str(report.patches[0].problems[0])


def test_the_names_themselves_say_what_is_missing(desk: Desk) -> None:
    """Of a patch with files that the release has not, some of them in a folder like its own."""
    desk.release({k: v for k, v in ROOTED.items() if k != "utils/net.py"}, root="python")
    before = {"bench/nvidia/run.py": b"a\n", "python/eng/old.py": engine.FILES["eng/old.py"]}
    after = {"bench/nvidia/run.py": b"b\n", "bench/nvidia/new.py": b"n\n",
             "python/eng/old.py": b"GONE = False\n"}  # fmt: skip
    source = desk.source({"1.patch": desk.diff(before, after)})
    refused = desk.take(source)
    assert [problem.what for problem in refused.patches[0].problems] == [
        "the release has no bench/nvidia/run.py"
    ]
    assert fates(desk.take(source, exclude=("bench/*",))) == ["taken"]


# --- line ends ---------------------------------------------------------------------------------


def crlf(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def test_a_crlf_transport_is_undone_and_said(desk: Desk) -> None:
    """F01."""
    desk.release(engine.FILES)
    data = b"Words\n\n" + desk.diff(engine.FILES, FIRST)
    report = desk.take(desk.source({"1.patch": crlf(data)}))
    assert fates(report) == ["taken"]
    assert report.patches[0].changes == ("CR LF line ends became LF",)
    assert desk.written()["1.patch"] == data


def test_a_crlf_file_keeps_its_line_ends_through_a_crlf_transport(desk: Desk) -> None:
    """F01: the same bytes in the patch's body mean another thing for a file with CR LF."""
    before = {**engine.FILES, NET: crlf(engine.FILES[NET])}
    desk.release(before)
    data = desk.diff(before, {**before, NET: crlf(FIRST[NET])})
    assert b"+TIMEOUT = 20\r\n" in data
    transported = b"\n".join(line.removesuffix(b"\r") + b"\r" for line in data.split(b"\n")[:-1])
    report = desk.take(desk.source({"1.patch": transported + b"\n"}))
    assert fates(report) == ["taken"]
    assert desk.written()["1.patch"] == data


def test_content_with_crlf_is_no_transport(desk: Desk) -> None:
    before = {**engine.FILES, NET: crlf(engine.FILES[NET])}
    desk.release(before)
    data = desk.diff(before, {**before, NET: crlf(FIRST[NET])})
    report = desk.take(desk.source({"1.patch": data}))
    assert (fates(report), report.patches[0].changes) == (["taken"], ())
    assert desk.written()["1.patch"] == data


NEW = (
    b"diff --git a/eng/new.py b/eng/new.py\nnew file mode 100644\n%b--- /dev/null\n"
    b"+++ b/eng/new.py\n@@ -0,0 +1 @@\n+x = 1\n"
)


def test_nothing_tells_how_a_new_file_was_meant(desk: Desk) -> None:
    """F01: refused, unless the id of its content tells."""
    desk.release(engine.FILES)
    (blob,) = subprocess.run(
        ["git", "hash-object", "--stdin"], input=b"x = 1\n", capture_output=True, check=True
    ).stdout.decode().split()  # fmt: skip
    unclear = desk.take(desk.source({"1.patch": crlf(NEW % b"")}, "unclear"))
    index = f"index {'0' * 40}..{blob}\n".encode()
    clear = desk.take(desk.source({"1.patch": crlf(NEW % index)}, "clear"))
    assert fates(unclear) == ["refused"]
    assert "nothing tells" in str(unclear.patches[0].problems[0])
    assert fates(clear) == ["taken"]
    assert desk.written()["1.patch"] == NEW % index


def test_a_byte_order_mark_and_a_missing_line_end_are_mended_and_said(desk: Desk) -> None:
    """F04, F06, S01."""
    desk.release(engine.FILES)
    data = edit()
    report = desk.take(desk.source({"1.patch": b"\xef\xbb\xbf" + data[:-1]}))
    assert fates(report) == ["taken"]
    assert len(report.patches[0].changes) == 2
    assert desk.written()["1.patch"] == data


# --- mailboxes and commits ---------------------------------------------------------------------


def checkout(desk: Desk, files: dict[str, bytes]) -> Path:
    folder = desk.tmp / "checkout"
    engine.write(folder, files)
    engine.git(folder, "init", "-q", "-b", "main")
    engine.git(folder, "add", "-A")
    engine.git(folder, "commit", "-qm", "base")
    engine.git(folder, "tag", "v1.0")
    return folder


def commit(folder: Path, files: dict[str, bytes], message: str) -> None:
    engine.write(folder, files)
    engine.git(folder, "add", "-A")
    engine.git(folder, "commit", "-q", "--allow-empty", "-m", message)


def test_the_mailbox_of_a_pull_request_is_taken_commit_by_commit(desk: Desk) -> None:
    """P08: edit, edit, rename, edit of one file; and a cover letter."""
    desk.release(engine.FILES)
    folder = checkout(desk, engine.FILES)
    commit(folder, {NET: FIRST[NET]}, "One")
    commit(folder, {NET: SECOND[NET]}, "Two")
    engine.git(folder, "mv", NET, "eng/wire.py")
    commit(folder, {}, "Three")
    commit(folder, {"eng/wire.py": SECOND[NET].replace(b"PORT = 1", b"PORT = 9")}, "Four\n\nBody.")
    box = engine.git(folder, "format-patch", "--stdout", "--cover-letter", "v1.0")

    report = desk.take(desk.source({"pr.mbox": box}) / "pr.mbox")

    assert fates(report) == ["taken"] * 4
    assert [each.name for each in report.patches] == [
        "0001-One.patch", "0002-Two.patch", "0003-Three.patch", "0004-Four.patch",
    ]  # fmt: skip
    assert any("cover" in note or "no diff" in note for note in report.notes)
    parts = [desk.written()[each.name] for each in report.patches]
    assert b"\n".join(parts) in box  # a mailbox has a blank line between messages


def test_a_range_of_commits_keeps_authors_dates_and_messages(desk: Desk) -> None:
    desk.release(engine.FILES)
    folder = checkout(desk, engine.FILES)
    engine.git(folder, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty",
               "-m", "Empty")  # fmt: skip
    engine.write(folder, {NET: FIRST[NET]})
    engine.git(folder, "commit", "-qam", "Ändere\n\nWeil.\n\nBug: 7\n", "--author",
               "Jörg <j@example.org>", "--date", "2026-10-01T10:00:00+0200")  # fmt: skip
    commit(folder, {"eng/core.py": b"# new\n"}, "Second\n\n---\nodd\n")

    report = desk.take(folder, between="v1.0..main")

    assert fates(report) == ["taken", "taken"]
    data = desk.written()["0001-ndere.patch"]
    assert b"From: J\xc3\xb6rg <j@example.org>\nDate: Thu, 1 Oct 2026 10:00:00 +0200\n" in data
    assert b"Weil.\n\nBug: 7\n---\ndiff --git" in data
    assert any("changes nothing" in note for note in report.notes)
    assert "quoted" in report.patches[1].changes[0]


@pytest.mark.parametrize(("between", "words"), [
    ("v1.0..nope", "no commit 'nope'"),
    ("v1.0", "two revisions"),
    ("v1.0...main", "two revisions"),
    ("--all..main", "cannot name"),
    ("main..v1.0", "no commit"),
    ("v1.0..merged", "is a merge"),
])  # fmt: skip
def test_a_range_that_is_no_straight_line_is_refused(desk: Desk, between: str, words: str) -> None:
    folder = checkout(desk, engine.FILES)
    commit(folder, {NET: FIRST[NET]}, "One")
    engine.git(folder, "checkout", "-qb", "merged", "v1.0")
    commit(folder, {"eng/core.py": b"# new\n"}, "Two")
    engine.git(folder, "merge", "-q", "--no-ff", "-m", "both", "main")
    with pytest.raises(RangeRefused, match=words):
        desk.take(folder, between=between)


def test_settings_of_a_strangers_repository_have_no_say(desk: Desk) -> None:
    desk.release(engine.FILES)
    folder = checkout(desk, engine.FILES)
    commit(folder, {NET: FIRST[NET]}, "One")
    trap = desk.tmp / "ran"
    for key in ("diff.external", "core.fsmonitor", "core.pager"):
        engine.git(folder, "config", key, f"touch {trap};")
    engine.git(folder, "config", "diff.noprefix", "true")
    (folder / ".git/info/attributes").write_text("* diff=evil\n")
    engine.git(folder, "config", "diff.evil.textconv", f"touch {trap};")
    report = desk.take(folder, between="v1.0..main")
    assert fates(report) == ["taken"]
    assert not trap.exists()
    assert b"--- a/eng/net.py" in desk.written()["0001-One.patch"]


def test_a_repository_that_somebody_made_of_site_packages(desk: Desk) -> None:
    desk.release({k: v for k, v in ROOTED.items() if k != "utils/net.py"}, root="python")
    folder = checkout(desk, engine.FILES)
    commit(folder, {NET: FIRST[NET]}, "One")
    report = desk.take(folder, between="v1.0..")
    assert fates(report) == ["taken"]
    assert b"--- a/python/eng/net.py" in desk.written()["0001-One.patch"]


def test_history_is_what_it_is_whatever_stands_in_for_it(desk: Desk) -> None:
    """git replace shows another history than the objects hold."""
    desk.release(engine.FILES)
    folder = checkout(desk, engine.FILES)
    commit(folder, {NET: FIRST[NET]}, "One")
    commit(folder, {NET: SECOND[NET]}, "Two")
    engine.git(folder, "replace", "--graft", "main", "v1.0")
    assert [each.subject for each in desk.take(folder, between="v1.0..main").patches] == [
        "One", "Two",
    ]  # fmt: skip


# --- fates -------------------------------------------------------------------------------------


def test_one_refused_patch_means_that_nothing_is_written(desk: Desk) -> None:
    """A04, S01: no stack that is done in part; what fails is said at once."""
    desk.release(engine.FILES)
    bad = edit(value=5).replace(b"-TIMEOUT = 10", b"-TIMEOUT = 4")
    other = desk.diff(FIRST, {**FIRST, "eng/core.py": b"x\n"})
    source = desk.source({"1.patch": edit(), "2.patch": bad, "3.patch": other, "4.patch": b"hi\n"})
    report = desk.take(source)
    assert fates(report) == ["taken", "refused", "taken", "refused"]
    assert report.refused
    assert report.folder == ""
    assert desk.digests() == {}


def test_every_patch_that_is_there_is_said_and_left_alone(desk: Desk) -> None:
    desk.release(engine.FILES)
    source = desk.source({"1.patch": b"One\n\n" + edit()})
    desk.take(source)
    before = desk.digests()
    again = desk.take(desk.source({"other.patch": b"Another word\n\n" + edit()}, "b"),
                      into="eng-1.0")  # fmt: skip
    assert [(each.fate, each.beside) for each in again.patches] == [(Fate.THERE, "1.patch")]
    assert desk.digests() == before


def test_what_the_release_holds_by_its_ids_is_there_already(desk: Desk) -> None:
    """A05: by ids alone; that a patch could be reversed proves nothing."""
    desk.release(FIRST)
    by_ids = desk.take(desk.source({"1.patch": desk.diff(engine.FILES, FIRST)}))
    without = desk.take(desk.source({"1.patch": edit()}, "b"))
    assert fates(by_ids) == ["already there"]
    assert "by blob ids" in by_ids.patches[0].beside
    assert fates(without) == ["refused"]


@pytest.mark.parametrize("word", ["0001", "0001-a", "patches/0001-a.patch"])
def test_patches_go_into_a_series_where_they_are_wanted(desk: Desk, word: str) -> None:
    desk.release(engine.FILES)
    one, three = desk.diff(engine.FILES, FIRST), desk.diff(FIRST, {**FIRST, "eng/core.py": b"c\n"})
    order = b"# top\n\n0001-a.patch\n# three\n0002-b.patch\n# end\n"
    desk.take(desk.source({"0001-a.patch": one, "0002-b.patch": three, "series": order}))
    kept = desk.written()
    two = desk.diff(FIRST, {**FIRST, "eng/nvidia/ops.py": b"A = 9\n"})
    source = desk.source({"0002-b.patch": two, "series": b"# two\n0002-b.patch\n"}, "b")

    report = desk.take(source, into="eng-1.0", after=word)

    assert [each.name for each in report.patches] == ["0003-b.patch"]
    assert desk.written()["series"] == (
        b"# top\n\n0001-a.patch\n# two\n0003-b.patch\n# three\n0002-b.patch\n# end\n"
    )
    assert desk.written()["0003-b.patch"] == two
    assert {name: kept[name] for name in ("0001-a.patch", "0002-b.patch", "series.toml")} == {
        name: desk.written()[name] for name in ("0001-a.patch", "0002-b.patch", "series.toml")
    }
    catalog.load("eng-1.0", catalog.Location(desk.tmp / "series", "")).locked()


def test_patches_go_on_top_of_what_the_series_stands_on(desk: Desk) -> None:
    desk.release(engine.FILES)
    desk.take(desk.source({"1.patch": desk.diff(engine.FILES, FIRST)}))
    upper = engine.make_series(desk.tmp / "series", {}, name="eng-1.0-upper",
                               top='after = ["eng-1.0"]')  # fmt: skip
    source = desk.source({"2.patch": desk.diff(FIRST, SECOND)}, "b")
    report = desk.take(source, into="eng-1.0-upper")
    assert [each.how for each in report.patches] == [Fit.IDS]
    assert (upper / "manifest.json").is_file()


def test_a_folder_of_any_name_sends_nobody_to_the_index(desk: Desk) -> None:
    desk.release(engine.FILES)
    with pytest.raises(ImportUnclear):
        desk.take(desk.source({"1.patch": edit()}, "build-1.0"), release="")


def test_a_patch_below_others_that_then_fail_changes_nothing(desk: Desk) -> None:
    from pseries.errors import DoesNotApply

    desk.release(engine.FILES)
    desk.take(desk.source({"1.patch": edit()}))
    before = desk.digests()
    with pytest.raises(DoesNotApply):
        desk.take(desk.source({"2.patch": edit(value=77)}, "b"), into="eng-1.0", after=None)
    assert desk.digests() == before


def test_a_new_series_does_not_replace_one(desk: Desk) -> None:
    desk.release(engine.FILES)
    source = desk.source({"1.patch": edit()})
    desk.take(source)
    with pytest.raises(SeriesExists):
        desk.take(source)
    assert fates(desk.take(source, variant="again")) == ["taken"]


def test_a_dry_run_writes_nothing(desk: Desk) -> None:
    desk.release(engine.FILES)
    report = desk.take(desk.source({"1.patch": edit()}), dry_run=True)
    assert (fates(report), report.folder, desk.digests()) == (["taken"], "", {})


# --- which release -----------------------------------------------------------------------------


LATER = {**engine.FILES, NET: b"# later\n\n\n" + engine.FILES[NET]}


def test_it_says_which_release_a_patch_fits(desk: Desk) -> None:
    """R04: the name of a folder says 1.0, the patch was made of 2.0."""
    desk.release(engine.FILES)
    desk.release(LATER, "2.0")
    data = desk.diff(LATER, {**LATER, NET: LATER[NET].replace(b"= 10", b"= 20")})
    source = desk.source({"1.patch": data}, "eng-1.0")

    by_name = desk.take(source, release="")
    found = desk.take(source, release="eng")

    assert fates(by_name) == ["refused"]
    assert [(fit.version, fit.how) for fit in by_name.patches[0].fits] == [("2.0", Fit.IDS)]
    assert found.release == "eng 2.0"
    assert fates(found) == ["taken"]
    assert "the folder's name says 1.0" in found.notes[0]


def test_several_releases_that_fit_are_not_chosen_from(desk: Desk) -> None:
    desk.release(engine.FILES)
    desk.release({**engine.FILES, "eng/core.py": b"c\n"}, "1.1")
    with pytest.raises(ImportUnclear, match=r"fit eng 1\.0, 1\.1 equally"):
        desk.take(desk.source({"1.patch": edit()}), release="eng")


def test_without_a_release_nothing_is_guessed(desk: Desk) -> None:
    desk.release(engine.FILES)
    with pytest.raises(ImportUnclear, match="in the store: eng"):
        desk.take(desk.source({"1.patch": edit()}), release="")


def test_hunks_at_other_lines_are_taken_only_if_asked(desk: Desk) -> None:
    """A06, Q02: at the one place where all their lines stand, and the place is said."""
    desk.release(engine.FILES)
    shifted = b"# one\n# two\n" + engine.MODULE
    before = {**engine.FILES, "eng/core.py": shifted}
    data = desk.diff(before, {**before, "eng/core.py": shifted.replace(
        b"    handle = open(path)\n", b"    handle = open(path, 'rb')\n")})  # fmt: skip
    source = desk.source({"1.patch": data})

    refused = desk.take(source)
    taken = desk.take(source, accept_offset=True)

    assert fates(refused) == ["refused"]
    assert "stands at line" in str(refused.patches[0].problems[0])
    assert fates(taken) == ["taken"]
    assert "in load" in taken.patches[0].changes[0]
    (heading,) = [line for line in data.split(b"\n") if line.startswith(b"@@")]
    shown = heading.replace(b"-4,7 +4,7", b"-2,7 +2,7")
    assert desk.written()["1.patch"] == data.replace(heading, shown)


def test_look_alike_places_are_never_chosen_from(desk: Desk) -> None:
    lines = b"".join(b"    x%d = 1\n" % n for n in range(9)).replace(b"x4 = 1", b"z = 3")
    body = b"".join(b"def f%d():\n%s\n\n" % (n, lines) for n in range(2))
    desk.release({"eng/__init__.py": b"", "eng/m.py": b"# top\n" + body})
    made = {"eng/m.py": b"# a\n# b\n# c\n# d\n" + body}
    data = desk.diff(made, {"eng/m.py": made["eng/m.py"].replace(b"z = 3", b"z = 4", 1)})
    report = desk.take(desk.source({"1.patch": data}), accept_offset=True)
    assert fates(report) == ["refused"]


# --- what is no patch --------------------------------------------------------------------------


@pytest.mark.parametrize(("data", "words"), [
    (b"<!doctype html><title>Sign in</title>\n", "web page"),
    (b"", "empty"),
    (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    (b"diff --cc eng/m.py\nindex 1,2..3\n@@@ -1 -1 +1 @@@\n", "combined"),
    (b"1c1\n< a\n---\n> b\n", "unified"),
])  # fmt: skip
def test_what_is_no_patch_is_said_to_be_so(desk: Desk, data: bytes, words: str) -> None:
    """P06, P09."""
    desk.release(engine.FILES)
    report = desk.take(desk.source({"1.patch": data}))
    assert fates(report) == ["refused"]
    assert words in str(report.patches[0].problems)


def test_a_path_that_leaves_the_tree_is_refused(desk: Desk) -> None:
    """A09."""
    desk.release(engine.FILES)
    for path in (
        "../../outside.py",
        "eng/../../x.py",
        "../x/../eng/nvidia/x.py",
        ".git/hooks/pre-commit",
    ):
        data = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n".encode()
        report = desk.take(desk.source({"1.patch": data}, path.replace("/", "_")))
        assert fates(report) == ["refused"], path
    assert desk.digests() == {}


def test_an_empty_folder_and_a_missing_file_are_refused(desk: Desk) -> None:
    desk.release(engine.FILES)
    with pytest.raises(SourceRefused, match="no such file"):
        desk.take(desk.tmp / "nope")
    with pytest.raises(SourceRefused, match="neither an order file"):
        desk.take(desk.source({"README": b""}))
    with pytest.raises(SourceRefused, match=r"in its folders 1\.0"):
        desk.take(desk.source({"1.0/a.patch": edit()}, "buildroot"))
    with pytest.raises(SourceRefused, match="--range"):
        desk.take(checkout(desk, engine.FILES))
