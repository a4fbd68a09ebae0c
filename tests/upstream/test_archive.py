"""Reading archives: proper ones whatever tool wrote them, and every trick that must be refused."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import archives
from tests.support.archives import ZipMember, pax, tar_entry, tar_gz, wheel_members, zip_file

from pseries.errors import ArchiveRefused
from pseries.upstream import archive
from pseries.upstream.member import LIMITS, Limits

SDIST = "eng-1.0.tar.gz"
WHEEL = "eng-1.0-py3-none-any.whl"
FILES = {"eng/a.py": b"a = 1\n", "eng/b/c.py": b"", "eng/run.sh": b"#!/bin/sh\n"}


def read(data: bytes, filename: str, limits: Limits = LIMITS) -> dict[str, tuple[bool, bytes]]:
    found = {}
    for member in archive.members(io.BytesIO(data), filename, limits):
        found[member.path] = (member.executable, b"".join(member.chunks))
        assert len(found[member.path][1]) == member.size
    return found


def refusal(data: bytes, filename: str, limits: Limits = LIMITS) -> str:
    with pytest.raises(ArchiveRefused) as caught:
        read(data, filename, limits)
    assert filename in str(caught.value)
    return str(caught.value)


# --- proper archives --------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("backwards", [False, True])
def test_an_sdist_is_read_the_same_whatever_wrote_it(flavour: int, backwards: bool) -> None:
    data = archives.sdist(
        "eng", "1.0", FILES, executable=["eng/run.sh"], flavour=flavour, backwards=backwards
    )
    assert read(data, SDIST) == {
        "eng/a.py": (False, b"a = 1\n"),
        "eng/b/c.py": (False, b""),
        "eng/run.sh": (True, b"#!/bin/sh\n"),
    }


@pytest.mark.parametrize("flavour", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_and_odd_names_survive(flavour: int) -> None:
    names = {"d/" * 60 + "x" * 200: b"1", "caf\u00e9.py": b"2", "n" * 101: b"3", "lat\udce9n": b"4"}
    data = archives.sdist("eng", "1.0", names, flavour=flavour)
    assert {path: found[1] for path, found in read(data, SDIST).items()} == names


def test_a_prefix_of_ustar_is_part_of_the_name() -> None:
    data = tar_gz(tar_entry(b"a.py", b"x", prefix=b"eng-1.0/deep"))
    assert read(data, SDIST) == {"deep/a.py": (False, b"x")}


def test_a_gnu_header_has_no_prefix() -> None:
    data = tar_gz(tar_entry(b"eng-1.0/a.py", b"x", prefix=b"12345", magic=b"ustar  \0"))
    assert read(data, SDIST) == {"a.py": (False, b"x")}


def test_a_wheel_is_read_with_its_folders_and_modes() -> None:
    data = archives.wheel("eng", "1.0", FILES, executable=["eng/run.sh"])
    found = read(data, WHEEL)
    assert found["eng/run.sh"] == (True, b"#!/bin/sh\n")
    assert found["eng/a.py"] == (False, b"a = 1\n")
    assert "eng-1.0.dist-info/RECORD" in found
    folder = ZipMember(b"eng/", mode=0o40775, method=0)
    assert "eng/x.py" in read(zip_file(*wheel_members(folder, ZipMember(b"eng/x.py"))), WHEEL)


def test_an_sdist_may_be_a_zip() -> None:
    data = zip_file(ZipMember(b"eng-1.0/eng/a.py", b"a"))
    assert read(data, "eng-1.0.zip") == {"eng/a.py": (False, b"a")}


def test_sizes_that_follow_the_data_are_read() -> None:
    data = b"streamed" * 1000
    for wide in ("2L", "2Q"):
        numbers = struct.pack(f"<L{wide}", zlib.crc32(data), len(deflated(data)), len(data))
        for descriptor in (numbers, b"PK\7\10" + numbers):
            member = ZipMember(b"eng/a.py", data, flags=8, descriptor=descriptor)
            found = read(zip_file(*wheel_members(member, ZipMember(b"eng/b.py", b"b"))), WHEEL)
            assert found["eng/a.py"] == (False, data)
            assert found["eng/b.py"] == (False, b"b")


def test_what_zipfile_streams_is_read() -> None:
    """It writes data descriptors, and zip64 fields when it is told that a member may be large."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: object) -> int:
            raise OSError("a pipe")

        tell = seek

    out = Pipe()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as writer:
        for name in ("eng-1.0.dist-info/RECORD", "eng/a.py"):
            with writer.open(name, "w", force_zip64=True) as member:
                member.write(b"x = 1\n" * 50)
    assert read(out.getvalue(), WHEEL)["eng/a.py"][1] == b"x = 1\n" * 50


