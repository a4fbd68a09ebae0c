"""The kit's script, run as it is on a host: isolated Python, no PATH, nothing installed."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from typing import TYPE_CHECKING

import pytest
from tests.export import samples

from pseries.errors import FolderInTheWay
from pseries.export import kit as kits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

BEFORE = {
    "eng/__init__.py": (0o100644, b"VERSION = 1\n"),
    "eng/mod.py": (0o100644, b"one = 1\n"),
    "eng/tool.py": (0o100644, b"t = 1\n"),
    "eng/gone.py": (0o100644, b"g = 1\n"),
}
AFTER = {
    "eng/mod.py": (0o100644, b"one = 2\n"),
    "eng/tool.py": (0o100755, b"t = 2\n"),
    "eng/new/deep.py": (0o100644, b"d = 1\n"),
}
TOUCHED = ("eng/mod.py", "eng/tool.py", "eng/gone.py")


def tree(name: str = "", folder: str = "eng") -> kits.Tree:
    def moved(path: str) -> str:
        return path.replace("eng/", f"{folder}/", 1)

    return kits.Tree(
        name,
        {moved(path): BEFORE[path] for path in TOUCHED},
        {moved(path): file for path, file in AFTER.items()},
    )


def kit(*trees: kits.Tree) -> kits.Kit:
    return kits.Kit("eng-1.0", "d" * 64, "eng", "1.0", trees or (tree(),), b"the diff\n")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return kits.build(kit(), tmp_path / "kits", 0).folder


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return install(tmp_path / "site")


def install(site: Path, version: str = "1.0", folder: str = "eng") -> Path:
    """Make a tree as pip leaves one, bytecode of one file included."""
    sample = samples.Sample(
        {path.replace("eng/", f"{folder}/", 1): data for path, (_, data) in BEFORE.items()},
        version=version,
    )
    compiled = {
        f"{folder}/__pycache__/mod.cpython-311.pyc": b"compiled",
        f"{folder}/__pycache__/model.cpython-311.pyc": b"another's",
    }
    for path, data in {**sample.members(), **compiled}.items():
        place = site / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(0o640)
        os.utime(place, ns=(1_600_000_000_000_000_001,) * 2)
    return site


def run(folder: Path, action: str, site: Path, python: str = sys.executable) -> tuple[int, str]:
    done = subprocess.run(
        [python, "-I", str(folder / "apply.py"), f"--{action}", "--site-packages", str(site)],
        env={"PATH": ""}, cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def state(site: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(site)): (
            path.stat().st_mode, path.stat().st_mtime_ns if path.is_file() else 0,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(site.rglob("*"))
    }  # fmt: skip


def record(site: Path) -> dict[str, str]:
    text = next(site.glob("*.dist-info/RECORD")).read_bytes().decode()
    return {row.split(",")[0]: row for row in text.splitlines()}


def test_it_holds_both_sides_the_diff_the_list_and_the_script(made: Path) -> None:
    assert (made / "upstream/eng/mod.py").read_bytes() == b"one = 1\n"
    assert (made / "patched/eng/mod.py").read_bytes() == b"one = 2\n"
    assert (made / "series.diff").read_bytes() == b"the diff\n"
    assert os.access(made / "apply.py", os.X_OK)
    assert json.loads((made / "kit.json").read_bytes())["version"] == "1.0"


def test_check_changes_nothing(made: Path, site: Path) -> None:
    before = state(site)
    status, said = run(made, "check", site)
    assert (status, "can be applied" in said) == (0, True)
    assert state(site) == before


def test_apply_then_rollback_restores_every_byte_mode_and_date(made: Path, site: Path) -> None:
    before = state(site)
    status, said = run(made, "apply", site)
    assert status == 0, said
    assert (site / "eng/mod.py").read_bytes() == b"one = 2\n"
    assert (site / "eng/mod.py").stat().st_mode & 0o777 == 0o640
    assert (site / "eng/tool.py").stat().st_mode & 0o111 == 0o111
    assert (site / "eng/new/deep.py").read_bytes() == b"d = 1\n"
    assert not (site / "eng/gone.py").exists()
    assert not (site / "eng/__pycache__/mod.cpython-311.pyc").exists()
    assert (site / "eng/__pycache__/model.cpython-311.pyc").exists()
    (site / "eng/new/__pycache__").mkdir()
    (site / "eng/new/__pycache__/deep.cpython-311.pyc").write_bytes(b"")
    (site / "eng/__pycache__/mod.cpython-312.pyc").write_bytes(b"")
    status, said = run(made, "rollback", site)
    assert status == 0, said
    assert state(site) == before


def test_record_knows_every_file(made: Path, site: Path) -> None:
    before = record(site)
    run(made, "apply", site)
    rows = record(site)
    assert rows["eng/mod.py"] == f"eng/mod.py,{samples.digest(b'one = 2' + chr(10).encode())},8"
    assert rows["eng/new/deep.py"].endswith(",6")
    assert "eng/gone.py" not in rows
    assert rows["eng/__init__.py"] == before["eng/__init__.py"]


def test_a_record_that_others_changed_meanwhile_keeps_their_rows(made: Path, site: Path) -> None:
    before = record(site)
    run(made, "apply", site)
    path = next(site.glob("*.dist-info/RECORD"))
    path.write_bytes(path.read_bytes() + b"eng/theirs.py,,\r\n")
    assert run(made, "rollback", site)[0] == 0
    assert record(site) == {**before, "eng/theirs.py": "eng/theirs.py,,"}


def test_it_is_idempotent(made: Path, site: Path) -> None:
    run(made, "apply", site)
    before = state(site)
    status, said = run(made, "apply", site)
    assert (status, "already applied" in said) == (0, True)
    assert state(site) == before
    assert "already applied" in run(made, "check", site)[1]


def test_a_tree_patched_by_other_means_is_left_alone(made: Path, site: Path) -> None:
    for path, (_, data) in AFTER.items():
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_bytes(data)
    (site / "eng/gone.py").unlink()
    before = state(site)
    assert run(made, "apply", site)[0] == 0
    assert state(site) == before
    status, said = run(made, "rollback", site)
    assert (status, "not applied by this kit" in said) == (1, True)


def test_another_release_is_refused(made: Path, tmp_path: Path) -> None:
    site = install(tmp_path / "other", version="1.0.1")
    before = state(site)
    status, said = run(made, "apply", site)
    assert (status, "this kit is for eng 1.0" in said) == (1, True)
    assert state(site) == before


def test_a_local_label_makes_no_other_release(made: Path, tmp_path: Path) -> None:
    assert run(made, "check", install(tmp_path / "labelled", version="1.0+cu129"))[0] == 0


@pytest.mark.parametrize("path", TOUCHED)
def test_one_byte_off_in_a_target_is_refused(made: Path, site: Path, path: str) -> None:
    data = (site / path).read_bytes()
    (site / path).write_bytes(data[:-2] + b"9\n")
    before = state(site)
    status, said = run(made, "apply", site)
    assert status == 4, said
    assert f"{path}: neither" in said
    assert state(site) == before


@pytest.mark.parametrize("packed", ["patched/eng/mod.py", "upstream/eng/gone.py"])
def test_one_byte_off_in_the_kit_is_refused(made: Path, site: Path, packed: str) -> None:
    data = (made / packed).read_bytes()
    (made / packed).write_bytes(data[:-2] + b"9\n")
    before = state(site)
    status, said = run(made, "apply", site)
    assert (status, f"{packed}: is damaged" in said) == (1, True)
    (made / packed).unlink()
    assert f"{packed}: is missing" in run(made, "apply", site)[1]
    assert state(site) == before


def test_a_file_in_the_way_of_a_new_one_is_refused(made: Path, site: Path) -> None:
    (site / "eng/new").mkdir()
    (site / "eng/new/deep.py").write_bytes(b"theirs\n")
    assert run(made, "apply", site)[0] == 4


def test_rollback_leaves_what_was_changed_since(made: Path, site: Path) -> None:
    run(made, "apply", site)
    (site / "eng/mod.py").write_bytes(b"mine = 1\n")
    before = state(site)
    status, said = run(made, "rollback", site)
    assert (status, "eng/mod.py" in said) == (4, True)
    assert state(site) == before


@pytest.mark.parametrize("link", ["eng/mod.py", "eng"])
def test_links_are_refused(made: Path, site: Path, tmp_path: Path, link: str) -> None:
    shutil.move(site / link, tmp_path / "elsewhere")
    (site / link).symlink_to(tmp_path / "elsewhere")
    status, said = run(made, "apply", site)
    assert (status, "links and the like are refused" in said) == (1, True)


def test_a_file_shared_with_a_cache_is_not_written_through(
    made: Path, site: Path, tmp_path: Path
) -> None:
    os.link(site / "eng/mod.py", tmp_path / "cache.py")
    assert run(made, "apply", site)[0] == 0
    assert (tmp_path / "cache.py").read_bytes() == b"one = 1\n"


def test_the_place_is_found_by_relocated_files(tmp_path: Path) -> None:
    both = kit(tree(), tree("ppu", "eng/ppu"))
    folder = kits.build(both, tmp_path, 0).folder
    site = install(tmp_path / "site", folder="eng/ppu")
    assert run(folder, "apply", site)[0] == 0
    assert (site / "eng/ppu/mod.py").read_bytes() == b"one = 2\n"
    assert not (site / "eng/new").exists()


def test_what_is_not_there_is_refused(made: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, said = run(made, "check", tmp_path / "empty")
    assert (status, "eng is not installed in" in said) == (1, True)


def test_it_looks_into_its_own_interpreter_by_default(made: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", str(made / "apply.py"), "--check"],
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"eng is not installed in {sysconfig.get_paths()['purelib']}" in done.stderr


def test_an_interrupted_pseries_apply_comes_first(made: Path, site: Path) -> None:
    (site / ".pseries").mkdir()
    (site / ".pseries/journal").write_text("{}\n")
    assert "pseries recover" in run(made, "apply", site)[1]


# --- killed in between ------------------------------------------------------------------------


def script_of(folder: Path) -> ModuleType:
    """Load the script as a module, so that it can be stopped at a chosen write."""
    spec = importlib.util.spec_from_file_location("apply", folder / "apply.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def killed(script: ModuleType, action: str, site: Path, writes: int) -> int:
    """Run in a process that dies before its write number ``writes``; return its status."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    left = writes

    def counted(real: Callable[..., None]) -> Callable[..., None]:
        def call(*given: object, **named: object) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(99)
            real(*given, **named)

        return call

    for name in ("write", "remove"):
        setattr(script, name, counted(getattr(script, name)))
    os._exit(script.main([f"--{action}", "--site-packages", str(site)]))


