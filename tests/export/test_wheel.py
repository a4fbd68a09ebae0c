from __future__ import annotations

import hashlib
import os
import resource
import shutil
import stat
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.export import samples

from pseries.errors import ArchiveRefused, ArtefactMismatch, WheelInvalid
from pseries.export import zipcopy
from pseries.export.wheel import Content, Report, Wheel, repack
from pseries.upstream import archive

NEW = "1.0+sm120.1"
CHANGES: dict[str, Content | None] = {
    "eng/mod.py": Content(b"def main():\n    print('two')\n"),
    "eng/added.py": Content(b"y = 2\n", executable=True),
    "eng/sub,dir/ä.py": Content(b"z = 3\n"),
    "eng/only/gone.py": None,
}


def build(
    sample: samples.Sample,
    folder: Path,
    changes: dict[str, Content | None] | None = None,
    version: str = NEW,
    **options: object,
) -> Report:
    source = samples.make(sample, folder / "in")
    with Wheel(source) as wheel:
        wheel.verify()
        return repack(
            wheel,
            folder / "out",
            version=version,
            changes=CHANGES if changes is None else changes,
            sbom=b'{"ours": true}\n',
            **options,  # type: ignore[arg-type]
        )


def raw(path: Path) -> dict[str, tuple[zipfile.ZipInfo, bytes]]:
    """Return every member with its packed bytes, in order."""
    data = path.read_bytes()
    found = {}
    with zipfile.ZipFile(path) as wheel:
        for info in wheel.infolist():
            name, extra = struct.unpack_from("<2H", data, info.header_offset + 26)
            start = info.header_offset + 30 + name + extra
            found[info.filename] = (info, data[start : start + info.compress_size])
    return found


def test_only_the_members_listed_differ(tmp_path: Path) -> None:
    report = build(samples.plain(), tmp_path)
    assert report.path.name == f"eng-{NEW}-py3-none-any.whl"
    old, new = raw(tmp_path / "in" / "eng-1.0-py3-none-any.whl"), raw(report.path)
    renamed = {
        name: name.replace("eng-1.0.dist-info", f"eng-{NEW}.dist-info").replace(
            "eng-1.0.data", f"eng-{NEW}.data"
        )
        for name in old
    }
    info = f"eng-{NEW}.dist-info"
    differences = {(each.what, each.name) for each in report.differences}
    assert {each for each in differences if each[0] != "renamed"} == {
        ("changed", "eng/mod.py"),
        ("added", "eng/added.py"),
        ("added", "eng/sub,dir/ä.py"),
        ("removed", "eng/only/gone.py"),
        ("removed", "eng/only/"),
        ("changed", f"{info}/METADATA"),
        ("changed", f"{info}/WHEEL"),
        ("changed", f"{info}/RECORD"),
        ("added", f"{info}/sboms/pseries.cdx.json"),
    }
    expected_renames = {now for name, now in renamed.items() if now != name}
    touched = {name for what, name in differences if what != "renamed"}
    assert {name for what, name in differences if what == "renamed"} == expected_renames - touched
    for name, now in renamed.items():
        if ("removed", name) in differences:
            assert now not in new
            continue
        (was, was_bytes), (info_now, now_bytes) = old[name], new[now]
        kept = ("date_time", "external_attr", "comment", "create_system", "create_version")
        assert [getattr(was, key) for key in kept] == [getattr(info_now, key) for key in kept]
        if ("changed", now) not in differences:
            assert was_bytes == now_bytes
            same = ("CRC", "file_size", "compress_type", "flag_bits", "extra", "internal_attr")
            assert [getattr(was, key) for key in same] == [getattr(info_now, key) for key in same]
    added = [name for what, name in differences if what == "added"]
    order = [name for name in new if name not in added]
    assert order == [renamed[name] for name in old if ("removed", name) not in differences]
    assert set(new) == set(order) | set(added)


def test_metadata_differs_in_its_version_line_alone(tmp_path: Path) -> None:
    report = build(samples.plain(), tmp_path)
    with zipfile.ZipFile(report.path) as wheel:
        lines = wheel.read(f"eng-{NEW}.dist-info/METADATA").decode().splitlines()
    was = samples.METADATA.format(name="eng", version="1.0").splitlines()
    assert [(a, b) for a, b in zip(was, lines, strict=True) if a != b] == [
        ("Version: 1.0", f"Version: {NEW}")
    ]


