"""The doctor on a made-up engine: every line of its table, met, not met and not known."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from tests.support import engine

from pseries.deploy import gpu, machine
from pseries.deploy.gpu import Gpu, Seen
from pseries.errors import GitMissing, InterpreterFailed, SiteNotFound
from pseries.git import process as git
from pseries.workflows.runtime import calls, doctor
from pseries.workflows.runtime.doctor import Verdict
from pseries.workflows.target import apply as applying

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workflows.conftest import Bench

    from pseries.model.series import Series
    from pseries.workflows.runtime.doctor import Check, Report

KERNELS = {"kernels/__init__.py": b"def run(q, k, scale=1): ...\n"}
CALLER = b"from kernels import run\n\n\ndef go(q, k):\n    return run(q, k, %s=2)\n"
H200 = Gpu("NVIDIA", "NVIDIA H200", "9.0", "570.1", 143771)
REST = '[requires]\npackages = ["kernels>=2"]\n[hardware]\nname = "card"\n{}\n'
MADE_FOR = 'compute_capability = ["12.0"]'
NONE = Seen(there=False, trouble="there is none")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "through_smi", lambda: NONE)
    monkeypatch.setattr(gpu, "through_torch", lambda _python: NONE)


@pytest.fixture
def wired(bench: Bench) -> Series:
    """Give a series that adds a file whose call fits no kernels older than 3."""
    return series(bench)


def series(bench: Bench, keyword: bytes = b"scale", rest: str = REST.format(MADE_FOR)) -> Series:
    after = {**engine.FILES, "eng/wire.py": CALLER % keyword}
    patch = bench.patch(dict(engine.FILES), after)
    return bench.series({"0001-wire.patch": patch}, name=f"eng-1.0-{keyword.decode()}", rest=rest)


def kernels(bench: Bench, version: str = "2.1") -> None:
    engine.install(bench.site, KERNELS, version, "kernels")


def examine(series: Series | None, site: Path, **options: object) -> Report:
    return doctor.examine(series, {"eng-1.0": ("eng", "1.0")}, site=site, **options)  # type: ignore[arg-type]


def check(report: Report, name: str) -> Check:
    return next(each for each in report.checks if each.name == name)


def test_all_is_well(bench: Bench, wired: Series):
    kernels(bench)
    before = engine.snapshot(bench.tmp)
    report = examine(wired, bench.site)
    assert report.met
    assert {each.name: each.verdict for each in report.checks} == {
        "distribution": Verdict.MET, "python": Verdict.UNKNOWN, "kernels": Verdict.MET,
        "series": Verdict.FACT, "calls": Verdict.MET, "gpu": Verdict.FACT,
        "hardware": Verdict.UNKNOWN, "memlock": Verdict.FACT, "disk": Verdict.FACT,
        "shm": Verdict.FACT, "git": Verdict.MET,
    }  # fmt: skip
    assert check(report, "calls").found == "1 into kernels in 1 file as the series makes them"
    assert engine.snapshot(bench.tmp) == before


@pytest.mark.parametrize(
    ("version", "verdict", "found"),
    [("2.1", Verdict.MET, "2.1"), ("2.1+cu129", Verdict.MET, "2.1+cu129"),
     ("2.5rc1", Verdict.MET, "2.5rc1"), ("1.9", Verdict.UNMET, "1.9"),
     ("odd", Verdict.UNMET, "odd"), (None, Verdict.UNMET, "not installed")],
)  # fmt: skip
def test_required_packages(
    bench: Bench, wired: Series, version: str | None, verdict: Verdict, found: str
):
    if version is not None:
        kernels(bench, version)
    report = examine(wired, bench.site)
    line = check(report, "kernels")
    assert (line.verdict, line.found, line.wanted) == (verdict, found, ">=2")
    assert report.met is (verdict is Verdict.MET)
    where = f"--target {bench.site} " if version is None else ""
    install = f"PYTHON -m pip install {where}'kernels>=2', with the PYTHON that uses this folder"
    assert line.remedy == ("" if report.met else install)
    assert "--python EXE" in check(report, "python").remedy


def test_requirements_that_do_not_count_or_cannot_be_read(bench: Bench):
    rest = '[requires]\npackages = ["gone; python_version<\'3\'", "not a requirement!"]\n'
    report = examine(series(bench, rest=rest), bench.site)
    assert [each.name for each in report.checks if "gone" in each.name] == []
    assert check(report, "not a requirement!").verdict is Verdict.UNMET


def test_calls_that_do_not_fit(bench: Bench):
    kernels(bench)
    made = series(bench, b"factor")
    report = examine(made, bench.site)
    assert report.calls is not None
    (misfit,) = report.calls.bound.misfits
    assert (misfit.path, misfit.line, misfit.callee) == ("eng/wire.py", 5, "kernels.run")
    assert check(report, "calls").verdict is Verdict.UNMET
    assert not report.met
    applying.apply(made, bench.site)
    report = examine(made, bench.site)
    assert report.calls is not None
    assert (report.calls.state, len(report.calls.bound.misfits)) == ("as installed", 1)


def test_calls_that_the_series_mends(bench: Bench):
    before = {**engine.FILES, "eng/wire.py": CALLER % b"factor"}
    after = {**before, "eng/wire.py": CALLER % b"scale"}
    engine.add_release(before, bench.tmp / "two", "2.0")
    site = engine.install(bench.tmp / "site2", before, "2.0")
    engine.install(site, KERNELS, "2.1", "kernels")
    made = bench.series(
        {"0001-x.patch": bench.patch(before, after)}, name="eng-2.0", version="2.0",
        rest=REST.format(""),
    )  # fmt: skip
    report = examine(made, site)
    assert report.calls is not None
    assert report.met
    assert [each.line for each in report.calls.mended] == [5]


def test_files_that_no_patch_touches(bench: Bench):
    files = {**engine.FILES, "eng/other.py": CALLER % b"factor"}
    engine.add_release(files, bench.tmp / "two", "2.0")
    site = engine.install(bench.tmp / "site2", files, "2.0")
    engine.install(site, KERNELS, "2.1", "kernels")
    after = {**files, "eng/net.py": b"TIMEOUT = 11\n"}
    made = bench.series(
        {"0001-x.patch": bench.patch(files, after)}, name="eng-2.0", version="2.0",
        rest=REST.format(""),
    )  # fmt: skip
    assert examine(made, site).met
    report = examine(made, site, every_file=True)
    assert report.calls is not None
    assert [each.path for each in report.calls.bound.misfits] == ["eng/other.py"]


def test_a_link_in_place_of_a_source_is_not_followed(bench: Bench, wired: Series):
    kernels(bench)
    init = bench.site / "kernels/__init__.py"
    outside = bench.tmp / "outside.py"
    outside.write_bytes(init.read_bytes())
    init.unlink()
    init.symlink_to(outside)
    report = examine(wired, bench.site)
    assert report.calls is not None
    assert (report.calls.bound.calls, len(report.calls.bound.unknown)) == (0, 1)


def test_without_the_library_that_reads_signatures(
    bench: Bench, wired: Series, monkeypatch: pytest.MonkeyPatch
):
    kernels(bench)
    monkeypatch.setattr(calls, "available", lambda: False)
    report = examine(wired, bench.site)
    line = check(report, "calls")
    assert (line.verdict, "'semantic'" in line.remedy) == (Verdict.UNKNOWN, True)
    assert report.met


def test_another_release_names_the_series_that_fits(bench: Bench, wired: Series):
    site = engine.install(bench.tmp / "site2", version="1.1")
    report = doctor.examine(wired, {"eng-1.1": ("ENG", "1.1")}, site=site)
    line = check(report, "distribution")
    assert line.verdict is Verdict.UNMET
    assert "take the series eng-1.1" in line.remedy
    assert "series" not in {each.name for each in report.checks}


def test_no_distribution_at_all(bench: Bench, wired: Series):
    empty = bench.tmp / "empty"
    empty.mkdir()
    line = check(examine(wired, empty), "distribution")
    assert line.verdict is Verdict.UNMET
    assert line.remedy.startswith(f"PYTHON -m pip install --target {empty} eng==1.0, ")


def test_a_drifted_tree(bench: Bench):
    after = {**engine.FILES, "eng/core.py": engine.MODULE + b"# more\n"}
    made = bench.series({"0001-x.patch": bench.patch(dict(engine.FILES), after)})
    (bench.site / "eng/core.py").write_bytes(engine.MODULE + b"# by hand\n")
    line = check(examine(made, bench.site), "series")
    assert line.verdict is Verdict.UNMET
    assert "eng/core.py: changed by hand" in line.found


def test_without_a_series_it_says_which_fit(bench: Bench):
    report = examine(None, bench.site)
    assert report.met
    assert report.checks[0].found == "1.0: series that fit: eng-1.0"
    engine.install(bench.tmp / "site2", version="3.0")
    assert "no known series fits" in examine(None, bench.tmp / "site2").checks[0].found


@pytest.mark.parametrize(
    ("smi", "torch", "verdict", "found"),
    [
        ((H200,) * 8, (), Verdict.UNMET, "compute capability 9.0"),
        ((H200._replace(compute_capability="12.0"),), (), Verdict.MET, "compute capability 12.0"),
        ((H200._replace(compute_capability="12.0"), H200), (), Verdict.UNMET, "capability 9.0"),
        ((H200._replace(compute_capability=""),), (), Verdict.UNKNOWN, "not known"),
        ((H200._replace(compute_capability=""),), (H200,), Verdict.UNMET, "9.0"),
        ((), (H200,), Verdict.UNMET, "9.0"),
        ((), (), Verdict.UNKNOWN, "no accelerator here"),
    ],
)
def test_hardware(
    bench: Bench, wired: Series, monkeypatch: pytest.MonkeyPatch,
    smi: tuple[Gpu, ...], torch: tuple[Gpu, ...], verdict: Verdict, found: str,
):  # fmt: skip
    monkeypatch.setattr(gpu, "through_smi", lambda: Seen(there=True, devices=smi))
    monkeypatch.setattr(gpu, "through_torch", lambda _: Seen(there=True, devices=torch))
    report = doctor.examine(wired, {}, python=None, site=None)
    line = check(report, "hardware")
    assert (line.verdict, found in line.found) == (verdict, True)
    assert line.wanted == "made for card, compute capability 12.0"
    if len(smi) == 8:
        expected = "8 x NVIDIA H200 (compute capability 9.0, driver 570.1, 140 GiB)"
        assert check(report, "gpu").found == expected


def test_hardware_that_has_only_a_name(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    made = series(bench, rest=REST.format(""))
    for name, verdict in (("A Card 9", Verdict.MET), ("NVIDIA H200", Verdict.UNKNOWN)):
        seen = Seen(there=True, devices=(H200._replace(name=name),))
        monkeypatch.setattr(gpu, "through_smi", lambda seen=seen: seen)
        assert check(examine(made, bench.site), "hardware").verdict is verdict


def test_a_broken_driver_is_said(bench: Bench, wired: Series, monkeypatch: pytest.MonkeyPatch):
    broken = Seen(there=True, trouble="it did not answer within 30 s")
    monkeypatch.setattr(gpu, "through_smi", lambda: broken)
    line = check(examine(wired, bench.site), "gpu")
    assert line.verdict is Verdict.UNKNOWN
    assert line.found == "nvidia-smi: it did not answer within 30 s"


def test_memlock(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    made = series(bench, rest='[serve]\ncommand = ["eng"]\nmemlock = "unlimited"\n')
    for enough, verdict in ((True, Verdict.MET), (False, Verdict.UNMET)):
        limit = machine.Memlock(8 << 20, None, enough)
        monkeypatch.setattr(machine, "memlock", lambda _wanted, limit=limit: limit)
        line = check(examine(made, bench.site), "memlock")
        assert (line.verdict, line.wanted) == (verdict, "unlimited")
        assert line.found == "8388608 bytes, at most unlimited"


def test_git(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(git, "version", lambda: (2, 20, 1))
    assert check(examine(None, bench.site), "git").verdict is Verdict.UNMET

    def missing() -> tuple[int, ...]:
        raise GitMissing("/bin")

    monkeypatch.setattr(git, "version", missing)
    assert check(examine(None, bench.site), "git").found == "not installed"


@pytest.mark.parametrize(
    ("wanted", "verdict"),
    [(">=3.8", Verdict.MET), ("<3", Verdict.UNMET), ("odd", Verdict.UNKNOWN)],
)
def test_python(bench: Bench, wired: Series, wanted: str, verdict: Verdict):
    """The interpreter of ``PREFIX/lib/python3.N/site-packages`` is found beside it."""
    site = engine.install(bench.tmp / "env/lib/python3.99/site-packages")
    program = bench.tmp / "env/bin/python3.99"
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    metadata = site / "eng-1.0.dist-info/METADATA"
    metadata.write_text(f"Name: eng\nVersion: 1.0\nRequires-Python: {wanted}\n\nRequires-Dist: x\n")
    report = examine(wired, site)
    line = check(report, "python")
    assert (line.verdict, line.wanted) == (verdict, wanted)
    assert str(program) in line.found
    assert check(report, "kernels").remedy == f"{program} -m pip install 'kernels>=2'"


def test_nothing_to_look_into(bench: Bench, wired: Series):
    with pytest.raises(SiteNotFound):
        examine(wired, bench.tmp / "nowhere")
    with pytest.raises(InterpreterFailed):
        doctor.examine(wired, {}, python=bench.tmp / "nowhere")


def test_the_running_interpreter(bench: Bench, wired: Series):
    report = doctor.examine(wired, {})
    assert check(report, "distribution").verdict is Verdict.UNMET
    assert sys.executable in check(report, "python").found
    assert f"{sys.executable} -m pip install" in check(report, "distribution").remedy
