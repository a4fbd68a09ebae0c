"""The FlashInfer backend of vLLM 0.11.0, patched, against both FlashInfer releases it is for.

The planning code of both sides is the released code: FlashInfer's own ``plan`` and
``fast_decode_plan`` run here on the CPU, on top of a stand-in for the compiled planning module
that takes exactly the number of arguments that the released C++ function has.
"""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import random
import weakref
from contextlib import nullcontext
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.series import signatures

torch = signatures.torch_or_skip()

if TYPE_CHECKING:
    from collections.abc import Callable

    Files = dict[str, bytes]
    Releases = Callable[[str], Files]
    Distributions = Callable[[str, str, str, list[str]], Files]

SERIES = "vllm-0.11.0-sm120"
BACKEND = "vllm/v1/attention/backends/flashinfer.py"
HELPERS = "vllm/attention/ops/flashinfer_sm120.py"

WRAPPER = "BatchDecodeWithPagedKVCacheWrapper"
PYTHON = ("__init__", "decode", "prefill", "cascade", "page", "utils")
# Where each release keeps the C++ function behind ``_cached_module.plan``, by backend.
SOURCES = {
    "0.3.1": ("sdist", {"fa2": ("csrc/batch_prefill.cu", "BatchPrefillWithKVCachePlan")}),
    "0.6.14": (
        "wheel",
        {
            "fa2": ("flashinfer/data/csrc/batch_prefill.cu", "BatchPrefillWithKVCachePlan"),
            "fa3": (
                "flashinfer/data/csrc/batch_prefill_sm90.cu",
                "BatchPrefillWithKVCacheSM90Plan",
            ),
        },
    ),
}
KINDS = [(version, backend) for version, (_, cpp) in SOURCES.items() for backend in cpp]

SIZES = {"num_qo_heads": 8, "num_kv_heads": 2, "head_dim": 128, "page_size": 16}


# -- the released FlashInfer, as far as planning goes ------------------------------------------


class Module:
    """The compiled planning module: takes exactly as many arguments as the C++ function."""

    def __init__(self, parameters: tuple[str, ...]) -> None:
        self.parameters = parameters
        self.calls: list[dict[str, Any]] = []

    def plan(self, *arguments: Any) -> list[int]:
        if len(arguments) != len(self.parameters):
            raise TypeError(f"expected {len(self.parameters)} arguments, got {len(arguments)}")
        copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        self.calls.append(dict(zip(self.parameters, copies, strict=True)))
        return []


@dataclass
class FlashInfer:
    """One release: its Python files by name, and the parameters of its planning functions."""

    version: str
    python: dict[str, bytes]
    planning: dict[str, tuple[str, ...]]

    def signature(self) -> inspect.Signature:
        return signatures.signature(self.python["decode"], f"{WRAPPER}.plan")

    def namespace(self, backend: str, module: Module | None) -> dict[str, Any]:
        """What FlashInfer's planning code refers to; what it computes with is the released code."""
        host = ModuleType("torch")  # FlashInfer selects its GPU before it plans
        vars(host).update(vars(torch), cuda=SimpleNamespace(device=lambda _: nullcontext()))
        return (
            {"torch": host, "_cache_buf": {}, "get_batch_prefill_module": lambda *_: module}
            | {"PosEncodingMode": {"NONE": SimpleNamespace(value=0)}}
            | {"determine_attention_backend": lambda *_: backend}
            | self.lifted("utils", "_ceil_pow2", "_get_range_buf", "canonicalize_torch_dtype")
            | self.lifted("page", "get_seq_lens")
        )

    def lifted(self, file: str, *names: str) -> dict[str, Any]:
        space = {"torch": torch, "_cache_buf": {}, "functools": functools}
        made = signatures.lift(self.python[file], names, space)
        return {name: made[name] for name in names}

    def fast_decode_plan(self) -> dict[str, Any]:
        """FlashInfer's own fast plan, where the release has one."""
        if "fast_decode_plan" not in signatures.module_names(self.python["decode"]):
            return {}
        made = signatures.lift(
            self.python["decode"], ["fast_decode_plan"], self.namespace("", None)
        )
        return {"fast_decode_plan": made["fast_decode_plan"]}

    def wrapper(self, backend: str, batch: int, *, graph: bool = True) -> Any:
        """A decode wrapper as the constructor leaves it, with the released ``plan``."""
        module = Module(self.planning[backend])
        plan = signatures.lift(
            self.python["decode"], [f"{WRAPPER}.plan"], self.namespace(backend, module)
        )["plan"]
        made = type(WRAPPER, (), {"plan": plan, "use_tensor_cores": True})()
        vars(made).update(
            is_cuda_graph_enabled=graph,
            device=torch.device("cpu"),
            module=module,
            _backend="auto",
            _jit_module=None,
            _fixed_batch_size=batch,
            _float_workspace_buffer=torch.zeros(4, dtype=torch.uint8),
            _int_workspace_buffer=torch.zeros(5, dtype=torch.uint8),
            _pin_memory_int_workspace_buffer=torch.zeros(6, dtype=torch.uint8),
            _paged_kv_indptr_buf=torch.zeros(batch + 1, dtype=torch.int32),
            _paged_kv_indices_buf=torch.zeros(4096, dtype=torch.int32),
            _paged_kv_last_page_len_buf=torch.zeros(batch, dtype=torch.int32),
        )
        return made


