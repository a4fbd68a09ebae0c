"""Real releases from the package index, as few and as small as they can be."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from pseries.model.spec import Upstream
from pseries.upstream import settings
from pseries.upstream.fetch import SourceFailed, fetch
from pseries.upstream.imports import add_folder
from pseries.upstream.index import Client, artefacts
from pseries.upstream.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pseries.upstream.fetch import Event

pytestmark = [pytest.mark.index, pytest.mark.usefixtures("index_reachable")]


@pytest.fixture
def fresh(store_cache: Path, tmp_path: Path) -> Callable[[str], Store]:
    """Return a function that gives an empty store; files are downloaded once for all tests."""
    (store_cache / "files").mkdir(parents=True, exist_ok=True)
    (tmp_path / "files").symlink_to(store_cache / "files")
    return lambda distribution: Store.open(distribution, tmp_path)


def test_flashinfer_comes_from_its_sdist_when_git_is_out_of_reach(
    fresh: Callable[[str], Store],
) -> None:
    events: list[Event] = []
    release = fetch(
        Upstream("flashinfer-python", "0.3.1", "https://no-such-host.invalid/flashinfer.git"),
        fresh("flashinfer-python"),
        settings.configured(),
        report=events.append,
    )
    assert release.source == "sdist"
    assert release.tree == "7242261e8c825c26f1d2c09bdb1ccac1a9039f48"
    assert [type(event) for event in events] == [SourceFailed]


def test_sglang_comes_from_its_wheel_under_the_root_and_an_installed_copy_is_the_same(
    fresh: Callable[[str], Store], git: Callable[..., str], tmp_path: Path
) -> None:
    store = fresh("sglang")
    release = fetch(Upstream("sglang", "0.5.15", root="python"), store, settings.configured())
    assert release.source == "wheel"
    assert all(path.endswith(".so") for path in release.recorded.left_out)
    names = git(store.git_dir, "ls-tree", "-r", "--name-only", release.tree).splitlines()
    assert "python/sglang/srt/layers/attention/deepseek_v4_backend.py" in names
    assert all(name.startswith("python/") and ".dist-info" not in name for name in names)
    wheel = store.downloads / release.origin
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(tmp_path / "site")
        for info in opened.infolist():
            (tmp_path / "site" / info.filename).chmod(info.external_attr >> 16 & 0o777)
    with store.lock():
        installed = add_folder(store, "0.5.15", tmp_path / "site", "python", replace=True)
    assert installed.commit == release.commit


def test_vllm_is_imported_within_its_memory(
    fresh: Callable[[str], Store], git: Callable[..., str]
) -> None:
    """In a process of its own: the sdist of 98 MB unpacked, and the same ids on every machine."""
    store = fresh("vllm")
    release = fetch(Upstream("vllm", "0.26.0", sources=("sdist",)), store, settings.configured())
    assert release.tree == "4525cb6111620314e1623a6b0a6ee0e12edfa23c"
    git(store.git_dir, "fsck", "--full", "--strict")
    store.remove("0.26.0")
    script = (
        "import sys; from pathlib import Path\n"
        "from pseries.upstream.imports import add_archive\n"
        "from pseries.upstream.store import Store\n"
        "store = Store.open('vllm', Path(sys.argv[1]))\n"
        "with store.lock(): add_archive(store, '0.26.0', Path(sys.argv[2]), '')\n"
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
    )
    path = store.downloads / release.origin
    said = subprocess.run(
        [sys.executable, "-c", script, str(store.cache), str(path)],
        check=True, capture_output=True,
    )  # fmt: skip
    assert int(said.stdout) < 100 * 1024


def test_members_of_remote_vllm_wheels_cost_little() -> None:
    """Four files out of 300 MB, for less than a megabyte."""
    configured = settings.configured()
    with Client(configured) as client:
        project = client.project("vllm")
        file = next(file for file in project.release("0.26.0") if file.artefact.kind == "wheel")
        with client.wheel(file) as wheel:
            assert len(wheel.names) > 4000
            found = wheel.read(["vllm/envs.py", "vllm/nope.py"])
            assert wheel.received < 1_500_000
    assert found.keys() == {"vllm/envs.py"}
    listed = artefacts("vllm", "0.26.0", configured)
    assert {artefact.kind for artefact in listed} == {"sdist", "wheel"}
    assert all(len(artefact.sha256) == 64 and artefact.size for artefact in listed)
