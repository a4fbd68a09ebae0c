"""Archives and folders in canonical paths; what stays out, and that it is said."""

from __future__ import annotations

import hashlib
import os
import tarfile
from typing import TYPE_CHECKING

import pytest
from tests.support import archives
from tests.support.archives import ZipMember, tar_entry, tar_gz, wheel_members, zip_file

from pseries.errors import (
    ArchiveRefused,
    ArtefactMismatch,
    FolderRefused,
    ReleaseTaken,
    UpstreamInvalid,
)
from pseries.upstream import imports
from pseries.upstream.imports import add_archive, add_folder
from pseries.upstream.release import Artefact, Release

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pseries.upstream.store import Store

    Content = Callable[[Store, str], dict[str, tuple[str, bytes]]]

ELF = b"\x7fELF" + bytes(100)
FILES = {"eng/a.py": b"a = 1\n", "eng/run.sh": b"#!/bin/sh\n", "eng/_C.abi3.so": ELF}
PURE = {"eng/a.py": b"a = 1\n", "eng/run.sh": b"#!/bin/sh\n"}
WHEEL = "eng-1.0-py3-none-any.whl"


def add(store: Store, tmp_path: Path, name: str, data: bytes, root: str = "") -> Release:
    path = tmp_path / name
    path.write_bytes(data)
    with store.lock():
        return add_archive(store, "1.0", path, root)


def add_as_folder(store: Store, path: Path, root: str = "", version: str = "1.0") -> Release:
    with store.lock():
        return add_folder(store, version, path, root)


def plain(found: Mapping[str, tuple[str, bytes]]) -> dict[str, bytes]:
    return {path: data for path, (_, data) in found.items()}


# --- archives ---------------------------------------------------------------------------------


def test_a_wheel_lands_under_the_root(store: Store, tmp_path: Path, content: Content) -> None:
    data = archives.wheel("eng", "1.0", FILES, executable=["eng/run.sh", "eng/_C.abi3.so"])
    release = add(store, tmp_path, WHEEL, data, "python")
    assert content(store, release.tree) == {
        "python/eng/a.py": ("100644", b"a = 1\n"),
        "python/eng/run.sh": ("100755", b"#!/bin/sh\n"),
    }
    assert release.recorded.left_out == ("python/eng/_C.abi3.so",)
    assert release.artefact == Artefact(WHEEL, hashlib.sha256(data).hexdigest(), len(data), "wheel")
    assert (release.source, release.recorded.root) == ("wheel", "python")


def test_an_sdist_lands_under_the_root_with_all_it_has(
    store: Store, tmp_path: Path, content: Content
) -> None:
    files = {**FILES, "PKG-INFO": b"Name: eng\n", "csrc/x.cu": b"int x;\n"}
    release = add(store, tmp_path, "eng-1.0.tar.gz", archives.sdist("eng", "1.0", files), "src")
    assert plain(content(store, release.tree)) == {
        f"src/{path}": data for path, data in files.items() if path != "eng/_C.abi3.so"
    }
    assert release.source == "sdist"


def test_the_same_files_give_the_same_commit_whatever_the_archive(
    store: Store, tmp_path: Path
) -> None:
    made = [
        add(store, tmp_path, "eng-1.0.tar.gz", archives.sdist("eng", "1.0", PURE, **odd))
        for odd in (
            {}, {"backwards": True}, {"mtime": 1_700_000_000}, {"flavour": tarfile.GNU_FORMAT},
            {"flavour": tarfile.USTAR_FORMAT, "backwards": True},
        )
    ]  # fmt: skip
    made.append(add(store, tmp_path, WHEEL, archives.wheel("eng", "1.0", PURE)))
    assert len({(release.tree, release.commit) for release in made}) == 1


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(b"0000644\0", "100644"), (b"0000600\0", "100644"), (b"0000700\0", "100755"),
     (b"0000775\0", "100755"), (b"0000654\0", "100644"), (b"0004755\0", "100755"),
     (b"0000000\0", "100644")],
)  # fmt: skip
def test_the_owners_x_bit_decides(
    store: Store, tmp_path: Path, content: Content, mode: bytes, expected: str
) -> None:
    data = tar_gz(tar_entry(b"eng-1.0/a", b"x", mode=mode))
    release = add(store, tmp_path, "eng-1.0.tar.gz", data)
    assert content(store, release.tree)["a"][0] == expected


