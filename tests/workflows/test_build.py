"""Exports of the made-up engine: a release with wheels and an sdist on an index of local files."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from packaging import tags
from tests.export import samples
from tests.support import engine
from tests.support.index_server import serving
from tests.workflows.conftest import CHANGED

from pseries import errors
from pseries.export import index as indexes
from pseries.export.wheel import Wheel
from pseries.upstream.store import Store
from pseries.workflows.exports import build, build_kit, build_sdist, platforms
from pseries.workflows.rebase import choice
from pseries.workflows.series import catalog
from pseries.workflows.series import release as releases
from pseries.workflows.series.means import Means
from pseries.workflows.target import apply as applying

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.workflows.conftest import Bench

    from pseries.model.series import Series
    from pseries.workflows.exports.build import BuiltWheel

HERE = f"cp{sys.version_info.major}{sys.version_info.minor}"
FOREIGN = "eng-1.0-cp38-abi3-manylinux_2_28_riscv64.whl"
WHEELS = ("eng-1.0-py3-none-any.whl", FOREIGN)
RELOCATE = '[[relocate]]\nname = "ppu"\nfrom = "eng/nvidia"\nto = "eng/ppu"\n'


def sample(files: Mapping[str, bytes] = engine.FILES, **options: str) -> samples.Sample:
    return samples.Sample(
        dict(files), executable=frozenset({"eng/tool.sh"}), folders=True, **options
    )


def sdist(folder: Path, files: Mapping[str, bytes]) -> Path:
    path = folder / "eng-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, data in {"PKG-INFO": b"Name: eng\nVersion: 1.0\n", **files}.items():
            info = tarfile.TarInfo(f"eng-1.0/{name}")
            info.size, info.mode = len(data), 0o755 if name.endswith(".sh") else 0o644
            tar.addfile(info, io.BytesIO(data))
    return path


class Release:
    """A locked series whose manifest pins the files of an index of local files."""

    def __init__(
        self,
        bench: Bench,
        series: Series,
        files: Mapping[str, bytes],
        wheels: tuple[str, ...] = WHEELS,
    ) -> None:
        self.bench = bench
        self.folder = bench.tmp / "index"
        for name in wheels:
            samples.make(
                sample(tag=name.removeprefix("eng-1.0-").removesuffix(".whl")), self.folder
            )
        if files:
            sdist(self.folder, files)
        indexes.build(self.folder)
        self.network = Means(index_url=f"{(self.folder / 'simple').as_uri()}/")
        location = catalog.Location(bench.series_dir, "the test's")
        releases.lock_folder(series.name, location, Means(index_url=self.network.index_url))
        self.series = catalog.load(series.name, location)
        self.out = bench.tmp / "dist"

    def wheels(self, **options: object) -> list[BuiltWheel]:
        return list(
            build.build_wheels(self.series, self.out, means=self.network, **options)  # type: ignore[arg-type]
        )

    def left(self) -> list[str]:
        return sorted(path.name for path in self.out.iterdir()) if self.out.exists() else []


SOURCES = {**engine.FILES, **engine.EXTRA, "setup.py": b"os.getenv('ENG_VERSION_OVERRIDE')\n"}


@pytest.fixture
def release(bench: Bench, whole: Series) -> Release:
    return Release(bench, whole, SOURCES)


def unpacked(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}


# --- wheels -----------------------------------------------------------------------------------


def test_a_wheel_holds_what_apply_would_have_installed(release: Release) -> None:
    (built,) = release.wheels()
    assert built.path.name == "eng-1.0+t.1-py3-none-any.whl"
    assert built.pinned
    files = {path: data for path, data in unpacked(built.path).items() if ".dist-info/" not in path}
    assert files == CHANGED
    applying.apply(release.series, release.bench.site)
    installed = {path: (release.bench.site / path).read_bytes() for path in files}
    assert installed == files
    assert not (release.bench.site / "eng/old.py").exists()


def test_the_report_names_every_member_that_differs(release: Release) -> None:
    (built,) = release.wheels()
    old, new = unpacked(release.folder / WHEELS[0]), unpacked(built.path)
    named = {each.name for each in built.differences}
    assert {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)} <= named | {
        name.replace("eng-1.0.", "eng-1.0+t.1.") for name in named
    } | {name for name in old if ".dist-info/" in name}
    changed = {each.name for each in built.differences if each.what == "changed"}
    assert changed == {
        "eng/core.py", "eng/nvidia/ops.py",
        "eng-1.0+t.1.dist-info/METADATA", "eng-1.0+t.1.dist-info/WHEEL",
        "eng-1.0+t.1.dist-info/RECORD",
    }  # fmt: skip


def test_the_bill_of_materials_names_artefact_and_patches(release: Release) -> None:
    (built,) = release.wheels()
    bill = json.loads(unpacked(built.path)["eng-1.0+t.1.dist-info/sboms/pseries.cdx.json"])
    pedigree = bill["metadata"]["component"]["pedigree"]
    sha256 = hashlib.sha256((release.folder / WHEELS[0]).read_bytes()).hexdigest()
    assert pedigree["ancestors"][0]["hashes"][0]["content"] == sha256 == built.upstream_sha256
    assert len(pedigree["patches"]) == len(release.series.patches)


def test_all_wheels_of_the_release(release: Release) -> None:
    built = release.wheels(wanted=platforms.Wanted(everything=True))
    assert [each.upstream for each in built] == sorted(WHEELS)
    assert len(release.left()) == 2


def test_built_twice_it_is_the_same(release: Release) -> None:
    first = release.wheels()[0].path.read_bytes()
    (again,) = release.wheels()
    assert again.path.read_bytes() == first
    assert not again.replaced


def test_another_wheel_of_the_same_version_is_not_replaced_silently(bench: Bench) -> None:
    path = samples.make(sample(), bench.tmp)
    before = dict(engine.FILES)
    replaced = []
    for text in (b"X = 1\n", b"X = 2\n"):
        shutil.rmtree(bench.series_dir / "eng-1.0", ignore_errors=True)
        series = bench.series({"0001-x.patch": bench.patch(before, {**before, "eng/x.py": text})})
        built = build.build_wheels(series, bench.tmp / "dist", given=str(path), means=Means())
        replaced += [each.replaced for each in built]
    assert replaced == [False, True]
    (bench.tmp / "dist" / "eng-1.0+t.1-py3-none-any.whl").write_bytes(b"no wheel")
    (built,) = build.build_wheels(series, bench.tmp / "dist", given=str(path), means=Means())
    assert not built.replaced


def test_offline_it_takes_what_was_downloaded(release: Release) -> None:
    first = release.wheels()[0].path.read_bytes()
    shutil.rmtree(release.folder)
    release.network = Means(offline=True)
    assert release.wheels()[0].path.read_bytes() == first
    (Store.open("eng").downloads / WHEELS[0]).unlink()
    with pytest.raises(errors.FileNotStored, match="is not in the store, and --offline"):
        release.wheels()


def test_a_damaged_download_is_fetched_again(release: Release) -> None:
    release.wheels()
    cached = Store.open("eng").downloads / WHEELS[0]
    data = cached.read_bytes()
    cached.write_bytes(data[:300] + b"x" + data[301:])
    release.wheels()
    assert cached.read_bytes() == data


def test_a_record_is_verified_once_for_a_wheel(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    real = Wheel.verify
    monkeypatch.setattr(Wheel, "verify", lambda self, **_: calls.append(real(self)))
    release.wheels()
    release.wheels()
    assert len(calls) == 1


def test_progress_is_told_of_verifying_and_writing(release: Release) -> None:
    told: list[str] = []
    release.network = Means(
        index_url=release.network.index_url, progress=lambda what, *_: told.append(what)
    )
    release.wheels()
    assert {what.partition(" ")[0] for what in told} >= {"verifying", "writing"}


def test_a_given_wheel_with_a_label_that_the_manifest_does_not_know(release: Release) -> None:
    path = samples.make(sample(version="1.0+cu129"), release.bench.tmp / "given")
    (built,) = release.wheels(given=str(path))
    assert built.path.name == "eng-1.0+cu129.t.1-py3-none-any.whl"
    assert not built.pinned
    assert built.upstream_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_given_address_with_a_hash(release: Release) -> None:
    path = samples.make(sample(version="1.0+cu129"), release.bench.tmp / "given")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    address = path.as_uri().replace("+", "%2B")
    (built,) = release.wheels(given=f"{address}#sha256={sha256}")
    assert built.version == "1.0+cu129.t.1"
    release.out = release.bench.tmp / "again"
    (Store.open("eng").downloads / path.name).unlink()
    with pytest.raises(errors.ArtefactMismatch):
        release.wheels(given=f"{address}#sha256={'0' * 64}")
    assert release.left() == []


def test_a_given_wheel_that_is_not_the_pinned_one_is_refused(release: Release) -> None:
    other = sample({**engine.FILES, "eng/more.py": b"m = 1\n"})
    path = samples.make(other, release.bench.tmp / "given")
    with pytest.raises(errors.ArtefactMismatch, match="the manifest"):
        release.wheels(given=str(path))
    assert release.left() == []


def test_a_wheel_that_was_patched_before_is_refused_as_such(release: Release) -> None:
    (built,) = release.wheels()
    release.out = release.bench.tmp / "again"
    with pytest.raises(errors.AlreadyPatched, match=r"eng-1\.0\+t\.1-py3-none-any\.whl holds"):
        release.wheels(given=str(built.path))
    assert release.left() == []


@pytest.mark.parametrize("given", ["ftp://x/eng-1.0-py3-none-any.whl", "x://"])
def test_an_address_of_another_kind_is_refused_as_such(release: Release, given: str) -> None:
    with pytest.raises(errors.UpstreamInvalid, match="only https, http, file and paths"):
        release.wheels(given=given)


@pytest.mark.parametrize("given", ["", "./", "/"])
def test_what_names_a_folder_is_refused_as_such(release: Release, given: str) -> None:
    with pytest.raises(IsADirectoryError):
        release.wheels(given=given)


def test_a_pipe_is_not_waited_for(release: Release) -> None:
    path = release.bench.tmp / "eng-1.0+x-py3-none-any.whl"
    os.mkfifo(path)
    with pytest.raises(errors.ArchiveRefused, match="not a regular file"):
        release.wheels(given=str(path))


def test_a_folder_in_the_way_is_named(release: Release) -> None:
    target = release.out / "eng-1.0+t.1-py3-none-any.whl"
    target.mkdir(parents=True)
    with pytest.raises(IsADirectoryError) as caught:
        release.wheels()
    assert caught.value.filename == str(target)
    assert list(release.out.iterdir()) == [target]


def test_a_link_in_the_way_is_replaced_and_not_followed(release: Release) -> None:
    release.out.mkdir()
    theirs = release.bench.tmp / "theirs"
    theirs.write_bytes(b"theirs")
    (release.out / "eng-1.0+t.1-py3-none-any.whl").symlink_to(theirs)
    (built,) = release.wheels()
    assert not built.path.is_symlink()
    assert theirs.read_bytes() == b"theirs"


@pytest.mark.parametrize("when", ["verifying", "writing"])
def test_an_interrupt_leaves_nothing_behind(release: Release, when: str) -> None:
    def interrupt(what: str, *_: object) -> None:
        if what.startswith(when):
            raise KeyboardInterrupt

    release.network = Means(index_url=release.network.index_url, progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        release.wheels()
    assert release.left() == []


def test_a_cache_that_takes_nothing_is_no_obstacle(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = release.bench.tmp / "file"
    file.write_bytes(b"")
    monkeypatch.setenv("PSERIES_CACHE", str(file))
    (built,) = release.wheels(given=str(release.folder / WHEELS[0]))
    assert built.path.is_file()


def test_a_wheel_with_other_bytes_in_a_touched_file_is_refused(release: Release) -> None:
    other = sample({**engine.FILES, "eng/core.py": b"c = 1\n"}, version="1.0+x")
    path = samples.make(other, release.bench.tmp / "given")
    with pytest.raises(errors.DoesNotApply, match=r"eng/core\.py"):
        release.wheels(given=str(path))
    assert release.left() == []


@pytest.mark.parametrize("spoil", [b"eng/__init__.py,|eng/__init.py,", b"eng/tool.sh,sha|x,sha"])
def test_a_damaged_record_is_refused(release: Release, spoil: bytes) -> None:
    path = samples.make(
        sample(version="1.0+x", tag="py3-none-linux_x86_64"), release.bench.tmp / "good"
    )
    assert release.wheels(given=str(path))
    release.out = release.bench.tmp / "again"
    bad = sample(version="1.0+x")
    bad.spoil_record = spoil
    with pytest.raises(errors.WheelInvalid):
        release.wheels(given=str(samples.make(bad, release.bench.tmp / "bad")))
    assert release.left() == []


@pytest.mark.parametrize(
    "name", ["eng-1.1-py3-none-any.whl", "other-1.0-py3-none-any.whl", "eng.whl"]
)
def test_a_wheel_of_another_release_is_refused(release: Release, name: str) -> None:
    path = release.bench.tmp / name
    shutil.copyfile(release.folder / WHEELS[0], path)
    with pytest.raises(errors.WrongWheel, match=r"is for eng 1\.0"):
        release.wheels(given=str(path))


def test_a_platform_without_a_wheel_is_refused_with_what_there_is(bench: Bench) -> None:
    after = {**engine.FILES, "eng/core.py": CHANGED["eng/core.py"]}
    series = bench.series({"0001-x.patch": bench.patch(dict(engine.FILES), after)})
    release = Release(bench, series, {}, wheels=(FOREIGN,))
    with pytest.raises(errors.NoWheelFits, match=FOREIGN):
        release.wheels(wanted=platforms.Wanted("3.8", "win_arm64"))
    assert release.left() == []


def test_a_file_that_the_index_has_lost_is_named(release: Release) -> None:
    for name in ("eng-1.0.tar.gz", WHEELS[0]):
        (release.folder / name).unlink()
    indexes.build(release.folder)
    with pytest.raises(errors.FileNotListed, match=rf"no {WHEELS[0]}, .*: {WHEELS[1]}$"):
        release.wheels()
    with pytest.raises(errors.FileNotListed, match=r"no eng-1\.0\.tar\.gz, which the manifest"):
        build_sdist.build_sdist(release.series, release.out, means=release.network)
    assert release.left() == []


def test_a_relocated_wheel_is_patched_where_its_files_are(bench: Bench) -> None:
    after = {**engine.FILES, "eng/nvidia/ops.py": CHANGED["eng/nvidia/ops.py"]}
    patch = bench.patch(dict(engine.FILES), after)
    series = bench.series({"0001-x.patch": patch}, rest=RELOCATE)
    moved = {path.replace("/nvidia/", "/ppu/"): data for path, data in engine.FILES.items()}
    path = samples.make(sample(moved, version="1.0+vendor"), bench.tmp)
    (built,) = build.build_wheels(series, bench.tmp / "dist", given=str(path), means=Means())
    assert unpacked(built.path)["eng/ppu/ops.py"] == after["eng/nvidia/ops.py"]
    with pytest.raises(errors.UnknownRelocation):
        list(build.build_wheels(series, bench.tmp, given=str(path), relocate="npu", means=Means()))


NAMES = ("ops.py", "more.py", "last.py")


@pytest.mark.parametrize(
    ("homes", "layout"),
    [
        (dict.fromkeys(NAMES, ("nvidia", "ppu")), "nvidia"),
        (dict.fromkeys(NAMES, ("ppu",)), "ppu"),
        (dict.fromkeys(NAMES, ("ppu", "npu")), None),
        ({"ops.py": ("ppu",), "more.py": ("nvidia",), "last.py": ("ppu",)}, None),
    ],
    ids=["both", "one", "two", "most"],
)
def test_a_wheel_and_an_installed_tree_are_read_in_one_way(
    bench: Bench, homes: dict[str, tuple[str, ...]], layout: str | None
) -> None:
    """The plain place first; a relocation only if it is the only one that has all files."""
    rest = {path: data for path, data in engine.FILES.items() if "nvidia" not in path}
    before = {**rest, **{f"eng/nvidia/{name}": b"M = 1\n" for name in NAMES}}
    after = {**rest, **{f"eng/nvidia/{name}": b"M = 2\n" for name in NAMES}}
    engine.add_release(before, bench.tmp / "two", "2.0")
    series = bench.series(
        {"0001-x.patch": bench.patch(before, after)}, name="eng-2.0", version="2.0",
        rest=RELOCATE + RELOCATE.replace("ppu", "npu"),
    )  # fmt: skip
    there = {f"eng/{home}/{name}": b"M = 1\n" for name in NAMES for home in homes[name]}
    path = samples.make(sample({**rest, **there}, version="2.0"), bench.tmp)
    site = engine.install(bench.tmp / "site-two", {**rest, **there}, version="2.0")
    if layout is None:
        with pytest.raises(errors.DoesNotApply, match=r"eng/nvidia/ops\.py"):
            list(build.build_wheels(series, bench.tmp / "dist", given=str(path), means=Means()))
        with pytest.raises(errors.Drifted):
            applying.apply(series, site)
        return
    (built,) = build.build_wheels(series, bench.tmp / "dist", given=str(path), means=Means())
    applying.apply(series, site)
    for name, data in there.items():
        wanted = b"M = 2\n" if name.startswith(f"eng/{layout}/") else data
        assert unpacked(built.path)[name] == (site / name).read_bytes() == wanted


def test_files_that_a_wheel_does_not_carry_are_skipped_and_named(bench: Bench) -> None:
    before = {**engine.FILES, **engine.EXTRA}
    after = {
        **before, "eng/core.py": CHANGED["eng/core.py"],
        "tests/test_core.py": b"def test():\n    assert 1\n",
    }  # fmt: skip
    series = bench.series({"0001-x.patch": bench.patch(before, after)})
    path = samples.make(sample(), bench.tmp)
    (built,) = build.build_wheels(series, bench.tmp / "dist", given=str(path), means=Means())
    assert [problem.where.split()[-1] for problem in built.skipped] == ["tests/test_core.py"]
    assert "tests/test_core.py" not in unpacked(built.path)


def test_a_stray_module_is_not_lost_silently(bench: Bench) -> None:
    """W01: nobody can say without a build whether it would be in the wheel."""
    patch = bench.patch(dict(engine.FILES), {**engine.FILES, "stray.py": b"s = 1\n"})
    series = bench.series({"0001-x.patch": patch})
    path = samples.make(sample(), bench.tmp)
    with pytest.raises(errors.Unplaceable, match=r"stray\.py"):
        list(build.build_wheels(series, bench.tmp / "dist", given=str(path), means=Means()))
    assert not list((bench.tmp / "dist").glob("*.whl"))


@pytest.mark.parametrize(
    ("path", "refusal"),
    [("csrc/fast.cu", errors.NeedsBuild), ("tests/test_core.py", errors.NothingToApply)],
)
def test_a_series_without_anything_for_a_wheel_is_refused(
    bench: Bench, path: str, refusal: type[errors.Refused]
) -> None:
    before = {**engine.FILES, **engine.EXTRA}
    patch = bench.patch(before, {**before, path: before[path] + b"\n"})
    series = bench.series({"0001-x.patch": patch})
    given = samples.make(sample(), bench.tmp)
    with pytest.raises(refusal):
        list(build.build_wheels(series, bench.tmp / "dist", given=str(given), means=Means()))
    assert not (bench.tmp / "dist").exists()


def test_a_new_script_is_executable_and_other_permissions_stay(bench: Bench) -> None:
    after = {**CHANGED, "eng/new.sh": b"#!/bin/sh\n"}
    series = bench.series({"0001-x.patch": bench.patch(dict(engine.FILES), after)})
    path = samples.make(sample(), bench.tmp)
    (built,) = build.build_wheels(series, bench.tmp / "dist", given=str(path), means=Means())
    with zipfile.ZipFile(built.path) as wheel:
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in wheel.infolist()}
    assert (modes["eng/new.sh"], modes["eng/new/extra.py"]) == (0o755, 0o644)
    assert modes["eng/core.py"] == 0o664


def test_a_series_that_adds_a_link_is_refused(bench: Bench) -> None:
    link = (
        b"diff --git a/eng/link.py b/eng/link.py\nnew file mode 120000\n"
        b"index 0000000000000000000000000000000000000000.."
        b"e7a6b9b5d1b0b6a6e2c4c1a3d7ab9d9b6a8f6c11\n"
        b"--- /dev/null\n+++ b/eng/link.py\n@@ -0,0 +1 @@\n+/etc/passwd\n"
        b"\\ No newline at end of file\n"
    )
    with pytest.raises((errors.PatchRefused, errors.SeriesInvalid), match="symbolic link"):
        bench.series({"0001-x.patch": engine.message() + link})


def test_a_label_that_misleads_is_refused_before_anything_is_fetched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TOML", engine.TOML.replace('"t.1"', '"nocpu.1"'))
    after = {**engine.FILES, "eng/core.py": CHANGED["eng/core.py"]}
    series = bench.series({"0001-x.patch": bench.patch(dict(engine.FILES), after)})
    with pytest.raises(errors.LabelRefused):
        list(build.build_wheels(series, bench.tmp / "dist", given="/nowhere/x.whl", means=Means()))


def test_an_empty_series_is_refused(bench: Bench) -> None:
    series = bench.series({})
    for attempt in (build_sdist.build_sdist, build_kit.build_kit):
        with pytest.raises(errors.NothingToApply):
            attempt(series, bench.tmp / "dist", means=Means())
    with pytest.raises(errors.NothingToApply):
        list(build.build_wheels(series, bench.tmp / "dist", means=Means()))


def test_source_date_epoch_dates_what_is_new(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    (built,) = release.wheels()
    with zipfile.ZipFile(built.path) as wheel:
        assert wheel.getinfo("eng/new/extra.py").date_time == (2023, 11, 14, 22, 13, 20)
        assert wheel.getinfo("eng/core.py").date_time == samples.DATE
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(errors.EpochInvalid):
        release.wheels()


def test_the_only_series_need_not_be_named(release: Release) -> None:
    location = catalog.Location(release.bench.series_dir, "the test's")
    assert choice.only_series(location) == "eng-1.0"
    after = {**engine.FILES, "eng/core.py": CHANGED["eng/core.py"]}
    patch = release.bench.patch(dict(engine.FILES), after)
    engine.make_series(release.bench.series_dir, {"0001-x.patch": patch}, name="eng-2", version="2")
    with pytest.raises(errors.SeriesUnclear, match=r"eng-1\.0, eng-2"):
        choice.only_series(location)
    (release.bench.series_dir / "broken").mkdir()
    (release.bench.series_dir / "broken/series").write_text("x.patch\n")
    wheel = "eng-2.0+cu1-py3-none-any.whl"
    assert choice.only_series(location, f"/x/{wheel}") == "eng-2"
    with pytest.raises(errors.SeriesUnclear, match=r"no series is there .* for eng-3-py3"):
        choice.only_series(location, "https://example.invalid/eng-3-py3-none-any.whl#sha256=0")


# --- which wheel ------------------------------------------------------------------------------

SGLANG = [
    f"sglang-0.5.15-cp3{minor}-cp3{minor}-manylinux_2_34_{machine}.whl"
    for minor in (10, 11, 12)
    for machine in ("aarch64", "x86_64")
]


@pytest.mark.parametrize(
    ("python", "platform", "chosen"),
    [
        ("3.12", "aarch64", 4),
        ("3.10", "manylinux_2_34_x86_64", 1),
        ("3.11.7", "manylinux_2_39_aarch64", 2),
        ("3.12", "manylinux_2_28_x86_64", None),
        ("3.12", "manylinux2014_x86_64", None),
        ("3.9", "x86_64", None),
        ("3.12", "win_amd64", None),
    ],
)
def test_a_wheel_is_chosen_as_an_installer_would(
    python: str, platform: str, chosen: int | None
) -> None:
    wanted = platforms.Wanted(python, platform)
    assert platforms.choose(SGLANG, wanted) == (() if chosen is None else (SGLANG[chosen],))


def test_the_stable_abi_fits_later_pythons() -> None:
    names = ["vllm-0.26.0-cp38-abi3-manylinux_2_28_aarch64.whl", "vllm-0.26.0-py3-none-any.whl"]
    assert platforms.choose(names, platforms.Wanted("3.12", "aarch64")) == (names[0],)
    assert platforms.choose(names, platforms.Wanted("3.12", "x86_64")) == (names[1],)


def test_the_running_interpreter_is_the_default() -> None:
    best = next(iter(tags.sys_tags()))
    names = [f"eng-1.0-{best}.whl", "eng-1.0-py3-none-any.whl", FOREIGN]
    assert platforms.choose(names, platforms.Wanted()) == (names[0],)


def test_a_name_that_is_no_wheels_fits_nothing():
    names = ["odd.whl", "eng-x-py3-none-any.whl", "eng-1.0-py3-none-any.whl"]
    assert platforms.choose(names[:2], platforms.Wanted()) == ()
    assert platforms.choose(names, platforms.Wanted()) == (names[2],)


# --- sdists -----------------------------------------------------------------------------------


def sdist_files(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {
            member.name.partition("/")[2]: tar.extractfile(member).read()  # type: ignore[union-attr]
            for member in tar
        }


def test_an_sdist_holds_the_whole_series(bench: Bench) -> None:
    before = {**engine.FILES, **engine.EXTRA}
    after = {**CHANGED, **engine.EXTRA, "csrc/fast.cu": b"int faster;\n", "stray.py": b"s = 1\n"}
    release = Release(bench, bench.series({"0001-x.patch": bench.patch(before, after)}), SOURCES)
    built = build_sdist.build_sdist(release.series, release.out, means=release.network)
    assert built.path.name == "eng-1.0+t.1.tar.gz"
    assert built.skipped == ()
    assert built.variables == ("ENG_VERSION_OVERRIDE=1.0+t.1",)
    files = sdist_files(built.path)
    assert json.loads(files.pop("sboms/pseries.cdx.json"))
    assert files == {
        **after, "setup.py": SOURCES["setup.py"], "PKG-INFO": b"Name: eng\nVersion: 1.0+t.1\n",
    }  # fmt: skip


def test_a_version_that_pyproject_states_gets_the_label_too(bench: Bench) -> None:
    """Else what is built of it would have upstream's version, and the patches in it."""
    stated = b'[project]\nname = "eng"\nversion = "1.0"\n'
    release = Release(
        bench,
        bench.series(
            {"0001-x.patch": bench.patch(dict(engine.FILES), {**engine.FILES, "eng/core.py": b""})}
        ),
        {**SOURCES, "pyproject.toml": stated},
    )
    built = build_sdist.build_sdist(release.series, release.out, means=release.network)
    assert ("changed", "pyproject.toml") in {(each.what, each.name) for each in built.differences}
    assert sdist_files(built.path)["pyproject.toml"] == stated.replace(b'"1.0"', b'"1.0+t.1"')


