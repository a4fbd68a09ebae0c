"""doctor as typed at a prompt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.support import engine

if TYPE_CHECKING:
    from tests.workflows.conftest import Bench

Run = "Callable[..., Said]"
CALLER = b"from kernels import run\n\n\ndef go(q):\n    return run(q, factor=2)\n"


@pytest.fixture
def here(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Give a series that needs kernels, with a call that fits only another version of them."""
    monkeypatch.chdir(bench.tmp)
    folder = bench.tmp / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").write_text(
        "#!/bin/sh\necho '0, NVIDIA \x1b[31mH200, 570.1, 9.0, 143771, Disabled'\n"
    )
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    engine.install(bench.site, {"kernels.py": b"def run(q, scale=1): ...\n"}, "1.5", "kernels")
    after = {**engine.FILES, "eng/wire.py": CALLER}
    bench.series(
        {"0001-wire.patch": bench.patch(dict(engine.FILES), after)},
        rest='[requires]\npackages = ["kernels>=2"]\n'
        '[hardware]\nname = "card"\ncompute_capability = ["12.0"]\n',
    )
    return bench


def test_the_table(here: Bench, pseries: Run):
    said = pseries("doctor", "eng-1.0", here.site)
    assert said.code == 1
    lines = [line.split() for line in said.out.splitlines()]
    assert ["ok", "distribution", "eng", "1.0", "in", str(here.site)] in lines
    assert "NOT MET  kernels       1.5; wanted: >=2" in said.out
    assert "→ kernels: PYTHON -m pip install 'kernels>=2', with the PYTHON" in said.out
    assert "1 x NVIDIA \\x1b[31mH200 (compute capability 9.0, driver 570.1, 140 GiB)" in said.out
    assert "compute capability 9.0; wanted: made for card, compute capability 12.0" in said.out
    assert (
        "eng/wire.py:5: kernels.run(): unexpected keyword: it has no parameter 'factor'" in said.out
    )


def test_json(here: Bench, pseries: Run):
    said = pseries("doctor", "--json", "eng-1.0", here.site)
    assert said.code == 1
    answer = json.loads(said.out)
    assert answer["met"] is False
    assert answer["gpus"][0]["compute_capability"] == "9.0"
    unmet = {each["name"] for each in answer["checks"] if each["verdict"] == "NOT MET"}
    assert unmet == {"kernels", "calls", "hardware"}
    (misfit,) = answer["calls"]["bound"]["misfits"]
    assert (misfit["path"], misfit["line"]) == ("eng/wire.py", 5)


def test_a_lone_word_can_be_the_folder(here: Bench, pseries: Run):
    said = pseries("doctor", here.site)
    assert (said.code, "series that fit: eng-1.0" in said.out) == (0, True)
    assert pseries("doctor").code == 0


def test_wrong_words(here: Bench, pseries: Run, monkeypatch: pytest.MonkeyPatch):
    assert pseries("doctor", "eng-1.0", here.site, "--python", "/bin/sh").code == 2
    assert pseries("doctor", "--all-files").code == 2
    said = pseries("doctor", "eng-1.0", here.tmp / "nowhere")
    assert (said.code, "cannot be used as a site-packages folder" in said.err) == (1, True)
    said = pseries("doctor", "eng-9")
    assert (said.code, "no series named 'eng-9'" in said.err) == (1, True)
    said = pseries("doctor", "eng-1.0", "--python", "/bin/false")
    assert (said.code, "/bin/false could not be asked" in said.err) == (1, True)


def test_what_cannot_be_compared_is_said_once(here: Bench, pseries: Run):
    (here.site / "kernels.py").write_bytes(b"run = made()\n")
    said = pseries("doctor", "eng-1.0", here.site)
    assert "not compared: run(): what it is is only known when the program runs" in said.err
    assert "0 into kernels in 1 file as the series makes them, 1 unknown" in said.out