def test_tags_come_from_the_file_name(tmp_path: Path) -> None:
    sample = samples.plain(tag="py2.py3-none-manylinux_2_28_x86_64.linux_x86_64")
    report = build(sample, tmp_path)
    with zipfile.ZipFile(report.path) as wheel:
        text = wheel.read(f"eng-{NEW}.dist-info/WHEEL").decode()
    assert text == samples.WHEEL.replace(
        "Tag: cp38-abi3-linux_x86_64\n",
        "Tag: py2-none-manylinux_2_28_x86_64\nTag: py2-none-linux_x86_64\n"
        "Tag: py3-none-manylinux_2_28_x86_64\nTag: py3-none-linux_x86_64\n",
    )
    assert report.path.name.endswith("-py2.py3-none-manylinux_2_28_x86_64.linux_x86_64.whl")


def test_a_wheel_file_that_agrees_with_the_name_keeps_its_bytes(tmp_path: Path) -> None:
    text = "Wheel-Version: 1.0\r\nTag: py3-none-any\r\nBuild: 3\r\n"
    report = build(samples.plain(wheel=text), tmp_path)
    assert ("renamed", f"eng-{NEW}.dist-info/WHEEL") in {
        (each.what, each.name) for each in report.differences
    }


def test_new_members_have_the_given_date_and_modes(tmp_path: Path) -> None:
    report = build(samples.plain(), tmp_path, epoch=1_700_000_001)
    new = raw(report.path)
    added, sbom = new["eng/added.py"][0], new[f"eng-{NEW}.dist-info/sboms/pseries.cdx.json"][0]
    assert added.date_time == sbom.date_time == (2023, 11, 14, 22, 13, 20)
    assert stat.S_IMODE(added.external_attr >> 16) == 0o755
    assert stat.S_IMODE(sbom.external_attr >> 16) == 0o644
    early = build(samples.plain(), tmp_path / "early", epoch=5)
    assert raw(early.path)["eng/added.py"][0].date_time == (1980, 1, 1, 0, 0, 0)


def test_permissions_change_only_where_the_patch_says_so(tmp_path: Path) -> None:
    changes: dict[str, Content | None] = {
        "eng/mod.py": Content(b"1\n", executable=True),
        "eng/tool.sh": Content(b"2\n", executable=False),
    }
    new = raw(build(samples.plain(), tmp_path, changes).path)
    assert stat.S_IMODE(new["eng/mod.py"][0].external_attr >> 16) == 0o775
    assert stat.S_IMODE(new["eng/tool.sh"][0].external_attr >> 16) == 0o664


def test_an_upstream_label_stays_in_every_name(tmp_path: Path) -> None:
    sample = samples.plain(version="1.0+cu129")
    sample.files = {
        name.replace("eng-1.0.data", "eng-1.0+cu129.data"): data
        for name, data in sample.files.items()
    }
    report = build(sample, tmp_path, version="1.0+cu129.sm120.1")
    names = set(raw(report.path))
    assert report.path.name == "eng-1.0+cu129.sm120.1-py3-none-any.whl"
    assert "eng-1.0+cu129.sm120.1.data/scripts/eng-script" in names
    assert not any(".dist-info" in name and "+cu129.sm120.1." not in name for name in names)


def test_a_package_in_purelib_is_patched_there(tmp_path: Path) -> None:
    sample = samples.plain(
        files={
            "eng-1.0.data/purelib/eng/__init__.py": b"",
            "eng-1.0.data/purelib/eng/mod.py": b"def main():\n    print('one')\n",
        }
    )
    changes: dict[str, Content | None] = {
        "eng/mod.py": Content(b"def main():\n    print('two')\n"),
        "eng/new.py": Content(b"n = 1\n"),
    }
    report = build(sample, tmp_path, changes)
    names = set(raw(report.path))
    assert f"eng-{NEW}.data/purelib/eng/new.py" in names
    assert "eng/new.py" not in names
    assert {("changed", f"eng-{NEW}.data/purelib/eng/mod.py")} <= {
        (each.what, each.name) for each in report.differences
    }


