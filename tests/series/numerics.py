"""FP64 references for the operators that series replace, and how far a result is from them.

Written from the definitions, not from the code under test: RoPE is a multiplication of complex
numbers here, block scales are looked up element by element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Sequence

FP8 = torch.float8_e4m3fn
E8M0 = torch.float8_e8m0fnu
LARGEST_FP8 = 448.0


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """The L2 norm of the difference over the L2 norm of the reference."""
    difference = result.to(torch.float64) - reference.to(torch.float64)
    return float(difference.norm() / reference.to(torch.float64).norm())


def differing(result: torch.Tensor, reference: torch.Tensor) -> float:
    """The share of elements that are not the reference's, rounded to the result's type."""
    return float((result != reference.to(result.dtype)).to(torch.float64).mean())


def random(shape: Sequence[int], seed: int, device: str) -> torch.Tensor:
    """Normally distributed FP64 values, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device)


def _blocks(size: int, block: int, device: torch.device) -> torch.Tensor:
    """For every index along an axis, the block that it lies in."""
    return torch.arange(size, device=device) // block


def quantize_blocks(
    weight: torch.Tensor, block: tuple[int, int], scale_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Block-quantize as checkpoints are: FP8 values, and one scale for each block.

    FP32 scales use the whole range of FP8; E8M0 scales are the next power of two.
    """
    size_n, size_k = weight.shape
    whole = nn.functional.pad(weight, (0, -size_k % block[1], 0, -size_n % block[0]))
    blocks = whole.unflatten(1, (-1, block[1])).unflatten(0, (-1, block[0]))
    largest = blocks.abs().amax(dim=(1, 3))
    scale = largest / LARGEST_FP8
    if scale_dtype == E8M0:
        scale = torch.exp2(torch.ceil(torch.log2(scale)))
    stored = scale.to(torch.float32)
    values = blocks / stored.to(torch.float64)[:, None, :, None]
    values = values.flatten(2).flatten(0, 1)[:size_n, :size_k].clamp(-LARGEST_FP8, LARGEST_FP8)
    return values.to(torch.float32).to(FP8), stored.to(scale_dtype)


def decode_blocks(
    weight: torch.Tensor, scale: torch.Tensor, block: tuple[int, int]
) -> torch.Tensor:
    """What a block-quantized weight stands for, exactly."""
    rows = _blocks(weight.shape[0], block[0], weight.device)
    columns = _blocks(weight.shape[1], block[1], weight.device)
    scales = scale.to(torch.float32).to(torch.float64)
    return weight.to(torch.float32).to(torch.float64) * scales[rows][:, columns]


def rope_cache(length: int, rope_dim: int, device: str) -> torch.Tensor:
    """Cosines, then sines, one row for each position, FP32, as the engine's rotary embedding."""
    pairs = torch.arange(rope_dim // 2, dtype=torch.float64)
    angles = torch.outer(
        torch.arange(length, dtype=torch.float64), 10000.0 ** (-2.0 * pairs / rope_dim)
    )
    return torch.cat((angles.cos(), angles.sin()), dim=-1).to(torch.float32).to(device)


def rope(
    heads: torch.Tensor,
    positions: torch.Tensor,
    cache: torch.Tensor,
    rope_dim: int,
    *,
    inverse: bool,
) -> torch.Tensor:
    """Turn the last ``rope_dim`` values of every head, neighbours forming a pair, in FP64."""
    cos, sin = cache.to(torch.float64)[positions].chunk(2, dim=-1)
    turn = torch.complex(cos, -sin if inverse else sin)[:, None, :]
    result = heads.to(torch.float64).clone()
    pairs = result[..., -rope_dim:].unflatten(-1, (rope_dim // 2, 2)).contiguous()
    turned = torch.view_as_real(torch.view_as_complex(pairs) * turn)
    result[..., -rope_dim:] = turned.flatten(-2)
    return result


def grouped_projection(heads: torch.Tensor, weight: torch.Tensor, groups: int) -> torch.Tensor:
    """Project each group of heads with its own rows of ``weight``: ``[tokens, groups * rank]``."""
    tokens = heads.shape[0]
    rank = weight.shape[0] // groups
    grouped = heads.to(torch.float64).reshape(tokens, groups, -1)
    rows = weight.to(torch.float64).reshape(groups, rank, -1)
    parts = [grouped[:, group] @ rows[group].T for group in range(groups)]
    return torch.cat(parts, dim=-1)
