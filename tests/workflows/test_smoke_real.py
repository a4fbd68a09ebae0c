"""smoke against the server of transformers, on the CPU, with a model that was made for it."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import CACHE
from tests.workflows.test_smoke import CHAT, COMPLETION, spec

from pseries.model.runtime import prompt
from pseries.workflows.runtime import smoke as smoking
from pseries.workflows.runtime.smoke import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.index

SERVER = "transformers[serving]==5.24.0"
MAKER = Path(__file__).parent.parent / "support/reader.py"
WORDS = ("Hello", "hay", ".", ":", "find", "the", "secret", "word", "in", "The", "is", "What", "?")


@dataclass(frozen=True)
class Running:
    """A server: its address, the name of its model, its log."""

    url: str
    model: str
    log: Path


@pytest.fixture(scope="session")
def transformers(index_reachable: None) -> Path:
    """Return the Python of an environment with transformers and the PyTorch that is here."""
    if importlib.util.find_spec("torch") is None:
        reason = "PyTorch is missing: pip install 'pseries[torch]'"
        if os.environ.get("PSERIES_REQUIRE_TORCH") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    folder = CACHE / "transformers" / f"{SERVER.rpartition('=')[2]}-{tag}"
    python = folder / "bin/python"
    if not python.with_name("pip").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    here = [sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]]
    lines = "".join(f"import site; site.addsitedir({each!r})\n" for each in dict.fromkeys(here))
    (folder / "lib" / version / "site-packages" / "outer.pth").write_text(lines)
    # Always, and not only once: what is missing depends on what the environment outside has.
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", SERVER]
    subprocess.run(install, check=True)
    return python


@pytest.fixture(scope="module")
def running(transformers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Give a server that is starting."""
    folder = tmp_path_factory.mktemp("served")
    model, log = folder / "reader", folder / "server.log"
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub")}
    quiet = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}  # others have work to do too
    environment = {**os.environ, **offline, **quiet}
    words = ",".join([*WORDS, *prompt.BEGINNINGS]), ",".join(prompt.WORDS)
    subprocess.run([str(transformers), str(MAKER), str(model), *words], check=True, env=environment)
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    command = [
        str(transformers), "-c", "from transformers.cli.transformers import main; main()",
        "serve", str(model), "--device", "cpu", "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    with (
        log.open("wb") as file,
        subprocess.Popen(command, env=environment, stdout=file, stderr=file) as server,
    ):
        try:
            yield Running(f"http://127.0.0.1:{port}", str(model), log)
        finally:
            server.terminate()
            server.wait(30)


def test_it_passes_from_its_start_to_long_prompts(running: Running):
    told: list[str] = []
    lengths = [300, 1037, 3085]
    report = smoking.smoke(
        "eng-1.0", spec(COMPLETION, CHAT), Server(running.url, 120), concurrency=3,
        lengths=lengths, log=running.log, tell=told.append,
    )  # fmt: skip
    assert report.problems == (), running.log.read_text()[-3000:]
    assert told[0] == "waiting for the server: Connection refused"
    assert report.model == running.model
    alone, at_once, long = report.results[:2], report.results[2:5], report.results[5:]
    assert all(each.text.strip().startswith("Hello") for each in (*alone, *at_once))
    assert [each.prompt_tokens for each in (*alone, *at_once)] == [1] * 5
    assert [each.prompt_tokens for each in long] == lengths
    assert all(each.tokens for each in report.results)
    assert all(0 < each.first_byte < each.seconds for each in (*at_once, *long))


def test_what_the_real_server_refuses_is_a_failure_with_its_words(running: Running):
    unknown = CHAT.replace("messages = [", "no_such_field = 1, messages = [")
    report = smoking.smoke("eng-1.0", spec(unknown), Server(running.url, 120))
    (problem,) = report.problems
    assert problem.what.startswith("status 4")
    assert "no_such_field" in problem.what


def test_a_prompt_for_another_model_is_a_failure(running: Running):
    begun = time.monotonic()
    report = smoking.smoke(
        "eng-1.0", spec(COMPLETION), Server(running.url, 60), model="no/such-model"
    )
    assert len(report.problems) == 1
    assert report.problems[0].what.startswith("status ")
    assert time.monotonic() - begun < 60