@functools.cache
def read(files: Distributions, version: str) -> FlashInfer:
    kind, cpp = SOURCES[version]
    paths = {name: f"flashinfer/{name}.py" for name in PYTHON}
    wanted = [*paths.values(), *(path for path, _ in cpp.values())]
    found = files("flashinfer-python", version, kind, wanted)
    return FlashInfer(
        version,
        {name: found[path] for name, path in paths.items()},
        {
            backend: signatures.parameters_of_cpp(found[path], function)
            for backend, (path, function) in cpp.items()
        },
    )


@pytest.fixture(params=SOURCES)
def release(request: pytest.FixtureRequest, distribution_files: Distributions) -> FlashInfer:
    return read(distribution_files, request.param)


@pytest.fixture(params=KINDS, ids="-".join)
def kind(
    request: pytest.FixtureRequest, distribution_files: Distributions
) -> tuple[FlashInfer, str]:
    version, backend = request.param
    return read(distribution_files, version), backend


# -- the vLLM backend, imported on top of it ----------------------------------------------------


class Kernel:
    """A Triton kernel: the one that copies page indices does it here, any other refuses."""

    def __init__(self, function: Any) -> None:
        self.name = function.__name__

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        assert self.name == "_copy_page_indices_kernel"

        def launch(out: Any, table: Any, _stride: int, indptr: Any, BLOCK_SIZE: int) -> None:  # noqa: N803 - Triton's spelling
            for row in range(grid[0]):
                start, end = int(indptr[row]), int(indptr[row + 1])
                out[start:end] = table[row, : end - start]

        return launch


def backend_of(files: Files, release: FlashInfer, *, has_triton: bool = True) -> ModuleType:
    """Import the backend with stand-ins for vLLM, and with exactly the names FlashInfer has."""
    modules = {
        f"flashinfer.{name}".removesuffix(".__init__"): {
            known: signatures.placeholder(known) for known in signatures.module_names(source)
        }
        for name, source in release.python.items()
    }
    modules["flashinfer.decode"] |= release.lifted("utils", "_ceil_pow2", "_get_range_buf")
    modules["flashinfer.decode"] |= release.fast_decode_plan()
    modules |= signatures.imported(files[BACKEND], "vllm")
    modules["vllm.triton_utils"]["HAS_TRITON"] = has_triton
    modules["vllm.triton_utils"]["triton"].jit = Kernel if has_triton else lambda function: function
    made = {name: signatures.module(name, members) for name, members in modules.items()}
    with signatures.installed(made):
        if HELPERS in files:
            signatures.load(HELPERS.removesuffix(".py").replace("/", "."), files[HELPERS])
        return signatures.load(BACKEND.removesuffix(".py").replace("/", "."), files[BACKEND])


