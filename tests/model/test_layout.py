"""Canonical and installed paths."""

from __future__ import annotations

import pytest

from pseries.model.layout import Layout, Placement
from pseries.model.spec import Relocation

PPU = Relocation("ppu", "vllm/models/nvidia", "vllm/models/ppu")


def test_it_strips_the_root():
    assert Layout("python").installed("python/sglang/a.py") == "sglang/a.py"
    assert Layout("python").installed("docs/a.md") is None
    assert Layout("python").installed("pythonic/a.py") is None
    assert Layout("").installed("vllm/a.py") == "vllm/a.py"


def test_it_moves_whole_folders_only():
    layout = Layout("", PPU)
    assert layout.installed("vllm/models/nvidia/x.py") == "vllm/models/ppu/x.py"
    assert layout.installed("vllm/models/nvidia2/x.py") == "vllm/models/nvidia2/x.py"
    assert layout.installed("vllm/models/x.py") == "vllm/models/x.py"


@pytest.mark.parametrize("path", ["python/sglang/a.py", "python/m/nvidia/b.py"])
def test_canonical_is_the_inverse(path: str):
    layout = Layout("python", Relocation("r", "python/m/nvidia", "python/m/ppu"))
    assert layout.canonical(layout.installed(path)) == path


@pytest.mark.parametrize(
    ("path", "placement"),
    [
        ("vllm/a.py", Placement.INSTALLED),
        ("vllm/kernels/fast.cu", Placement.INSTALLED),
        ("tests/test_a.py", Placement.ABSENT),
        ("docs/a.md", Placement.ABSENT),
        ("csrc/attention.cu", Placement.COMPILED),
        ("csrc/Attention.CUH", Placement.COMPILED),
        ("setup.py", Placement.COMPILED),
        ("CMakeLists.txt", Placement.COMPILED),
    ],
)
def test_placement(path: str, placement: Placement):
    assert Layout("").placement(path, {"vllm"}) is placement