def test_zip64_is_read() -> None:
    member = ZipMember(
        b"eng/a.py", b"abc", size=0xFFFFFFFF, local_size=3, extra=struct.pack("<2HQ", 1, 8, 3)
    )
    assert read(zip_file(*wheel_members(member), zip64=True), WHEEL)["eng/a.py"] == (False, b"abc")


def test_members_that_nobody_reads_are_passed_over() -> None:
    files = {"eng/a.py": b"a" * 100_000, "eng/b.py": b"b"}
    for data, name in (
        (archives.sdist("eng", "1.0", files), SDIST),
        (archives.wheel("eng", "1.0", files), WHEEL),
    ):
        found = [member.path for member in archive.members(io.BytesIO(data), name)]
        assert {"eng/a.py", "eng/b.py"} <= set(found)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}\.py", fullmatch=True), st.binary(max_size=2000)))
def test_every_content_comes_out_as_it_went_in(files: dict[str, bytes]) -> None:
    files = {**files, "always": b""}
    sdist = read(archives.sdist("eng", "1.0", files), SDIST)
    wheel = read(archives.wheel("eng", "1.0", files), WHEEL)
    assert {path: found[1] for path, found in sdist.items()} == files
    assert {path: wheel[path][1] for path in files} == files


@given(st.data())
def test_no_damage_goes_unnoticed(data: st.DataObject) -> None:
    """Whatever single byte is changed: the same files come out, or an error; never other files."""
    for whole, name in (
        (archives.sdist("eng", "1.0", FILES), SDIST),
        (archives.wheel("eng", "1.0", FILES), WHEEL),
    ):
        good = {path: found[1] for path, found in read(whole, name).items()}
        at = data.draw(st.integers(0, len(whole) - 1))
        flip = data.draw(st.integers(1, 255))
        bad = whole[:at] + bytes((whole[at] ^ flip,)) + whole[at + 1 :]
        try:
            found = {path: item[1] for path, item in read(bad, name).items()}
        except ArchiveRefused:
            continue
        assert found == good


@given(st.data())
def test_every_cut_is_noticed(data: st.DataObject) -> None:
    for whole, name in (
        (archives.sdist("eng", "1.0", FILES), SDIST),
        (archives.wheel("eng", "1.0", FILES), WHEEL),
    ):
        refusal(whole[: data.draw(st.integers(0, len(whole) - 1))], name)


# --- names ------------------------------------------------------------------------------------

BAD_NAMES = {
    b"/etc/passwd": "absolute",
    b"C:/x": "absolute",
    b"eng/../../x": "leaves the tree",
    b"eng/./x": "'.' component",
    b"eng//x": "empty",
    b"eng\\x": "backslash",
    b"eng/a\nb": "control",
    b"eng/.git/config": ".git",
    b"eng/.GIT/hooks/x": ".git",
}


@pytest.mark.parametrize(("name", "reason"), BAD_NAMES.items(), ids=repr)
def test_names_that_lead_elsewhere_are_refused(name: bytes, reason: str) -> None:
    inside = name if name.startswith((b"/", b"C:")) else b"eng-1.0/" + name
    assert reason in refusal(tar_gz(tar_entry(inside)), SDIST)
    assert reason in refusal(tar_gz(pax({"path": inside}), tar_entry(b"eng-1.0/ok")), SDIST)
    assert reason in refusal(zip_file(*wheel_members(ZipMember(name))), WHEEL)


