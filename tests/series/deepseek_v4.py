"""Small stand-ins for what DeepSeek-V4's layers are built from in vLLM 0.26.

They hold real weights and compute real numbers, and they log on which stream each of them ran, so
that the patched layers can be constructed and run whole, without vLLM and without an accelerator.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOTS = ("vllm", "transformers")
CURRENT = "current"

HIDDEN, Q_RANK, HEAD, ROPE, HEADS, GROUPS, O_RANK = 48, 32, 40, 8, 8, 2, 24
INDEX_HEADS, INDEX_HEAD = 4, 16


class Streams:
    """Three auxiliary streams that are only names, and a log of what ran on which."""

    def __init__(self) -> None:
        self.auxiliary = ["aux0", "aux1", "aux2"]
        self.log: list[tuple[str, str]] = []
        self.calls: list[Mapping[str, Any]] = []
        self._current = CURRENT

    @contextmanager
    def on(self, stream: str) -> Iterator[None]:
        """Whatever is logged inside ran on this stream."""
        outer, self._current = self._current, stream
        try:
            yield
        finally:
            self._current = outer

    def note(self, what: str) -> None:
        """Log that something runs now."""
        self.log.append((what, self._current))

    def several(
        self,
        default: Callable[[], Any],
        others: list[Callable[[], Any] | None],
        start: object,
        done: list[object],
        streams: list[str] | None = None,
        enable: bool = False,
    ) -> tuple[Any, list[Any]]:
        """As ``execute_in_parallel``: functions on their streams, or in order on the current."""
        call = {"start": start, "done": done, "streams": streams, "enable": enable}
        self.calls.append(call)
        used = [CURRENT] * len(others) if streams is None or not enable else streams
        assert len(used) == len(others) == len(done)
        result = default()
        results: list[Any] = []
        for function, stream in zip(others, used, strict=True):
            if function is None:
                results.append(None)
            elif stream == CURRENT:
                results.append(function())
            else:
                with self.on(stream):
                    results.append(function())
        return result, results

    def two(
        self,
        first: Callable[[], Any],
        second: Callable[[], Any],
        start: object,
        done: object,
        stream: str | None = None,
    ) -> tuple[Any, Any]:
        """As ``maybe_execute_in_parallel``: the second function on the stream, if there is one."""
        self.calls.append({"start": start, "done": [done], "streams": stream, "enable": True})
        result = first()
        if stream is None:
            return result, second()
        with self.on(stream):
            return result, second()


class Linear(nn.Module):
    """A BF16 linear layer that takes the arguments of any of vLLM's parallel ones."""

    def __init__(
        self,
        size_in: int,
        size_out: int | list[int],
        *,
        prefix: str = "",
        return_bias: bool = True,
        **_: object,
    ) -> None:
        super().__init__()
        rows = size_out if isinstance(size_out, int) else sum(size_out)
        generator = torch.Generator().manual_seed(rows * 7919 + size_in)
        weight = torch.randn(rows, size_in, generator=generator) * size_in**-0.5
        self.weight = nn.Parameter(weight.to(torch.bfloat16), requires_grad=False)
        self.prefix, self.return_bias = prefix, return_bias
        self.streams: Streams | None = None

    def forward(self, x: torch.Tensor) -> Any:
        """Project; the bias that goes with the result is always None."""
        if self.streams:
            self.streams.note(self.prefix)
        result = nn.functional.linear(x, self.weight)
        return (result, None) if self.return_bias else result


