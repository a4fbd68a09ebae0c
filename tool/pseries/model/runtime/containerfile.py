"""A Containerfile that patches the engine of a base image while the image is built.

The name of the base is never part of the text: the builder gets it as ``BASE_IMAGE``. Values from
``series.toml`` are quoted, commands are in exec form, so that no shell reads any of it.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from pseries.model.runtime import environment

KIT = "kit"
"""The folder of the build context that the kit lies in."""
HOME = "/opt/pseries"

# The grammar of the distribution project (OCI image references), bounded.
_NAMED = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?"
_HOST = rf"(?:\[[0-9a-fA-F:]{{2,45}}\]|{_NAMED})(?::[0-9]{{1,5}})?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"sha256:[0-9a-f]{64}"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?"
)
_LONGEST = 512


class Recipe(NamedTuple):
    """What an image is made of; ``variables`` are set in it."""

    series: str
    digest: str
    distribution: str
    version: str
    base: str
    variables: tuple[tuple[str, str], ...]


def problem(reference: str) -> str | None:
    """Say why a text may not name an image, or ``None`` if it may."""
    if len(reference) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    if not _REFERENCE.fullmatch(reference):
        return "it is not of the form [HOST[:PORT]/]NAME[:TAG][@sha256:…], NAME in small letters"
    return None


def same(one: str, other: str) -> bool:
    """Whether two references, neither of them by digest, name the same image."""
    return _plain(one) == _plain(other)


def _plain(reference: str) -> str:
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        return reference
    name = found["name"].removeprefix("docker.io/").removeprefix("library/")
    return f"{name.removeprefix('localhost/')}:{found['tag'] or 'latest'}"


def tag(distribution: str, version: str, label: str) -> str:
    """Return the name of an image that nobody named; ``distribution`` is in normal form."""
    return f"{distribution}:{re.sub(r'[^A-Za-z0-9_.-]', '-', f'{version}-{label}')}"


def render(recipe: Recipe) -> str:
    """Return the Containerfile."""
    kit = f"{HOME}/{recipe.series}-kit"
    labels = {
        "org.opencontainers.image.base.name": recipe.base,
        "pseries.series": recipe.series,
        "pseries.digest": recipe.digest,
        "pseries.distribution": recipe.distribution,
        "pseries.version": recipe.version,
    }
    run = json.dumps(["python3", f"{kit}/apply.py", "--apply"])
    return "".join(
        [
            "ARG BASE_IMAGE\n",
            "FROM ${BASE_IMAGE}\n",
            f"COPY {json.dumps([f'{KIT}/', f'{kit}/'])}\n",
            f"RUN {run}\n",
            environment.containerfile(recipe.variables),
            *(f"LABEL {name}={environment.quoted(value)}\n" for name, value in labels.items()),
        ]
    )
