"""Programs that build an image from a folder with a Containerfile."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from pseries.deploy import probe
from pseries.errors import BuilderMissing, ImageNotBuilt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BUILDERS = ("buildah", "docker", "nerdctl")
CONTAINERFILE = "Containerfile"
_LONGEST_LINE = 64 << 10


def choose(builder: str | None) -> str:
    """Return a builder that is there: the one that is named, or the first of :data:`BUILDERS`.

    Raises:
        BuilderMissing: it is not, or none is.
    """
    tried = BUILDERS if builder is None else (builder,)
    for name in tried:
        if probe.find(name) is not None:
            return name
    raise BuilderMissing(tried)


def command(builder: str, context: Path, base: str, tag: str) -> tuple[str, ...]:
    """Return the words that build an image; the three builders take the same."""
    file = context / CONTAINERFILE
    return (
        builder, "build", "--file", str(file), "--build-arg", f"BASE_IMAGE={base}", "--tag", tag,
        str(context),
    )  # fmt: skip


def build(builder: str, context: Path, base: str, tag: str, tell: Callable[[str], None]) -> None:
    """Build an image; every line of the builder is told at once, for a base may be long in coming.

    Its storage, isolation and credentials are as its own configuration says.

    Raises:
        ImageNotBuilt: it failed.
    """
    name, *words = command(builder, context, base, tag)
    words.insert(0, probe.find(name) or name)  # never one of the current folder
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as child:
        if child.stdout is None:
            raise AssertionError(words)
        try:
            while line := child.stdout.readline(_LONGEST_LINE):
                tell(line.decode("utf-8", "replace").rstrip())
        except BaseException:
            child.terminate()
            raise
    if child.returncode != 0:
        raise ImageNotBuilt(base, builder, child.returncode)