def test_a_name_with_nul_is_refused() -> None:
    assert "control" in refusal(zip_file(*wheel_members(ZipMember(b"eng/a.py\0.txt"))), WHEEL)
    hidden = pax({"path": b"eng-1.0/a.py\0.txt"})
    assert "control" in refusal(tar_gz(hidden, tar_entry(b"eng-1.0/ok")), SDIST)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("a", "a", "two members"),
        ("a", "a/b", "a file has the name of a folder"),
        ("a/b", "a", "a file has the name of a folder"),
        ("a/b/c", "a/b", "a file has the name of a folder"),
        ("a", "a/", "a folder has the name of a file"),
        ("a/", "a", "a file has the name of a folder"),
    ],
)
def test_names_that_clash_are_refused(first: str, second: str, reason: str) -> None:
    entries = [
        tar_entry(f"eng-1.0/{name}".encode(), kind=b"5" if name.endswith("/") else b"0")
        for name in (first, second)
    ]
    assert reason in refusal(tar_gz(*entries), SDIST)
    members = [
        ZipMember(name.encode(), mode=0o40755 if name.endswith("/") else 0o100644)
        for name in (first, second)
    ]
    assert reason in refusal(zip_file(*wheel_members(*members)), WHEEL)


def test_an_sdist_has_one_top_folder_of_its_name() -> None:
    ok = tar_entry(b"eng-1.0/a.py")
    assert "second top folder" in refusal(tar_gz(ok, tar_entry(b"other/b.py")), SDIST)
    assert "outside the top folder" in refusal(tar_gz(ok, tar_entry(b"b.py")), SDIST)
    assert "not NAME-VERSION" in refusal(tar_gz(tar_entry(b"eng-1.1/a.py")), SDIST)
    assert "not NAME-VERSION" in refusal(tar_gz(tar_entry(b"gne-1.0/a.py")), SDIST)
    assert "no file" in refusal(tar_gz(tar_entry(b"eng-1.0/", kind=b"5")), SDIST)
    assert read(tar_gz(tar_entry(b"Eng-1.0.0/a.py")), SDIST)  # PEP 503 and 440: the same


def test_a_wheel_has_one_dist_info_of_its_name() -> None:
    record = ZipMember(b"eng-1.0.dist-info/RECORD")
    assert read(zip_file(record), WHEEL)
    assert "0 dist-info" in refusal(zip_file(ZipMember(b"eng/a.py")), WHEEL)
    other = ZipMember(b"gne-1.0.dist-info/RECORD")
    assert "2 dist-info" in refusal(zip_file(record, other), WHEEL)
    assert "another distribution" in refusal(zip_file(other), WHEEL)
    newer = ZipMember(b"eng-1.1.dist-info/RECORD")
    assert "another distribution" in refusal(zip_file(newer), WHEEL)
    assert "no RECORD" in refusal(zip_file(ZipMember(b"eng-1.0.dist-info/METADATA")), WHEEL)


def test_only_wheels_and_sdists_are_read() -> None:
    for name in ("eng-1.0.tar.bz2", "eng.tar.gz", "eng-1.0.whl", "eng-1.0.exe", "eng-x.y.tar.gz"):
        assert archive.named(name) is None
        assert "not the name" in refusal(b"", name)
    assert archive.named("Eng_Ine-1.0.0-py3-none-any.whl") == archive.named(
        "eng_ine-1.0-py3-none-any.whl"
    )


# --- tar --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (b"1", "hard link"), (b"2", "symbolic link"), (b"3", "device"), (b"4", "device"),
        (b"6", "named pipe"), (b"7", "contiguous"), (b"S", "sparse"), (b"K", "link"),
        (b"Z", "unknown kind"), (b"X", "unknown kind"),
    ],
)  # fmt: skip
def test_only_files_and_folders_are_taken_from_a_tar(kind: bytes, what: str) -> None:
    entry = tar_entry(b"eng-1.0/x", kind=kind, link=b"/etc/passwd")
    assert what in refusal(tar_gz(tar_entry(b"eng-1.0/a"), entry), SDIST)


