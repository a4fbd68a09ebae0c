"""serve on the real SGLang: without its requirements it ends at once, but it is it that ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import REPOSITORY_SERIES

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.index


def test_serve_starts_the_patched_release_and_no_other(
    installed: Callable[[str, str], Path], real_store: Path, tmp_path: Path
):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = venv / "lib" / version / "site-packages"
    log = tmp_path / "server.log"

    def pseries(*words: object) -> subprocess.CompletedProcess[str]:
        folder = ["--series-dir", str(REPOSITORY_SERIES.folder)]
        return subprocess.run(
            [sys.executable, "-m", "pseries", words[0], "sglang-0.5.15", *map(str, words[1:]),
             *folder],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip

    def put(release: str) -> None:
        shutil.rmtree(site)
        shutil.copytree(installed("sglang", release), site, copy_function=os.link)

    serve = ("serve", "--python", venv / "bin/python", "--model", "/m", "--log", log)
    put("0.5.16")
    said = pseries(*serve)
    assert said.returncode == 1
    assert "sglang-0.5.15 is for sglang 0.5.15, but 0.5.16 is installed" in said.stderr
    put("0.5.15")
    said = pseries(*serve)
    assert said.returncode == 1
    assert "is not patched with series sglang-0.5.15" in said.stderr
    assert not log.exists()
    assert pseries("apply", site).returncode == 0
    said = pseries(*serve)
    assert said.returncode == 1
    written = log.read_text()
    assert written.startswith("=== pseries serve sglang-0.5.15 (digest ")
    assert f"{site}/sglang/" in written
    assert "ModuleNotFoundError" in written
