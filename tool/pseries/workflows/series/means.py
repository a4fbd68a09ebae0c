"""How a use case reaches releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pseries.upstream.fetch import Report
    from pseries.upstream.release import Progress


class Means(NamedTuple):
    """How releases are reached, and who is told about it.

    Attributes:
        offline: forbid the network.
        index_url: the package index, unless the one that pip uses.
        progress: told of downloads.
        report: told which source served a release, and of odd files.
    """

    offline: bool = False
    index_url: str | None = None
    progress: Progress | None = None
    report: Report | None = None
