"""Compiled files that would outlive the source they came from.

A ``.pyc`` is believed when it names the size and the whole second of its source, and without any
look at the source when it was compiled with ``unchecked-hash``; a ``.pyc`` beside a module that is
gone is imported in its place. So whatever is compiled from a changed module goes, for every
interpreter and optimisation level. Caches elsewhere (``PYTHONPYCACHEPREFIX``) cannot be seen from
here; a changed time of the source is what they go by.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pseries.site.change import Change

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pseries.site.fs import FileState, SiteTree

CACHE = "__pycache__"


def removals(tree: SiteTree, changed: Iterable[str]) -> tuple[Change, ...]:
    """Return the changes that remove what was compiled from the modules among ``changed``.

    Args:
        tree: the target.
        changed: paths of files that are added, replaced or deleted; only ``.py`` files matter.

    Raises :class:`~pseries.errors.TargetRefused` where a compiled file or its folder is a link:
    left alone, it would go on being imported.
    """
    return tuple(
        Change(path, state.image, None, derived=True)
        for path, state in sorted(_compiled(tree, changed).items())
    )


def returns(
    tree: SiteTree, changed: Iterable[str], removed: Iterable[Change]
) -> tuple[Change, ...]:
    """Return the changes that bring back what :func:`removals` took, and drop what came since.

    Args:
        tree: the target.
        changed: the paths that :func:`removals` was given.
        removed: what it returned.
    """
    now = _compiled(tree, changed)
    old = {change.path: change.before for change in removed}
    found = []
    for path in sorted(now.keys() | old.keys()):
        state, before = now.get(path), old.get(path)
        if state is not None or before is not None:
            image = None if state is None else state.image
            found.append(Change(path, image, before, derived=True))
    return tuple(found)


def _compiled(tree: SiteTree, changed: Iterable[str]) -> dict[str, FileState]:
    found = {}
    for path in changed:
        folder, slash, name = path.rpartition("/")
        stem, dot, extension = name.rpartition(".")
        if not dot or extension != "py":
            continue
        cache = f"{folder}{slash}{CACHE}"
        compiled = re.compile(re.escape(stem) + r"\.[^./]+(?:\.opt-[^./]+)?\.pyc")
        candidates = [
            f"{cache}/{each}" for each in tree.names(cache) or () if compiled.fullmatch(each)
        ]
        candidates.append(f"{folder}{slash}{stem}.pyc")
        for candidate in candidates:
            state = tree.read(candidate)
            if state is not None:
                found[candidate] = state
    return found
