"""Names and versions as they are compared; packaging is the second opinion."""

from __future__ import annotations

import pytest
from packaging.utils import canonicalize_name

from pseries.model import naming


@pytest.mark.parametrize("name", ["vllm", "FlashInfer_Python", "a.-_b", "ruamel.yaml", "A__b..C-d"])
def test_names_are_compared_as_packaging_does(name: str):
    assert naming.normalized(name) == canonicalize_name(name)


@pytest.mark.parametrize(
    ("version", "wanted", "same"),
    [
        ("1.0", "1.0", True),
        ("1.0", "1.0.0", True),
        ("v1.0", "1.0", True),
        ("1.0+cu129.ppu.1", "1.0", True),
        ("1.0.0+cu129", "1.0", True),
        ("1.0+a", "1.0+b", True),
        ("1.0rc1", "1.0.rc1", True),
        ("1.0.post1", "1.0", False),
        ("1.1", "1.0", False),
        ("1!1.0", "1.0", False),
        ("odd", "odd", True),
        ("odd", "1.0", False),
        ("1.0", "", False),
        ("9" * 5000, "1.0", False),
    ],
)
def test_labels_apart_two_versions_are_one_release(version: str, wanted: str, same: bool):
    assert naming.same_release(version, wanted) is same
    assert naming.same_release(wanted, version) is same
