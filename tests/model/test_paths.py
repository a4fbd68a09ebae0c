"""Paths: what no rule may let through, and that the quick way agrees with the slow one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pseries.model import paths

GOOD = ("a.py", "a/b-c/d_e.py", "café/é.py", "a b/c.py", "x/E=128,N=768,device_name=H200.json",
        "caf\udce9.txt", ".hidden", "a/..b/c", "a" * 255)  # fmt: skip
BAD = {
    "": "empty",
    "/etc/passwd": "absolute",
    "C:/x": "absolute",
    "../x": "leaves the tree",
    "a/../../x": "leaves the tree",
    "a//b": "component",
    "a/./b": "component",
    "a/": "component",
    "a\\b": "backslash",
    "a\nb": "control character",
    "a\0b": "control character",
    ".git/hooks/x": ".git folder",
    "a/.GIT/x": ".git folder",
    "a" * 256: "longer than 255",
    "a/" * 2500 + "b": "longer than 4096",
    "\ud800": "no file name",
}


@pytest.mark.parametrize("path", GOOD)
def test_what_packages_hold(path: str):
    assert paths.problem(path) is None


@pytest.mark.parametrize("path", BAD)
def test_what_is_refused(path: str):
    assert BAD[path] in (paths.problem(path) or "")


@given(st.text(alphabet=st.sampled_from("aZ0_.-+=/\\:\n~ é\udce9\ud800"), max_size=20))
def test_the_quick_way_lets_nothing_through(path: str):
    said = paths.problem(path)
    parts = path.split("/")
    if said is None:
        assert "" not in parts
        assert "." not in parts
        assert ".." not in parts
        assert not {"\\", "\n", "\ud800"} & set(path)
        assert paths.decode(paths.encode(path)) == path
    assert paths.display(path).isprintable() or " " in path
