"""``python -m pseries``."""

from pseries.cli.main import run

run()
