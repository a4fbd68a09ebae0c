"""list, show, lint and lock as typed at a prompt."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from tests.conftest import REPOSITORY_SERIES
from tests.support import engine
from tests.workflows.conftest import CHANGED

from pseries.upstream import imports
from pseries.upstream.store import Store
from pseries.workflows.series import catalog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workflows.conftest import Bench

    from pseries.model.series import Series

Run = "Callable[..., Said]"


@pytest.fixture
def here(bench: Bench, whole: Series, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.chdir(bench.tmp)
    return bench


def test_list_says_where_series_come_from(
    here: Bench, pseries: Run, monkeypatch: pytest.MonkeyPatch
):
    said = pseries("list")
    assert (said.code, "the nearest series folder" in said.err) == (0, True)
    assert said.out.split() == ["eng-1.0", "eng", "1.0", "2", "patches", "a", "test"]
    monkeypatch.setenv("PSERIES_DIR", str(here.series_dir))
    assert "PSERIES_DIR" in pseries("list").err
    assert "--series-dir" in pseries("list", "--series-dir", here.series_dir).err
    monkeypatch.delenv("PSERIES_DIR")
    monkeypatch.chdir("/")
    said = pseries("list")
    assert "shipped with pseries" in said.err
    assert "sglang-0.5.15" in said.out


def test_a_series_is_not_the_folder_of_series(
    here: Bench, pseries: Run, monkeypatch: pytest.MonkeyPatch
):
    said = pseries("list", "--series-dir", "series/eng-1.0")
    assert said.code == 1
    assert "series/eng-1.0, given by --series-dir, is one series" in said.err
    assert f"it lies in: {here.series_dir}" in said.err
    monkeypatch.setenv("PSERIES_DIR", "series/eng-1.0")
    assert "given by PSERIES_DIR, is one series" in pseries("show", "eng-1.0").err


def test_an_empty_folder_of_series_is_said_to_be_empty(here: Bench, pseries: Run):
    (here.tmp / "none").mkdir()
    said = pseries("list", "--series-dir", here.tmp / "none")
    assert (said.code, said.out) == (0, "")
    assert "no series is in it" in said.err


def test_list_shows_a_broken_series_too(here: Bench, pseries: Run):
    broken = here.series_dir / "eng-2.0"
    broken.mkdir()
    (broken / "series").write_text("a.patch\na.patch\n")
    said = pseries("list")
    assert said.code == 0
    assert "eng-2.0" in said.out
    assert "not valid" in said.out
    said = pseries("show", "eng-2.0")
    assert said.code == 1
    assert "series:2: a.patch is listed already" in said.err
    assert "a.patch is listed but is not in the folder" in said.err


def test_show_names_the_functions(here: Bench, pseries: Run):
    said = pseries("show", "eng-1.0")
    assert said.code == 0
    assert "eng/core.py  load" in said.out
    view = json.loads(pseries("show", "--json", "eng-1.0").out)
    assert view["patches"][0]["files"][0]["symbols"] == ["load"]


def test_an_empty_series(here: Bench, pseries: Run):
    """A rebase can leave nothing: every command must cope."""
    series = engine.make_series(here.series_dir, {}, name="eng-1.0-empty")
    assert (series / "series").read_bytes() == b""
    assert pseries("lock", "--offline", "eng-1.0-empty").code == 0
    assert "the series is empty" in pseries("show", "eng-1.0-empty").out
    assert pseries("lint", "eng-1.0-empty").code == 0
    for words in (("--check",), ()):
        said = pseries("apply", *words, "eng-1.0-empty", here.site)
        assert said.code == 0
        assert "nothing to apply" in said.out
    assert not (here.site / ".pseries").exists()


def test_lock_writes_once(here: Bench, pseries: Run):
    assert "is up to date" in pseries("lock", "--offline", "eng-1.0").out
    (here.series_dir / "eng-1.0/manifest.json").unlink()
    said = pseries("apply", "eng-1.0", here.site)
    assert (said.code, "pseries lock eng-1.0" in said.err) == (1, True)
    assert "written" in pseries("lock", "--offline", "eng-1.0").out
    (here.series_dir / "eng-1.0/manifest.json").write_text("{}")
    assert "written" in pseries("lock", "--offline", "eng-1.0").out


def test_lock_in_json(here: Bench, pseries: Run):
    manifest = here.series_dir / "eng-1.0/manifest.json"
    for words, changed in ((("eng-1.0",), False), ((here.series_dir / "eng-1.0",), True)):
        if changed:
            manifest.unlink()
        said = json.loads(pseries("lock", "--offline", "--json", *words).out)
        assert said == {
            "series": "eng-1.0",
            "manifest": str(manifest),
            "digest": json.loads(manifest.read_bytes())["digest"],
            "changed": changed,
        }


def test_lock_names_every_hunk_that_does_not_fit(here: Bench, pseries: Run):
    first = here.series_dir / "eng-1.0/0001-read.patch"
    first.write_bytes(first.read_bytes().replace(b"@@ -3,7 +3,7 @@", b"@@ -4,7 +4,7 @@"))
    said = pseries("lock", "--offline", "eng-1.0")
    assert said.code == 1
    assert "hunk 1 does not match at line 4; its lines stand at line 3" in said.err


def test_lint(here: Bench, pseries: Run):
    assert pseries("lint", "--strict", "eng-1.0").code == 0
    first = here.series_dir / "eng-1.0/0001-read.patch"
    data = first.read_bytes().replace(b"Upstream-Status: Pending", b"Upstream-Status: Soon")
    first.write_bytes(data)
    said = pseries("lint", "eng-1.0")
    assert said.code == 1
    assert "error: 0001-read.patch: the patch changed since it was locked" in said.out
    assert "'Soon' is none of Pending" in said.out
    assert "author" not in said.out
    first.write_bytes(re.sub(rb"From: .*", b"From: unknown <unknown@localhost>", data, count=1))
    said = pseries("lint", "eng-1.0")
    assert "warning: 0001-read.patch: its author is unknown" in said.out
    (here.series_dir / "eng-1.0/0003-orphan.patch").write_bytes(data)
    said = pseries("lint", "eng-1.0")
    assert (said.code, "0003-orphan.patch" in said.err) == (1, True)


def test_a_series_that_ours_hide_is_found_again(here: Bench, pseries: Run):
    said = pseries("show", "sglang-0.5.15")
    assert said.code == 1
    assert "hides the one that ships with pseries" in said.err
    folder = said.err.split("--series-dir ")[1].split()[0]
    assert pseries("show", "sglang-0.5.15", "--series-dir", folder).code == 0
    said = pseries("show", here.site)
    assert "the series comes first" in said.err


def test_lint_finds_what_programs_left_behind(here: Bench, pseries: Run):
    names = ("eng/core.py.orig", "eng/a.py~", "eng/__pycache__/x.cpython-312.pyc", "eng/fine.py")
    after = {**engine.FILES, **dict.fromkeys(names, b"x\n")}
    here.series({"0001-x.patch": here.patch(dict(engine.FILES), after)}, name="eng-1.0-left")
    said = pseries("lint", "eng-1.0-left")
    found = [line for line in said.out.splitlines() if "left behind" in line]
    assert [name for name in names if any(f" {name} " in line for line in found)] == [*names[:3]]


def test_lint_finds_lookalike_places(here: Bench, pseries: Run):
    """A06: equal lines in two functions; the patch is exact, but the next release may shift it."""
    body = b"".join(b"    x%d = 1\n" % number for number in range(9))
    files = {"eng/core.py": b"def a():\n" + body + b"\n\ndef b():\n" + body}
    engine.add_release(files, here.tmp / "two", version="2.0")
    longer = body.replace(b"    x4 = 1\n", b"    x4 = 2\n")
    after = {"eng/core.py": b"def a():\n" + body + b"\n\ndef b():\n" + longer}
    here.series({"1.patch": here.patch(files, after)}, name="eng-2.0", version="2.0")
    said = pseries("lint", "eng-2.0")
    assert said.code == 0
    assert "hunk 1 of eng/core.py also fits at line 3" in said.out
    assert pseries("lint", "--strict", "eng-2.0").code == 1


def test_lint_passes_over_a_release_that_lies_under_other_paths(here: Bench, pseries: Run):
    """The index's files land at the top where nobody says the root; the series knows it."""
    before = {f"python/{path}": data for path, data in engine.FILES.items()}
    after = {f"python/{path}": data for path, data in CHANGED.items()}
    engine.make_series(
        here.series_dir, {"1.patch": here.patch(before, after)}, name="eng-1.0-git",
        rest='root = "python"',
    )  # fmt: skip
    said = pseries("lint", "eng-1.0-git")
    assert "no such file" not in said.out
    assert "not in the store" in said.err
    store = Store.open("eng")
    with store.lock():
        imports.add_folder(store, "1.0", here.site, "python")
    words = said.err.split(": pseries ")[1].splitlines()[0].split()  # what it told us
    assert pseries(*words, "--offline").code == 0
    assert pseries("lock", "eng-1.0-git", "--offline").code == 0
    said = pseries("lint", "--strict", "eng-1.0-git")
    assert (said.code, said.err) == (0, "")


