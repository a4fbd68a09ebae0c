"""env, serve, smoke and build-image as typed at a prompt, right and wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.site import faults
from tests.support import engine, odd_server
from tests.workflows.conftest import CHANGED

from pseries.workflows.target import apply as applying

if TYPE_CHECKING:
    from tests.workflows.conftest import Bench

    from pseries.model.series import Series

Run = "Callable[..., Said]"

SERVER = b"""
import json, os, resource, signal, sys, time
words = sys.argv[1:]
if words[:1] == ["exit"]:
    sys.exit(int(words[1]))
if words[:1] == ["die"]:
    os.kill(os.getpid(), int(words[1]))
print("out", flush=True)
print("err", file=sys.stderr, flush=True)
got = []
for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP"):
    signal.signal(getattr(signal, name), lambda number, _: got.append(number))
limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)
told = {"words": words, "environment": dict(os.environ), "pid": os.getpid(), "memlock": limit,
        "python": sys.executable}
with open("told.new", "w") as file:
    json.dump(told, file)
os.rename("told.new", "told.json")
end = time.monotonic() + 30
while time.monotonic() < end and not {signal.SIGTERM, signal.SIGINT} & set(got):
    time.sleep(0.01)
time.sleep(0.3)  # a second one would come now
sys.exit(100 + len(got))
"""

SERVE = """
[serve]
command = ["python", "-m", "eng_server", "--model", "{model}"]
memlock = "4096"
[serve.env]
ENG_MODE = "it's $fast"
ENG_OTHER = "1"
[[smoke]]
path = "/v1/completions"
json = { model = "{model}", prompt = "Hello", max_tokens = 10 }
expect = "choices.0.text"
[[smoke]]
path = "/generate"
json = { text = "Hello", sampling_params = { max_new_tokens = 10 } }
expect = "text"
"""


@dataclass
class Host:
    """A series that says how to serve, and a virtual environment with the engine in it."""

    bench: Bench
    series: Series
    python: Path
    site: Path

    def start(self, *words: object, **options: Any) -> subprocess.Popen[str]:
        """Run ``pseries serve`` in a process of its own."""
        command = [sys.executable, "-m", "pseries", "serve", "eng-1.0", *map(str, words)]
        return subprocess.Popen(
            command,
            cwd=self.bench.tmp,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **options.pop("env", {})},
            **options,
        )

    def serve(self, *words: object, **options: Any) -> tuple[int, str, str]:
        """Run it to its end."""
        with self.start(*words, **options) as child:
            out, err = child.communicate(timeout=60)
        return child.returncode, out, err

    def told(self) -> dict[str, Any]:
        """Wait until the server runs, and return what it wrote about itself."""
        place = self.bench.tmp / "told.json"
        end = time.monotonic() + 30
        while not place.exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        found: dict[str, Any] = json.loads(place.read_text())
        return found


@pytest.fixture
def host(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.chdir(bench.tmp)
    patch = bench.patch(dict(engine.FILES), CHANGED)
    series = bench.series({"0001-all.patch": patch}, rest=SERVE)
    venv = bench.tmp / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = engine.install(venv / "lib" / version / "site-packages")
    (site / "eng_server.py").write_bytes(SERVER)
    return Host(bench, series, venv / "bin/python", site)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand where there is a series folder, and nothing else."""
    monkeypatch.chdir(tmp_path)
    return engine.make_series(tmp_path / "series", {}, rest=SERVE)


@pytest.fixture
def patched(host: Host) -> Host:
    applying.apply(host.series, host.site)
    return host


# --- env --------------------------------------------------------------------------------------


def test_env_in_three_formats(written: Path, pseries: Run):
    assert pseries("env", "eng-1.0").out == (
        "export ENG_MODE='it'\"'\"'s $fast'\nexport ENG_OTHER=1\n"
    )
    assert pseries("env", "eng-1.0", "--format", "docker").out == (
        "ENG_MODE=it's $fast\nENG_OTHER=1\n"
    )
    wanted = {"ENG_MODE": "it's $fast", "ENG_OTHER": "1"}
    assert json.loads(pseries("env", "eng-1.0", "--format", "json").out) == wanted
    assert json.loads(pseries("env", "eng-1.0", "--json").out) == wanted
    assert pseries("env", "eng-1.0", "--format", "csh").code == 2


