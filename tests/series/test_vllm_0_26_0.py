"""``vllm-0.26.0``: the patched functions themselves, against FP64 references.

They run on the device that ``PSERIES_TEST_DEVICE`` names, the CPU by default. The errors measured
are written at the end of the run and recorded as properties.
"""

from __future__ import annotations

import gc
import os
import weakref
from contextlib import ExitStack
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if os.environ.get("PSERIES_REQUIRE_TORCH") != "1":
    pytest.importorskip("torch")

import torch
from tests.series import deepseek_v4, numerics, patched
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Load = Callable[..., ModuleType]
    Measured = Callable[[str, float], float]

SERIES = "vllm-0.26.0"
DEVICE = os.environ.get("PSERIES_TEST_DEVICE", "cpu")

FP8 = "vllm.model_executor.layers.quantization.fp8"
O_PROJ = "vllm.models.deepseek_v4.nvidia.ops.o_proj"
FLASHMLA = "vllm.models.deepseek_v4.nvidia.flashmla"
ATTENTION = "vllm.models.deepseek_v4.attention"

BF16_O_PROJ = {"VLLM_PPU_BF16_O_PROJ": "1"}
SERIAL = {"VLLM_PPU_SERIAL_ATTENTION": "1"}
FP32_COMPRESSOR = {"VLLM_PPU_FP32_COMPRESSOR": "1"}
OFF: dict[str, str] = {}

# The bound for a projection that decodes, rotates and multiplies in BF16; the field saw 0.0016.
PROJECTION_BOUND = 0.004
# One rounding to BF16 changes a value by at most 2^-8 of it, and many values by 0.0017 on average.
ROUNDING = 2.0**-8

BLOCK = (128, 128)


@pytest.fixture(scope="module", autouse=True)
def _few_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(min(2, before))
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest) -> patched.Sources:
    return patched.sources(SERIES, request)


def device_name() -> str:
    """The accelerator's own name, or the device's."""
    return torch.cuda.get_device_name() if DEVICE.startswith("cuda") else DEVICE


@pytest.fixture(scope="module")
def _report(request: pytest.FixtureRequest) -> Iterator[dict[str, float]]:
    """Errors by name, written to the terminal when the module is done."""
    errors: dict[str, float] = {}
    yield errors
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    if terminal and capture and errors:
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.section(f"{SERIES} on {device_name()}, torch {torch.__version__}")
            for name, error in errors.items():
                terminal.line(f"{error:.2e}  {name}")


@pytest.fixture
def measured(
    request: pytest.FixtureRequest,
    _report: dict[str, float],
    record_property: Callable[[str, object], None],
) -> Measured:
    """Record an error under the test's own parameters, and give it back."""

    def record(what: str, error: float) -> float:
        parameters = request.node.name.partition("[")[2].rstrip("]")
        _report[f"{what} {parameters}".rstrip()] = error
        record_property(what, error)
        return error

    return record


@pytest.fixture
def load(sources: patched.Sources) -> Iterator[Load]:
    """Import one of the patched modules, with an environment, among stubs."""
    with ExitStack() as stack:

        def load(
            name: str,
            environment: Mapping[str, str] = OFF,
            stubs: Mapping[str, Mapping[str, object]] | None = None,
        ) -> ModuleType:
            importing = patched.importable(
                sources, roots=deepseek_v4.ROOTS, environment=environment, stubs=stubs or {}
            )
            return stack.enter_context(importing)(name)

        yield load


# ---------------------------------------------------------------- decoding wo_a


class Kernel:
    """Stands for the kernel that packs or requantizes weights after loading."""

    def __init__(self) -> None:
        self.processed: list[nn.Module] = []

    def process_weights_after_loading(self, layer: nn.Module) -> None:
        self.processed.append(layer)


class Marlin(Kernel):
    pass


def replace_parameter(layer: nn.Module, name: str, data: torch.Tensor) -> None:
    """As vLLM's: a new parameter that keeps the old one's loader."""
    new = nn.Parameter(data, requires_grad=False)
    new.weight_loader = getattr(layer, name).weight_loader  # type: ignore[attr-defined]
    setattr(layer, name, new)


