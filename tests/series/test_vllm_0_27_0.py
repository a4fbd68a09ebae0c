"""``vllm-0.27.0``: all that the tests of 0.26.0 ask, of the files of 0.27.0; and what is new there.

The series was carried here by ``pseries rebase``. The functions it changes are the same, so the
same tests speak about them; upstream's modules have new neighbours, which need new stand-ins.
"""

# The tests and fixtures of the other module are collected here too.
# ruff: noqa: F401, F403

from __future__ import annotations

import ast
import os
from contextlib import ExitStack
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if os.environ.get("PSERIES_REQUIRE_TORCH") != "1":
    pytest.importorskip("torch")

import torch
from tests.series import deepseek_v4, patched
from tests.series import test_vllm_0_26_0 as before
from tests.series.test_vllm_0_26_0 import *
from tests.series.test_vllm_0_26_0 import _few_threads, _report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.series.test_vllm_0_26_0 import Load

SERIES = "vllm-0.27.0"
CHANGES = {change.path: change for change in map(patched.Change.read, patched.patch_files(SERIES))}
ADDED: dict[str, tuple[list[str], list[str], list[str]]] = {
    "vllm/model_executor/layers/quantization/fp8.py": (
        ["PPU_BF16_O_PROJ"], ["decode_block_fp8_to_bf16"], ["os"],
    ),
    "vllm/models/deepseek_v4/nvidia/ops/o_proj.py": (
        ["PPU_BF16_O_PROJ"], ["inverse_rope", "bf16_o_proj", "fp32_compressor_mm"], ["os"],
    ),
    "vllm/models/deepseek_v4/nvidia/flashmla.py": (
        ["PPU_BF16_O_PROJ"], [], ["PPU_BF16_O_PROJ", "bf16_o_proj"],
    ),
    "vllm/models/deepseek_v4/attention.py": (
        ["PPU_SERIAL_ATTENTION", "PPU_FP32_COMPRESSOR"], [], ["os"],
    ),
}  # fmt: skip
NEIGHBOURS: dict[str, dict[str, object]] = {
    "vllm.triton_utils": {
        "triton": SimpleNamespace(jit=lambda function: function),
        "tl": SimpleNamespace(constexpr=int),
    },
    "vllm.models.common.ops": {"fused_q_kv_rmsnorm": lambda qr, kv, *_: (qr, kv)},
    "vllm.models.deepseek_v4.common.ops.fused_indexer_q": {"MXFP4_BLOCK_SIZE": 32},
}
"""What the modules of 0.27.0 import and those of 0.26.0 did not, as far as they use it."""


@pytest.fixture(scope="module", autouse=True)
def _named() -> Iterator[None]:
    """Let the report at the end name this series."""
    name, before.SERIES = before.SERIES, SERIES
    yield
    before.SERIES = name


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest) -> patched.Sources:
    return patched.sources(SERIES, request)


@pytest.fixture
def load(sources: patched.Sources) -> Iterator[Load]:
    """Import one of the patched modules, with an environment, among stubs."""
    with ExitStack() as stack:

        def load(
            name: str,
            environment: Mapping[str, str] = before.OFF,
            stubs: Mapping[str, Mapping[str, object]] | None = None,
        ) -> ModuleType:
            importing = patched.importable(
                sources,
                roots=deepseek_v4.ROOTS,
                environment=environment,
                stubs={**NEIGHBOURS, **(stubs or {})},
            )
            return stack.enter_context(importing)(name)

        yield load


def test_the_four_patches_are_the_ones_of_0_26_0() -> None:
    assert list(CHANGES) == list(ADDED)
    for path, change in CHANGES.items():
        name = next(
            file for file in patched.patch_files("vllm-0.26.0")
            if patched.Change.read(file).path == path
        )  # fmt: skip
        old = patched.Change.read(name)
        for hunk, was in zip(change.hunks, old.hunks, strict=True):
            assert [line for line in hunk.lines if line[0] != " "] == [
                line for line in was.lines if line[0] != " "
            ]


@pytest.mark.parametrize("path", ADDED)
def test_with_switches_off_the_program_is_upstreams(sources: patched.Sources, path: str) -> None:
    assert patched.blob_id(sources[path]) == CHANGES[path].after
    upstream = CHANGES[path].undo(sources[path])
    assert patched.blob_id(upstream) == CHANGES[path].before
    assert patched.without(sources[path], *ADDED[path]) == patched.without(upstream, [], [], [])


def test_upstream_reads_weight_scale_first(sources: patched.Sources) -> None:
    """What the next test rests on: if it changes, the patches have to be looked at again."""
    tree = ast.parse(sources["vllm/models/deepseek_v4/nvidia/ops/o_proj.py"])
    (function,) = (
        node for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "deep_gemm_fp8_o_proj"
    )  # fmt: skip
    text = ast.unparse(function)
    assert (
        "weight_scale = wo_a.weight_scale if hasattr(wo_a, 'weight_scale')"
        " else wo_a.weight_scale_inv"
    ) in text


def test_the_fp8_projection_refuses_a_decoded_weight_instead_of_scaling_it_again(
    load: Load,
) -> None:
    """A layer that was decoded has no scale under either name: the FP8 path cannot run on it."""
    layer: Any = torch.nn.Linear(8, 8, bias=False, dtype=torch.bfloat16)
    stubs: dict[str, dict[str, object]] = {
        "vllm.models.deepseek_v4.common.ops.fused_inv_rope_fp8_quant": {
            "fused_inv_rope_fp8_quant": lambda *_, **__: (torch.empty(0), torch.empty(0))
        },
        "vllm.utils.deep_gemm": {"fp8_einsum": lambda *_, **__: pytest.fail("it was scaled")},
    }
    module = load(before.O_PROJ, before.BF16_O_PROJ, stubs)
    with pytest.raises(AttributeError, match="weight_scale_inv"):
        module.deep_gemm_fp8_o_proj(
            torch.zeros(2, 2, 4), torch.arange(2), torch.zeros(4, 4), layer, layer,
            n_groups=1, heads_per_group=2, nope_dim=2, rope_dim=2, o_lora_rank=4,
            einsum_recipe=(1, 1, 1), tma_aligned_scales=False,
        )  # fmt: skip