def test_changed_files_are_the_ones_in_the_manifest(here: Bench):
    manifest = json.loads((here.series_dir / "eng-1.0/manifest.json").read_bytes())
    kinds = {f["path"]: f["kind"] for p in manifest["patches"] for f in p["files"]}
    assert kinds == {
        "eng/core.py": "modify",
        "eng/new/extra.py": "add",
        "eng/nvidia/ops.py": "modify",
        "eng/old.py": "delete",
        "eng/wire.py": "rename",
    }
    assert set(CHANGED) >= {path for path, kind in kinds.items() if kind != "delete"}


def test_a_series_folder_that_is_none(here: Bench, pseries: Run, monkeypatch: pytest.MonkeyPatch):
    file = here.series_dir / "eng-1.0/series"
    for folder in (file, here.tmp / "nowhere"):
        said = pseries("list", "--series-dir", folder)
        assert (said.code, said.out) == (1, "")
        assert f"{folder}, given by --series-dir, is not a folder" in said.err
    monkeypatch.setenv("PSERIES_DIR", str(file))
    assert "given by PSERIES_DIR" in pseries("list").err


@pytest.mark.parametrize(
    "toml",
    [
        b"x = " + b"[" * 3000,
        b"a." * 20_000 + b"a = 1",
        b"".join(b"k%d=1\n" % n for n in range(20_000)),
    ],
    ids=["deep", "dots", "keys"],
)
def test_a_hostile_neighbour_is_a_row(here: Bench, pseries: Run, toml: bytes):
    bad = here.series_dir / "eng-0.9"
    bad.mkdir()
    (bad / "series").touch()
    (bad / "series.toml").write_bytes(toml)
    said = pseries("list")
    assert said.code == 0
    assert [line.split()[0] for line in said.out.splitlines()] == ["eng-0.9", "eng-1.0"]
    assert "not valid" in said.out
    said = pseries("show", "eng-0.9")
    assert said.code == 1
    assert len(said.err) < 20_000


