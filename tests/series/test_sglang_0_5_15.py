"""The SM120 prefill condition of SGLang 0.5.15, out of the released and the patched file."""

from __future__ import annotations

import ast
import functools
import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.series import signatures

if TYPE_CHECKING:
    from collections.abc import Callable

SERIES = "sglang-0.5.15"
BACKEND = "sglang/srt/layers/attention/deepseek_v4_backend.py"
METADATA = "sglang/srt/layers/attention/dsv4/metadata.py"
ENVIRONMENT = "sglang/srt/environ.py"
SM120_OPERATOR = "sglang/srt/layers/attention/flash_mla_sm120.py"
FLASHINFER_SM120 = "flashinfer/mla/_sparse_mla_sm120.py"
CANONICAL = f"python/{BACKEND}"

SPARSE = "_forward_prefill_sparse"
SM120 = "flash_mla_with_kvcache_sm120"
DENSE = "flash_mla_with_kvcache"

KERNELS = {
    name: signatures.module(name, members)
    for name, members in {
        "sglang": {},
        "sglang.srt": {},
        "sglang.srt.layers": {},
        "sglang.srt.layers.attention": {},
        "sglang.srt.layers.attention.flash_mla_sm120": {SM120: lambda **_: (SM120,)},
        "sgl_kernel": {},
        "sgl_kernel.flash_mla": {DENSE: lambda **_: (DENSE,)},
    }.items()
}

Case = tuple[bool, bool, int, bool]


@pytest.fixture(scope="module")
def pristine(pristine_release: Callable[[str], dict[str, bytes]]) -> bytes:
    return pristine_release(SERIES)[CANONICAL]


@pytest.fixture(scope="module")
def patched(patched_release: Callable[[str], dict[str, bytes]]) -> bytes:
    return patched_release(SERIES)[CANONICAL]


@pytest.fixture(scope="module")
def threshold(distribution_files: Callable[..., dict[str, bytes]]) -> int:
    """The number of query tokens from which the released file calls a batch large."""
    source = distribution_files("sglang", "0.5.15", "wheel", [METADATA])[METADATA]
    value = next(
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "_LARGE_INDEXER_QUERY_THRESHOLD"
    )
    return int(ast.literal_eval(value))


@pytest.fixture(scope="module")
def cases(threshold: int) -> list[Case]:
    """Every combination of SM120, extend batch, number of tokens, environment variable."""
    tokens = (1, threshold, threshold + 1, 10 * threshold)
    return list(itertools.product((False, True), (False, True), tokens, (False, True)))


@functools.cache
def choice(source: bytes) -> tuple[ast.If, ast.If]:
    """Return the two statements of ``forward`` that choose the kernel."""
    returned = f"return self.{SPARSE}("
    forward = signatures.definition(source, "DeepseekV4AttnBackend.forward")
    for node in ast.walk(forward):
        body = getattr(node, "body", None)
        for first, second in itertools.pairwise(body if isinstance(body, list) else []):
            if isinstance(first, ast.If) and ast.unparse(first.body[0]).startswith(returned):
                assert isinstance(second, ast.If)
                return first, second
    raise AssertionError(f"forward() does not call {SPARSE}")


def kernel(source: bytes, threshold: int, case: Case) -> str:
    """Run the two statements on stand-ins and return the name of what they call."""
    sm120, extend, tokens, flag = case
    sparse, dense = choice(source)
    statements = [sparse, dense, ast.Return(ast.Name("o", ast.Load()))]
    names: dict[str, Any] = {
        node.id: object()
        for node in ast.walk(ast.Module(statements, []))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id != "o"
    }
    route = ast.parse("def route(): pass").body[0]
    assert isinstance(route, ast.FunctionDef)
    route.body = statements
    names |= {
        "self": SimpleNamespace(**{SPARSE: lambda **_: SPARSE}, head_dim_v=512, softmax_scale=1.0),
        "q": SimpleNamespace(shape=(tokens, 1, 64, 512)),
        "forward_batch": SimpleNamespace(
            forward_mode=SimpleNamespace(is_extend_without_speculative=lambda: extend)
        ),
        "envs": SimpleNamespace(
            SGLANG_OPT_FLASHMLA_SPARSE_PREFILL=SimpleNamespace(get=lambda: flag)
        ),
        "_LARGE_INDEXER_QUERY_THRESHOLD": threshold,
        "_is_sm120": sm120,
        "_is_xpu": False,
    }
    with signatures.installed(KERNELS):
        return str(signatures.execute([route], names)["route"]())


