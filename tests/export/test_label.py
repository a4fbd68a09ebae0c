import pytest

from pseries.errors import LabelRefused
from pseries.export.label import labelled


@pytest.mark.parametrize(
    ("version", "label", "expected"),
    [
        ("0.26.0", "sm120.1", "0.26.0+sm120.1"),
        ("0.26.0+cu129", "sm120.1", "0.26.0+cu129.sm120.1"),
        ("0.5.15.post1", "SM120.01", "0.5.15.post1+sm120.1"),
        ("1.0", "1.gabc1234", "1.0+1.gabc1234"),
        ("1.0", "2024", "1.0+2024"),
        ("1!2.0rc1", "deadbeef", "1!2.0rc1+deadbeef"),
    ],
)
def test_a_label_is_appended_in_normal_form(version: str, label: str, expected: str) -> None:
    assert labelled(version, label) == expected


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("", "letters and digits"),
        ("a-b", "letters and digits"),
        ("a_b", "letters and digits"),
        ("a..b", "letters and digits"),
        ("ä", "letters and digits"),
        ("cpu.1", "'cpu'"),
        ("noCPU", "'cpu'"),
        ("pseries.gabc1234", "write a number that grows first"),
        ("3f2a9c1", "write a number that grows first"),
        ("x" * 65, "longer than 64"),
    ],
)
def test_a_label_that_misleads_is_refused_with_the_reason(label: str, reason: str) -> None:
    with pytest.raises(LabelRefused, match=reason):
        labelled("1.0", label)


def test_a_number_before_a_hash_makes_later_builds_newer() -> None:
    from packaging.version import Version

    assert Version("1.0+pseries.abc") < Version("1.0+pseries.1")
    assert Version(labelled("1.0", "9.gfff1234")) < Version(labelled("1.0", "10.gaaa1234"))


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(LabelRefused, match="not a version"):
        labelled("latest", "1")