def test_signatures_of_record_are_dropped_and_named(tmp_path: Path) -> None:
    sample = samples.plain(extra_info={"RECORD.jws": b"{}", "RECORD.p7s": b"x"})
    report = build(sample, tmp_path)
    assert [name.rpartition("/")[2] for name in report.dropped_signatures] == [
        "RECORD.jws",
        "RECORD.p7s",
    ]
    assert not [name for name in raw(report.path) if name.endswith((".jws", ".p7s"))]


def test_other_bills_of_materials_are_not_touched(tmp_path: Path) -> None:
    sample = samples.plain(
        extra_info={"sboms/pseries.cdx.json": b"theirs", "sboms/auditwheel.cdx.json": b"a"}
    )
    report = build(sample, tmp_path)
    with zipfile.ZipFile(report.path) as wheel:
        info = f"eng-{NEW}.dist-info/sboms"
        assert wheel.read(f"{info}/pseries.cdx.json") == b"theirs"
        assert wheel.read(f"{info}/auditwheel.cdx.json") == b"a"
        assert wheel.read(f"{info}/pseries-2.cdx.json") == b'{"ours": true}\n'


def test_our_own_strict_reader_takes_the_result(tmp_path: Path) -> None:
    report = build(samples.plain(), tmp_path)
    with report.path.open("rb") as file:
        for member in archive.members(file, report.path.name):
            assert sum(map(len, member.chunks)) == member.size
    with Wheel(report.path) as wheel:
        wheel.verify()


# --- installers -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(samples.plain(), tmp_path_factory.mktemp("patched")).path


def test_installer_accepts_every_row_of_record(patched: Path, tmp_path: Path) -> None:
    pytest.importorskip("installer")
    run(sys.executable, "-m", "installer", "--validate-record", "all", "--destdir", tmp_path,
        "--prefix", "/p", patched)  # fmt: skip
    assert list(tmp_path.rglob("eng/added.py"))


def test_pip_installs_it_and_its_scripts_work(patched: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--prefix",
        tmp_path, patched)  # fmt: skip
    check_installed(tmp_path)


def test_uv_installs_it_and_its_scripts_work(patched: Path, tmp_path: Path) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv is not installed")
    run(uv, "pip", "install", "-q", "--no-index", "--no-deps", "--offline", "--python",
        sys.executable, "--prefix", tmp_path, patched)  # fmt: skip
    check_installed(tmp_path)


