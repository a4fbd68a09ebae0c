"""manifest.json: the exact inverse, the net effect, and what is refused."""

from __future__ import annotations

import hashlib
import json

import pytest

from pseries.errors import Problem
from pseries.model import manifest, order
from pseries.model.manifest import (
    ArtefactRecord,
    FileRecord,
    HunkRecord,
    Manifest,
    NetChange,
    PatchRecord,
    UpstreamRecord,
    Variant,
)
from pseries.model.spec import Upstream

A, B, C = (manifest.image(0o100644, text) for text in (b"a\n", b"b\n", b"c\n"))
TREE = "0" * 40
MANIFEST = Manifest(
    series="eng-1.0",
    digest="1" * 64,
    upstream=UpstreamRecord(
        "eng", "1.0", "", "sdist", TREE, (ArtefactRecord("eng-1.0.tar.gz", "sdist", "2" * 64, 9),)
    ),
    patches=(
        PatchRecord(
            "1.patch",
            1,
            "3" * 64,
            (
                FileRecord(
                    "eng/m.py",
                    "modify",
                    None,
                    A,
                    B,
                    (HunkRecord((1, 2), (1, 3), "A.f"),),
                    (Variant("eng.whl", C, B),),
                ),
                FileRecord("eng/new.py", "add", None, None, C, (HunkRecord((0, 0), (1, 1), None),)),
                FileRecord("eng/old.py", "delete", None, C, None, ()),
            ),
        ),
        PatchRecord(
            "2.patch", 0, "4" * 64, (FileRecord("eng/moved.py", "rename", "eng/m.py", B, C, ()),)
        ),
    ),
)


def test_parse_is_the_inverse_of_render():
    problems: list[Problem] = []
    assert manifest.parse(manifest.render(MANIFEST), problems) == MANIFEST
    assert problems == []


def test_it_is_one_stable_text():
    data = manifest.render(MANIFEST)
    assert data == manifest.render(manifest.parse(data, []))
    assert data.endswith(b"}\n")


def test_images_are_what_git_and_sha256sum_say():
    assert A.blob == "78981922613b2afb6025042ff6bd878ac1994e85"  # printf 'a\n' | git hash-object
    assert A.sha256 == hashlib.sha256(b"a\n").hexdigest()


def test_net_folds_renames_and_chains():
    assert manifest.net(MANIFEST.patches) == (
        NetChange("eng/m.py", A, None),
        NetChange("eng/moved.py", None, C),
        NetChange("eng/new.py", None, C),
        NetChange("eng/old.py", C, None),
    )


def test_net_takes_an_artefacts_own_images():
    assert manifest.net(MANIFEST.patches[:1], "eng.whl")[0] == NetChange("eng/m.py", C, B)


def test_net_leaves_out_what_ends_as_it_began():
    there = FileRecord("m.py", "modify", None, A, B, ())
    back = FileRecord("m.py", "modify", None, B, A, ())
    patches = (PatchRecord("1", 1, "0" * 64, (there,)), PatchRecord("2", 1, "0" * 64, (back,)))
    assert manifest.net(patches) == ()


def test_the_digest_is_sha256sum_of_the_documented_text():
    entries = order.parse(b"1.patch\n2.patch -p0\n", [])
    upstream = Upstream("eng", "1.0", root="python")
    text = f"eng==1.0 python\n{'3' * 64} -p1 1.patch\n{'4' * 64} -p0 2.patch\n"
    assert (
        manifest.digest(upstream, entries, ["3" * 64, "4" * 64])
        == hashlib.sha256(text.encode()).hexdigest()
    )


def artefact(document):
    return document["upstream"]["artefacts"][0]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda d: d.update(schema=2), "2 is not known"),
        (lambda d: d.update(digest="x"), "is not a sha256"),
        (lambda d: d.update(extra=1), "the key is unknown"),
        (lambda d: d["patches"][0]["files"][0].update(path="../../etc/passwd"), "leaves the tree"),
        (lambda d: d["patches"][0]["files"][0].update(path="/etc/passwd"), "absolute"),
        (lambda d: d["patches"][1]["files"][0].update(source="a/../b"), "leaves the tree"),
        (lambda d: d["patches"][0]["files"][0]["before"].update(mode="120000"), "neither of"),
        (lambda d: d["patches"][0]["files"][0]["before"].update(size=-1), "out of range"),
        (lambda d: d["patches"][0]["files"][0].update(kind="copy"), "none of modify"),
        (lambda d: d["patches"][0]["files"][0]["hunks"][0].update(old="1"), "start and count"),
        (lambda d: d["patches"].append("x"), "a table is expected"),
        (lambda d: artefact(d).update(filename="../../x.whl"), "'../../x.whl' is not the name of"),
        (lambda d: artefact(d).update(filename="a/x.whl"), "it lies in a folder"),
        (lambda d: artefact(d).update(filename=".."), "leaves the tree"),
        (lambda d: artefact(d).update(filename="x\n.whl"), "a control character"),
        (lambda d: artefact(d).update(kind="egg"), "'egg' is none of sdist, wheel"),
    ],
)
def test_it_refuses(change, what: str):
    document = json.loads(manifest.render(MANIFEST))
    change(document)
    problems: list[Problem] = []
    manifest.parse(json.dumps(document).encode(), problems)
    assert what in "\n".join(map(str, problems))


@pytest.mark.parametrize("data", [b"", b"[]", b"nul", b"\xff", b"[" * 100_000, b'{"a":' * 50_000])
def test_it_survives_any_bytes(data: bytes):
    problems: list[Problem] = []
    manifest.parse(data, problems)
    assert problems
