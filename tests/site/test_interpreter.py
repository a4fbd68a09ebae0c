"""Which tree an interpreter imports from: the one with the distribution, or an error (I05)."""

from __future__ import annotations

import os
import shutil
import sys
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.site import trees

from pseries.errors import (
    DistributionNotFound,
    DistributionRefused,
    EditableInstall,
    InterpreterFailed,
    WrongTree,
)
from pseries.site import distribution, interpreter
from pseries.site.fs import SiteTree

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def environment(tmp_path: Path) -> Callable[[str], tuple[Path, Path]]:
    """Return ``environment(name)``: the executable and the site-packages of a new environment."""

    def make(name: str) -> tuple[Path, Path]:
        venv.create(tmp_path / name, symlinks=True, with_pip=False)
        return tmp_path / name / "bin/python", tmp_path / name / "lib" / VERSION / "site-packages"

    return make


@pytest.fixture
def python(environment: Callable[[str], tuple[Path, Path]]) -> Path:
    executable, site = environment("serve")
    trees.install(site, {"eng/__init__.py": b"1 / 0\n", "eng_extra.py": b""})
    return executable


def site_of(python: Path) -> Path:
    return python.parent.parent / "lib" / VERSION / "site-packages"


def test_the_folder_that_is_imported_from_is_found_without_importing(python: Path) -> None:
    (site_of(python) / "aa.pth").write_text(
        f"import sys; sys.path.insert(0, {str(python.parent)!r})\n"
    )
    (python.parent / "eng_extra.py").touch()  # the module of its own name is what tells
    assert interpreter.locate(python, "ENG") == site_of(python).resolve()


def test_an_interpreter_may_be_named_from_here_or_by_path(
    python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(python.parent.parent)
    assert interpreter.locate(Path("bin/python"), "eng") == site_of(python).resolve()
    monkeypatch.chdir("/")
    monkeypatch.setenv("PATH", str(python.parent), prepend=":")
    assert interpreter.absolute(Path("python")) == python
    assert interpreter.locate(Path("python"), "eng") == site_of(python).resolve()


def test_lib64_and_lib_are_one_folder(python: Path) -> None:
    lib64 = python.parent.parent / "lib64"
    if not lib64.exists():
        lib64.symlink_to("lib")
    (site_of(python) / "zz.pth").write_text(f"{lib64 / VERSION / 'site-packages'}\n")
    assert interpreter.locate(python, "eng") == site_of(python).resolve()


def test_surroundings_do_not_count(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a checkout in the current folder, nor PYTHONPATH, nor the user's own site."""
    (tmp_path / "checkout/eng").mkdir(parents=True)
    (tmp_path / "checkout/eng/__init__.py").touch()
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "checkout"))
    assert interpreter.locate(python, "eng") == site_of(python).resolve()


@pytest.mark.parametrize("line", ["import sys; sys.path.insert(0, {!r})"])
def test_a_copy_that_shadows_it_is_an_error_that_names_both(
    python: Path, tmp_path: Path, line: str
) -> None:
    (tmp_path / "extra/eng").mkdir(parents=True)
    (tmp_path / "extra/eng/__init__.py").touch()
    (site_of(python) / "aa.pth").write_text(line.format(str(tmp_path / "extra")) + "\n")
    with pytest.raises(WrongTree) as caught:
        interpreter.locate(python, "eng")
    assert str(site_of(python).resolve()) in str(caught.value)
    assert str(tmp_path / "extra/eng/__init__.py") in str(caught.value)
    assert str(python) in str(caught.value)


def test_a_module_that_is_gone_is_an_error(python: Path) -> None:
    shutil.rmtree(site_of(python) / "eng")
    with pytest.raises(WrongTree, match="imports eng from nowhere"):
        interpreter.locate(python, "eng")