@pytest.fixture(scope="module")
def pristine(pristine_release: Releases) -> Files:
    return pristine_release(SERIES)


@pytest.fixture(scope="module")
def patched(patched_release: Releases) -> Files:
    return patched_release(SERIES)


@pytest.fixture(scope="module")
def helpers(patched: Files) -> ModuleType:
    with signatures.installed({"vllm": signatures.module("vllm", {})}):
        return signatures.load("vllm.helpers", patched[HELPERS])


@dataclass
class Batch:
    """The arguments of ``fast_plan_decode`` that depend on the requests."""

    indptr_cpu: Any
    indices: Any
    last_page_len_cpu: Any
    seq_lens_cpu: Any

    @classmethod
    def of(cls, seq_lens: list[int], page_size: int = SIZES["page_size"]) -> Batch:
        pages = [-(-length // page_size) for length in seq_lens]
        ends = list(itertools.accumulate(pages, initial=0))
        last = [
            length - (count - 1) * page_size for length, count in zip(seq_lens, pages, strict=True)
        ]
        return cls(
            *(torch.tensor(v, dtype=torch.int32) for v in (ends, range(ends[-1]), last, seq_lens))
        )


# -- the keywords of plan() ---------------------------------------------------------------------


# Parameters of fast_plan_decode that FlashInfer's plan() calls by another name.
RENAMED = {"indptr_cpu": "indptr", "last_page_len_cpu": "last_page_len"}


def landed(
    backend: ModuleType, signature: inspect.Signature
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Call ``fast_plan_decode``; return its values by plan()'s names, and where they landed."""
    calls: list[inspect.BoundArguments] = []

    def plan(*args: Any, **kwargs: Any) -> None:
        calls.append(signature.bind(*args, **kwargs))

    plan.__signature__ = signature  # type: ignore[attr-defined]
    wrapper = type(WRAPPER, (), {"plan": plan, "is_cuda_graph_enabled": False})()
    names = [n for n in inspect.signature(backend.fast_plan_decode).parameters if n != "self"]
    given = {name: f"value of {name}" for name in names}
    backend.fast_plan_decode(wrapper, **given)
    (call,) = calls
    del given["seq_lens_cpu"], call.arguments["self"]
    return {RENAMED.get(name, name): value for name, value in given.items()}, call.arguments


def test_every_value_lands_in_the_parameter_of_its_name(
    patched: Files, release: FlashInfer
) -> None:
    given, arrived = landed(backend_of(patched, release), release.signature())
    assert arrived == given


def test_released_backend_shifts_values_from_0_6_on(pristine: Files, release: FlashInfer) -> None:
    given, arrived = landed(backend_of(pristine, release), release.signature())
    wrong = {name: value for name, value in arrived.items() if given.get(name) != value}
    if release.version == "0.3.1":
        assert not wrong
    else:
        assert wrong == {
            "o_data_type": "value of data_type",
            "data_type": "value of sm_scale",
            "sm_scale": "value of rope_scale",
            "rope_scale": "value of rope_theta",
            "rope_theta": "value of non_blocking",
        }


# -- the arguments of the planning module -------------------------------------------------------


FIRST, SECOND = Batch.of([5, 16, 17]), Batch.of([64, 1, 200])


def options(backend: str) -> dict[str, Any]:
    """The other arguments, none at its default; FlashInfer considers fa3 for FP8 caches only."""
    cache = torch.float8_e4m3fn if backend == "fa3" else torch.bfloat16
    return SIZES | {
        "window_left": 127,
        "logits_soft_cap": 30.0,
        "q_data_type": torch.bfloat16,
        "kv_data_type": cache,
        "sm_scale": 0.25,
    }


def planned_by_flashinfer(release: FlashInfer, backend: str, batch: Batch) -> Any:
    """The wrapper after FlashInfer's own plan()."""
    wrapper = release.wrapper(backend, len(batch.seq_lens_cpu))
    wrapper.plan(batch.indptr_cpu, batch.indices, batch.last_page_len_cpu, **options(backend))
    return wrapper


def state(wrapper: Any) -> dict[str, Any]:
    """What a plan leaves behind in the wrapper, tensors as lists."""
    kept = {name: value for name, value in vars(wrapper).items() if name not in UNPLANNED}
    return {n: v.tolist() if isinstance(v, torch.Tensor) else v for n, v in kept.items()}


# Test equipment; page indices, which vLLM writes itself; FlashInfer's note of its longest request
# and its copies of the batch, which no run of these backends reads.
UNPLANNED = {"module", "vllm_first_call", "_cached_module", "_paged_kv_indices_buf", "_max_kv_len"}


def plain(call: dict[str, Any]) -> dict[str, Any]:
    return {n: v.tolist() if isinstance(v, torch.Tensor) else v for n, v in call.items()}


def test_graph_plan_passes_what_flashinfer_passes(
    patched: Files, kind: tuple[FlashInfer, str]
) -> None:
    release, backend = kind
    module = backend_of(patched, release)
    wrapper = release.wrapper(backend, 3)
    for batch in (FIRST, SECOND):
        module.fast_plan_decode(wrapper, **vars(batch), **options(backend))
        expected = planned_by_flashinfer(release, backend, batch)
        assert plain(wrapper.module.calls.pop()) == plain(expected.module.calls.pop())
        assert state(wrapper) == state(expected)
    assert not wrapper.module.calls


def test_graph_plan_is_not_flashinfers_slow_one(
    patched: Files, kind: tuple[FlashInfer, str]
) -> None:
    release, backend = kind
    module = backend_of(patched, release)
    wrapper = release.wrapper(backend, 3)
    module.fast_plan_decode(wrapper, **vars(FIRST), **options(backend))
    type(wrapper).plan = None
    indices = wrapper._paged_kv_indices_buf.clone()
    module.fast_plan_decode(wrapper, **vars(SECOND), **options(backend))
    assert wrapper._paged_kv_indices_buf.equal(indices)


def test_released_graph_plan_fails_from_0_4_on(
    pristine: Files, kind: tuple[FlashInfer, str]
) -> None:
    release, backend = kind
    module = backend_of(pristine, release)
    wrapper = planned_by_flashinfer(release, backend, FIRST)
    wrapper.vllm_first_call = False
    if release.version == "0.3.1":
        module.fast_plan_decode(wrapper, **vars(SECOND), **options(backend))
        expected = planned_by_flashinfer(release, backend, SECOND)
        assert plain(wrapper.module.calls[-1]) == plain(expected.module.calls[-1])
    else:
        count = len(release.planning[backend])
        with pytest.raises(RuntimeError, match=f"expected {count} arguments, got 15"):
            module.fast_plan_decode(wrapper, **vars(SECOND), **options(backend))


def test_planning_functions_take_the_number_of_arguments_known(
    distribution_files: Distributions,
) -> None:
    counts = {
        (version, backend): len(parameters)
        for version in SOURCES
        for backend, parameters in read(distribution_files, version).planning.items()
    }
    assert counts == {("0.3.1", "fa2"): 15, ("0.6.14", "fa2"): 19, ("0.6.14", "fa3"): 16}


# -- page indices -------------------------------------------------------------------------------


def reference(seq_lens: list[int], page_size: int, table: list[list[int]]) -> tuple[list[int], ...]:
    """The page indices in plain Python, one page after the other."""
    indptr, indices, last = [0], [], []
    for length, row in zip(seq_lens, table, strict=True):
        full, rest = divmod(length, page_size)
        pages = row[: full + (rest > 0)]
        indices += pages
        indptr.append(len(indices))
        last.append(rest or page_size)
    return indptr, indices, last


def batches() -> list[tuple[list[int], int]]:
    """No request, no tokens, exact multiples, pages of one token, and random lengths."""
    made: list[tuple[list[int], int]] = [([], 16), ([0], 16), ([0, 0, 3, 0], 4), ([16, 32, 48], 16)]
    made += [([5, 1, 0, 2], 1), ([1], 1), ([15, 16, 17], 16)]
    for seed in range(40):
        draw = random.Random(seed)  # noqa: S311 - no secret
        size = draw.choice([1, 2, 7, 16, 64])
        count = draw.randrange(1, 33)
        made.append(([draw.choice([0, size, draw.randrange(1000)]) for _ in range(count)], size))
    return made


def block_table(seq_lens: list[int], page_size: int) -> list[list[int]]:
    """Pages in no order, and numbers that must not be read after the last page of a request."""
    draw = random.Random(len(seq_lens))  # noqa: S311 - no secret
    width = max([-(-length // page_size) for length in seq_lens], default=0) + 3
    return [[draw.randrange(1, 1 << 30) for _ in range(width)] for _ in seq_lens]


@pytest.mark.parametrize("given_out", [False, True])
def test_page_indices_are_those_of_plain_python(helpers: ModuleType, given_out: bool) -> None:
    for seq_lens, page_size in batches():
        rows = block_table(seq_lens, page_size)
        indptr, indices, last = reference(seq_lens, page_size, rows)
        lengths = torch.tensor(seq_lens, dtype=torch.int32)
        table = torch.tensor(rows or [[]], dtype=torch.int32)[: len(rows)]

        def out(expected: list[int]) -> dict[str, Any]:
            dirt = torch.full([len(expected)], -7, dtype=torch.int32)
            return {"out": dirt} if given_out else {}

        made = [
            helpers.compute_kv_indptr(lengths, page_size, **out(indptr)),
            helpers.compute_kv_indices(
                table, torch.tensor(indptr, dtype=torch.int32), **out(indices)
            ),
            helpers.compute_kv_last_page_len(lengths, page_size, **out(last)),
        ]
        assert [m.tolist() for m in made] == [indptr, indices, last], (seq_lens, page_size)
        assert {m.dtype for m in made} == {torch.int32}
        assert lengths.tolist() == seq_lens


def test_page_indices_agree_with_flashinfer(helpers: ModuleType, release: FlashInfer) -> None:
    get_seq_lens = release.lifted("page", "get_seq_lens")["get_seq_lens"]
    for seq_lens, page_size in batches():
        lengths = torch.tensor([length for length in seq_lens if length], dtype=torch.int32)
        indptr = helpers.compute_kv_indptr(lengths, page_size)
        last = helpers.compute_kv_last_page_len(lengths, page_size)
        assert get_seq_lens(indptr, last, page_size).equal(lengths)


def test_shared_pages_are_counted_once(helpers: ModuleType) -> None:
    lengths = torch.tensor([48, 33, 32], dtype=torch.int32)
    assert helpers.compute_kv_indptr(lengths, 16, shared_pages=2).tolist() == [0, 1, 2, 2]


# -- build(), which uses them -------------------------------------------------------------------


def built(
    backend: ModuleType, seq_lens: list[int], *, decodes: int, shared: int, graph: bool
) -> Any:
    """Run the builder's ``build`` on the host; return what every plan was given."""
    plans: list[tuple[str, Any]] = []

    def plain_value(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [plain_value(v) for v in value]
        return value.tolist() if isinstance(value, torch.Tensor) else value

    def note(kind: str) -> Callable[..., None]:
        def planned(*args: Any, **kwargs: Any) -> None:
            plans.append((kind, plain_value([*args, *kwargs.items()])))

        return planned

    page_size, count = SIZES["page_size"], len(seq_lens)
    table = torch.tensor(block_table(seq_lens, page_size), dtype=torch.int32)
    capacity = {"device": "cpu", "dtype": torch.int32}
    prefills = count - decodes
    backend.split_decodes_and_prefills = lambda *_, **__: (decodes, prefills, decodes, 3 * prefills)
    backend.use_trtllm_attention = lambda *_, **__: False
    backend.fast_plan_decode = note("decode")
    builder = object.__new__(backend.FlashInferMetadataBuilder)
    vars(builder).update(
        SIZES,
        paged_kv_indptr=torch.zeros(64, **capacity),
        paged_kv_indices=torch.zeros(4096, **capacity),
        paged_kv_last_page_len=torch.zeros(64, **capacity),
        paged_kv_indptr_cpu=(indptr := torch.zeros(64, **capacity)),
        paged_kv_indptr_np=indptr.numpy(),
        paged_kv_indptr_buffer=torch.zeros(64, **capacity),
        paged_kv_last_page_len_cpu=(last := torch.zeros(64, **capacity)),
        paged_kv_last_page_len_np=last.numpy(),
        cache_dtype="auto",
        q_data_type=torch.bfloat16,
        kv_cache_dtype=torch.bfloat16,
        model_config=SimpleNamespace(dtype=torch.bfloat16),
        vllm_config=SimpleNamespace(pad_for_cudagraph=lambda tokens: tokens + 5),
        enable_cuda_graph=graph,
        _decode_cudagraph_max_bs=32,
        has_sinks=False,
        sm_scale=0.25,
        window_left=-1,
        logits_soft_cap=None,
        _get_prefill_wrapper=lambda: SimpleNamespace(plan=note("prefill")),
        _get_cascade_wrapper=lambda: SimpleNamespace(plan=note("cascade")),
        _get_decode_wrapper=lambda *arguments: arguments,
    )
    lengths = torch.tensor(seq_lens, dtype=torch.int32)
    starts = [*range(decodes + 1), *range(decodes + 3, decodes + 3 * prefills + 1, 3)]
    common = SimpleNamespace(
        num_reqs=count,
        num_actual_tokens=starts[-1],
        max_query_len=3,
        max_seq_len=max(seq_lens),
        seq_lens=lengths,
        seq_lens_cpu=lengths,
        block_table_tensor=table,
        slot_mapping=None,
        query_start_loc_cpu=torch.tensor(starts, dtype=torch.int32),
    )
    builder.build(shared, common)
    assert lengths.tolist() == seq_lens
    return plans, builder.paged_kv_indptr.tolist(), builder.paged_kv_indices.tolist()


CASES = [
    {"decodes": 3, "shared": 0, "graph": False},
    {"decodes": 3, "shared": 0, "graph": True},
    {"decodes": 1, "shared": 0, "graph": True},
    {"decodes": 0, "shared": 0, "graph": False},
    {"decodes": 3, "shared": 32, "graph": False},
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("has_triton", [True, False])
def test_build_plans_as_the_released_one(
    pristine: Files,
    patched: Files,
    distribution_files: Distributions,
    case: dict[str, Any],
    has_triton: bool,
) -> None:
    release = read(distribution_files, "0.6.14")
    seq_lens = [33, 48, 200]
    expected = built(backend_of(pristine, release), seq_lens, **case)
    assert built(backend_of(patched, release, has_triton=has_triton), seq_lens, **case) == expected
    assert len(expected[0]) == 1 + (0 < case["decodes"] < 3)


# -- keywords, checked against what is installed ------------------------------------------------


PAGES = {"seq_lens": [5], "page_size": 16, "kv_layout": "NHD"}
EITHER = ("page_size", "kv_layout")


def test_each_signature_gets_the_keyword_it_takes(helpers: ModuleType) -> None:
    def sized(seq_lens: Any, *, page_size: int) -> Any:
        return seq_lens, page_size

    def laid_out(seq_lens: Any, kv_layout: str = "HND") -> Any:
        return seq_lens, kv_layout

    def both(**kwargs: Any) -> Any:
        return kwargs

    assert sized(**helpers.bind_installed(sized, PAGES, optional=EITHER)) == ([5], 16)
    assert laid_out(**helpers.bind_installed(laid_out, PAGES, optional=EITHER)) == ([5], "NHD")
    assert both(**helpers.bind_installed(both, PAGES)) == PAGES


def test_a_value_nobody_takes_is_an_error_unless_optional(helpers: ModuleType) -> None:
    def compute_kv_indptr(seq_lens: Any, kv_layout: str) -> None: ...

    with pytest.raises(TypeError, match=r"compute_kv_indptr\(\).* does not take 'page_size'; its"):
        helpers.bind_installed(compute_kv_indptr, PAGES)


def test_a_parameter_nobody_knows_is_an_error(helpers: ModuleType) -> None:
    def plan(
        indptr: Any, page_size: int, *, num_groups: int, topology: Any, hint: int = 0
    ) -> None: ...

    with pytest.raises(TypeError) as caught:
        helpers.bind_installed(plan, {"indptr": 1, "page_size": 2, "window": 3})
    assert (
        "requires 'num_groups', which vLLM does not pass; "
        "requires 'topology', which vLLM does not pass; does not take 'window'; "
        "its parameters are indptr, page_size, num_groups, topology, hint"
    ) in str(caught.value)


def test_an_open_signature_still_requires_its_names(helpers: ModuleType) -> None:
    def plan(indptr: Any, **others: Any) -> None: ...

    with pytest.raises(TypeError, match="requires 'indptr'"):
        helpers.bind_installed(plan, {"page_size": 16})


def test_methods_decorators_and_leading_arguments_are_seen_through(helpers: ModuleType) -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    class Wrapper:
        @logged
        def plan(self, indptr: Any, page_size: int = 1) -> Any:
            return self, indptr, page_size

    wrapper, values = Wrapper(), {"indptr": 7, "page_size": 16}
    assert wrapper.plan(**helpers.bind_installed(wrapper.plan, values)) == (wrapper, 7, 16)
    bound = helpers.bind_installed(Wrapper.plan, values, leading=1)
    assert Wrapper.plan(wrapper, **bound) == (wrapper, 7, 16)
    with pytest.raises(TypeError, match="does not take 'self'"):
        helpers.bind_installed(wrapper.plan, values | {"self": wrapper})


def test_the_check_keeps_no_wrapper_alive(helpers: ModuleType) -> None:
    class Wrapper:
        def plan(self, indptr: Any) -> None: ...

    wrapper = Wrapper()
    helpers.bind_installed(wrapper.plan, {"indptr": 1})
    alive = weakref.ref(wrapper)
    del wrapper
    gc.collect()
    assert alive() is None


def test_a_function_without_signature_is_refused(helpers: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"dict.update\(\).* tells no signature"):
        helpers.bind_installed(dict.update, {"indptr": 1})


def test_backend_checks_both_calls(patched: Files, distribution_files: Distributions) -> None:
    release = read(distribution_files, "0.6.14")
    backend = backend_of(patched, release)
    wrapper = release.wrapper("fa2", 3)
    backend.fast_plan_decode(wrapper, **vars(FIRST), **options("fa2"))

    def next_plan(self: Any, indptr: Any, *, num_groups: int, **others: Any) -> None: ...

    backend.fast_decode_plan = next_plan
    with pytest.raises(TypeError, match="requires 'num_groups'"):
        backend.fast_plan_decode(wrapper, **vars(SECOND), **options("fa2"))
    type(wrapper).plan = next_plan
    wrapper.vllm_first_call = True
    with pytest.raises(TypeError, match="requires 'num_groups'"):
        backend.fast_plan_decode(wrapper, **vars(SECOND), **options("fa2"))


def test_deprecated_data_type_may_go_but_not_unseen(
    patched: Files, distribution_files: Distributions
) -> None:
    backend = backend_of(patched, read(distribution_files, "0.6.14"))
    names = [n for n in inspect.signature(backend.fast_plan_decode).parameters if n != "self"]
    calls: list[dict[str, Any]] = []
    later = [RENAMED.get(n, n) for n in names if n not in ("data_type", "seq_lens_cpu")]

    def plan(*args: Any, **kwargs: Any) -> None:
        calls.append(kwargs)

    keyword = inspect.Parameter.KEYWORD_ONLY
    plan.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
        + [inspect.Parameter(name, keyword) for name in later]
    )
    wrapper = type(WRAPPER, (), {"plan": plan, "is_cuda_graph_enabled": False})()
    backend.fast_plan_decode(wrapper, **dict.fromkeys(names, 1) | {"data_type": None})
    assert [sorted(call) for call in calls] == [sorted(later)]
    with pytest.raises(TypeError, match="does not take 'data_type'"):
        backend.fast_plan_decode(wrapper, **dict.fromkeys(names, 1))
