"""When two names are one distribution, two versions one release, and a wheel is of a release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.version import Version

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


def wheel_version(filename: str, distribution: str, release: str) -> Version | None:
    """Return the version that a wheel's name says; ``None`` if it is no wheel of that release.

    A local label does not make another release of it (binary distribution format, "File name").
    """
    from packaging.utils import canonicalize_name, parse_wheel_filename  # noqa: PLC0415 - as above

    try:
        name, version = parse_wheel_filename(filename)[:2]
    except ValueError:
        return None
    same = name == canonicalize_name(distribution) and same_release(str(version), release)
    return version if same else None
