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
        (b'"v1.0"', b'"--upload-pack=x"', "is not a tag name"),
        (b"https://example.invalid/eng.git", b"ext::sh -c x", "is not an https or file address"),
        (b'root = "python"', b'root = "../x"', "leaves the tree"),
        (b'["sdist"]', b'["svn"]', "'svn' is none of git, sdist, wheel"),
        (b'["12.0"]', b'["sm120"]', "'sm120' is not of the form '12.0'"),
        (b'"unlimited"', b'"lots"', "neither 'unlimited' nor a number of bytes"),
        (b'NAME = "value"', b'"A=B" = "value"', "is not the name of an environment variable"),
        (b'NAME = "value"', b"NAME = 3", "serve] env.NAME: a text is expected"),
        (b'path = "/generate"', b'path = "generate"', "does not start with '/'"),
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
        (b"x = " + b"[" * 3000, "nested too deeply"),
        (b"a." * 20_000 + b"a = 1", "series.toml:1: more than 100 dots in a line"),
        (b"#" * 300_000, "larger than 256 KiB"),
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
    lines = (b"k%d." % n + b"a." * 98 + b"a = 1\n" for n in range(1200))
    begun = time.monotonic()
    read(b"".join(lines))
    assert time.monotonic() - begun < 5