def test_modules_of_another_name_are_asked_for_too(python: Path, tmp_path: Path) -> None:
    files = ("infer/__init__.py", "test/__init__.py", "spread/part.py", "infer_c.abi3.so")
    trees.install(site_of(python), dict.fromkeys(files, b""), name="flash-infer")
    (tmp_path / "extra/spread").mkdir(parents=True)
    (site_of(python) / "aa.pth").write_text(
        f"import sys; sys.path.insert(0, {str(tmp_path / 'extra')!r})\n"
    )
    site = interpreter.locate(python, "flash-infer")
    with SiteTree(site) as tree:
        modules = distribution.find(tree, "flash-infer").modules()
    assert modules == ("infer", "infer_c", "spread", "test")
    (tmp_path / "extra/infer_c.py").touch()
    with pytest.raises(WrongTree, match="imports infer_c from"):
        interpreter.locate(python, "flash-infer")


def test_a_zip_is_refused(python: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        archive.writestr("zipped/__init__.py", "")
    (site_of(python) / "zz.pth").write_text(f"{tmp_path / 'zipped.zip'}\n")
    with pytest.raises(DistributionRefused, match=r"zipped\.zip"):
        interpreter.locate(python, "zipped")


def test_an_editable_install_is_refused(python: Path) -> None:
    info = site_of(python) / "eng-1.0.dist-info"
    (info / "direct_url.json").write_text('{"url": "file:///src", "dir_info": {"editable": true}}')
    with pytest.raises(EditableInstall, match="file:///src"):
        interpreter.locate(python, "eng")


def test_what_is_nowhere_names_the_folders(python: Path) -> None:
    with pytest.raises(DistributionNotFound) as caught:
        interpreter.locate(python, "absent")
    assert str(site_of(python).resolve()) in caught.value.looked_in


def test_a_pth_file_that_prints_does_not_disturb(python: Path) -> None:
    (site_of(python) / "zz.pth").write_text("import sys; print('hello')\n")
    assert interpreter.locate(python, "eng") == site_of(python).resolve()


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("#!/bin/sh\necho broken >&2; exit 3\n", "broken"),
        ("#!/bin/sh\nexit 3\n", "status 3"),
        ("#!/bin/sh\necho hello\n", "not understood"),
        ("#!/bin/sh\n", "not understood"),
        (None, "No such file"),
    ],
)
def test_an_interpreter_that_does_not_answer_is_an_error(
    tmp_path: Path, script: str | None, complaint: str
) -> None:
    fake = tmp_path / "python"
    if script is not None:
        fake.write_text(script)
        fake.chmod(0o755)
    with pytest.raises(InterpreterFailed, match=complaint):
        interpreter.locate(fake, "eng")


def test_this_process_is_asked_without_starting_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    trees.install(site, {"eng_here/__init__.py": b""})
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    assert interpreter.locate(None, "eng") == site
    assert "eng_here" not in sys.modules
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "eng_here").mkdir()
    (tmp_path / "eng_here/__init__.py").touch()
    with pytest.raises(WrongTree):
        interpreter.locate(None, "eng")
    monkeypatch.chdir(tmp_path)  # the current folder is not what a server will see
    assert interpreter.locate(None, "eng") == site


def test_purelib_is_the_environments_own(python: Path) -> None:
    assert interpreter.purelib(python).resolve() == site_of(python).resolve()
    assert os.fspath(interpreter.purelib(None)) in sys.path


@pytest.mark.parametrize(
    "answer",
    ["1", "null", "[1,2]", '"ab"', '[["/x"],{}]', '[["/x"],{"eng":[1]}]', '["x",{"eng":[]}]',
     '[["/x"],["eng"]]', '[["\\\\u0000"],{"eng":[]}]', "[" * 100_000],
)  # fmt: skip
def test_an_answer_of_another_form_is_an_error(tmp_path: Path, answer: str) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    fake.chmod(0o755)
    (tmp_path / "answer").write_text(answer.replace("\\\\", "\\"))
    with pytest.raises(InterpreterFailed, match="not understood"):
        interpreter.locate(fake, "eng")
    if answer != '"ab"':
        with pytest.raises(InterpreterFailed, match="not understood"):
            interpreter.purelib(fake)