def test_without_an_official_one_it_is_made_of_the_git_tree(bench: Bench) -> None:
    """The project lies in a folder of its repository, as SGLang's does."""
    repository = bench.tmp / "repository"
    tree = {f"python/{path}": data for path, data in engine.FILES.items()}
    tree["python/pyproject.toml"] = b'[build-system]\nrequires = ["setuptools-scm"]\n'
    engine.write(repository, {**tree, "docs/index.md": b"docs\n"})
    (repository / "python/link").symlink_to("eng")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x"), ("tag", "v1.0")):
        engine.git(repository, *arguments)
    after = {**tree, "python/eng/core.py": CHANGED["eng/core.py"]}
    shutil.rmtree(bench.tmp / "cache")
    folder = engine.make_series(
        bench.series_dir, {"0001-x.patch": bench.patch(tree, after)},
        rest=f'root = "python"\ngit = "{repository}"\nsources = ["git"]\n',
    )  # fmt: skip
    series = engine.locked(folder)
    built = build_sdist.build_sdist(series, bench.tmp / "dist", means=Means(offline=True))
    files = sdist_files(built.path)
    assert files["eng/core.py"] == CHANGED["eng/core.py"]
    assert files["PKG-INFO"].endswith(b"\nVersion: 1.0+t.1\n")
    assert "docs/index.md" not in files
    assert [problem.where for problem in built.skipped] == ["python/link"]
    assert built.variables == ("SETUPTOOLS_SCM_PRETEND_VERSION_FOR_ENG=1.0+t.1",)


