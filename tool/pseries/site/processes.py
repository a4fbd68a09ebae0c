"""Which processes run from a target, and so go on running the old code until they are restarted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from pseries.site.fs import SiteTree

_PROC = "/proc"


def running(tree: SiteTree, below: Collection[str] = ()) -> tuple[int, ...]:
    """Return the processes, this one apart, that have compiled files of a target mapped.

    Best effort: it sees what the user may see, where there is a ``/proc``, and never fails. A
    package of plain Python has nothing mapped, so by default any library of the whole
    environment counts; ``below`` names folders to keep to.
    """
    wanted = [os.fsencode(f" {tree.root}/{folder}/") for folder in below]
    wanted = wanted or [os.fsencode(f" {tree.root}/")]
    found = []
    try:
        numbers = [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208
    except OSError:
        return ()
    for number in numbers:
        try:
            with open(f"{_PROC}/{number}/maps", "rb") as file:  # noqa: PTH123 - not below a target
                maps = file.read()
        except OSError:  # ended, or somebody else's
            continue
        if number != os.getpid() and any(folder in maps for folder in wanted):
            found.append(number)
    return tuple(sorted(found))
