"""Series folders that appear, or change, as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import engine

from pseries.errors import FolderChanged, SeriesBusy, SeriesExists
from pseries.workflows.series import folders

FILES = {"series": b"1.patch\n", "1.patch": b"one\n", "series.toml": b"schema = 1\n"}


def test_a_new_folder_is_whole(tmp_path: Path) -> None:
    folders.create(tmp_path / "series" / "eng-1.0", FILES)
    assert folders.files_in(tmp_path / "series" / "eng-1.0") == FILES
    assert [path.name for path in (tmp_path / "series").iterdir()] == ["eng-1.0"]


def test_a_new_folder_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders, "sync_tree", full)
    with pytest.raises(OSError, match="No space"):
        folders.create(tmp_path / "series" / "eng-1.0", FILES)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "eng-1.0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SeriesExists):
        folders.create(tmp_path / "eng-1.0", FILES)


@pytest.mark.parametrize("fails_at", range(3))
def test_a_change_that_fails_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    folder = tmp_path / "eng-1.0"
    folders.create(folder, FILES)
    (folder / "notes").mkdir()
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    whole, calls = folders.write_file, [0]

    def sometimes(path: Path, data: bytes) -> None:
        calls[0] += 1
        if calls[0] == fails_at + 1:
            raise OSError(28, "No space left on device")
        whole(path, data)

    monkeypatch.setattr(folders, "write_file", sometimes)
    changed = {**FILES, "2.patch": b"two\n", "series": b"1.patch\n2.patch\n", "1.patch": b"1\n"}
    with pytest.raises(OSError, match="No space"):
        folders.change(folder, FILES, changed)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_the_order_file_comes_after_the_patches_and_the_manifest_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "eng-1.0"
    folders.create(folder, FILES)
    written: list[str] = []
    whole = folders.write_file

    def noted(path: Path, data: bytes) -> None:
        written.append(path.name)
        whole(path, data)

    monkeypatch.setattr(folders, "write_file", noted)
    changed = {**FILES, "manifest.json": b"{}", "2.patch": b"two\n", "series": b"2.patch\n"}
    folders.change(folder, FILES, changed)
    assert written == ["2.patch", "series", "manifest.json"]
    assert folders.files_in(folder) == changed


def test_somebody_elses_change_is_not_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "eng-1.0"
    folders.create(folder, FILES)
    (folder / "1.patch").write_bytes(b"edited meanwhile\n")
    before = engine.snapshot(tmp_path)
    with pytest.raises(FolderChanged, match=r"1\.patch"):
        folders.change(folder, FILES, {**FILES, "series": b"x\n"})
    assert engine.snapshot(tmp_path) == before


def test_two_at_once(tmp_path: Path) -> None:
    folders.create(tmp_path / "eng-1.0", FILES)
    with folders.lock(tmp_path):
        with pytest.raises(SeriesBusy):
            folders.create(tmp_path / "eng-1.1", FILES)
        with pytest.raises(SeriesBusy):
            folders.change(tmp_path / "eng-1.0", FILES, {**FILES, "series": b""})
