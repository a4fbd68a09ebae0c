"""series.toml: every key, every mistake, all at once."""

from __future__ import annotations

import time

import pytest

from pseries.errors import Problem
from pseries.model import spec

GOOD = b"""
schema = 1
summary = "what it does"
label = "sm120.1"
after = ["base-1.0"]

[upstream]
distribution = "eng"
version = "1.0"
git = "https://example.invalid/eng.git"
tag = "v1.0"
root = "python"
sources = ["sdist"]

[requires]
packages = ["dep>=2"]
[hardware]
name = "card"
compute_capability = ["12.0"]

[[relocate]]
name = "ppu"
from = "eng/a"
to = "eng/b"

[serve]
command = ["eng", "{model}"]
memlock = "unlimited"
[serve.env]
NAME = "value"
[[smoke]]
path = "/generate"
json = { text = "Hello", max = 10 }
expect = "text"
"""


def read(data: bytes) -> tuple[spec.Spec, str]:
    problems: list[Problem] = []
    return spec.parse(data, problems), "\n".join(map(str, problems))


def test_it_reads_everything():
    parsed, problems = read(GOOD)
    assert problems == ""
    assert parsed.upstream == spec.Upstream(
        "eng", "1.0", "https://example.invalid/eng.git", "v1.0", "python", ("sdist",)
    )
    assert parsed.label == "sm120.1"
    assert parsed.after == ("base-1.0",)
    assert parsed.packages == ("dep>=2",)
    assert parsed.hardware == spec.Hardware("card", ("12.0",))
    assert parsed.relocations == (spec.Relocation("ppu", "eng/a", "eng/b"),)
    assert parsed.serve == spec.Serve(("eng", "{model}"), "unlimited", (("NAME", "value"),))
    assert parsed.smokes == (spec.Smoke("/generate", {"text": "Hello", "max": 10}, "text"),)


def test_only_a_summary_a_label_and_the_release_are_needed():
    parsed, problems = read(
        b'summary = "s"\nlabel = "l"\n[upstream]\ndistribution = "eng"\nversion = "1.0"\n'
    )
    assert problems == ""
    assert parsed.upstream.sources == ("git", "sdist", "wheel")
    assert parsed.serve is None


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (b"label =", b"lable =", "lable: the key is unknown; the nearest known key is 'label'"),
        (
            b"tag =",
            b"tagg =",
            "[upstream] tagg: the key is unknown; the nearest known key is 'tag'",
        ),
        (b'"sm120.1"', b'"sm120 1"', "label: 'sm120 1' is not a PEP 440 local version label"),
        (b'"base-1.0"', b'"../../etc/x"', "after: '../../etc/x' is not the name of a series"),
        (b'"base-1.0"', b'"base-1.0", "/root/y"', "after: '/root/y' is not the name of a series"),
        (b'"base-1.0"', b'"a\\nb"', "is not the name of a series"),
        (b'"base-1.0"', b'".."', "is not the name of a series"),
        (b'"v1.0"', b'"--upload-pack=x"', "is not a tag name"),
        (b"https://example.invalid/eng.git", b"ext::sh -c x", "is not an https or file address"),
        (b'root = "python"', b'root = "../x"', "leaves the tree"),
        (b'["sdist"]', b'["svn"]', "'svn' is none of git, sdist, wheel"),
        (b'["12.0"]', b'["sm120"]', "'sm120' is not of the form '12.0'"),
        (b'"unlimited"', b'"lots"', "neither 'unlimited' nor a number of bytes"),
        (b'NAME = "value"', b'"A=B" = "value"', "is not the name of an environment variable"),
        (b'NAME = "value"', b"NAME = 3", "serve] env.NAME: a text is expected"),
        (b'NAME = "value"', b'NAME = "a\\nRUN id"', "the value of NAME is not one line"),
        (b'NAME = "value"', b'NAME = "a\\u0000"', "the value of NAME is not one line"),
        (b'NAME = "value"', b'NAME = "a\\u202eb"', "the value of NAME is not one line"),
        (b'"unlimited"', b'"9999999999999999999"', "neither 'unlimited' nor a number of bytes"),
        (b'["eng", "{model}"]', b'["", "x"]', "its first word is empty"),
        (b'["eng", "{model}"]', b"[]", "its first word is empty"),
        (b'["eng", "{model}"]', b'["eng\\nid"]', "a word is not one line of plain text"),
        (b'"{model}"', b'"{mode}"', "command: {mode} is no placeholder; there are: {model}"),
        (b'"Hello"', b'"{modell}"', "json: {modell} is no placeholder"),
        (b"max = 10", b"max = 2026-12-01", "json: it holds a date, a time or a number that"),
        (b"max = 10", b"max = [{ a = nan }]", "json: it holds a date, a time or a number that"),
        (b'path = "/generate"', b'path = "generate"', "does not start with '/'"),
        (b'path = "/generate"', b'path = "/a b\\r\\nHost: x"', "not all printable ASCII"),
        (b"schema = 1", b"schema = 2", "2 is not known; this pseries reads 1"),
        (b'version = "1.0"', b"version = 1.0", "a text is expected, not float"),
        (b"schema = 1", b"schema = true", "a whole number is expected, not bool"),
        (b"schema = 1", b"schema = ", "not TOML"),
        (b"what it does", b"caf\xe9", "not UTF-8 at byte"),
    ],
)
def test_it_refuses(before: bytes, after: bytes, what: str):
    assert GOOD.count(before) == 1
    _, problems = read(GOOD.replace(before, after))
    assert what in problems