def test_data_folders_go_where_they_are_installed(
    store: Store, tmp_path: Path, content: Content
) -> None:
    data = archives.wheel(
        "eng", "1.0",
        {"eng/a.py": b"a", "eng-1.0.data/purelib/eng/b.py": b"b",
         "eng-1.0.data/platlib/eng/c.py": b"c", "eng-1.0.data/scripts/run": b"s",
         "eng-1.0.data/headers/x.h": b"h", "eng-1.0.data/data/etc/x": b"d"},
    )  # fmt: skip
    release = add(store, tmp_path, WHEEL, data)
    assert plain(content(store, release.tree)) == {
        "eng/a.py": b"a", "eng/b.py": b"b", "eng/c.py": b"c",
    }  # fmt: skip
    twice = archives.wheel("eng", "1.0", {"eng/a.py": b"", "eng-1.0.data/purelib/eng/a.py": b""})
    with pytest.raises(ArchiveRefused, match="two members"):
        add(store, tmp_path, WHEEL, twice)


def test_compiled_and_huge_files_stay_out_by_content(
    store: Store, tmp_path: Path, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "BIGGEST_FILE", 10_000)
    files = {
        "eng/tool": ELF, "eng/lib.a": b"!<arch>\nx", "eng/mac.so": b"\xcf\xfa\xed\xfe\0",
        "eng/win.pyd": b"MZ", "eng/old.pyc": b"x", "eng/large.bin": b"x" * 10_001,
        "eng/text.so": b"not compiled\n", "eng/just.bin": b"x" * 10_000, "eng/empty.so": b"",
    }  # fmt: skip
    kept = {"eng/text.so", "eng/just.bin", "eng/empty.so"}
    for name, data in (
        (WHEEL, archives.wheel("eng", "1.0", files)),
        ("eng-1.0.tar.gz", archives.sdist("eng", "1.0", files)),
    ):
        release = add(store, tmp_path, name, data)
        assert content(store, release.tree).keys() == kept
        assert release.recorded.left_out == tuple(sorted(files.keys() - kept))


def test_a_refused_archive_leaves_the_store_as_it_was(store: Store, tmp_path: Path) -> None:
    """The fault is at its end: everything before was already on its way in."""
    good = tar_entry(b"eng-1.0/a", b"x" * 100_000)
    with pytest.raises(ArchiveRefused, match="symbolic link"):
        add(store, tmp_path, "eng-1.0.tar.gz", tar_gz(good, tar_entry(b"eng-1.0/b", kind=b"2")))
    with pytest.raises(ArchiveRefused, match="follows the end"):
        add(store, tmp_path, "eng-1.0.tar.gz", tar_gz(good, after=b"x"))
    bad = ZipMember(b"eng/a", b"x", crc=1, local_crc=1)
    with pytest.raises(ArchiveRefused, match="checksum"):
        add(store, tmp_path, WHEEL, zip_file(*wheel_members(bad)))
    assert store.releases() == ()
    assert not list(store.git_dir.glob("objects/pack/*"))


def test_an_archive_must_be_the_one_that_was_asked_for(store: Store, tmp_path: Path) -> None:
    data = archives.sdist("eng", "1.0", PURE)
    for name in ("gne-1.0.tar.gz", "eng-1.1.tar.gz", "eng-1.0.tar", "eng.zip"):
        with pytest.raises(UpstreamInvalid, match=r"not named as a wheel or sdist of eng 1\.0"):
            add(store, tmp_path, name, data)
    path = tmp_path / "eng-1.0.tar.gz"
    path.write_bytes(data)
    with store.lock(), pytest.raises(ArtefactMismatch):
        add_archive(store, "1.0", path, "", sha256="ab" * 32)
    with store.lock(), pytest.raises(UpstreamInvalid):
        add_archive(store, "1.0", path, "../x")
    assert store.releases() == ()


