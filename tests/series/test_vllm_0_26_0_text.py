"""``vllm-0.26.0`` as text: what it changes, and that nothing changes while its switches are off."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest
from tests.series import patched

if TYPE_CHECKING:
    from pathlib import Path

SERIES = "vllm-0.26.0"
PATCHES = patched.patch_files(SERIES)
CHANGES = {change.path: change for change in map(patched.Change.read, PATCHES)}

FP8 = "vllm/model_executor/layers/quantization/fp8.py"
O_PROJ = "vllm/models/deepseek_v4/nvidia/ops/o_proj.py"
FLASHMLA = "vllm/models/deepseek_v4/nvidia/flashmla.py"
ATTENTION = "vllm/models/deepseek_v4/attention.py"

# What the series adds to each file: switches, top-level definitions, imported names.
ADDED: dict[str, tuple[list[str], list[str], list[str]]] = {
    FP8: (["PPU_BF16_O_PROJ"], ["decode_block_fp8_to_bf16"], ["os"]),
    O_PROJ: (["PPU_BF16_O_PROJ"], ["inverse_rope", "bf16_o_proj", "fp32_compressor_mm"], ["os"]),
    FLASHMLA: (["PPU_BF16_O_PROJ"], [], ["PPU_BF16_O_PROJ", "bf16_o_proj"]),
    ATTENTION: (["PPU_SERIAL_ATTENTION", "PPU_FP32_COMPRESSOR"], [], ["os"]),
}


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest) -> patched.Sources:
    return patched.sources(SERIES, request)


def test_series_changes_four_files_one_patch_each() -> None:
    assert list(CHANGES) == [FP8, O_PROJ, FLASHMLA, ATTENTION]


@pytest.mark.parametrize("path", CHANGES)
def test_hunks_stand_where_they_say_and_blob_ids_are_true(
    sources: patched.Sources, path: str
) -> None:
    change = CHANGES[path]
    assert patched.blob_id(sources[path]) == change.after
    assert patched.blob_id(change.undo(sources[path])) == change.before


@pytest.mark.parametrize("path", CHANGES)
def test_compiles(sources: patched.Sources, path: str) -> None:
    assert ast.parse(sources[path], path).body


@pytest.mark.parametrize("path", CHANGES)
def test_with_switches_off_the_program_is_upstreams(sources: patched.Sources, path: str) -> None:
    switches, definitions, imports = ADDED[path]
    upstream = CHANGES[path].undo(sources[path])
    assert patched.without(sources[path], switches, definitions, imports) == patched.without(
        upstream, [], [], []
    )


@pytest.mark.parametrize("file", PATCHES, ids=lambda file: file.name)
def test_header_is_deterministic_and_says_why(file: Path) -> None:
    header = file.read_bytes().split(b"\n---\n")[0].decode("ascii")
    first, author, date, subject, blank, *rest = header.split("\n")
    assert first == f"From {'0' * 40} Mon Sep 17 00:00:00 2001"
    assert author == "From: pseries maintainers <maintainers@pseries.invalid>"
    assert re.fullmatch(r"Date: Wed, 21 Oct 2026 09:0[0-9]:00 \+0000", date)
    assert re.fullmatch(r"Subject: \[PATCH\] \S.{10,80}", subject)
    assert blank == ""
    *body, trailers = "\n".join(rest).split("\n\n")
    assert body
    assert all(len(line) <= 75 for part in body for line in part.split("\n"))
    names = [line.partition(": ")[0] for line in trailers.split("\n")]
    assert names == ["Upstream-Status", "Origin", "Signed-off-by"]


def test_every_variable_of_the_patches_is_served_and_documented(sources: patched.Sources) -> None:
    folder = patched.SERIES_DIR / SERIES
    read = set(re.findall(rb"VLLM_PPU_\w+", b"".join(sources.values())))
    served = set(re.findall(rb'^(VLLM_PPU_\w+) = "1"', (folder / "series.toml").read_bytes(), re.M))
    readme = set(re.findall(rb"VLLM_PPU_\w+", (folder / "README.md").read_bytes()))
    assert read == served == readme
    assert len(read) == 3
