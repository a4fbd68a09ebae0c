"""The record of a release: an exact inverse, and strict."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pseries.errors import UpstreamInvalid
from pseries.upstream.release import (
    Artefact,
    Origin,
    Release,
    checked_root,
    distribution_name,
    public,
    read_record,
    version_text,
    write_record,
)

ARTEFACT = Artefact("eng-1.0.tar.gz", "ab" * 32, 5, "sdist")
ORIGIN = Origin("sdist", "https://host/eng-1.0.tar.gz", "python", ARTEFACT, left_out=("a.so",))

origins = st.builds(
    Origin,
    source=st.sampled_from(["git", "sdist", "wheel", "folder"]),
    url=st.text(),
    root=st.text(),
    artefact=st.none()
    | st.builds(
        Artefact,
        filename=st.text(),
        sha256=st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
        size=st.integers(0, 1 << 40),
        kind=st.sampled_from(["sdist", "wheel"]),
    ),
    upstream=st.just("") | st.from_regex(r"[0-9a-f]{40}", fullmatch=True),
    left_out=st.lists(st.text(st.characters())).map(tuple),
)


@given(origins)
def test_a_record_comes_back_as_it_was(origin: Origin) -> None:
    assert read_record(write_record(origin).decode()) == origin


def test_odd_paths_survive() -> None:
    origin = Origin("folder", "/x", "", left_out=("lat\udce9n",))
    assert read_record(write_record(origin).decode()) == origin


def changed(**fields: object) -> str:
    return json.dumps({**json.loads(write_record(ORIGIN)), **fields})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        ("[" * 100_000, "not JSON"),
        ("{}", "schema None"),
        (changed(schema=2), "newer pseries"),
        (changed(schema=0), "schema 0"),
        (changed(extra=1), "keys: extra"),
        (changed(source="ftp"), "unknown source"),
        (changed(url=1), "'url' is of the wrong kind"),
        (changed(upstream="abc"), "not a commit id"),
        (changed(left_out=[1]), "not a path"),
        (changed(artefact={}), "keys: filename"),
        (changed(artefact={**ARTEFACT.__dict__, "sha256": "ab"}), "not a digest"),
        (changed(artefact={**ARTEFACT.__dict__, "size": True}), "'size'"),
        (changed(artefact={**ARTEFACT.__dict__, "kind": "egg"}), "egg"),
    ],
)
def test_anything_else_is_not_a_record(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_record(text)


def test_names_and_versions_have_one_form() -> None:
    assert distribution_name("FlashInfer_Python") == "flashinfer-python"
    assert version_text("v0.26.00") == "0.26.0"
    assert version_text("1.0+CU.129") == "1.0+cu.129"
    for name in ("", "../x", "a/b", "-x", "a b", ".git"):
        with pytest.raises(UpstreamInvalid):
            distribution_name(name)
    for version in ("", "latest", "1.0/../..", "-1"):
        with pytest.raises(UpstreamInvalid):
            version_text(version)
    assert checked_root("") == ""
    assert checked_root("python/src") == "python/src"
    for root in ("/x", "../x", "a//b", "a/"):
        with pytest.raises(UpstreamInvalid):
            checked_root(root)


def test_addresses_are_shown_without_what_is_secret() -> None:
    assert public("https://me:pass@host:8443/a/b?token=x#y") == "https://host:8443/a/b"
    assert public("https://token@host/a") == "https://host/a"
    assert public("file:///srv/x") == "file:///srv/x"


def test_a_release_says_where_it_came_from() -> None:
    release = Release("eng", "1.0", "t", "c", ORIGIN)
    assert (release.source, release.artefact, release.origin) == (
        "sdist", ARTEFACT, "eng-1.0.tar.gz",
    )  # fmt: skip
    git = Release("eng", "1.0", "t", "c", Origin("git", "https://h/x.git", "", upstream="ab" * 20))
    assert git.origin == "https://h/x.git at abababababab"
    assert Release("eng", "1.0", "t", "c", Origin("folder", "/x", "")).origin == "/x"