def test_patched_file_compiles(patched: bytes) -> None:
    compile(patched, BACKEND, "exec")


def test_sm120_never_takes_the_sparse_kernel(
    patched: bytes, threshold: int, cases: list[Case]
) -> None:
    on_sm120 = [case for case in cases if case[0]]
    assert {kernel(patched, threshold, case) for case in on_sm120} == {SM120}


def test_other_gpus_take_the_kernel_that_upstream_takes(
    pristine: bytes, patched: bytes, threshold: int, cases: list[Case]
) -> None:
    elsewhere = [case for case in cases if not case[0]]
    chosen = {case: kernel(patched, threshold, case) for case in elsewhere}
    assert chosen == {case: kernel(pristine, threshold, case) for case in elsewhere}
    assert set(chosen.values()) == {SPARSE, DENSE}


def test_released_file_has_the_fault(pristine: bytes, threshold: int, cases: list[Case]) -> None:
    faulty = [case for case in cases if case[0] and kernel(pristine, threshold, case) == SPARSE]
    # Any extend batch with the variable set, as it is by default, and a large one without it.
    assert faulty == [
        (True, True, tokens, flag)
        for _, _, tokens, flag in cases[: len(cases) // 4]
        if flag or tokens > threshold
    ]


def test_nothing_but_the_condition_changes(pristine: bytes, patched: bytes) -> None:
    before, after = ast.unparse(ast.parse(pristine)), ast.unparse(ast.parse(patched))
    condition = ast.unparse(choice(pristine)[0].test)
    assert before.count(condition) == 1
    assert before.replace(condition, ast.unparse(choice(patched)[0].test)) == after


def test_condition_asks_what_the_file_knows_already(patched: bytes) -> None:
    assigned = [
        ast.unparse(node)
        for node in ast.parse(patched).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_is_sm120"
    ]
    assert assigned == ["_is_sm120 = is_sm120_supported()"]


def test_variable_is_on_by_default(distribution_files: Callable[..., dict[str, bytes]]) -> None:
    source = distribution_files("sglang", "0.5.15", "wheel", [ENVIRONMENT])[ENVIRONMENT]
    assert b"SGLANG_OPT_FLASHMLA_SPARSE_PREFILL = EnvBool(True)" in source


def test_0_5_16_has_the_same_condition(
    patched: bytes, distribution_files: Callable[..., dict[str, bytes]]
) -> None:
    merged = distribution_files("sglang", "0.5.16", "wheel", [BACKEND])[BACKEND]
    assert ast.dump(choice(merged)[0].test) == ast.dump(choice(patched)[0].test)


def test_flashinfer_takes_what_the_sm120_operator_passes(
    distribution_files: Callable[..., dict[str, bytes]],
) -> None:
    engine = distribution_files("sglang", "0.5.15", "wheel", [SM120_OPERATOR])[SM120_OPERATOR]
    library = distribution_files("flashinfer-python", "0.6.14", "wheel", [FLASHINFER_SM120])
    name = "sparse_mla_sm120_decode_dsv4"
    (call,) = (
        node
        for node in ast.walk(signatures.definition(engine, "_flash_mla_flashinfer"))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name
    )
    assert not call.args
    keywords = {str(keyword.arg): keyword.value for keyword in call.keywords}
    signatures.signature(library[FLASHINFER_SM120], name).bind(**keywords)