def test_a_series_that_says_nothing_of_serving(bench: Bench, pseries: Run, whole: Series):
    for words in (("env",), ("serve", "--print"), ("smoke", "--url", "http://127.0.0.1:9")):
        said = pseries(words[0], "eng-1.0", *words[1:], "--series-dir", bench.series_dir)
        assert said.code == 1
        assert "series eng-1.0 has no [" in said.err
        assert "→" in said.err


# --- the field reports ------------------------------------------------------------------------

FIELD_COMMAND = (
    "vllm serve /model --trust-remote-code --kv-cache-dtype fp8 --block-size 256"
    " --tensor-parallel-size 8 --data-parallel-size 2 --enable-expert-parallel"
    " --no-enable-flashinfer-autotune --tokenizer-mode deepseek_v4"
    " --tool-call-parser deepseek_v4 --enable-auto-tool-choice"
    " --reasoning-parser deepseek_v4 --max-model-len 4096 --max-num-batched-tokens 1024"
    " --enforce-eager --port 18000"
)
FIELD_ENVIRONMENT = {
    "VLLM_DISABLED_KERNELS": "PPUCutlassFp8BlockScaledMMKernel",
    "VLLM_PPU_BF16_O_PROJ": "1",
    "VLLM_PPU_SERIAL_ATTENTION": "1",
    "VLLM_MULTI_STREAM_GEMM_TOKEN_THRESHOLD": "0",
    "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
}
# The field's patch of the compressor had no switch; ours is off unless this is set.
SWITCH = {"VLLM_PPU_FP32_COMPRESSOR": "1"}


def test_print_is_the_command_and_environment_of_the_field_report(pseries: Run):
    said = pseries("serve", "vllm-0.26.0", "--model", "/model", "--print")
    *exports, limit, command = said.out.splitlines()
    assert command == FIELD_COMMAND
    assert limit == "ulimit -l unlimited"
    told = dict(line.removeprefix("export ").split("=", 1) for line in exports)
    assert told == {**FIELD_ENVIRONMENT, **SWITCH}
    told = json.loads(pseries("serve", "vllm-0.26.0", "--model", "/model", "--print", "--json").out)
    assert " ".join(told["command"]) == FIELD_COMMAND
    assert (told["environment"], told["memlock"]) == ({**FIELD_ENVIRONMENT, **SWITCH}, "unlimited")


@pytest.mark.parametrize(
    ("series", "command"),
    [
        (
            "sglang-0.5.15",
            (
                "python -m sglang.launch_server --model-path MODEL --tp 8 --trust-remote-code"
                " --mem-fraction-static 0.78 --cuda-graph-backend-decode disabled"
                " --host 0.0.0.0 --port 30000"
            ),
        ),
        (
            "vllm-0.11.0-sm120",
            (
                "python -m vllm.entrypoints.openai.api_server --model MODEL"
                " --tensor-parallel-size 8 --trust-remote-code --max-model-len 65536"
                " --gpu-memory-utilization 0.85 --port 8000"
            ),
        ),
    ],
)
def test_print_of_the_other_report(series: str, command: str, pseries: Run):
    said = pseries("serve", series, "--model", "MODEL", "--print")
    assert said.out.splitlines()[-1] == command


# --- serve ------------------------------------------------------------------------------------