def test_progress_ends_at_the_size_of_the_file(store: Store, tmp_path: Path) -> None:
    data = archives.sdist("eng", "1.0", PURE)
    path = tmp_path / "eng-1.0.tar.gz"
    path.write_bytes(data)
    told: list[tuple[str, int, int | None]] = []
    with store.lock():
        add_archive(store, "1.0", path, "", progress=lambda *now: told.append(now))
    assert told[-1] == ("importing eng-1.0.tar.gz", len(data), len(data))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_addresses_are_recorded_without_credentials(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "eng-1.0.tar.gz"
    path.write_bytes(archives.sdist("eng", "1.0", PURE))
    with store.lock():
        add_archive(store, "1.0", path, "", url="https://me:secret@host/eng?token=secret#x")
    release = store.find("1.0")
    assert release is not None
    assert release.recorded.url == "https://host/eng"


# --- site-packages ----------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages folder with the wheel of FILES installed by hand, and something else."""
    folder = tmp_path / "site-packages"
    files = {**FILES, "eng/__pycache__/a.cpython-311.pyc": b"cache"}
    info = folder / "eng-1.0+cu1.dist-info"
    info.mkdir(parents=True)
    rows = [f"{path},{archives.digest(data)},{len(data)}" for path, data in FILES.items()]
    rows += ["eng/__pycache__/a.cpython-311.pyc,,", "../../bin/eng,,", "/etc/eng.conf,,"]
    rows += [f"{info.name}/RECORD,,", f"{info.name}/INSTALLER,,"]
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    (info / "INSTALLER").write_text("pip\n")
    for path, data in {**files, "other/x.py": b"", "eng/untracked.py": b""}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    (folder / "eng/run.sh").chmod(0o755)
    return folder


def test_of_site_packages_the_recorded_files_count(
    store: Store, tmp_path: Path, site: Path, content: Content
) -> None:
    release = add_as_folder(store, site, "python")
    assert content(store, release.tree) == {
        "python/eng/a.py": ("100644", b"a = 1\n"),
        "python/eng/run.sh": ("100755", b"#!/bin/sh\n"),
    }
    assert release.recorded.left_out == ("python/eng/_C.abi3.so",)
    assert (release.source, release.origin) == ("folder", str(site))
    wheel = archives.wheel("eng", "1.0", FILES, executable=["eng/run.sh"])
    assert add(store, tmp_path, WHEEL, wheel, "python").commit == release.commit


def test_the_label_of_an_installed_version_may_be_named_or_not(store: Store, site: Path) -> None:
    for version in ("1.0", "1.0+cu1"):
        assert add_as_folder(store, site, version=version).version == version
    for version in ("1.1", "1.0+cu2"):
        with pytest.raises(FolderRefused, match=r"version 1\.0\+cu1 is installed"):
            add_as_folder(store, site, version=version)


def test_installed_files_that_were_changed_are_refused_all_at_once(
    store: Store, site: Path
) -> None:
    (site / "eng/a.py").write_text("changed\n")
    (site / "eng/run.sh").unlink()
    with pytest.raises(FolderRefused) as caught:
        add_as_folder(store, site)
    assert "eng/a.py: it is not what RECORD says" in str(caught.value)
    assert "eng/run.sh: No such file" in str(caught.value)
    (site / "eng/run.sh").write_bytes(FILES["eng/run.sh"])
    with store.lock():
        release = add_folder(store, "1.0", site, "", accept_changed=True)
    assert release.source == "folder"


def test_a_record_cannot_lead_out_of_the_folder(store: Store, site: Path) -> None:
    record = site / "eng-1.0+cu1.dist-info" / "RECORD"
    record.write_text(record.read_text() + "eng/../../secret,,\neng//x,,\n")
    with pytest.raises(FolderRefused, match="leaves the tree"):
        add_as_folder(store, site)


def test_a_record_is_read_as_where_it_is_installed(
    store: Store, site: Path, content: Content
) -> None:
    """Blank lines, absolute and doubled paths, names that are not UTF-8."""
    record = site / "eng-1.0+cu1.dist-info" / "RECORD"
    (site / os.fsdecode(b"eng/caf\xe9.py")).write_bytes(b"x\n")
    (site / "eng/b.py").write_bytes(b"b\n")
    rows = b"\n\neng/caf\xe9.py,,\neng/./a.py,,\n%s/eng/b.py,,\n" % os.fsencode(site)
    record.write_bytes(record.read_bytes() + rows)
    assert content(store, add_as_folder(store, site).tree).keys() == {
        "eng/a.py", "eng/b.py", "eng/run.sh", "eng/caf\udce9.py",
    }  # fmt: skip


def test_a_malformed_record_is_refused_row_by_row(store: Store, site: Path) -> None:
    record = site / "eng-1.0+cu1.dist-info" / "RECORD"
    record.write_text(record.read_text() + "eng/b.py\neng/c.py,,x\n")
    with pytest.raises(FolderRefused) as caught:
        add_as_folder(store, site)
    assert "RECORD row 9: has 1 fields, not 3" in str(caught.value)
    assert "RECORD row 10: has the size 'x'" in str(caught.value)


def test_a_record_that_nobody_could_have_written_is_refused(
    store: Store, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = site / "eng-1.0+cu1.dist-info" / "RECORD"
    monkeypatch.setattr(imports, "BIGGEST_FILE", record.stat().st_size - 1)
    with pytest.raises(FolderRefused, match="RECORD: it is larger than"):
        add_as_folder(store, site)


def test_an_installer_may_have_linked_to_its_cache(
    store: Store, site: Path, tmp_path: Path, content: Content
) -> None:
    """As uv does with ``--link-mode=symlink``; what else a name leads to is not opened."""
    cached = tmp_path / "cached"
    (site / "eng/a.py").rename(cached)
    (site / "eng/a.py").symlink_to(cached)
    assert content(store, add_as_folder(store, site).tree)["eng/a.py"] == ("100644", b"a = 1\n")
    cached.unlink()
    os.mkfifo(cached)
    with pytest.raises(FolderRefused, match=r"eng/a\.py: it is not a regular file"):
        add_as_folder(store, site)


# --- checkouts --------------------------------------------------------------------------------


def test_of_a_checkout_the_tracked_files_count(
    store: Store, checkout: Callable[..., Path], content: Content
) -> None:
    folder = checkout({"python/eng/a.py": b"a = 1\n", "README.md": b"x\n", "gone.py": b""})
    (folder / "untracked.py").write_text("x")
    (folder / "python/eng/a.py").write_text("a = 2  # not committed\n")
    (folder / "gone.py").unlink()
    release = add_as_folder(store, folder, "python")
    assert plain(content(store, release.tree)) == {
        "python/eng/a.py": b"a = 2  # not committed\n", "README.md": b"x\n",
    }  # fmt: skip


def test_of_a_clean_checkout_the_tree_is_gits(
    store: Store, checkout: Callable[..., Path], git: Callable[..., str]
) -> None:
    folder = checkout({"python/eng/a.py": b"a = 1\r\n", "caf\u00e9": b"x", "run": b"#!/bin/sh\n"})
    (folder / "run").chmod(0o755)
    git(folder, "add", "run")
    git(folder, "commit", "--quiet", "-m", "executable")
    assert add_as_folder(store, folder, "python").tree == git(folder, "rev-parse", "HEAD^{tree}")


def test_links_of_a_checkout_stay_out_and_are_named(
    store: Store, checkout: Callable[..., Path], git: Callable[..., str], content: Content
) -> None:
    folder = checkout({"a.py": b"a\n", "d/b.py": b"b\n"})
    (folder / "link.py").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("d")
    git(folder, "add", "link.py", "folder")
    release = add_as_folder(store, folder)
    assert content(store, release.tree).keys() == {"a.py", "d/b.py"}
    assert release.recorded.left_out == ("folder", "link.py")


def test_a_hostile_checkout_runs_nothing(
    store: Store, checkout: Callable[..., Path], git: Callable[..., str], tmp_path: Path
) -> None:
    folder = checkout({"a.py": b"a\n", ".gitattributes": b"* filter=evil\n"})
    trap, program = tmp_path / "sprung", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {trap}\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "filter.evil.clean", "core.sshCommand", "core.hooksPath"):
        git(folder, "config", key, str(program))
    (folder / "a.py").write_text("changed\n")
    add_as_folder(store, folder)
    assert not trap.exists()


def test_of_any_other_folder_all_files_count(
    store: Store, tmp_path: Path, content: Content
) -> None:
    folder = tmp_path / "plain"
    for path in ("eng/a.py", "eng/__pycache__/a.pyc", ".hg/x", "eng/.svn/x", "setup.py"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    (folder / "eng/loop").symlink_to(folder)
    (folder / "eng/dangling").symlink_to("nowhere")
    release = add_as_folder(store, folder)
    assert content(store, release.tree).keys() == {"eng/a.py", "setup.py"}
    assert release.recorded.left_out == ("eng/dangling", "eng/loop")


def test_a_checkout_is_given_from_its_top(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    (folder / "eng").mkdir(parents=True)
    with pytest.raises(FolderRefused, match="give the top of the checkout"):
        add_as_folder(store, folder, "python")
    with pytest.raises(FolderRefused, match="no such folder"):
        add_as_folder(store, tmp_path / "missing")


def test_an_unpacked_sdist_lands_under_the_root(
    store: Store, tmp_path: Path, content: Content
) -> None:
    folder = tmp_path / "eng-1.0"
    (folder / "eng").mkdir(parents=True)
    (folder / "PKG-INFO").write_bytes(b"Name: eng\n")
    (folder / "eng/a.py").write_bytes(b"a = 1\n")
    release = add_as_folder(store, folder, "python")
    packed = archives.sdist("eng", "1.0", {"PKG-INFO": b"Name: eng\n", "eng/a.py": b"a = 1\n"})
    assert content(store, release.tree).keys() == {"python/PKG-INFO", "python/eng/a.py"}
    assert add(store, tmp_path, "eng-1.0.tar.gz", packed, "python").tree == release.tree


def test_devices_and_pipes_are_not_opened(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "a.py").touch()
    os.mkfifo(folder / "pipe")
    assert add_as_folder(store, folder).recorded.left_out == ("pipe",)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "there is no such folder"),
        ("file", "it is not a folder"),
        ("empty", "it holds no file of a release"),
    ],
)
def test_a_folder_that_is_none_or_empty_is_no_release(
    store: Store, tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(FolderRefused, match=said):
        add_as_folder(store, tmp_path / name)
    assert store.releases() == ()


def test_a_folder_takes_the_place_of_a_folder_and_of_nothing_else(
    store: Store, tmp_path: Path, content: Content
) -> None:
    kept = add(store, tmp_path, WHEEL, archives.wheel("eng", "1.0", FILES))
    fork = tmp_path / "fork"
    fork.mkdir()
    (fork / "a.py").write_bytes(b"a = 2\n")
    with pytest.raises(ReleaseTaken, match=rf"eng 1\.0 is in the store from {WHEEL}"):
        add_as_folder(store, fork)
    assert store.find("1.0") == kept
    with store.lock():
        assert add_folder(store, "1.0", fork, "", replace=True).source == "folder"
    (fork / "a.py").write_bytes(b"a = 3\n")
    assert plain(content(store, add_as_folder(store, fork).tree)) == {"a.py": b"a = 3\n"}


def test_a_site_packages_folder_of_others_is_no_release(store: Store, tmp_path: Path) -> None:
    """All that is installed there would be taken for the release."""
    site = tmp_path / "site"
    (site / "other-1.0.dist-info").mkdir(parents=True)
    (site / "other-1.0.dist-info/RECORD").write_text("other.py,,\n")
    (site / "other.py").touch()
    with pytest.raises(FolderRefused, match="eng: it is not installed in this site-packages"):
        add_as_folder(store, site)