def test_a_release_known_from_wheels_alone_makes_no_sdist(bench: Bench, whole: Series) -> None:
    release = Release(bench, whole, {})
    with pytest.raises(errors.NoSourceTree):
        build_sdist.build_sdist(release.series, release.out, means=release.network)


# --- kits -------------------------------------------------------------------------------------


def kit_run(folder: Path, action: str, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", folder / "apply.py", f"--{action}", "--site-packages", site],
        env={"PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(params=["index", "cache", "given", "store"])
def kit_source(request: pytest.FixtureRequest, release: Release) -> str | None:
    if request.param == "cache":
        release.wheels()
        release.network = Means(offline=True)
    elif request.param == "store":
        release.network = Means(offline=True)
    return str(release.folder / WHEELS[0]) if request.param == "given" else None


def test_a_kit_does_what_apply_does(release: Release, kit_source: str | None) -> None:
    built = build_kit.build_kit(
        release.series, release.out, given=kit_source, means=release.network
    )
    assert built.skipped == ()
    site, other = release.bench.site, engine.install(release.bench.tmp / "other")
    before = engine.snapshot(site)
    done = kit_run(built.folder, "apply", site)
    assert done.returncode == 0, done.stderr
    applying.apply(release.series, other)
    for path in CHANGED:
        assert (site / path).read_bytes() == (other / path).read_bytes()
        assert (site / path).stat().st_mode == (other / path).stat().st_mode
    assert sorted((site / "eng-1.0.dist-info/RECORD").read_text().split()) == sorted(
        (other / "eng-1.0.dist-info/RECORD").read_text().split()
    )
    assert applying.apply(release.series, site).action is applying.Action.ALREADY
    assert kit_run(built.folder, "rollback", site).returncode == 0
    assert engine.snapshot(site) == before


def test_a_kit_is_made_of_an_index_that_sends_whole_files_only(release: Release) -> None:
    usual = build_kit.build_kit(release.series, release.out, means=release.network)
    with serving() as index:
        index.ranges = False
        for name in WHEELS:
            index.add("eng", name, (release.folder / name).read_bytes())
        told: list[object] = []
        network = Means(index_url=index.simple, report=told.append)
        built = build_kit.build_kit(release.series, release.bench.tmp / "two", means=network)
    assert built.archive.read_bytes() == usual.archive.read_bytes()
    assert told == []


def test_a_kit_looks_on_the_index_where_the_files_are_too(bench: Bench) -> None:
    after = {**engine.FILES, "eng/nvidia/ops.py": CHANGED["eng/nvidia/ops.py"]}
    series = bench.series(
        {"0001-x.patch": bench.patch(dict(engine.FILES), after)}, rest=RELOCATE
    )  # fmt: skip
    release = Release(bench, series, {}, wheels=(FOREIGN,))
    moved = {path.replace("/nvidia/", "/ppu/"): data for path, data in engine.FILES.items()}
    tag = FOREIGN.removeprefix("eng-1.0-").removesuffix(".whl")
    wheel = samples.make(sample(moved, tag=tag), bench.tmp / "vendor")
    with serving() as index:
        index.add("eng", FOREIGN, wheel.read_bytes())
        built = build_kit.build_kit(
            release.series, release.out, means=Means(index_url=index.simple)
        )
    assert built.layouts == ("", "ppu")


def test_the_diff_of_a_kit_applies_to_the_originals(release: Release) -> None:
    built = build_kit.build_kit(release.series, release.out, means=release.network)
    work = release.bench.tmp / "work"
    engine.write(work, engine.FILES)
    engine.git(work, "init", "-q")
    engine.git(work, "apply", str(built.folder / "series.diff"))
    for path, data in CHANGED.items():
        assert (work / path).read_bytes() == data
    assert not (work / "eng/old.py").exists()


def test_a_kit_fits_a_relocated_build_too(bench: Bench) -> None:
    after = {**engine.FILES, "eng/nvidia/ops.py": CHANGED["eng/nvidia/ops.py"]}
    patch = bench.patch(dict(engine.FILES), after)
    series = bench.series({"0001-x.patch": patch}, rest=RELOCATE)
    built = build_kit.build_kit(series, bench.tmp / "dist", means=Means(offline=True))
    assert built.layouts == ("", "ppu")
    moved = {path.replace("/nvidia/", "/ppu/"): data for path, data in engine.FILES.items()}
    site = engine.install(bench.tmp / "vendor", moved, version="1.0+vendor")
    assert kit_run(built.folder, "apply", site).returncode == 0
    assert (site / "eng/ppu/ops.py").read_bytes() == after["eng/nvidia/ops.py"]