@pytest.mark.parametrize("action", ["apply", "rollback"])
def test_killed_at_any_write_it_can_go_on_or_back(
    made: Path, tmp_path: Path, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = script_of(made)

    def run(action: str, site: Path) -> int:
        status: int = script.main([f"--{action}", "--site-packages", str(site)])
        return status

    pristine = state(install(tmp_path / "pristine"))
    done = install(tmp_path / "done")
    run("apply", done)
    for number in range(100):
        site = install(tmp_path / f"site{number}")
        if action == "rollback":
            run("apply", site)
        status = killed(script, action, site, number)
        if status == 0:
            assert number > 8
            return
        assert status == 99
        forth = tmp_path / f"forth{number}"
        shutil.copytree(site, forth)
        capsys.readouterr()
        if run("rollback", site) != 0:
            assert "nothing to undo" in capsys.readouterr().err
            assert action == "rollback" or number < 7
        assert state(site) == pristine, number
        if action == "apply":
            assert run("apply", forth) == 0
            assert (forth / "eng/mod.py").read_bytes() == b"one = 2\n"
            assert record(forth) == record(done)
    pytest.fail("never ended")


# --- the files --------------------------------------------------------------------------------


def test_the_script_is_python_3_8(made: Path) -> None:
    ast.parse((made / "apply.py").read_bytes(), feature_version=(3, 8))


def test_it_runs_on_python_3_8(made: Path, site: Path) -> None:
    old = shutil.which("python3.8")
    if old is None:
        pytest.skip("there is no Python 3.8 here")
    found = subprocess.run(
        [old, "-c", "import sys; print(sys.executable)"],
        env={**os.environ, "PYENV_VERSION": os.environ.get("PYENV_VERSION", "3.8.18")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode:
        pytest.skip("there is no Python 3.8 here")
    before = state(site)
    for action in ("check", "apply", "apply", "rollback"):
        status, said = run(made, action, site, found.stdout.strip())
        assert status == 0, said
    assert state(site) == before


def test_it_is_the_same_wherever_it_is_built(tmp_path: Path) -> None:
    first = kits.build(kit(), tmp_path / "a", 1_700_000_000).archive.read_bytes()
    os.umask(umask := os.umask(0o077))
    again = kits.build(kit(), tmp_path / "b", 1_700_000_000).archive.read_bytes()
    os.umask(umask)
    assert hashlib.sha256(first).digest() == hashlib.sha256(again).digest()


def test_it_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[set[str]] = []

    def noted(folder: Path) -> None:
        assert not (tmp_path / "eng-1.0-kit").exists()
        synced.append({path.name for path in folder.iterdir()})

    monkeypatch.setattr("pseries.durable.sync_tree", noted)
    built = kits.build(kit(), tmp_path, 0)
    assert synced == [{path.name for path in built.folder.iterdir()}]


def test_a_kit_is_replaced_and_anything_else_is_not(tmp_path: Path, made: Path) -> None:
    (made / "stale").write_text("x")
    kits.build(kit(), made.parent, 0)
    assert not (made / "stale").exists()
    shutil.rmtree(made)
    made.mkdir()
    with pytest.raises(FolderInTheWay):
        kits.build(kit(), made.parent, 0)
    assert sorted(path.name for path in made.parent.iterdir()) == ["eng-1.0-kit", "eng-1.0-kit.zip"]
