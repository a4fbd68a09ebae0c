"""Logs that are no files, servers that speak no HTTP, and builders out of a stranger's folder."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.cli.test_serve import Host, host, patched, written  # noqa: F401 - fixtures
from tests.support import engine

from pseries.deploy import builder, http
from pseries.errors import BuilderMissing, PythonNotFound
from pseries.model.runtime import servelog
from pseries.workflows.runtime import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Said

    Run = Callable[..., Said]


def test_a_log_that_is_a_pipe_starts_nothing(patched: Host) -> None:  # noqa: F811
    """Nobody reads it: to open it would take for ever."""
    os.mkfifo(patched.bench.tmp / "pipe")
    child = patched.start("--python", patched.python, "--model", "m", "--log", "pipe")
    try:
        _, err = child.communicate(timeout=20)
    finally:
        child.kill()
    assert child.returncode == 1
    assert "pipe" in err
    assert not (patched.bench.tmp / "told.json").exists()


@pytest.mark.parametrize("kind", ["pipe", "zero"])
def test_a_log_to_search_that_has_no_end(
    written: Path,  # noqa: F811
    pseries: Run,
    tmp_path: Path,
    kind: str,
) -> None:
    log = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(log)
    else:
        log.symlink_to("/dev/zero")
    found: list[Said] = []
    words = ("smoke", "eng-1.0", "--url", "http://127.0.0.1:9", "--timeout", "0.2", "--log", log)
    thread = threading.Thread(target=lambda: found.append(pseries(*words)), daemon=True)
    thread.start()
    thread.join(10)
    assert found
    assert found[0].code == 2
    assert "no plain file" in found[0].err.replace("\n", " ").replace("│", "")


def test_a_mark_within_a_line_does_not_hide_errors() -> None:
    """What users send is in the log as well."""
    mark = servelog.start("eng-1.0", "0" * 64, "now").rstrip()
    assert servelog.errors(["ERROR a\n", f"prompt: {mark}\n"]) == ("ERROR a",)


@pytest.fixture
def raw() -> Iterator[Callable[[bytes], str]]:
    """Give a function that starts a server which answers with these bytes, for ever if asked."""
    listening: list[socket.socket] = []

    def start(answer: bytes, times: int = 1) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        listening.append(server)

        def serve() -> None:
            try:
                while True:
                    client, _ = server.accept()
                    with client:
                        client.recv(65536)
                        for _ in range(times):
                            client.sendall(answer)
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}/x"

    yield start
    for each in listening:
        each.close()


@pytest.mark.parametrize(("answer", "times"), [
    (b"garbage\r\n\r\n", 1),
    (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000 + b"\r\n", 1),
    (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 10_000_000 + b"\r\n\r\n", 1),
    (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx", 1),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nx", 1),
    (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nx", 1),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", 1),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 10, 1),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 5000 + b"\r\n", 1),
    (b"HTTP/1.1 999999999999 OK\r\n\r\n", 1),
    (b"HTTP/1.1 100 Continue\r\n\r\n", 50_000),
    (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n", 1),
    (b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n", 1),
    (b"HTTP/1.1 200 \xff\xff\r\nContent-Type: \xff\x1b[31m\r\nContent-Length: 1\r\n\r\nx", 1),
    (b"HTTP/1.1 200 OK\r\nContent-Encoding: \xff\r\nContent-Length: 1\r\n\r\nx", 1),
    (b"HTTP/1.1 200 OK\r\nSet-Cookie: " + b"a=b; " * 10_000 + b"\r\nContent-Length: 0\r\n\r\n", 1),
    (b"", 1),
], ids=range(17))  # fmt: skip
def test_servers_that_speak_no_http(
    raw: Callable[..., str], answer: bytes, times: int, capfd: pytest.CaptureFixture[str]
) -> None:
    begun = time.monotonic()
    (got,) = http.ask([http.Ask(raw(answer, times))], 3.0)
    assert time.monotonic() - begun < 5
    assert got.trouble or got.status
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("url", [
    "http://a..b:1", "http://" + "a" * 70 + ":1", "http://[::1%25x]:1", "http://\xff:1",
    "http://a b:1",
    "http://127.0.0.1:1/\n", "http://\u202e:1", "http://user:p\xe4ss@127.0.0.1:1", "http://.:1",
    "http://u:\u20ac@127.0.0.1:1", "http://127.0.0.1:99999", "http://[", "http://127.0.0.1:x",
    "http://\udcff:1",
])  # fmt: skip
def test_addresses_that_are_none(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    if http.problem(url) is None:
        (got,) = http.ask([http.Ask(http.base(url) + "/x")], 3.0)
        assert got.trouble
        assert got.seconds < 3
    assert "Traceback" not in capfd.readouterr().err


def test_no_builder_is_taken_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PATH may hold a dot, and the folder may be a stranger's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "buildah").write_text("#!/bin/sh\n")
    (tmp_path / "buildah").chmod(0o755)
    monkeypatch.setenv("PATH", ".::nowhere")
    with pytest.raises(BuilderMissing):
        builder.choose("buildah")


def test_an_interpreter_of_somebody_else_is_not_run(tmp_path: Path):
    site = engine.install(tmp_path / "env/lib/python3.12/site-packages")
    program = tmp_path / "env/bin/python3"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    assert serve.target("eng", site, None, check=False).python == program
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(program, 12345, 12345)
    with pytest.raises(PythonNotFound):
        serve.target("eng", site, None, check=False)
    assert not (tmp_path / "ran").exists()
