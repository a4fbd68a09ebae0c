"""When two names are one distribution, and two versions one release."""

from __future__ import annotations

import re

_RUN = re.compile(r"[-_.]+")


def normalized(name: str) -> str:
    """Return a distribution's name as it is compared (PEP 503).

    As ``packaging.utils.canonicalize_name`` does it, which takes too long to import for ``apply``.
    """
    return _RUN.sub("-", name).lower()


def same_release(version: str, wanted: str) -> bool:
    """Say whether two versions are one release, local labels apart (PEP 440)."""
    version, wanted = version.partition("+")[0], wanted.partition("+")[0]
    if version == wanted:
        return True
    from packaging.version import Version  # noqa: PLC0415 - rarely needed

    try:
        return Version(version) == Version(wanted)
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        return False