class Norm(nn.Module):
    """Holds a weight of ones, as an RMSNorm does."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size), requires_grad=False)
        self.eps = eps


def attention_stubs(streams: Streams) -> dict[str, dict[str, object]]:
    """The modules that ``attention.py`` imports, as far as it uses them."""

    class Compressor(nn.Module):
        def __init__(self, *, hidden_size: int, head_dim: int, prefix: str, **_: object) -> None:
            super().__init__()
            self.fused_wkv_wgate = Linear(hidden_size, [head_dim, head_dim])
            self.prefix = prefix
            self.seen: torch.Tensor | None = None

        def forward(self, kv_score: torch.Tensor, *_: object) -> None:
            streams.note(self.prefix)
            self.seen = kv_score

    class TopK(nn.Module):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__()

        def forward(self, hidden: torch.Tensor, *_: object) -> torch.Tensor:
            streams.note("topk")
            return hidden

    class Logged(Linear):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.streams = streams

    rotary = SimpleNamespace(cos_sin_cache=torch.zeros(1))
    config = SimpleNamespace(compilation_config=SimpleNamespace(static_forward_context={}))
    linear: dict[str, object] = dict.fromkeys(
        ("ColumnParallelLinear", "MergedColumnParallelLinear", "ReplicatedLinear"), Logged
    )
    return {
        "vllm.envs": {"VLLM_MULTI_STREAM_GEMM_TOKEN_THRESHOLD": 16},
        "vllm.compilation.breakable_cudagraph": {"eager_break_during_capture": lambda f: f},
        "vllm.model_executor.layers.linear": {**linear, "RowParallelLinear": Logged},
        "vllm.model_executor.layers.sparse_attn_indexer": {"SparseAttnIndexer": TopK},
        "vllm.models.deepseek_v4.common.ops": {
            "fused_q_kv_rmsnorm": lambda qr, kv, *_: (qr, kv),
            "fused_indexer_q_rope_quant": lambda _, q, *__, **___: (q, q),
        },
        "vllm.config": {"get_current_vllm_config": lambda: config},
        "vllm.distributed": {"get_tensor_model_parallel_world_size": lambda: 1},
        "vllm.forward_context": {
            "get_forward_context": lambda: SimpleNamespace(attn_metadata=None)
        },
        "vllm.logger": {
            "init_logger": lambda name: SimpleNamespace(info_once=logging.getLogger(name).debug)
        },
        "vllm.model_executor.layers.layernorm": {"RMSNorm": Norm},
        "vllm.model_executor.models.utils": {"extract_layer_index": lambda _: 0},
        "vllm.models.deepseek_v4.common.rope": {"build_deepseek_v4_rope": lambda *_, **__: rotary},
        "vllm.models.deepseek_v4.compressor": {"DeepseekCompressor": Compressor},
        "vllm.utils.multi_stream_utils": {
            "execute_in_parallel": streams.several,
            "maybe_execute_in_parallel": streams.two,
        },
        "vllm.v1.attention.backends.mla.indexer": {"get_max_prefill_buffer_size": lambda _: 64},
        "vllm.v1.attention.backends.mla.sparse_swa": {
            "DeepseekV4SWACache": lambda **_: SimpleNamespace(prefix="swa")
        },
    }


def engine_config(compress_ratio: int) -> SimpleNamespace:
    """The engine's configuration for a model of one small layer."""
    model = SimpleNamespace(
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        q_lora_rank=Q_RANK,
        o_lora_rank=O_RANK,
        head_dim=HEAD,
        qk_rope_head_dim=ROPE,
        o_groups=GROUPS,
        sliding_window=16,
        num_hidden_layers=1,
        compress_ratios=[compress_ratio],
        rms_norm_eps=1e-6,
        max_position_embeddings=64,
        index_topk=4,
        index_n_heads=INDEX_HEADS,
        index_head_dim=INDEX_HEAD,
    )
    return SimpleNamespace(
        model_config=SimpleNamespace(hf_config=model, max_model_len=64),
        quant_config=None,
        cache_config=SimpleNamespace(cache_dtype="fp8", block_size=256),
        scheduler_config=SimpleNamespace(max_num_batched_tokens=64),
        compilation_config=SimpleNamespace(static_forward_context={}),
        attention_config=SimpleNamespace(use_fp4_indexer_cache=False),
    )


class TorchWithSpy:
    """The torch module, but for ``mm``, which is recorded, and CUDA events, which are objects."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.products: list[tuple[tuple[torch.Tensor, ...], dict[str, object]]] = []
        self.cuda = SimpleNamespace(Event=object)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def mm(self, *args: torch.Tensor, **kwargs: object) -> torch.Tensor:
        """Record the call and answer in FP32, as the GEMM that CPUs lack would."""
        self.streams.note("mm")
        self.products.append((args, kwargs))
        first, second = args
        return first.to(torch.float32) @ second.to(torch.float32)