def test_words_and_environment_reach_the_child(patched: Host):
    log = patched.bench.tmp / "a log"
    log.write_text("before\n")
    with patched.start(
        "--python", patched.python, "--model", "/m x", "--log", log, "--", "--port", "1", "--",
        "--help", env={"ENG_OTHER": "2", "SEEN": "yes"},
    ) as child:  # fmt: skip
        told = patched.told()
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 101
    assert told["words"] == ["--model", "/m x", "--port", "1", "--", "--help"]
    environment = told["environment"]
    assert (environment["ENG_MODE"], environment["ENG_OTHER"]) == ("it's $fast", "1")
    assert environment["SEEN"] == "yes"
    assert environment["PATH"].split(":")[0] == str(patched.python.parent)
    assert told["python"] == str(patched.python)
    assert told["memlock"][0] == -1 or told["memlock"][0] >= 4096
    assert "ENG_OTHER is set as the series says" in err
    assert f"the output goes to {log}" in err
    first, mark, *rest = log.read_text().splitlines()
    assert first == "before"
    assert mark.startswith("=== pseries serve eng-1.0 (digest ")
    assert (sorted(rest), out) == (["err", "out"], "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("whole_group", [False, True])
def test_a_signal_reaches_the_child_once(patched: Host, number: int, whole_group: bool):
    """Ctrl-C goes to the whole group of the terminal; the child must not see it twice."""
    with patched.start("--python", patched.python, "--model", "m", start_new_session=True) as child:
        told = patched.told()
        assert os.getpgid(told["pid"]) != child.pid  # two signals at once may look like one
        (os.killpg if whole_group else os.kill)(child.pid, number)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 101
    assert out == "out\n"
    with pytest.raises(ProcessLookupError):
        os.kill(told["pid"], 0)


def test_other_signals_are_passed_on_as_they_come(patched: Host):
    with patched.start("--python", patched.python, "--model", "m") as child:
        patched.told()
        for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM):
            child.send_signal(number)
            time.sleep(0.1)
        child.communicate(timeout=60)
    assert child.returncode == 103


def test_exit_status_is_the_childs(patched: Host):
    """The words behind -- are the child's; the first three are the series'."""
    toml = patched.bench.series_dir / "eng-1.0/series.toml"
    toml.write_text(toml.read_text().replace('"--model", "{model}"', '"exit", "7"'))
    assert patched.serve(patched.site)[0] == 7
    toml.write_text(toml.read_text().replace('"exit", "7"', '"die", "9"'))
    code, _, err = patched.serve("--python", patched.python)
    assert code == 128 + 9
    assert "ended by SIGKILL: out of memory?" in err
    toml.write_text(toml.read_text().replace('"die", "9"', '"die", "15"'))
    assert patched.serve("--python", patched.python)[0] == 128 + 15


def test_a_command_of_the_environment_is_taken_from_there_alone(patched: Host):
    toml = patched.bench.series_dir / "eng-1.0/series.toml"
    toml.write_text(toml.read_text().replace('"python", "-m", "eng_server"', '"ls"'))
    code, _, err = patched.serve("--python", patched.python, "--model", "m")
    assert code == 1
    assert "ls could not be started: there is no such program in" in err
    assert "→" in err
    script = patched.python.with_name("ls")
    script.write_text("#!/bin/sh\necho mine $2\n")
    script.chmod(0o755)
    assert patched.serve("--python", patched.python, "--model", "m")[:2] == (0, "mine m\n")


def test_a_limit_that_may_not_be_raised_is_refused_with_a_way_out(patched: Host):
    toml = patched.bench.series_dir / "eng-1.0/series.toml"
    toml.write_text(toml.read_text().replace('"4096"', '"999999999999999999"'))
    script = (
        "import os, resource, sys\n"
        "if os.geteuid() == 0:\n"
        "    import ctypes; ctypes.CDLL(None).prctl(24, 24, 0, 0, 0)\n"  # drop CAP_SYS_RESOURCE
        "resource.setrlimit(resource.RLIMIT_MEMLOCK, (8192, 8192))\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'pseries', *sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "serve", "eng-1.0", "--python", str(patched.python),
         "--model", "m"],
        cwd=patched.bench.tmp, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "must be 999999999999999999 bytes; it is limited to 8192 bytes" in done.stderr
    assert "--ulimit memlock=-1" in done.stderr
    assert not (patched.bench.tmp / "told.json").exists()


def test_a_target_that_is_not_patched_is_refused(host: Host, pseries: Run):
    said = pseries("serve", "eng-1.0", host.site, "--model", "m")
    assert said.code == 1
    assert f"{host.site} is not patched with series eng-1.0" in said.err
    assert f"pseries apply eng-1.0 {host.site}" in said.err
    said = pseries("serve", "eng-1.0", "--python", host.python, "--model", "m")
    assert (said.code, "is not patched with series" in said.err) == (1, True)


def test_no_check_starts_it_all_the_same(host: Host):
    toml = host.bench.series_dir / "eng-1.0/series.toml"
    toml.write_text(toml.read_text().replace('"--model", "{model}"', '"exit", "5"'))
    assert host.serve(host.site, "--no-check")[0] == 5
    assert host.serve("--python", host.python, "--no-check")[0] == 5


