"""Reading tables of text, numbers and lists that people or programs wrote, all mistakes at once.

One reader serves every structured file of the project (``series.toml``, ``manifest.json`` and the
state below a site-packages folder): a key that is unknown, missing or of the wrong type becomes a
:class:`~pseries.errors.Problem`; reading goes on with a harmless value, so that the person who has
to mend the file sees everything that is wrong with it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pseries.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHA256 = re.compile(r"[0-9a-f]{64}")
OBJECT_ID = re.compile(r"[0-9a-f]{40}")
SERIES_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+!-]{0,254}")
"""The name of a series where a file says it: never a path."""
MOST_PROBLEMS = 50
"""Of one file: what is hostile must cost neither time nor screens full of text."""
_MOST_HINTS = 20
_LONGEST = 300


class _Sink:
    """Where the problems of one file go, as many as are worth reading."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._left = MOST_PROBLEMS

    @property
    def full(self) -> bool:
        """Whether nothing more is taken, so that the rest of the file need not be read."""
        return self._left < 0

    def add(self, where: str, what: str) -> None:
        if self._left > 0:
            self._problems.append(Problem(_cut(where), _cut(what)))
        elif self._left == 0:
            self._problems.append(Problem(_cut(where), "and more that is wrong in this file"))
        self._left -= 1


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class Fields:
    """One table while it is read: ask for each key by type, then call :meth:`finish`.

    Args:
        table: what the TOML or JSON parser gave.
        where: how to name this table in a problem, for example ``series.toml`` or ``[upstream]``.
        problems: the list that problems are appended to, shared by all tables of one file.
    """

    def __init__(self, table: Any, where: str, problems: list[Problem] | _Sink) -> None:
        self._table: Mapping[str, Any] = table if isinstance(table, dict) else {}
        self._where = where
        self._sink = problems if isinstance(problems, _Sink) else _Sink(problems)
        self._asked: list[str] = []
        if not isinstance(table, dict):
            self._report("a table is expected here")

    def _report(self, what: str, key: str | None = None) -> None:
        self._sink.add(f"{self._where}{f' {key}' if key else ''}", what)

    def _get(self, key: str, kind: type, expected: str, *, required: bool) -> Any:
        self._asked.append(key)
        if key not in self._table:
            if required:
                self._report("the key is missing", key)
            return None
        value = self._table[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self._report(f"{expected} is expected, not {type(value).__name__}", key)
            return None
        return value

    def text(
        self,
        key: str,
        *,
        default: str | None = None,
        matching: re.Pattern[str] | None = None,
        meaning: str = "",
    ) -> str:
        """Return a text; required unless ``default`` is given; must match ``matching`` in full."""
        value: str | None = self._get(key, str, "a text", required=default is None)
        if value is None:
            return default or ""
        if matching and not matching.fullmatch(value):
            self._report(f"{_cut(value)!r} is not {meaning or 'of the right form'}", key)
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a text, or ``None`` where the key is absent or null."""
        if self._table.get(key) is None:
            self._asked.append(key)
            return None
        return self.text(key)

    def number(
        self, key: str, *, default: int | None = None, least: int = 0, most: int = 1 << 62
    ) -> int:
        """Return a whole number within bounds; required unless ``default`` is given."""
        value: int | None = self._get(key, int, "a whole number", required=default is None)
        if value is None:
            return default or 0
        if not least <= value <= most:
            self._report(f"{value} is out of range", key)
            return least
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return a truth value, ``default`` where the key is absent."""
        value: bool | None = self._get(key, bool, "true or false", required=False)
        return default if value is None else value

    def texts(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """Return a list of texts; empty where the key is absent."""
        values = self._get(key, list, "a list of texts", required=required) or []
        if not all(isinstance(value, str) for value in values):
            self._report("a list of texts is expected", key)
            return ()
        return tuple(values)

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return a table of texts as pairs in file order; empty where the key is absent."""
        table = self._get(key, dict, "a table of texts", required=False) or {}
        for name, value in table.items():
            if not isinstance(value, str):
                self._report("a text is expected", f"{key}.{name}")
        return tuple((name, value) for name, value in table.items() if isinstance(value, str))

    def free(self, key: str) -> Mapping[str, Any]:
        """Return a required table whose content is not ours to judge."""
        table: Mapping[str, Any] = self._get(key, dict, "a table", required=True) or {}
        return table

    def table(self, key: str, *, required: bool = True) -> Fields:
        """Return the reader of a table below this one; an absent optional one is empty."""
        present = self._get(key, dict, "a table", required=required)
        return Fields(present or {}, f"{self._where} [{key}]", self._sink if present else [])

    def optional_table(self, key: str) -> Fields | None:
        """Return the reader of a table below this one, ``None`` where absent or null."""
        if self._table.get(key) is None:
            self._asked.append(key)
            return None
        return self.table(key)

    def tables(self, key: str) -> Iterator[Fields]:
        """Yield a reader for each table of a list; none where the key is absent."""
        values = self._get(key, list, "a list of tables", required=False) or []
        for number, value in enumerate(values, 1):
            if self._sink.full:
                return
            yield Fields(value, f"{self._where} [[{key}]] {number}", self._sink)

    def refuse(self, key: str, what: str) -> None:
        """Report a problem that only the caller can see."""
        self._report(what, key)

    def finish(self) -> None:
        """Report every key that was never asked for, with the nearest one that exists."""
        unknown = [key for key in self._table if key not in self._asked]
        if not unknown:
            return
        import difflib  # noqa: PLC0415 - only files with a mistake pay for it

        for number, key in enumerate(unknown):
            if self._sink.full:
                return
            worth = number < _MOST_HINTS and len(key) <= _LONGEST
            near = difflib.get_close_matches(key, self._asked, n=1, cutoff=0.0) if worth else []
            hint = f"; the nearest known key is {near[0]!r}" if near else ""
            self._report(f"the key is unknown{hint}", key)


def parse_json(name: str, data: bytes, problems: list[Problem], *, most: int = 64 << 20) -> Any:
    """Return the JSON in ``data``; a mistake is reported and gives an empty table.

    Args:
        name: the file, for problems.
        data: its bytes.
        problems: what is wrong is appended here.
        most: bytes that such a file may have.
    """
    import json  # noqa: PLC0415 - `--help` needs none

    if len(data) > most:
        problems.append(Problem(name, f"larger than {most >> 20} MiB"))
        return {}
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        problems.append(Problem(name, f"not JSON: {error}"))
        return {}
