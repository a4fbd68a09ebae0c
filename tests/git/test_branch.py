"""Which names of series can be a branch's; git is the second opinion."""

from __future__ import annotations

import subprocess

import pytest

from pseries.git import branch


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("vllm-0.26.0", True),
        ("eng-1.0+cu129_x", True),
        ("a" * 200, True),
        ("a" * 201, False),  # git would take it, a file system not always
        ("a..b", False),
        ("a.", False),
        ("a.lock", False),
        ("-a", False),
        (".a", False),
        ("a b", False),
        ("a~1", False),
        ("a/b", False),
        ("a\n", False),
        ("", False),
    ],
)
def test_a_branch_can_have_the_name(name: str, fits: bool) -> None:
    assert branch.is_name(name) is fits
    said = subprocess.run(
        ["git", "check-ref-format", "--branch", name], check=False, capture_output=True
    )
    assert not fits or said.returncode == 0