def test_files_that_came_patched_are_fine_without_a_receipt(host: Host):
    """As from a wheel that was built patched, or from a kit."""
    engine.write(host.site, {path: CHANGED[path] for path in CHANGED})
    for gone in engine.FILES.keys() - CHANGED.keys():
        (host.site / gone).unlink()
    toml = host.bench.series_dir / "eng-1.0/series.toml"
    toml.write_text(toml.read_text().replace('"--model", "{model}"', '"exit", "6"'))
    assert host.serve("--python", host.python)[0] == 6


def test_another_series_is_not_this_one(host: Host, pseries: Run):
    other = {**engine.FILES, "eng/core.py": engine.MODULE.replace(b"path", b"where")}
    patch = host.bench.patch(dict(engine.FILES), other)
    applying.apply(host.bench.series({"0001-x.patch": patch}, name="eng-1.0-b"), host.site)
    said = pseries("serve", "eng-1.0", "--python", host.python, "--model", "m")
    assert said.code == 1
    assert "is not patched with series eng-1.0; applied: eng-1.0-b" in said.err


def test_a_file_that_was_changed_since_is_drift(patched: Host, pseries: Run):
    (patched.site / "eng/core.py").write_bytes(b"x = 1\n")
    said = pseries("serve", "eng-1.0", "--python", patched.python, "--model", "m")
    assert said.code == 4
    assert "eng/core.py: changed" in said.err


def test_an_interrupted_change_is_exit_3(host: Host, pseries: Run):
    calls = faults.count(lambda: applying.apply(host.series, host.site))
    pseries("rollback", "--purge", host.site)
    last = len(calls) - calls[::-1].index("rename")
    assert faults.killed_at(last, lambda: applying.apply(host.series, host.site))
    said = pseries("serve", "eng-1.0", "--python", host.python, "--model", "m")
    assert said.code == 3
    assert "pseries recover" in said.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 1, "the command of series eng-1.0 needs a value for {model}"),
        (("--print",), 1, "→ give it: --model"),
        (("--model", "m", "--json"), 2, "--json goes with --print"),
        (("--model", "m", "--python", "/nonexistent"), 1, "could not be asked"),
        (("--model", "m", "site"), 1, "no Python was found that site belongs to"),
        (("--model", "m", "site", "--python", "/x"), 2, "not both"),
        (("--model", "m", "site", "--no-check"), 1, "no Python was found that site belongs to"),
        (("--model", "m", "nowhere"), 1, "nowhere cannot be used"),
        (("--modle", "m"), 2, "No such option"),
        (("--trust-remote-code",), 2, "what is for the engine goes behind --"),
        (("--model", "m", "--tp", "8"), 2, "-- --tp"),
        (("-x",), 2, "-- -x"),
    ],
)
def test_wrong_words(host: Host, pseries: Run, words: tuple[str, ...], code: int, said: str):
    found = pseries("serve", "eng-1.0", *words)
    assert found.code == code
    assert said in found.err


def test_a_log_that_cannot_be_written_starts_nothing(patched: Host, pseries: Run):
    said = pseries("serve", "eng-1.0", "--python", patched.python, "--model", "m", "--log", "venv")
    assert said.code == 1
    assert "Is a directory" in said.err
    assert not (patched.bench.tmp / "told.json").exists()


# --- smoke ------------------------------------------------------------------------------------


def test_a_good_server(written: Path, pseries: Run, tmp_path: Path):
    log = tmp_path / "server.log"
    log.write_text("ERROR old\n=== pseries serve eng-1.0 (digest x) t ===\nINFO fine\n")
    with odd_server.serving("m") as server:
        for path in ("/v1/completions", "/generate"):
            server.replies[path] = odd_server.good
        said = pseries(
            "smoke", "eng-1.0", "--url", f"{server.url}/v1", "--concurrency", 3,
            "--prompt-tokens", "500, 1001", "--log", log,
        )  # fmt: skip
        assert (said.code, said.err) == (0, "")
        found = json.loads(pseries("smoke", "eng-1.0", "--url", server.url, "--json").out)
    assert "/v1/completions 3/3 at once" in said.out
    assert "/v1/completions 1001 tokens" in said.out
    assert found["passed"] is True
    assert found["model"] == "m"
    assert [each["tokens"] for each in found["results"]] == [2] * 6


