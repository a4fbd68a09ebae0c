"""The doctor on the real releases: FlashInfer under vLLM and SGLang."""

from __future__ import annotations

import fnmatch
import shutil
import tarfile
import zipfile
from functools import cache
from typing import TYPE_CHECKING

import pytest
from tests.conftest import CACHE, REPOSITORY_SERIES
from tests.support import engine

from pseries.model.calls import binding
from pseries.model.calls.definitions import Definitions
from pseries.model.calls.signature import Fault
from pseries.upstream import index, settings
from pseries.workflows.runtime import doctor
from pseries.workflows.runtime.doctor import Verdict
from pseries.workflows.series import catalog
from pseries.workflows.target import apply as applying

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pseries.workflows.runtime.doctor import Check, Report

pytestmark = pytest.mark.index

SM120 = "vllm-0.11.0-sm120"
BACKEND = "vllm/v1/attention/backends/flashinfer.py"
PLAN = "flashinfer.decode.BatchDecodeWithPagedKVCacheWrapper.plan"
SPARSE = "vllm/models/deepseek_v4/nvidia/flashinfer_sparse.py"
LAZY = "vllm/utils/flashinfer.py"
Files = "Callable[..., dict[str, bytes]]"


@pytest.fixture(scope="session")
def flashinfer(index_reachable: None) -> Callable[[str], dict[str, bytes]]:
    """Return ``flashinfer(version)``: the Python files of a release, by installed path."""

    @cache
    def sources(version: str) -> dict[str, bytes]:
        with index.Client(settings.configured()) as client:
            files = client.project("flashinfer-python").release(version)
            wheels = [each for each in files if each.artefact.kind == "wheel"]
            path = client.download((wheels or list(files))[0], CACHE / "files")
        if wheels:
            with zipfile.ZipFile(path) as wheel:
                found = {name: wheel.read(name) for name in wheel.namelist() if _ours(name)}
        else:
            with tarfile.open(path) as sdist:
                found = {
                    member.name.partition("/")[2]: file.read()
                    for member in sdist
                    if _ours(member.name.partition("/")[2])
                    and (file := sdist.extractfile(member)) is not None
                }
        assert len(found) > 50
        return found

    return sources


def _ours(name: str) -> bool:
    return fnmatch.fnmatch(name, "flashinfer/*.py") and "/data/" not in name


@pytest.fixture
def site(
    target: Callable[[str, str], Path], flashinfer: Callable[[str], dict[str, bytes]]
) -> Callable[[str, str, str], Path]:
    """Return ``site(name, version, flashinfer)``: an engine and a FlashInfer, installed."""

    def make(name: str, version: str, kernels: str) -> Path:
        return engine.install(
            target(name, version), flashinfer(kernels), version=kernels, name="flashinfer_python"
        )

    return make


def examine(name: str, site: Path, *, every_file: bool = False) -> Report:
    return doctor.examine(
        catalog.load(name, REPOSITORY_SERIES),
        catalog.releases(REPOSITORY_SERIES),
        site=site,
        every_file=every_file,
    )


def check(report: Report, name: str) -> Check:
    return next(each for each in report.checks if each.name == name)


def test_the_pinned_flashinfer_is_fine_before_and_after(
    site: Callable[..., Path], real_store: Path
):
    folder = site("vllm", "0.11.0", "0.3.1")
    report = examine(SM120, folder)
    assert report.calls is not None
    assert (report.calls.bound.misfits, report.calls.mended) == ((), ())
    assert report.calls.bound.calls >= 12
    assert check(report, "flashinfer-python").verdict is Verdict.MET


def test_shifted_arguments_are_seen_and_the_series_mends_them(
    site: Callable[..., Path], real_store: Path
):
    folder = site("vllm", "0.11.0", "0.6.14")
    report = examine(SM120, folder)
    assert report.calls is not None
    (mended,) = report.calls.mended
    assert (mended.path, mended.line, mended.callee) == (BACKEND, 1070, PLAN)
    assert [each.fault for each in mended.misfits] == [Fault.SHIFTED]
    assert "argument 13, 'data_type', lands in 'o_data_type'" in mended.misfits[0].what
    assert report.calls.bound.misfits == ()
    assert report.calls.state == "as the series makes them"
    assert check(report, "calls").verdict is Verdict.MET
    applying.apply(catalog.load(SM120, REPOSITORY_SERIES), folder)
    report = examine(SM120, folder)
    assert report.calls is not None
    assert (report.calls.state, report.calls.bound.misfits) == ("as installed", ())
    assert check(report, "series").found == "applied"