def fp8_stubs(kernel: Kernel) -> dict[str, dict[str, object]]:
    """What the FP8 linear method needs to be constructed and to create its parameters."""

    def parameter(shape: Sequence[int], dtype: torch.dtype, loader: object) -> nn.Parameter:
        made = nn.Parameter(torch.empty(*shape, dtype=dtype, device=DEVICE), requires_grad=False)
        made.weight_loader = loader  # type: ignore[attr-defined]
        return made

    def scale(
        kind: object,
        sizes: list[int],
        size_in: int,
        block: list[int] | None,
        loader: object,
        scale_dtype: torch.dtype | None = None,
    ) -> nn.Parameter:
        shape = [len(sizes)]
        if block:
            shape = [-(-sum(sizes) // block[0]), -(-size_in // block[1])]
        return parameter(shape, scale_dtype or torch.float32, loader)

    utils = "vllm.model_executor.layers.quantization.utils"
    return {
        "vllm.logger": {"init_logger": lambda _: None},
        "vllm.config": {
            "get_current_vllm_config": lambda: SimpleNamespace(
                model_config=SimpleNamespace(dtype=torch.bfloat16)
            )
        },
        "vllm.model_executor.utils": {"replace_parameter": replace_parameter},
        "vllm.model_executor.kernels.linear": {"init_fp8_linear_kernel": lambda **_: kernel},
        "vllm.model_executor.kernels.linear.scaled_mm": {"MarlinFP8ScaledMMLinearKernel": Marlin},
        f"{utils}.fp8_utils": {
            "validate_fp8_block_shape": lambda *_: None,
            "create_fp8_weight_parameter": lambda rows, columns, loader: parameter(
                (rows, columns), numerics.FP8, loader
            ),
            "create_fp8_scale_parameter": scale,
            "process_fp8_weight_tensor_strategy": lambda weight, scale, *_: (weight, scale, None),
        },
        f"{utils}.quant_utils": {
            "GroupShape": lambda *shape: shape,
            "create_fp8_quant_key": lambda **key: key,
        },
    }


def loaded_layer(
    fp8: ModuleType,
    weight: torch.Tensor,
    scale: torch.Tensor,
    *,
    is_bmm: bool = True,
    block: tuple[int, int] | None = BLOCK,
) -> tuple[Any, Any]:
    """A layer with its checkpoint weights, just before they are processed, and its method."""
    config = fp8.Fp8Config(
        is_checkpoint_fp8_serialized=True,
        weight_block_size=list(block) if block else None,
    )
    config.is_scale_e8m0 = scale.dtype == numerics.E8M0
    method = fp8.Fp8LinearMethod(config)
    layer: Any = nn.Module()
    rows, columns = weight.shape
    method.create_weights(
        layer, columns, [rows], columns, rows, torch.bfloat16, weight_loader=loaded_layer
    )
    if is_bmm:
        layer.is_bmm = True
    layer.weight.data.copy_(weight)
    (layer.weight_scale_inv if block else layer.weight_scale).data.copy_(scale)
    return layer, method


SHAPES = [(1, 1), (128, 128), (130, 257), (384, 640), (100, 2048), (2048, 4096)]
SCALES = [numerics.E8M0, torch.float32]


def name_of(value: object) -> str | None:
    """Test ids: ``130x257``, ``float32``."""
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else None


@pytest.mark.parametrize("scale_dtype", SCALES, ids=name_of)
@pytest.mark.parametrize("shape", SHAPES, ids=name_of)
def test_decoding_is_weight_times_scale_rounded_once(
    load: Load, measured: Measured, shape: tuple[int, int], scale_dtype: torch.dtype
) -> None:
    fp8 = load(FP8, BF16_O_PROJ, fp8_stubs(Kernel()))
    weight, scale = numerics.quantize_blocks(numerics.random(shape, 1, DEVICE), BLOCK, scale_dtype)
    reference = numerics.decode_blocks(weight, scale, BLOCK)

    decoded = fp8.decode_block_fp8_to_bf16(weight, scale, list(BLOCK))

    assert decoded.dtype == torch.bfloat16
    assert decoded.shape == weight.shape
    error = measured("decode", numerics.relative_error(decoded, reference))
    if scale_dtype == numerics.E8M0:
        assert error == 0.0
    else:
        apart = (decoded.to(torch.float64) - reference).abs()
        assert bool((apart <= ROUNDING * reference.abs() * 1.0001).all())


def test_decoding_takes_blocks_of_any_shape(load: Load) -> None:
    fp8 = load(FP8, BF16_O_PROJ, fp8_stubs(Kernel()))
    block = (32, 80)
    source = numerics.random((100, 170), 2, DEVICE)
    weight, scale = numerics.quantize_blocks(source, block, numerics.E8M0)
    decoded = fp8.decode_block_fp8_to_bf16(weight, scale, list(block))
    assert torch.equal(decoded.to(torch.float64), numerics.decode_blocks(weight, scale, block))


def test_decoding_refuses_scales_of_another_shape(load: Load) -> None:
    fp8 = load(FP8, BF16_O_PROJ, fp8_stubs(Kernel()))
    source = numerics.random((256, 256), 3, DEVICE)
    weight, scale = numerics.quantize_blocks(source, BLOCK, torch.float32)
    with pytest.raises(AssertionError, match="block scales"):
        fp8.decode_block_fp8_to_bf16(weight, scale[:1], list(BLOCK))


@pytest.mark.parametrize("kernel", [Marlin, Kernel])
def test_loading_wo_a_leaves_only_its_bf16_weight(load: Load, kernel: type[Kernel]) -> None:
    used = kernel()
    fp8 = load(FP8, BF16_O_PROJ, fp8_stubs(used))
    source = numerics.random((256, 384), 4, DEVICE)
    weight, scale = numerics.quantize_blocks(source, BLOCK, numerics.E8M0)
    layer, method = loaded_layer(fp8, weight, scale)
    dropped = [weakref.ref(layer.weight), weakref.ref(layer.weight_scale_inv)]

    method.process_weights_after_loading(layer)

    assert used.processed == []
    assert method.fp8_linear is None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    assert not hasattr(layer, "weight_scale_inv")
    assert layer.weight.dtype == torch.bfloat16
    assert layer.weight.requires_grad is False
    assert layer.weight.weight_loader is loaded_layer
    reference = numerics.decode_blocks(weight, scale, BLOCK)
    assert torch.equal(layer.weight.to(torch.float64), reference)
    gc.collect()
    assert [reference() for reference in dropped] == [None, None]


@pytest.mark.parametrize(
    ("environment", "is_bmm", "block"),
    [
        pytest.param(OFF, True, BLOCK, id="off"),
        pytest.param({"VLLM_PPU_BF16_O_PROJ": "0"}, True, BLOCK, id="zero"),
        pytest.param({"VLLM_PPU_BF16_O_PROJ": ""}, True, BLOCK, id="empty"),
        pytest.param(SERIAL | FP32_COMPRESSOR, True, BLOCK, id="other-switches"),
        pytest.param(BF16_O_PROJ, False, BLOCK, id="not-wo_a"),
        pytest.param(BF16_O_PROJ, True, None, id="not-blocks"),
    ],
)
@pytest.mark.parametrize("kernel", [Marlin, Kernel])
def test_other_weights_go_to_the_kernel_as_upstream(
    load: Load,
    kernel: type[Kernel],
    environment: dict[str, str],
    is_bmm: bool,
    block: tuple[int, int] | None,
) -> None:
    used = kernel()
    fp8 = load(FP8, environment, fp8_stubs(used))
    source = numerics.random((256, 384), 5, DEVICE)
    weight, scale = numerics.quantize_blocks(source, BLOCK, torch.float32)
    if not block:
        scale = scale.flatten()[:1]
    layer, method = loaded_layer(fp8, weight, scale, is_bmm=is_bmm, block=block)
    before = dict(layer.named_parameters())

    method.process_weights_after_loading(layer)

    assert used.processed == [layer]
    assert used.processed[0] is layer
    assert method.fp8_linear is used
    after = dict(layer.named_parameters())
    assert after.keys() == before.keys()
    assert after["weight"].dtype == numerics.FP8
    if block:
        assert all(after[name] is before[name] for name in before)


# ------------------------------------------------------------- output projection


class Doubling(nn.Module):
    """Stands for ``wo_b``: what went through it can be told, and no bit of it is lost."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        assert z.is_contiguous()
        return 2 * z


def wo_a_with(weight: torch.Tensor) -> nn.Module:
    layer = nn.Module()
    layer.weight = nn.Parameter(weight, requires_grad=False)
    return layer


def attention_output(tokens: int, heads: int, head: int, seed: int) -> torch.Tensor:
    """BF16 attention output, a slice of a buffer with padded heads, as the layer makes it."""
    padded = numerics.random((tokens, heads + 3, head), seed, DEVICE).to(torch.bfloat16)
    return padded[:, :heads]


def positions_of(tokens: int, length: int) -> torch.Tensor:
    """Positions in no order and with repetitions, the last of the cache among them."""
    generator = torch.Generator().manual_seed(tokens)
    positions = torch.randint(0, length, (tokens,), generator=generator)
    positions[:1] = length - 1
    return positions.to(DEVICE)


# Tokens, heads, nope, rope.
@pytest.mark.parametrize(
    "sizes", [(1, 1, 0, 2), (5, 3, 10, 6), (33, 8, 448, 64), (4, 16, 448, 64)], ids=name_of
)
def test_inverse_rope_undoes_rope(
    load: Load, measured: Measured, sizes: tuple[int, int, int, int]
) -> None:
    tokens, heads, nope, rope = sizes
    o_proj = load(O_PROJ)
    cache = numerics.rope_cache(4096, rope, DEVICE)
    positions = positions_of(tokens, 4096)
    original = attention_output(tokens, heads, nope + rope, 6)
    turned = numerics.rope(original, positions, cache, rope, inverse=False).to(torch.bfloat16)

    back = o_proj.inverse_rope(turned, positions, cache, nope_dim=nope, rope_dim=rope)

    assert back.dtype == torch.bfloat16
    assert back.is_contiguous()
    assert torch.equal(back[..., :nope], original[..., :nope])
    assert measured("undo RoPE", numerics.relative_error(back, original)) < PROJECTION_BOUND
    # Against the same input, nothing may be lost but the last rounding: FP32 inside.
    reference = numerics.rope(turned, positions, cache, rope, inverse=True)
    assert measured("inverse RoPE", numerics.relative_error(back, reference)) <= ROUNDING
    if back.numel() > 1000:
        assert numerics.differing(back, reference) < 0.001


# Tokens, groups, heads in a group, nope, rope, rank.
PROJECTIONS = [
    (1, 1, 1, 10, 6, 5),
    (7, 3, 2, 40, 24, 100),
    (64, 2, 8, 448, 64, 1024),
    (5, 16, 2, 448, 64, 128),
    (1037, 2, 2, 192, 64, 256),
]


@pytest.mark.parametrize("scale_dtype", SCALES, ids=name_of)
@pytest.mark.parametrize("sizes", PROJECTIONS, ids=name_of)
def test_decoding_and_projecting_is_close_to_fp64(
    load: Load,
    measured: Measured,
    sizes: tuple[int, int, int, int, int, int],
    scale_dtype: torch.dtype,
) -> None:
    tokens, groups, heads, nope, rope, rank = sizes
    width = heads * (nope + rope)
    source = numerics.random((groups * rank, width), 7, DEVICE) * width**-0.5
    weight, scale = numerics.quantize_blocks(source, BLOCK, scale_dtype)
    cache = numerics.rope_cache(512, rope, DEVICE)
    positions = positions_of(tokens, 512)
    output = attention_output(tokens, groups * heads, nope + rope, 8)
    back = numerics.rope(output, positions, cache, rope, inverse=True)
    exact = numerics.decode_blocks(weight, scale, BLOCK)
    reference = 2 * numerics.grouped_projection(back, exact, groups)

    fp8 = load(FP8, BF16_O_PROJ, fp8_stubs(Kernel()))
    layer, method = loaded_layer(fp8, weight, scale)
    method.process_weights_after_loading(layer)
    z = load(O_PROJ, BF16_O_PROJ).bf16_o_proj(
        output,
        positions,
        cache,
        layer,
        Doubling(),
        n_groups=groups,
        heads_per_group=heads,
        nope_dim=nope,
        rope_dim=rope,
        o_lora_rank=rank,
    )

    assert z.dtype == torch.bfloat16
    assert z.shape == (tokens, groups * rank)
    assert measured("o_proj", numerics.relative_error(z, reference)) <= PROJECTION_BOUND


SMALL = {"n_groups": 2, "heads_per_group": 2, "nope_dim": 6, "rope_dim": 4, "o_lora_rank": 8}


def test_projection_of_no_tokens_is_empty(load: Load) -> None:
    o_proj = load(O_PROJ, BF16_O_PROJ)
    wo_a = wo_a_with(torch.ones(16, 20, dtype=torch.bfloat16, device=DEVICE))
    cache = numerics.rope_cache(8, 4, DEVICE)
    nothing = attention_output(0, 4, 10, 9)
    z = o_proj.bf16_o_proj(nothing, positions_of(0, 8), cache, wo_a, Doubling(), **SMALL)
    assert z.shape == (0, 16)


def test_projection_refuses_a_weight_that_was_not_decoded(load: Load) -> None:
    o_proj = load(O_PROJ, BF16_O_PROJ)
    wo_a = wo_a_with(torch.ones(16, 20, device=DEVICE).to(numerics.FP8))
    cache = numerics.rope_cache(8, 4, DEVICE)
    output = attention_output(2, 4, 10, 10)
    with pytest.raises(AssertionError, match="BF16 wo_a"):
        o_proj.bf16_o_proj(output, positions_of(2, 8), cache, wo_a, Doubling(), **SMALL)


class Call:
    """Records how it was called, and answers with itself."""

    def __init__(self) -> None:
        self.args: tuple[object, ...] = ()
        self.kwargs: dict[str, object] = {}
        self.times = 0

    def __call__(self, *args: object, **kwargs: object) -> Call:
        self.args, self.kwargs, self.times = args, kwargs, self.times + 1
        return self


STUBS = deepseek_v4.attention_stubs(deepseek_v4.Streams())


def flashmla_layer(module: ModuleType) -> Any:
    """A FlashMLA layer that has just what its output projection reads."""
    kind = module.DeepseekV4FlashMLAAttention
    layer = kind.__new__(kind)
    nn.Module.__init__(layer)
    layer.rotary_emb = SimpleNamespace(cos_sin_cache=numerics.rope_cache(8, 4, DEVICE))
    layer.wo_a = wo_a_with(torch.ones(16, 20, dtype=torch.bfloat16, device=DEVICE))
    layer.wo_b = Doubling()
    layer.n_local_groups, layer.n_local_heads, layer.o_lora_rank = 2, 4, 8
    layer.nope_head_dim, layer.rope_head_dim = 6, 4
    layer._einsum_recipe, layer._tma_aligned_scales = (1, 128, 128), object()
    return layer


@pytest.mark.parametrize("environment", [OFF, BF16_O_PROJ], ids=["off", "on"])
def test_flashmla_calls_the_projection_that_its_switch_says(
    load: Load, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    flashmla = load(FLASHMLA, environment, STUBS)
    upstream, ours = Call(), Call()
    monkeypatch.setattr(flashmla, "deep_gemm_fp8_o_proj", upstream)
    monkeypatch.setattr(flashmla, "bf16_o_proj", ours)
    layer = flashmla_layer(flashmla)
    output, positions = attention_output(2, 4, 10, 11), positions_of(2, 8)
    called, idle = (ours, upstream) if environment else (upstream, ours)

    assert layer._o_proj(output, positions) is called

    assert (called.times, idle.times) == (1, 0)
    expected = (output, positions, layer.rotary_emb.cos_sin_cache, layer.wo_a, layer.wo_b)
    assert len(called.args) == len(expected)
    assert all(given is meant for given, meant in zip(called.args, expected, strict=True))
    recipe = {
        "einsum_recipe": layer._einsum_recipe,
        "tma_aligned_scales": layer._tma_aligned_scales,
    }
    assert called.kwargs == SMALL | ({} if environment else recipe)


def test_flashmla_projects_without_fp8_when_switched_on(load: Load) -> None:
    layer = flashmla_layer(load(FLASHMLA, BF16_O_PROJ, STUBS))
    output, positions = attention_output(5, 4, 10, 12), positions_of(5, 8)
    cache = layer.rotary_emb.cos_sin_cache
    reference = 2 * numerics.grouped_projection(
        numerics.rope(output, positions, cache, 4, inverse=True), layer.wo_a.weight, 2
    )
    z = layer._o_proj(output, positions)
    assert numerics.relative_error(z, reference) <= PROJECTION_BOUND


# --------------------------------------------------------------- compressor GEMM


class Operators(TorchDispatchMode):
    """Lists the operators that run, with the types of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[torch.dtype, ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = tuple(arg.dtype for arg in args if isinstance(arg, torch.Tensor))
        self.seen.append((str(func), tensors))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("tokens", "hidden", "width"),
    [(1024, 7168, 1024), (1, 7168, 512), (37, 300, 70), (0, 64, 32)],
)
def test_compressor_gemm_is_fp32_and_never_mixed(
    load: Load, measured: Measured, tokens: int, hidden: int, width: int
) -> None:
    o_proj = load(O_PROJ)
    x = numerics.random((tokens, hidden), 13, DEVICE).to(torch.bfloat16)
    weight = (numerics.random((width, hidden), 14, DEVICE) * hidden**-0.5).to(torch.bfloat16)

    with Operators() as operators:
        result = o_proj.fp32_compressor_mm(x, weight.T)

    assert result.dtype == torch.float32
    products = [seen for seen in operators.seen if "mm" in seen[0]]
    assert products == [("aten.mm.default", (torch.float32, torch.float32))]
    assert result.shape == (tokens, width)
    if tokens:
        every = 4 if tokens > 100 else 1  # FP64 is slow, and all rows are alike
        reference = x[::every].to(torch.float64) @ weight.to(torch.float64).T
        assert measured("compressor", numerics.relative_error(result[::every], reference)) < 1e-5


# ------------------------------------------------------- streams and compressor calls

# Where upstream runs what. The profiling run has no metadata: nothing is put into a cache.
WITHOUT_INDEXER: dict[str, Any] = {"layer.fused_wqa_wkv": "current", "layer.wq_b": "current"}
UPSTREAM_STREAMS: dict[int, dict[str, Any]] = {
    1: WITHOUT_INDEXER,
    128: WITHOUT_INDEXER | {"mm": "aux0", "layer.compressor": "aux0"},
    4: WITHOUT_INDEXER
    | {
        "mm": ("aux0", "aux2"),
        "layer.indexer.weights_proj": "aux1",
        "layer.compressor": "aux1",
        "layer.indexer.wq_b": "aux0",
        "layer.indexer.compressor": "aux2",
        "topk": "aux0",
    },
}


class Run:
    """A whole forward of one small layer, and what was seen of it."""

    def __init__(self, load: Load, environment: dict[str, str], ratio: int, tokens: int) -> None:
        self.streams = deepseek_v4.Streams()
        self.module = load(ATTENTION, environment, deepseek_v4.attention_stubs(self.streams))
        self.torch = deepseek_v4.TorchWithSpy(self.streams)
        self.module.__dict__["torch"] = self.torch
        # The helper's products are of interest as well.
        if helper := self.module.__dict__.get("fp32_compressor_mm"):
            helper.__globals__["torch"] = self.torch

        class Layer(self.module.DeepseekV4Attention):  # type: ignore[name-defined, misc]
            backend_cls = object

            @classmethod
            def get_padded_num_q_heads(cls, heads: int) -> int:
                return heads + 3

            def forward_mqa(self, q: Any, *others: Any) -> None:
                output = others[-1]
                output.copy_(q)

            def _o_proj(self, o: Any, *_: Any) -> Any:
                return o

        self.layer: Any = Layer(
            deepseek_v4.engine_config(ratio),
            "layer",
            topk_indices_buffer=torch.empty(0),
            aux_stream_list=self.streams.auxiliary,
        )
        self.hidden = numerics.random((tokens, deepseek_v4.HIDDEN), 15, "cpu").to(torch.bfloat16)
        self.output = self.layer(torch.arange(tokens), self.hidden)
        self.compressors = [self.layer.compressor] if self.layer.compressor else []
        if self.layer.indexer:
            self.compressors.append(self.layer.indexer.compressor)

    def used(self) -> dict[str, Any]:
        """On which stream each thing ran, or on which ones if it ran more than once."""
        streams: dict[str, Any] = {}
        for what, stream in self.streams.log:
            streams[what] = (
                stream if what not in streams or what != "mm" else (streams[what], stream)
            )
        return streams


@pytest.mark.parametrize("environment", [OFF, BF16_O_PROJ], ids=["off", "other-switch"])
@pytest.mark.parametrize("ratio", [1, 4, 128])
def test_without_switches_the_layer_uses_streams_and_gemms_as_upstream(
    load: Load, ratio: int, environment: dict[str, str]
) -> None:
    run = Run(load, environment, ratio, tokens=5)
    layer, auxiliary = run.layer, run.streams.auxiliary

    assert layer.aux_stream_list is auxiliary
    assert run.used() == UPSTREAM_STREAMS[ratio]
    gemms = run.streams.calls[0]
    assert gemms["streams"] == auxiliary
    assert gemms["start"] is layer.ln_events[0]
    assert gemms["done"] == layer.ln_events[1:4]
    if layer.indexer:
        assert layer.indexer.aux_stream is auxiliary[2]

    assert "fp32_compressor_mm" not in run.module.__dict__
    assert len(run.torch.products) == len(run.compressors)
    for (args, kwargs), compressor in zip(run.torch.products, run.compressors, strict=True):
        hidden, transposed = args
        weight = compressor.fused_wkv_wgate.weight
        assert hidden is run.hidden
        assert transposed.data_ptr() == weight.data_ptr()
        assert transposed.shape == weight.T.shape
        assert kwargs == {"out_dtype": torch.float32}


def test_without_switches_many_tokens_keep_the_gemms_on_one_stream_as_upstream(load: Load) -> None:
    run = Run(load, OFF, 4, tokens=17)
    assert run.streams.calls[0]["enable"] is False
    assert run.used() == UPSTREAM_STREAMS[4] | {
        "mm": ("current", "current"),
        "layer.indexer.weights_proj": "current",
    }


@pytest.mark.parametrize("tokens", [0, 5, 17])
@pytest.mark.parametrize("ratio", [1, 4, 128])
def test_serial_attention_runs_everything_on_the_current_stream(
    load: Load, ratio: int, tokens: int
) -> None:
    serial, parallel = Run(load, SERIAL, ratio, tokens), Run(load, OFF, ratio, tokens)

    assert {stream for _, stream in serial.streams.log} == {deepseek_v4.CURRENT}
    assert serial.layer.aux_stream_list is None
    assert serial.layer.indexer is None or serial.layer.indexer.aux_stream is None
    assert all(call["streams"] is None for call in serial.streams.calls)
    # The same work, and the same result.
    assert sorted(what for what, _ in serial.streams.log) == sorted(
        what for what, _ in parallel.streams.log
    )
    assert torch.equal(serial.output, parallel.output)
    assert [kwargs for _, kwargs in serial.torch.products] == [
        {"out_dtype": torch.float32} for _ in serial.compressors
    ]


@pytest.mark.parametrize(
    "environment", [FP32_COMPRESSOR, FP32_COMPRESSOR | SERIAL], ids=["alone", "serial"]
)
@pytest.mark.parametrize("ratio", [1, 4, 128])
def test_fp32_compressor_never_issues_the_mixed_gemm(
    load: Load, ratio: int, environment: dict[str, str]
) -> None:
    run = Run(load, environment, ratio, tokens=5)

    assert len(run.torch.products) == len(run.compressors)
    for args, kwargs in run.torch.products:
        assert kwargs == {}
        assert [arg.dtype for arg in args] == [torch.float32, torch.float32]
    for compressor in run.compressors:
        weight = compressor.fused_wkv_wgate.weight
        reference = run.hidden.to(torch.float64) @ weight.to(torch.float64).T
        assert compressor.seen.dtype == torch.float32
        assert numerics.relative_error(compressor.seen, reference) < 1e-5
    if environment == FP32_COMPRESSOR:
        assert run.used() == UPSTREAM_STREAMS[ratio]


@pytest.mark.parametrize("value", ["0", "", "true", "2"])
def test_only_1_switches_on(load: Load, value: str) -> None:
    names = ["VLLM_PPU_BF16_O_PROJ", "VLLM_PPU_SERIAL_ATTENTION", "VLLM_PPU_FP32_COMPRESSOR"]
    environment = dict.fromkeys(names, value)
    assert load(FP8, environment, fp8_stubs(Kernel())).PPU_BF16_O_PROJ is False
    assert load(O_PROJ, environment).PPU_BF16_O_PROJ is False
    streams = deepseek_v4.Streams()
    attention = load(ATTENTION, environment, deepseek_v4.attention_stubs(streams))
    assert attention.PPU_SERIAL_ATTENTION is False
    assert attention.PPU_FP32_COMPRESSOR is False