def test_a_wrong_answer_is_exit_1_with_its_text(written: Path, pseries: Run):
    with odd_server.serving("m") as server:
        server.replies["/v1/completions"] = lambda exchange, _: exchange.send_json(
            {"error": "boom"}, 500
        )
        server.replies["/generate"] = odd_server.good
        said = pseries("smoke", "eng-1.0", "--url", server.url)
        assert said.code == 1
        assert '/v1/completions: status 500: {"error": "boom"}' in said.err
        assert "not tried any more: 4 at once" in said.err
        assert "FAILED" in said.out
        said = pseries("smoke", "eng-1.0", "--url", server.url, "--json")
        assert (said.code, json.loads(said.out)["passed"]) == (1, False)


def test_an_error_in_the_log_is_exit_1(written: Path, pseries: Run, tmp_path: Path):
    (tmp_path / "log").write_text("(core) ERROR 12-01 something broke\n")
    with odd_server.serving("m") as server:
        for path in ("/v1/completions", "/generate"):
            server.replies[path] = odd_server.good
        said = pseries("smoke", "eng-1.0", "--url", server.url, "--log", tmp_path / "log")
    assert said.code == 1
    assert "log: (core) ERROR 12-01 something broke" in said.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--url", "file:///etc/passwd"), 2, "only http:// and https:// are asked"),
        (("--url", "localhost:8000"), 2, "only http:// and https:// are asked"),
        ((), 2, "--url"),
        (("--url", "http://127.0.0.1:9", "--prompt-tokens", "1k"), 2, "is no list such as"),
        (("--url", "http://127.0.0.1:9", "--prompt-tokens", "0"), 2, "1 to 10000000"),
        (("--url", "http://127.0.0.1:9", "--concurrency", "0"), 2, "concurrency"),
        (("--url", "http://127.0.0.1:9", "--log", "nowhere"), 1, "No such file"),
        (("--url", "http://me:secret@127.0.0.1:9", "--timeout", "0.3"), 1, "Connection refused"),
    ],
)
def test_wrong_words_for_smoke(
    written: Path, pseries: Run, words: tuple[str, ...], code: int, said: str
):
    found = pseries("smoke", "eng-1.0", *words)
    assert found.code == code
    assert said in found.err
    assert "secret" not in found.err + found.out


# --- build-image ------------------------------------------------------------------------------


def test_the_containerfile_can_be_seen(host: Host, pseries: Run):
    said = pseries("build-image", "eng-1.0", "--base", "localhost/base:1", "--print")
    assert said.out.splitlines()[:2] == ["ARG BASE_IMAGE", "FROM ${BASE_IMAGE}"]
    assert 'ENV ENG_MODE="it\'s \\$fast"' in said.out
    found = json.loads(
        pseries("build-image", "eng-1.0", "--base", "localhost/base:1", "--print", "--json").out
    )
    assert found["tag"] == "eng:1.0-t.1"
    assert found["containerfile"].splitlines() == said.out.splitlines()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--base", "a b"), 1, "base image 'a b' is refused"),
        (("--base", "--privileged"), 1, "base image '--privileged' is refused"),
        (("--base", "x\nRUN id"), 1, "is refused"),
        (("--base", "x:1", "-t", "docker.io/library/x:1"), 1, "it would overwrite its own base"),
        (("--base", "x:1", "-t", "X"), 1, "image 'X' is refused"),
        (("--base", "x:1", "-t", "x@sha256:" + "0" * 64), 1, "by a tag, not by a digest"),
        (("--base", "x:1", "--builder", "kaniko"), 2, "kaniko"),
        ((), 2, "--base"),
    ],
)
def test_wrong_words_for_images(
    host: Host, pseries: Run, words: tuple[str, ...], code: int, said: str
):
    found = pseries("build-image", "eng-1.0", *words, "--print")
    assert found.code == code
    assert said in found.err


def test_no_builder_is_said_so(host: Host, pseries: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    said = pseries("build-image", "eng-1.0", "--base", "x:1")
    assert said.code == 1
    assert "no builder of images was found on PATH: buildah, docker, nerdctl" in said.err
    said = pseries("build-image", "eng-1.0", "--base", "x:1", "--builder", "docker")
    assert "no builder of images was found on PATH: docker" in said.err