def test_it_reports_all_mistakes_at_once():
    _, problems = read(GOOD.replace(b"summary", b"sumary").replace(b"[requires]", b"[require]"))
    assert "summary: the key is missing" in problems
    assert "sumary: the key is unknown" in problems
    assert "require: the key is unknown; the nearest known key is 'requires'" in problems


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"x = " + b"[" * 3000, "nested"),  # tomllib runs out of stack, tomli counts
        (b"a." * 20_000 + b"a = 1", "series.toml:1: more than 50 dots in a line"),
        (b"#" * 300_000, "larger than 128 KiB"),
        (b'summary = "a\\nb"', "summary: 'a\\nb' is not one line of plain text"),
        (b'summary = "a\\u202eb"', "is not one line of plain text"),
    ],
    ids=["deep", "dots", "large", "newline", "bidi"],
)
def test_what_is_hostile_is_refused_at_once(data: bytes, what: str):
    begun = time.monotonic()
    _, problems = read(data)
    assert what in problems
    assert time.monotonic() - begun < 2


def test_the_most_dots_in_the_most_lines_are_read_in_time():
    lines = (b"k%d." % n + b"a." * 48 + b"a = 1\n" for n in range(1200))
    begun = time.monotonic()
    read(b"".join(lines))
    assert time.monotonic() - begun < 20  # a second with Python's own reader, five with tomli


OPERATORS = b"""
[[operators]]
name = "fast"
runs_on = ["SM90a", "SM100f"]
fails_on = ["SM120"]
note = "the faster one"
[[operators]]
name = "slow"
fails_on = ["SM120"]
"""


def test_operators():
    parsed, problems = read(GOOD + OPERATORS)
    assert problems == ""
    assert parsed.operators == (
        spec.Operator("fast", ("SM90a", "SM100f"), ("SM120",), "the faster one"),
        spec.Operator("slow", (), ("SM120",), ""),
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b'name = "slow"', b'name = "fast"', "[[operators]] 2 name: 'fast' is there twice"),
        (b'name = "slow"', b"", "[[operators]] 2 name: the key is missing"),
        (b'name = "slow"', b'name = " "', "is not a name in one line"),
        (b'["SM90a", "SM100f"]', b'["SM120"]', "fails_on: 'SM120' is in runs_on as well"),
        (b'["SM90a", "SM100f"]', b'["\\u001b"]', "is not the name of an architecture"),
        (b'["SM90a", "SM100f"]', b"[12]", "a list of texts is expected"),
        (b'"the faster one"', b'"a\\nb"', "is not one line"),
        (b"note", b"notes", "the nearest known key is 'note'"),
        (b'"slow"\nfails_on = ["SM120"]', b'"slow"', "names an architecture"),
    ],
)
def test_mistakes_in_operators(old: bytes, new: bytes, problem: str):
    assert old in OPERATORS
    assert problem in read(GOOD + OPERATORS.replace(old, new))[1]