def test_sparse_files_in_pax_dress_are_refused() -> None:
    for records in ({"GNU.sparse.major": b"1"}, {"GNU.sparse.name": b"eng-1.0/x"}):
        entries = (pax(records), tar_entry(b"eng-1.0/a"))
        assert "sparse" in refusal(tar_gz(*entries), SDIST)


def test_damaged_tar_headers_are_refused() -> None:
    ok = tar_entry(b"eng-1.0/a")
    assert "checksum" in refusal(tar_gz(ok, tar_entry(b"eng-1.0/b", checksum=1)), SDIST)
    bad_size = tar_entry(b"eng-1.0/b", size=b"0000000009x\0")
    assert "not a number" in refusal(tar_gz(ok, bad_size), SDIST)
    negative = tar_entry(b"eng-1.0/b", size=b"\xff" * 12)
    assert "not a number" in refusal(tar_gz(ok, negative), SDIST)
    assert "'eng-1.0/b/'" in refusal(tar_gz(ok, tar_entry(b"eng-1.0/b/")), SDIST)
    folder = tar_entry(b"eng-1.0/b/", b"content", kind=b"5")
    assert "a folder has content" in refusal(tar_gz(folder), SDIST)


def test_a_size_in_base_256_is_read() -> None:
    size = b"\x80" + (3).to_bytes(11, "big")
    assert read(tar_gz(tar_entry(b"eng-1.0/a", b"abc", size=size)), SDIST) == {"a": (False, b"abc")}


def test_extended_headers_are_read_strictly() -> None:
    ok = tar_entry(b"eng-1.0/a", b"x")
    comment = pax({"comment": b"0123"}, kind=b"g")
    assert read(tar_gz(comment, pax({"mtime": b"1.5"}), ok), SDIST) == {"a": (False, b"x")}
    renamed = tar_gz(pax({"path": b"eng-1.0/b", "size": b"1"}), ok)
    assert read(renamed, SDIST) == {"b": (False, b"x")}
    for entries, reason in (
        ((pax({"path": b"eng-1.0/b"}, kind=b"g"), ok), "global header"),
        ((pax({"path": b"eng-1.0/b"}), pax({"path": b"eng-1.0/c"}), ok), "two extended headers"),
        ((pax({"size": b"-1"}), ok), "not a number"),
        ((pax({"path": b"eng-1.0/b"}),), "no member"),
        ((tar_entry(b"x", b"8 path=b\n", kind=b"x"), ok), "damaged"),
        ((tar_entry(b"x", b"9 path=b\n", kind=b"x"), ok), "'b'"),
        ((tar_entry(b"x", b"99 path=b\n", kind=b"x"), ok), "damaged"),
        ((tar_entry(b"x", b"12 a=1\n", kind=b"x"), ok), "damaged"),
        ((tar_entry(b"x", b"6 a=1\n6 a=1\n", kind=b"x"), ok), "twice"),
        ((tar_entry(b"x", b" " * (1 << 20) + b"x", kind=b"x"), ok), "too long"),
    ):
        assert reason in refusal(tar_gz(*entries), SDIST)


def test_the_end_of_a_tar_is_looked_at() -> None:
    """The standard library stops without a word at the first header that it cannot read."""
    ok = tar_entry(b"eng-1.0/a")
    assert "closed by two" in refusal(tar_gz(ok, end=bytes(512) + ok), SDIST)
    assert "cut short" in refusal(tar_gz(ok, end=b""), SDIST)
    assert "cut short" in refusal(tar_gz(ok, end=bytes(512)), SDIST)
    assert "follows the end of the archive" in refusal(tar_gz(ok, after=ok), SDIST)
    assert read(tar_gz(ok, after=bytes(8192)), SDIST)
    whole = tar_gz(ok)
    assert "follows the end of the gzip" in refusal(whole + b"x", SDIST)
    assert "follows the end of the gzip" in refusal(whole + whole, SDIST)
    assert "not gzip" in refusal(b"x" + whole, SDIST)


# --- zip --------------------------------------------------------------------------------------


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