def check_installed(prefix: Path) -> None:
    site = next(prefix.rglob("eng/mod.py")).parent.parent
    environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"]}
    for script, said in (("eng-run", "two\n"), ("eng-script", "script\n")):
        got = subprocess.run(
            [prefix / "bin" / script], env=environment, capture_output=True, text=True, check=True
        )
        assert got.stdout == said
    assert not (site / "eng" / "only").exists()
    assert os.access(site / "eng" / "added.py", os.X_OK)
    asked = "import importlib.metadata as m; print(m.version('eng'))"
    got = subprocess.run(
        [sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True
    )
    assert got.stdout == f"{NEW}\n"


def run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


# --- reproducible -----------------------------------------------------------------------------

_BUILD = """
import os, sys
from pathlib import Path
os.umask(int(sys.argv[3], 8))
from pseries.export.wheel import Content, Wheel, repack
with Wheel(Path(sys.argv[1])) as wheel:
    repack(wheel, Path(sys.argv[2]), version="1.0+x.1", sbom=b"{}", epoch=1700000000, changes={
        "eng/mod.py": Content(b"new"), "eng/b.py": Content(b"b"), "eng/a.py": Content(b"a")})
"""


def test_it_is_the_same_whoever_builds_it_wherever(tmp_path: Path) -> None:
    source = samples.make(samples.plain(), tmp_path)
    found = []
    for number, (umask, zone, locale) in enumerate(
        (("022", "UTC", "C"), ("077", "Asia/Kolkata", "tr_TR.UTF-8"))
    ):
        elsewhere = tmp_path / f"place {number}"
        elsewhere.mkdir()
        copy = elsewhere / source.name
        shutil.copyfile(source, copy)
        environment = {
            **os.environ, "TZ": zone, "LC_ALL": locale, "PYTHONHASHSEED": str(number),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }  # fmt: skip
        subprocess.run(
            [sys.executable, "-c", _BUILD, copy, elsewhere / "out", umask],
            env=environment, cwd=elsewhere, check=True,
        )  # fmt: skip
        result = next((elsewhere / "out").iterdir())
        assert stat.S_IMODE(result.stat().st_mode) == 0o644
        found.append(hashlib.sha256(result.read_bytes()).hexdigest())
    assert found[0] == found[1]


# --- zip64 ------------------------------------------------------------------------------------


def test_numbers_that_do_not_fit_go_to_zip64_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes the wide fields from 300 bytes on here, as it would from 4 GiB on."""
    monkeypatch.setattr(zipcopy, "_MOST32", 300)
    monkeypatch.setattr(zipcopy, "_MOST16", 3)
    report = build(samples.plain(), tmp_path)
    assert b"PK\6\6" in report.path.read_bytes()
    found = raw(report.path)
    assert found["eng/_C.abi3.so"][0].extra[:4] == b"\1\0\x10\0"  # size and offset
    assert found[f"eng-{NEW}.data/data/share/eng/readme"][0].extra[:4] == b"\1\0\x08\0"
    with zipfile.ZipFile(report.path) as wheel:
        assert wheel.testzip() is None
    with Wheel(report.path) as wheel:
        wheel.verify()


def test_members_with_zip64_fields_and_descriptors_are_copied(tmp_path: Path) -> None:
    sample = samples.plain(folders=False)
    source = tmp_path / "in" / sample.filename
    source.parent.mkdir()

    class Unseekable:
        """A stream: zipfile then writes sizes behind the data."""

        def __init__(self) -> None:
            self.file = source.open("wb")
            self.write, self.flush = self.file.write, self.file.flush

    stream = Unseekable()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive_:  # type: ignore[call-overload]
        for name, data in sample.members().items():
            with archive_.open(name, "w", force_zip64=name.endswith("mod.py")) as member:
                member.write(data)
    stream.file.close()
    with Wheel(source) as wheel:
        wheel.verify()
        report = repack(wheel, tmp_path / "out", version=NEW, changes=CHANGES)
    old, new = raw(source), raw(report.path)
    assert old["eng/_C.abi3.so"][1] == new["eng/_C.abi3.so"][1]
    assert new["eng/mod.py"][0].flag_bits & 8 == 0
    with Wheel(report.path) as wheel:
        wheel.verify()


# --- refusals ---------------------------------------------------------------------------------


def damaged(sample: samples.Sample, folder: Path, how: str) -> Path:
    path = samples.make(sample, folder)
    data = path.read_bytes()
    start = data.index(b"PK\3\4", data.index(b"eng/mod.py"))
    if how == "cut short":
        data = data[:-40]
    elif how == "followed":
        data += b"more"
    elif how == "preceded":
        data = b"#!/bin/sh\n" + data
    elif how == "local name":
        data = data.replace(b"eng/mod.py", b"eng/MOD.py", 1)
    elif how == "a bit":
        data = data[: start + 90] + bytes([data[start + 90] ^ 1]) + data[start + 91 :]
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("how", ["cut short", "followed", "preceded", "local name", "a bit"])
def test_a_damaged_archive_is_refused(tmp_path: Path, how: str) -> None:
    path = damaged(samples.plain(), tmp_path / "in", how)

    def attempt() -> None:
        with Wheel(path) as wheel:
            wheel.verify()
            repack(wheel, tmp_path / "out", version=NEW, changes={})

    with pytest.raises((ArchiveRefused, WheelInvalid)):
        attempt()
    assert not (tmp_path / "out").exists()


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = samples.make(samples.plain(), tmp_path)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive_:
        archive_.writestr("eng/mod.py", b"other")
    with pytest.raises(ArchiveRefused, match="two members"):
        Wheel(path)


@pytest.mark.parametrize("name", ["../up.py", "/abs.py", "eng/a\\b.py"])
def test_names_that_leave_the_tree_are_refused(tmp_path: Path, name: str) -> None:
    sample = samples.plain()
    sample.files[name] = b"x"
    with pytest.raises(ArchiveRefused):
        Wheel(samples.make(sample, tmp_path))


def test_links_are_refused(tmp_path: Path) -> None:
    path = samples.make(samples.plain(), tmp_path)
    info = zipfile.ZipInfo("eng/link.py")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(path, "a") as archive_:
        archive_.writestr(info, b"/etc/passwd")
    with pytest.raises(ArchiveRefused, match="link"):
        Wheel(path)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (b"eng/mod.py,sha256=|eng/mod.py,md5=", "no safe hash"),
        (b"eng/mod.py,|eng/mod2.py,", "not listed"),
        (b"eng/mod.py,|eng/mod2.py,", "is listed in RECORD but is not in the wheel"),
        (b",31\r\n|,32\r\n", "RECORD says 32"),
        (b"eng/tool.sh,|eng/mod.py,", "again"),
        (b",31\r\n|\r\n", "2 fields"),
    ],
)
def test_a_record_that_is_not_the_wheels_is_refused(
    tmp_path: Path, spoil: bytes, said: str
) -> None:
    sample = samples.plain(spoil_record=spoil)
    sample.files["eng/mod.py"] = b"x = 1\n".ljust(31, b"#")
    with pytest.raises(WheelInvalid, match=said):
        Wheel(samples.make(sample, tmp_path))


def test_a_hash_that_is_wrong_is_found(tmp_path: Path) -> None:
    right = samples.digest(samples.plain().files["eng/mod.py"]).encode()
    sample = samples.plain(spoil_record=right + b"|" + samples.digest(b"").encode())
    with (
        Wheel(samples.make(sample, tmp_path)) as wheel,
        pytest.raises(WheelInvalid, match=r"eng/mod\.py: has another content"),
    ):
        wheel.verify()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metadata": samples.METADATA.replace("{version}", "1.1")}, "is about eng-1.1"),
        ({"metadata": samples.METADATA.replace("{name}", "other")}, "is about other-1.0"),
        ({"metadata": samples.METADATA.replace("Version: {version}\n", "")}, "one line Name"),
        ({"metadata": samples.METADATA.replace("Summary: ", "Version: ")}, "one line Name"),
    ],
)
def test_a_wheel_that_contradicts_itself_is_refused(
    tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    with pytest.raises(WheelInvalid, match=said):
        Wheel(samples.make(samples.plain(**changes), tmp_path))


def test_a_wheel_with_a_strange_data_folder_is_refused(tmp_path: Path) -> None:
    sample = samples.plain()
    sample.files["eng-2.0.data/scripts/x"] = b"#!python\n"
    with pytest.raises(WheelInvalid, match=r"eng-2\.0\.data: does not match"):
        Wheel(samples.make(sample, tmp_path))


@pytest.mark.parametrize("name", ["eng-patched.whl", "eng-1.0-patched-py3-none-any.whl", "x.zip"])
def test_a_file_that_is_not_named_like_a_wheel_is_refused(tmp_path: Path, name: str) -> None:
    path = samples.make(samples.plain(), tmp_path)
    with pytest.raises(WheelInvalid, match="the file name"):
        Wheel(path, name)


def test_another_sha256_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ArtefactMismatch):
        build(samples.plain(), tmp_path, sha256="0" * 64)
    assert list((tmp_path / "out").iterdir()) == []


def test_the_sha256_is_that_of_the_whole_input(tmp_path: Path) -> None:
    source = samples.make(samples.plain(), tmp_path / "again")
    sha256 = hashlib.sha256(source.read_bytes()).hexdigest()
    assert build(samples.plain(), tmp_path, sha256=sha256).source_sha256 == sha256


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    source = samples.make(samples.plain(), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, source, tmp_path / "out", "022"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "File too large" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_that_shrinks_while_it_is_copied_is_an_error(tmp_path: Path) -> None:
    source = samples.make(samples.plain(), tmp_path / "in")
    with Wheel(source) as wheel:
        os.truncate(source, 200)
        with pytest.raises((OSError, ArchiveRefused)):
            repack(wheel, tmp_path / "out", version=NEW, changes={})
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []
