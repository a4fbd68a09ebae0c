"""{model} in commands and requests."""

from __future__ import annotations

import pytest

from pseries.model.runtime import placeholder


def test_names_are_found_at_any_depth_and_json_is_no_name():
    command = ("a", "--x={model}", '{"a": {"b": 1}}', "{", "{}", "{Model}", "{other_one}")
    assert placeholder.names(command) == ("model", "other_one")
    assert placeholder.names({"a": [{"b": "{model}"}], "{model2}": 1, "c": 2.5}) == ("model",)


def test_filling_keeps_everything_else():
    before = {"a": [1, None, True, "{model}/x"], "{model}": ("y", "{model}")}
    assert placeholder.fill(before, {"model": "{model}"}) == {
        "a": [1, None, True, "{model}/x"],
        "{model}": ("y", "{model}"),
    }
    assert placeholder.fill("a{model}b", {"model": "/m"}) == "a/mb"
    with pytest.raises(KeyError):
        placeholder.fill("{model}", {})
