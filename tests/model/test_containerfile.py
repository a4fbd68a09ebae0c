"""Containerfiles: nothing of a stranger's series is read as an instruction."""

from __future__ import annotations

import pytest

from pseries.model.runtime import containerfile
from pseries.model.runtime.containerfile import Recipe

RECIPE = Recipe("eng-1.0", "d" * 64, "eng", "1.0", "localhost/base:1", (("A", "b $C"),))


def test_the_text():
    assert containerfile.render(RECIPE).splitlines() == [
        "ARG BASE_IMAGE",
        "FROM ${BASE_IMAGE}",
        'COPY ["kit/", "/opt/pseries/eng-1.0-kit/"]',
        'RUN ["python3", "/opt/pseries/eng-1.0-kit/apply.py", "--apply"]',
        'ENV A="b \\$C"',
        'LABEL org.opencontainers.image.base.name="localhost/base:1"',
        'LABEL pseries.series="eng-1.0"',
        f'LABEL pseries.digest="{"d" * 64}"',
        'LABEL pseries.distribution="eng"',
        'LABEL pseries.version="1.0"',
    ]


@pytest.mark.parametrize(
    "reference",
    [
        "vllm", "vllm/vllm-openai:v0.26.0", "localhost:5000/a/b_c:T", "docker.io/library/a",
        "[::1]:5000/a", "a@sha256:" + "0" * 64,
        "host.example.invalid/a--b/c__d.e:1@sha256:" + "f" * 64,
    ],
)  # fmt: skip
def test_names_of_images(reference: str):
    assert containerfile.problem(reference) is None


@pytest.mark.parametrize(
    "reference",
    [
        "", "-v", "--help", "a b", "a\nRUN id", "A", "a:", "a:-x", "../a", "/a", "a//b", "a:b:c",
        "a@sha256:0", "user:secret@host/a", "https://a/b", "${X}", "a" * 513, "oci:/etc", "a/",
    ],
)  # fmt: skip
def test_what_is_no_name(reference: str):
    assert containerfile.problem(reference) is not None


def test_a_long_odd_name_costs_no_time():
    assert containerfile.problem("a-" * 250 + "!") is not None
    assert containerfile.problem("a." * 250 + "!") is not None


def test_the_same_image_by_two_names():
    assert containerfile.same("vllm", "docker.io/library/vllm:latest")
    assert containerfile.same("localhost/a:1", "a:1")
    assert not containerfile.same("a:1", "a:2")
    assert not containerfile.same("b/a:1", "a:1")


def test_the_name_of_an_image_that_nobody_named():
    assert containerfile.tag("vllm", "0.26.0", "ppu.1") == "vllm:0.26.0-ppu.1"
    assert containerfile.problem(containerfile.tag("a", "1!2.0+x", "l")) is None
