from __future__ import annotations

import json

import pytest

from pseries.export import sbom

BUG = "https://github.com/x/eng/issues/7"
SENT = "https://github.com/x/eng/pull/8"


def provenance(*patches: sbom.Applied, sha256: str = "a" * 64) -> sbom.Provenance:
    ancestor = sbom.Ancestor("1.0", "eng-1.0-py3-none-any.whl", sha256)
    return sbom.Provenance("eng", "1.0+sm120.1", "eng-1.0", "d" * 64, ancestor, patches)


def component(*patches: sbom.Applied, sha256: str = "a" * 64) -> dict:
    document = json.loads(sbom.render(provenance(*patches, sha256=sha256), 0))
    return document["metadata"]["component"]


def patch(*trailers: tuple[str, str], name: str = "0001-x.patch", digit: str = "b") -> sbom.Applied:
    return sbom.Applied(name, digit * 64, trailers)


def test_the_ancestor_is_the_upstream_artefact_with_its_hash() -> None:
    found = component(patch())
    assert found["version"] == "1.0+sm120.1"
    assert found["purl"] == "pkg:pypi/eng@1.0%2Bsm120.1"
    (ancestor,) = found["pedigree"]["ancestors"]
    assert ancestor["version"] == "1.0"
    assert ancestor["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]
    assert ancestor["purl"] == "pkg:pypi/eng@1.0?file_name=eng-1.0-py3-none-any.whl"


def test_a_git_tree_is_named_by_its_address() -> None:
    (ancestor,) = component(patch(), sha256="")["pedigree"]["ancestors"]
    assert "hashes" not in ancestor
    assert "vcs_url" in ancestor["purl"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("Pending", "unofficial"),
        (f"Submitted [{SENT}]", "unofficial"),
        ("Inappropriate [hardware]", "unofficial"),
        (f"Backport [{SENT}]", "backport"),
        ("Merged [1.1]", "backport"),
    ],
)
def test_the_type_comes_from_upstream_status(status: str, kind: str) -> None:
    (found,) = component(patch(("Upstream-Status", status)))["pedigree"]["patches"]
    assert found["type"] == kind


def test_a_patch_is_named_by_its_hash_and_says_what_it_resolves() -> None:
    (found,) = component(patch(("bug", BUG), ("Forwarded", SENT)))["pedigree"]["patches"]
    assert found["diff"]["url"] == sbom.named_information("b" * 64)
    (issue,) = found["resolves"]
    assert (issue["type"], issue["id"]) == ("defect", BUG)
    assert sorted(issue["references"]) == [BUG, SENT]


def test_where_it_was_sent_stands_alone_without_a_bug() -> None:
    (found,) = component(patch(("Forwarded", SENT)))["pedigree"]["patches"]
    assert [issue["id"] for issue in found["resolves"]] == [SENT]
    (found,) = component(patch(("Forwarded", "not-needed")))["pedigree"]["patches"]
    assert "resolves" not in found


def test_a_cve_is_a_security_issue() -> None:
    (found,) = component(patch(("Bug", "cve-2026-12345")))["pedigree"]["patches"]
    assert (found["resolves"][0]["type"], found["resolves"][0]["id"]) == (
        "security", "CVE-2026-12345",
    )  # fmt: skip


def test_names_and_order_of_patches_are_there() -> None:
    patches = [patch(name=f"{number:04}.patch", digit=digit) for number, digit in enumerate("cba")]
    properties = {each["name"]: each["value"] for each in component(*patches)["properties"]}
    assert properties["pseries:patch:1"] == f"0000.patch {'c' * 64}"
    assert properties["pseries:patch:3"] == f"0002.patch {'a' * 64}"
    assert properties["pseries:digest"] == "d" * 64


def test_the_same_input_gives_the_same_bytes() -> None:
    first, again = (sbom.render(provenance(patch(("Bug", BUG))), 1_700_000_000) for _ in range(2))
    assert first == again
    assert b"2023-11-14T22:13:20+00:00" in first
    assert sbom.render(provenance(patch(), patch(digit="c")), 0) != first


def test_it_follows_the_schema() -> None:
    validation = pytest.importorskip("cyclonedx.validation.json")
    from cyclonedx.exception import MissingOptionalDependencyException
    from cyclonedx.schema import SchemaVersion

    text = sbom.render(provenance(patch(("Bug", BUG), ("Forwarded", SENT))), 0).decode()
    try:
        problem = validation.JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    except MissingOptionalDependencyException:
        pytest.skip("jsonschema is not installed")
    assert problem is None, problem


def test_odd_bytes_in_trailers_do_not_break_it() -> None:
    assert component(patch(("Bug", "caf\udce9")))["pedigree"]["patches"][0]["resolves"]
