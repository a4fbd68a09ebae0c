"""The main job on the real releases: SGLang 0.5.15, vLLM 0.26.0 and 0.11.0."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import REPOSITORY_SERIES
from tests.support import engine, records

from pseries.site import distribution
from pseries.site.fs import SiteTree

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.index

SERIES = {
    "sglang-0.5.15": ("sglang", "0.5.15"),
    "vllm-0.26.0": ("vllm", "0.26.0"),
    "vllm-0.11.0-sm120": ("vllm", "0.11.0"),
}
each_series = pytest.mark.parametrize("name", SERIES)


def pseries(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program as a user does: another process, from any folder."""
    return subprocess.run(
        [sys.executable, "-m", "pseries", *map(str, arguments)],
        capture_output=True, text=True, cwd=cwd, check=False,
        env={**os.environ, "PSERIES_DIR": str(REPOSITORY_SERIES.folder)},
    )  # fmt: skip


def touched(name: str) -> list[str]:
    """Return the installed paths of a series that are there after it."""
    manifest = json.loads((REPOSITORY_SERIES.folder / name / "manifest.json").read_bytes())
    root = manifest["upstream"]["root"]
    return [
        file["path"].removeprefix(f"{root}/" if root else "")
        for patch in manifest["patches"]
        for file in patch["files"]
    ]


@each_series
def test_the_whole_job(name: str, target: Callable[[str, str], Path]):
    site = target(*SERIES[name])
    before = engine.snapshot(site)

    said = pseries("apply", "--check", name, site)
    assert said.returncode == 0, said.stderr
    assert engine.snapshot(site) == before

    said = pseries("apply", name, site)
    assert said.returncode == 0, said.stderr
    assert pseries("status", site).returncode == 0
    for path in touched(name):
        ast.parse((site / path).read_bytes())
    with SiteTree(site) as tree:
        assert records.differing(site, distribution.find(tree, SERIES[name][0]).record) == []

    after = engine.snapshot(site)
    said = pseries("apply", name, site)
    assert (said.returncode, "already applied" in said.stdout) == (0, True)
    assert engine.snapshot(site) == after

    said = pseries("rollback", name, site)
    assert said.returncode == 0, said.stderr
    left = {path for path in engine.snapshot(site) if not path.startswith(".pseries")}
    assert left == set(before)
    said = pseries("rollback", "--purge", site)
    assert said.returncode == 0, said.stderr
    assert engine.snapshot(site) == before


@each_series
def test_the_original_of_a_hard_linked_tree_is_unchanged(
    name: str, target: Callable[[str, str], Path], installed: Callable[[str, str], Path]
):
    original = installed(*SERIES[name])
    there = {p: hashlib.sha256((original / p).read_bytes()).digest() for p in touched(name)
             if (original / p).exists()}  # fmt: skip
    site = target(*SERIES[name])
    assert pseries("apply", name, site).returncode == 0
    assert there == {p: hashlib.sha256((original / p).read_bytes()).digest() for p in there}
    assert any(there[p] != hashlib.sha256((site / p).read_bytes()).digest() for p in there)


@each_series
def test_one_changed_byte(name: str, target: Callable[[str, str], Path]):
    site = target(*SERIES[name])
    path = next(site / each for each in touched(name) if (site / each).exists())
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data.replace(b"import", b"Import", 1))
    before = engine.snapshot(site)
    said = pseries("apply", name, site)
    assert said.returncode == 4
    assert str(path.relative_to(site)) in said.stderr
    assert engine.snapshot(site) == before


def test_wrong_version(target: Callable[[str, str], Path]):
    site = target("sglang", "0.5.16")
    before = engine.snapshot(site)
    said = pseries("apply", "sglang-0.5.15", site)
    assert said.returncode == 1
    assert "0.5.15" in said.stderr
    assert "0.5.16" in said.stderr
    assert engine.snapshot(site) == before


def test_inside_a_work_tree_with_hostile_settings(
    target: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
):
    site = target("sglang", "0.5.15")
    engine.git(site.parent, "init", "-q")
    (site.parent / ".gitattributes").write_text("* eol=crlf\n")
    home = Path(os.environ["HOME"]) / "hostile"
    home.mkdir()
    (home / "config").write_text("[core]\n\tautocrlf = true\n[apply]\n\twhitespace = fix\n")
    for name, value in {
        "GIT_DIR": str(site.parent / ".git"),
        "GIT_WORK_TREE": str(site.parent),
        "GIT_CONFIG_GLOBAL": str(home / "config"),
        "GIT_CONFIG_NOSYSTEM": "0",
    }.items():
        monkeypatch.setenv(name, value)
    said = pseries("apply", "sglang-0.5.15", site, cwd=site)
    assert said.returncode == 0, said.stderr
    manifest = json.loads((REPOSITORY_SERIES.folder / "sglang-0.5.15/manifest.json").read_bytes())
    (file,) = manifest["patches"][0]["files"]
    installed = site / file["path"].removeprefix("python/")
    assert hashlib.sha256(installed.read_bytes()).hexdigest() == file["after"]["sha256"]


@each_series
def test_locking_again_gives_the_same_bytes(name: str, real_store: Path, tmp_path: Path):
    """The manifests in the repository are those of the real releases."""
    source = REPOSITORY_SERIES.folder / name
    copy = tmp_path / "series" / name
    copy.mkdir(parents=True)
    for path in source.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (copy / "manifest.json").unlink()
    said = subprocess.run(
        [sys.executable, "-m", "pseries", "lock", "--series-dir", str(tmp_path / "series"), name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert (copy / "manifest.json").read_bytes() == (source / "manifest.json").read_bytes()
