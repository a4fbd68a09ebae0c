"""The ``pseries`` program, also as ``python -m pseries``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run it; an interruption while it is still being imported is one like any other."""
    try:
        from pseries.cli.main import run  # noqa: PLC0415 - takes a while

        run()
    except KeyboardInterrupt:
        sys.stderr.write("pseries: interrupted before it had begun\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