A = ZipMember(b"eng/a.py", b"a = 1\n")
LIES = {
    "another name": ZipMember(b"eng/a.py", b"x", local_name=b"eng/b.py"),
    "other flags": ZipMember(b"eng/a.py", b"x", local_flags=0x800),
    "another method": ZipMember(b"eng/a.py", b"x", method=0, local_method=8),
    "another checksum": ZipMember(b"eng/a.py", b"x", local_crc=1),
    "another size": ZipMember(b"eng/a.py", b"x", local_size=7),
}


@pytest.mark.parametrize("member", LIES.values(), ids=LIES.keys())
def test_local_and_central_headers_must_agree(member: ZipMember) -> None:
    assert "disagree" in refusal(zip_file(*wheel_members(member)), WHEEL)


def test_nothing_may_lie_around_the_members() -> None:
    members = wheel_members(A)
    first = ZipMember(members[0].name, members[0].data, gap=b"x")
    shifted = zip_file(
        ZipMember(b"eng-1.0.dist-info/RECORD", b"", offset=0), A, before=b"#!/bin/sh"
    )
    for data, reason in (
        (b"MZ" + zip_file(*members), "before the archive"),
        (zip_file(*members) + b"x", "follows its end"),
        (zip_file(*members, comment=b"hello"), "follows its end"),
        (zip_file(*members)[:-2] + b"\5\0", "cut short"),
        (zip_file(*members, between=b"x"), "last member and the central"),
        (zip_file(first, *members[1:]), "gap"),
        (zip_file(*members[:1], ZipMember(b"eng/b.py", b"b", gap=b"x"), *members[1:]), "gap"),
        (zip_file(*members, before=b"x"), "gap"),
        (shifted, "there is no member"),
    ):
        assert reason in refusal(data, WHEEL)


def test_members_may_not_overlap() -> None:
    """The quine of Fifield's zip bomb: many names, one compressed core."""
    bomb = zip_file(*wheel_members(ZipMember(b"eng/a.py", b"x"), ZipMember(b"eng/b.py", offset=0)))
    assert "overlaps" in refusal(bomb, WHEEL)


def test_members_that_cannot_be_read_are_refused() -> None:
    for member, reason in (
        (ZipMember(b"eng/a.py", b"x", flags=1), "encrypted"),
        (ZipMember(b"eng/a.py", b"x", flags=0x40), "encrypted"),
        (ZipMember(b"eng/a.py", b"x", flags=0x2000), "encrypted"),
        (ZipMember(b"eng/a.py", b"x", method=12), "neither stored nor deflated"),
        (ZipMember(b"eng/a.py", b"x", mode=0o120777), "link or device"),
        (ZipMember(b"eng/a.py", b"x", mode=0o020666), "link or device"),
        (ZipMember(b"eng/a/", b"x", mode=0o40755), "folder's"),
        (ZipMember(b"eng/a/", mode=0o100644), "folder's"),
        (ZipMember("eng/\u00e9.py".encode(), b"x"), "not marked as UTF-8"),
        (ZipMember(b"eng/a.py", b"x", disk=1), "another part"),
        (ZipMember(b"eng/a.py", b"x", extra=struct.pack("<2H5s", 0x7075, 5, b"\1....")), "second"),
        (ZipMember(b"eng/a.py", b"x", local_extra=struct.pack("<2H5s", 0x7075, 5, b"")), "second"),
        (ZipMember(b"eng/a.py", b"x", extra=b"\1\0\xff\0"), "extra fields are damaged"),
        (ZipMember(b"eng/a.py", b"x", extra=b"abc"), "extra fields are damaged"),
        (ZipMember(b"eng/a.py", b"x", size=0xFFFFFFFF), "zip64 field is missing"),
        (ZipMember(b"eng/a.py", b"x", method=0, size=2), "sizes differ"),
    ):
        assert reason in refusal(zip_file(*wheel_members(member)), WHEEL)
    fine = ZipMember("eng/\u00e9.py".encode(), b"x", flags=0x800)
    assert "eng/\u00e9.py" in read(zip_file(*wheel_members(fine)), WHEEL)


