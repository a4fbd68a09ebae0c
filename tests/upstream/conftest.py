"""Fixtures for the tests of upstream: an empty store, an index on this machine, git checkouts."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support.index_server import IndexServer, serving

from pseries.upstream.settings import Index, Settings
from pseries.upstream.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open("eng", tmp_path / "cache")


@pytest.fixture
def index() -> Iterator[IndexServer]:
    with serving() as server:
        yield server


@pytest.fixture
def settings(index: IndexServer) -> Settings:
    return Settings(indexes=(Index(index.simple),))


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Return ``git(folder, *arguments)`` with an identity, and nothing of the user's."""
    executable = shutil.which("git")
    assert executable is not None
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip

    def run(folder: Path, *arguments: str) -> str:
        done = subprocess.run(
            [executable, *arguments],
            cwd=folder, env=environment, check=True, capture_output=True, text=True,
            errors="surrogateescape",
        )  # fmt: skip
        return done.stdout.strip()

    return run


@pytest.fixture
def checkout(tmp_path: Path, git: Callable[..., str]) -> Callable[..., Path]:
    """Return ``checkout(files, tag=...)``: a git work tree with one commit and a tag."""

    def make(files: Mapping[str, bytes], tag: str = "v1.0", *, annotated: bool = False) -> Path:
        folder = tmp_path / "checkout"
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        git(folder, "init", "--quiet")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "-m", "first")
        git(folder, "tag", *(["-a", "-m", "release"] if annotated else []), tag)
        return folder

    return make


@pytest.fixture
def content(git: Callable[..., str]) -> Callable[[Store, str], dict[str, tuple[str, bytes]]]:
    """Return ``content(store, tree)``: mode and bytes by path, read by git itself."""

    def read(store: Store, tree: str) -> dict[str, tuple[str, bytes]]:
        found = {}
        said = git(store.git_dir, "ls-tree", "-r", "-z", "--full-tree", tree)
        for line in said.split("\0"):
            if line:
                head, _, path = line.partition("\t")
                mode, _, blob = head.split()
                run = subprocess.run(
                    ["git", "cat-file", "blob", blob],
                    cwd=store.git_dir, check=True, capture_output=True,
                )  # fmt: skip
                found[path] = (mode, run.stdout)
        return found

    return read
