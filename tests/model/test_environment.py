"""The environment as shells and container engines read it, tried on a real shell."""

from __future__ import annotations

import os
import subprocess
import tempfile

from hypothesis import given
from hypothesis import strategies as st

from pseries.model.runtime import environment

NASTY = "a 'b' \"c\" $HOME `id` \\ $(id) # ; & | > * ~ ! é {x} %s"
# What series.toml lets through: one line of plain text.
VALUES = st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp", "Cf"]), max_size=40)


def told(script: str) -> dict[str, str]:
    """Return the environment that a real shell has behind a script."""
    with tempfile.TemporaryDirectory() as folder:  # what is quoted wrongly may write files
        done = subprocess.run(
            ["/bin/sh", "-c", f"{script}\nexec /usr/bin/env -0"],
            env={"PATH": "/nonexistent"}, cwd=folder, capture_output=True, check=True,
        )  # fmt: skip
    pairs = (line.split("=", 1) for line in os.fsdecode(done.stdout).split("\0") if line)
    return {
        name: value for name, value in pairs if name not in ("PATH", "PWD", "_", "SHLVL", "OLDPWD")
    }


@given(VALUES)
def test_a_shell_reads_back_what_was_written(value: str):
    assert told(environment.shell([("A", value), ("B_2", NASTY)])) == {"A": value, "B_2": NASTY}


def test_a_file_for_containers_takes_everything_behind_the_sign():
    assert environment.docker([("A", NASTY), ("B", "")]) == f"A={NASTY}\nB=\n"


def test_the_script_limits_locked_memory_in_kib_and_appends():
    said = environment.script([("A", "1")], "unlimited", ["vllm", "a b"], "/tmp/my log")
    assert said == "export A=1\nulimit -l unlimited\nvllm 'a b' >>'/tmp/my log' 2>&1\n"
    assert environment.script([], "1025", ["x"]) == "ulimit -l 2\nx\n"
    assert environment.script([], "", ["x"]) == "x\n"


def test_quotes_of_a_containerfile():
    assert environment.containerfile([("A", 'x"$\\')]) == 'ENV A="x\\"\\$\\\\"\n'