def test_a_neighbour_that_cannot_be_read_is_a_row(
    here: Bench, pseries: Run, monkeypatch: pytest.MonkeyPatch
):
    (here.series_dir / "eng-0.9").mkdir()
    (here.series_dir / "eng-0.9/series").touch()
    content = catalog._content

    def denied(path: Path) -> bytes:
        if path.parent.name == "eng-0.9":
            raise PermissionError(13, "Permission denied", str(path))
        return content(path)

    monkeypatch.setattr(catalog, "_content", denied)
    said = pseries("list")
    assert (said.code, "series: cannot be read: Permission denied" in said.out) == (0, True)
    assert "a test" in said.out


def test_lint_and_show_cut_what_is_long(here: Bench, pseries: Run):
    first = here.series_dir / "eng-1.0/0001-read.patch"
    long = b"Upstream-Status: " + b"x" * 400_000
    first.write_bytes(first.read_bytes().replace(b"Upstream-Status: Pending", long))
    for command in ("lint", "show"):
        said = pseries(command, "eng-1.0")
        assert "xxx…" in said.out
        assert max(map(len, said.out.splitlines())) < 400


def test_show_prints_what_runs_where(here: Bench, pseries: Run):
    path = here.series_dir / "eng-1.0/series.toml"
    assert json.loads(pseries("show", "--json", "eng-1.0").out)["operators"]["rows"] == []
    assert "operators" not in pseries("show", "eng-1.0").out
    path.write_text(
        path.read_text()
        + '[[operators]]\nname = "fast"\nruns_on = ["SM90"]\nfails_on = ["SM120"]\n'
        '[[operators]]\nname = "slow"\nruns_on = ["SM120"]\nnote = "the only one"\n'
    )
    rows = [line.split() for line in pseries("show", "eng-1.0").out.splitlines()]
    at = rows.index(["operators:"])
    assert rows[at + 1 : at + 4] == [
        ["SM90", "SM120"], ["fast", "yes", "no"], ["slow", "?", "yes", "the", "only", "one"],
    ]  # fmt: skip
    matrix = json.loads(pseries("show", "--json", "eng-1.0").out)["operators"]
    assert matrix["architectures"] == ["SM90", "SM120"]
    assert [row["runs"] for row in matrix["rows"]] == [[True, False], [None, True]]


def test_the_matrix_of_the_field_report(pseries: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PSERIES_DIR", str(REPOSITORY_SERIES.folder))
    matrix = json.loads(pseries("show", "--json", "sglang-0.5.15").out)["operators"]
    on_sm120 = matrix["architectures"].index("SM120")
    assert {row["name"]: row["runs"][on_sm120] for row in matrix["rows"]} == {
        "flash_mla_sparse_fwd": False,
        "flash_mla_with_kvcache": False,
        "flash_mla_with_kvcache_sm120": True,
    }