def test_all_files_have_the_misfits_that_the_series_leaves_alone(
    site: Callable[..., Path], real_store: Path
):
    """Those that its README lists: ``tile_tokens_dim`` is gone; and nothing else of 37 files."""
    report = examine(SM120, site("vllm", "0.11.0", "0.6.14"), every_file=True)
    assert report.calls is not None
    assert report.calls.files > 30
    assert not report.met
    found = {each.callee.rpartition(".")[2] for each in report.calls.bound.misfits}
    assert found == {
        "trtllm_fp8_block_scale_moe", "trtllm_fp8_per_tensor_scale_moe",
        "trtllm_fp4_block_scale_moe",
    }  # fmt: skip
    said = {one.what for each in report.calls.bound.misfits for one in each.misfits}
    assert said == {"it has no parameter 'tile_tokens_dim'"}


def test_no_false_alarm_in_all_files_with_the_pinned_flashinfer(
    site: Callable[..., Path], real_store: Path
):
    report = examine(SM120, site("vllm", "0.11.0", "0.3.1"), every_file=True)
    assert report.calls is not None
    assert report.calls.bound.calls > 60
    assert report.calls.bound.misfits == ()


def test_sglang_with_the_flashinfer_it_pulls(site: Callable[..., Path], real_store: Path):
    """B2: 0.6.12 has no SM120 support, 0.6.14 is needed; pip's own pin stands against it."""
    report = examine("sglang-0.5.15", site("sglang", "0.5.15", "0.6.12"))
    line = check(report, "flashinfer-python")
    assert (line.verdict, line.found, line.wanted) == (Verdict.UNMET, "0.6.12", ">=0.6.14")
    assert "-m pip install 'flashinfer-python>=0.6.14'" in line.remedy
    assert "asks for ==0.6.12" in line.remedy
    assert not report.met


def test_sglang_with_the_flashinfer_it_needs(site: Callable[..., Path], real_store: Path):
    report = examine("sglang-0.5.15", site("sglang", "0.5.15", "0.6.14"))
    assert check(report, "flashinfer-python").verdict is Verdict.MET


# --- D01 ------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def vllm(index_reachable: None) -> Callable[[str], dict[str, bytes]]:
    """Return ``vllm(version)``: the two files of D01, read from the remote wheel."""

    @cache
    def members(version: str) -> dict[str, bytes]:
        with index.Client(settings.configured()) as client:
            files = client.project("vllm").release(version)
            file = next(each for each in files if each.artefact.filename.endswith("x86_64.whl"))
            with client.wheel(file) as wheel:
                return wheel.read([SPARSE, LAZY])

    return members


D01 = {"swa_topk_lens", "extra_sparse_indices", "extra_sparse_topk_lens"}
D01_LATER = {"sparse_indices_are_storage_offsets"}
"""``kv_counters``, which 0.33.0 also passes, goes to a kernel of vLLM's own of a like name."""


@pytest.mark.parametrize(
    ("version", "kernels", "unknown"),
    [
        ("0.25.1", "0.6.13", D01),
        ("0.25.1", "0.6.14", set()),
        ("0.33.0", "0.6.13", D01 | D01_LATER),
        ("0.33.0", "0.6.14", D01_LATER),
    ],
)
def test_keywords_of_a_later_flashinfer(
    vllm: Files, flashinfer: Files, version: str, kernels: str, unknown: set[str]
):
    files = {**vllm(version), **flashinfer(kernels)}
    found = Definitions(files.get, lambda path: any(each.startswith(f"{path}/") for each in files))
    module = SPARSE.removesuffix(".py").replace("/", ".")
    bound = binding.bind(SPARSE, files[SPARSE], module, {"flashinfer"}, found)
    assert bound.calls >= 2
    unexpected = {
        one.what.split("'")[1]
        for each in bound.misfits
        for one in each.misfits
        if one.fault is Fault.UNEXPECTED
    }
    assert unexpected == unknown


def test_the_doctor_finds_them_in_a_file_that_no_patch_touches(
    vllm: Files, flashinfer: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    files = {**vllm("0.25.1"), "vllm/__init__.py": b"__version__ = '0.25.1'\n"}
    changed = {**files, "vllm/__init__.py": b"__version__ = '0.25.1'  # ours\n"}
    engine.add_release(files, tmp_path / "release", "0.25.1", "vllm")
    patch = engine.message() + engine.diff(files, changed, tmp_path / "diff")
    folder = engine.make_series(
        tmp_path / "series", {"0001-x.patch": patch}, name="vllm-0.25.1", version="0.25.1",
        distribution="vllm", rest='[requires]\npackages = ["flashinfer-python"]\n',
    )  # fmt: skip
    series = engine.locked(folder)
    for kernels, met in (("0.6.13", False), ("0.6.14", True)):
        site = tmp_path / "site"
        engine.install(site, files, "0.25.1", "vllm")
        engine.install(site, flashinfer(kernels), kernels, "flashinfer_python")
        for every_file in (False, True):
            report = doctor.examine(series, {}, site=site, every_file=every_file)
            assert report.calls is not None
            assert report.met is (met or not every_file)
        wrong = {(each.path, each.callee.rpartition(".")[2]) for each in report.calls.bound.misfits}
        expected = set() if met else {(SPARSE, "trtllm_batch_decode_sparse_mla_dsv4")}
        assert wrong == expected
        shutil.rmtree(site)