def test_damaged_data_is_refused() -> None:
    for member, reason in (
        (ZipMember(b"eng/a.py", b"x", crc=1, local_crc=1), "size or checksum"),
        (ZipMember(b"eng/a.py", b"xyz", size=2, local_size=2), "size or checksum"),
        (ZipMember(b"eng/a.py", b"xyz", size=4, local_size=4), "size or checksum"),
        (ZipMember(b"eng/a.py", b"xyz", packed=b"\xff\xff"), "damaged"),
        (ZipMember(b"eng/a.py", b"x", packed=deflated(b"x")[:-1]), "longer or shorter"),
        (ZipMember(b"eng/a.py", b"x", packed=deflated(b"x") + b"y"), "longer or shorter"),
        (ZipMember(b"eng/a.py", b"x", flags=8, descriptor=b""), "data descriptor"),
        (ZipMember(b"eng/a.py", b"x", flags=8, descriptor=bytes(16)), "data descriptor"),
    ):
        assert reason in refusal(zip_file(*wheel_members(member)), WHEEL)


def test_the_directory_must_count_right() -> None:
    assert "says 7" in refusal(zip_file(*wheel_members(A), count=7), WHEEL)
    assert "members" in refusal(zip_file(*wheel_members(A), count=7, zip64=True), WHEEL)
    whole = zip_file(*wheel_members(A), zip64=True)
    assert read(whole, WHEEL)
    record = whole.rindex(b"PK\6\6")
    for at in (record, record + 4, record + 16, record + 20, record + 48, record + 56, record + 72):
        bad = whole[:at] + bytes((whole[at] ^ 3,)) + whole[at + 1 :]
        assert "zip64" in (said := refusal(bad, WHEEL)) or "part" in said or "before" in said


# --- limits -----------------------------------------------------------------------------------


def test_bombs_are_refused() -> None:
    blanks = b"\0" * (2 << 20)
    assert "200 times" in refusal(tar_gz(tar_entry(b"eng-1.0/a", blanks)), SDIST)
    assert "200 times" in refusal(zip_file(*wheel_members(ZipMember(b"eng/a", blanks))), WHEEL)
    few = b"\0" * (1 << 19)
    assert read(tar_gz(tar_entry(b"eng-1.0/a", few)), SDIST)
    assert read(zip_file(*wheel_members(ZipMember(b"eng/a", few))), WHEEL)


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    """It says a gigabyte: the reading stops early, and never holds more than a block."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6, mtime=0) as packed:
        packed.write(tar_entry(b"eng-1.0/a", size=b"%011o\0" % (1 << 30)))
        for _ in range(16):
            packed.write(bytes(1 << 22))
    member = next(archive.members(io.BytesIO(out.getvalue()), SDIST))
    sizes: list[int] = []
    with pytest.raises(ArchiveRefused, match="200 times"):
        sizes.extend(len(chunk) for chunk in member.chunks)
    assert max(sizes) <= 1 << 20
    assert sum(sizes) < 32 << 20


def test_totals_are_bounded() -> None:
    small = Limits(members=3, total=10)
    files = [tar_entry(b"eng-1.0/%d" % number, b"xxxx") for number in range(4)]
    assert "more than 10 bytes" in refusal(tar_gz(*files[:3]), SDIST, small)
    empty = [tar_entry(b"eng-1.0/%d" % number) for number in range(4)]
    assert "more than 3 members" in refusal(tar_gz(*empty), SDIST, small)
    folders = [tar_entry(b"eng-1.0/%d/" % number, kind=b"5") for number in range(4)]
    assert "more than 3 members" in refusal(tar_gz(*folders), SDIST, small)
    assert "more than 3 members" in refusal(zip_file(*wheel_members(A, A)), WHEEL, small)
    assert "more than 10 bytes" in refusal(zip_file(*wheel_members()), WHEEL, small)
    assert read(tar_gz(*files[:2]), SDIST, small)


def test_a_lying_size_does_not_let_a_member_grow() -> None:
    entry = tar_entry(b"eng-1.0/a", b"abc", size=b"%011o\0" % 100_000)
    assert "cut short" in refusal(tar_gz(entry), SDIST)
