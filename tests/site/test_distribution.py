"""Finding a distribution by its dist-info, and refusing what cannot be patched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.site import trees

from pseries.errors import (
    DistributionNotFound,
    DistributionRefused,
    EditableInstall,
    TargetRefused,
)
from pseries.site import distribution
from pseries.site.fs import SiteTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    trees.install(site, {"Flash_Infer/__init__.py": b"", "Flash_Infer/jit/core.py": b""},
                  name="Flash.Infer_Python", version="0.6.14+cu129")  # fmt: skip
    trees.install(site, {"flash.py": b"", "flash-data/x": b"", "_c.abi3.so": b"", "x.txt": b""},
                  name="flash", version="2")  # fmt: skip
    return site


@pytest.fixture
def tree(site: Path) -> Iterator[SiteTree]:
    with SiteTree(site) as opened:
        yield opened


@pytest.mark.parametrize(
    "name", ["flash-infer-python", "Flash.Infer_Python", "FLASH--infer.python"]
)
def test_names_are_compared_as_the_index_does(tree: SiteTree, name: str) -> None:
    found = distribution.find(tree, name)
    assert (found.name, found.version) == ("Flash.Infer_Python", "0.6.14+cu129")
    assert found.record_path == "Flash.Infer_Python-0.6.14+cu129.dist-info/RECORD"
    assert found.direct_url is None
    assert found.signatures == ()


def test_a_name_that_begins_like_another_is_not_it(tree: SiteTree) -> None:
    assert distribution.find(tree, "flash").version == "2"
    with pytest.raises(DistributionNotFound, match="flash-infer is not installed in"):
        distribution.find(tree, "flash-infer")


def test_modules_are_what_can_be_imported(tree: SiteTree) -> None:
    assert distribution.find(tree, "flash-infer-python").modules() == ("Flash_Infer",)
    assert distribution.find(tree, "flash").modules() == ("_c", "flash")


def test_all_distributions_are_listed_and_broken_ones_passed_over(
    site: Path, tree: SiteTree
) -> None:
    (site / "empty-1.dist-info").mkdir()
    (site / "linked-1.dist-info").symlink_to(site / "flash-2.dist-info")
    found = distribution.all_distributions(tree)
    assert [(each.name, each.version) for each in found] == [
        ("Flash.Infer_Python", "0.6.14+cu129"),
        ("flash", "2"),
    ]


def test_two_folders_of_one_name_are_a_broken_upgrade(site: Path, tree: SiteTree) -> None:
    trees.install(site, {}, name="flash", version="3")
    with pytest.raises(DistributionRefused, match=r"flash-2.*flash-3.*broken upgrade"):
        distribution.find(tree, "flash")


def test_what_pip_left_of_an_upgrade_does_not_count(site: Path, tree: SiteTree) -> None:
    (site / "~lash-1.dist-info").mkdir()
    (site / "~lash-1.dist-info/METADATA").write_text("Name: ~lash\nVersion: 1\n\n")
    assert distribution.find(tree, "flash").version == "2"


def test_an_editable_install_is_refused_by_its_direct_url(site: Path, tree: SiteTree) -> None:
    url = {"url": "file:///home/me/src", "dir_info": {"editable": True}}
    (site / "flash-2.dist-info/direct_url.json").write_text(json.dumps(url))
    with pytest.raises(EditableInstall, match="editable install of file:///home/me/src"):
        distribution.find(tree, "flash")


@pytest.mark.parametrize(
    "url",
    [
        '{"url": "file:///x.whl", "archive_info": {}}',
        '{"dir_info": {"editable": false}}',
        "[]",
        "{",
    ],
)
def test_other_direct_urls_are_only_handed_on(site: Path, tree: SiteTree, url: str) -> None:
    (site / "flash-2.dist-info/direct_url.json").write_text(url)
    assert distribution.find(tree, "flash").direct_url == url


@pytest.mark.parametrize(
    "files",
    [
        ["__editable__.eng-1.0.pth", "__editable___eng_1_0_finder.py",
         "__pycache__/__editable___eng_1_0_finder.cpython-311.pyc"],
        ["_eng.pth"],
    ],
)  # fmt: skip
def test_an_editable_install_is_refused_by_its_files(
    site: Path, tree: SiteTree, files: list[str]
) -> None:
    trees.install(site, dict.fromkeys(files, b""))
    with pytest.raises(EditableInstall):
        distribution.find(tree, "eng")


def test_a_distribution_without_files_is_not_editable(site: Path, tree: SiteTree) -> None:
    trees.install(site, {})
    assert distribution.find(tree, "eng").modules() == ()


@pytest.mark.parametrize(
    "old", ["eng-1.0-py3.11.egg-info", "eng.egg-link", "eng-1.0-py3.11.egg", "ENG.egg-info"]
)
def test_older_formats_are_refused_by_name(site: Path, tree: SiteTree, old: str) -> None:
    (site / old).touch()
    with pytest.raises(DistributionRefused, match="not from a wheel") as caught:
        distribution.find(tree, "eng")
    assert old in caught.value.reason


def test_a_distribution_without_record_belongs_to_the_system(site: Path, tree: SiteTree) -> None:
    (site / "flash-2.dist-info/RECORD").unlink()
    with pytest.raises(DistributionRefused, match="no RECORD"):
        distribution.find(tree, "flash")


def test_metadata_that_are_links_are_refused(site: Path, tree: SiteTree, tmp_path: Path) -> None:
    metadata = site / "flash-2.dist-info/METADATA"
    metadata.rename(tmp_path / "METADATA")
    metadata.symlink_to(tmp_path / "METADATA")
    with pytest.raises(TargetRefused, match="symbolic link"):
        distribution.find(tree, "flash")


def test_signatures_of_record_are_reported(site: Path, tree: SiteTree) -> None:
    (site / "flash-2.dist-info/RECORD.jws").touch()
    assert distribution.find(tree, "flash").signatures == ("flash-2.dist-info/RECORD.jws",)


def test_files_of_other_distributions_are_found(site: Path, tree: SiteTree) -> None:
    trees.install(site, {"eng/mod.py": b"", "utils/net.py": b"", "utils/a,b.py": b""}, name="eng")
    with (site / "flash-2.dist-info/RECORD").open("a") as record:
        record.write("utils/net.py,,\r\n")
    owners = distribution.owner_of(
        tree, ["eng/mod.py", "utils/net.py", "utils/a,b.py", "flash.py", "new.py"],
        besides="eng-1.0.dist-info",
    )  # fmt: skip
    assert owners == {"utils/net.py": "flash", "flash.py": "flash"}
    owners = distribution.owner_of(tree, ["utils/a,b.py"], besides="flash-2.dist-info")
    assert owners == {"utils/a,b.py": "eng"}


def test_the_description_is_not_the_header(site: Path, tree: SiteTree) -> None:
    info = trees.install(site, {"eng.py": b""})
    (info / "METADATA").write_bytes(
        b"NAME: eng\r\nX: y\r\n Version: folded\r\nversion: 1.0\r\n\r\nName: x\r\n"
    )
    assert distribution.find(tree, "eng").version == "1.0"
    (info / "METADATA").write_bytes(b"Name: eng\n\nVersion: 1.0\n")
    with pytest.raises(DistributionNotFound):
        distribution.find(tree, "eng")


def test_a_malformed_record_is_refused_and_a_doubled_row_is_not(site: Path, tree: SiteTree) -> None:
    listed = site / "flash-2.dist-info/RECORD"
    data = listed.read_bytes()
    listed.write_bytes(data + b"flash.py,,\n")
    assert distribution.find(tree, "flash").version == "2"
    listed.write_bytes(b'"flash.py,,\n' + data + b"a,b\n" * 5)
    with pytest.raises(DistributionRefused, match=r"RECORD row 1: .*; and 3 m"):
        distribution.find(tree, "flash")


@pytest.mark.parametrize("spelled", ["./eng/mod.py", '"./eng/mod.py"', "{}/eng/mod.py"])
def test_another_spelling_of_a_path_is_a_claim_too(
    site: Path, tree: SiteTree, spelled: str
) -> None:
    with (site / "flash-2.dist-info/RECORD").open("a") as record:
        record.write(f"{spelled.format(site)},,\r\n")
    assert distribution.owner_of(tree, ["eng/mod.py"], besides="x") == {"eng/mod.py": "flash"}


@pytest.mark.parametrize("whole", [False, True])
def test_a_link_in_a_distribution_of_a_like_name_is_not_fatal(
    site: Path, tree: SiteTree, tmp_path: Path, whole: bool
) -> None:
    info = trees.install(site, {"flash_plugins.py": b""}, name="flash_plugins")
    target = info if whole else info / "METADATA"
    target.rename(tmp_path / "elsewhere")
    target.symlink_to(tmp_path / "elsewhere")
    assert distribution.find(tree, "flash").version == "2"
    with pytest.raises(TargetRefused, match="symbolic link"):
        distribution.find(tree, "flash-plugins")
