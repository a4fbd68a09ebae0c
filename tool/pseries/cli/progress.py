"""How commands reach releases: what is told of it, and bars, on a terminal only."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from pseries.cli import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pseries.upstream.fetch import Event
    from pseries.workflows.series.means import Means


@contextlib.contextmanager
def reaching(offline: bool, index_url: str | None, *, bars: bool = True) -> Iterator[Means]:
    """Give the means to reach releases, with ``bars`` for long downloads while the body runs."""
    from pseries.workflows.series.means import Means

    with _bar() if bars else contextlib.nullcontext() as shown:
        yield Means(offline, index_url, shown, tell)


def tell(event: Event) -> None:
    """Say what the user should know of a fetch although it is no failure."""
    from pseries.upstream import fetch as fetching

    if isinstance(event, fetching.SourceFailed):
        render.note(f"{event.source}: {event.reason}; trying the next source")
    elif isinstance(event, fetching.FileYanked):
        render.note(f"{event.filename} was yanked from the index: {render.short(event.reason)}")
    elif isinstance(event, fetching.FileUnverified):
        render.note(f"{event.filename}: the index gives no sha256 for it")
    else:
        render.note(f"another process imports into the store of {event.distribution}; waiting")


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Give a function to be told of progress (what, bytes done, of how many); ``None`` in a pipe.

    Each new ``what`` starts a bar of its own.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total)
            shown.update(tasks[what], completed=done, total=total)

        yield tell
