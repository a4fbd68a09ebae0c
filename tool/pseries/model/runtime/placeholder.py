"""``{model}`` in what ``series.toml`` says of serving: found, and filled in.

Only a word in small letters between braces is one: JSON among the command's words is left alone.
There is no way to quote one, for no engine is known whose options hold such a word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KNOWN = ("model",)
"""What may be filled in: a path or a name that only the host, or its server, knows."""

_PLACEHOLDER = re.compile(r"\{([a-z][a-z_]*)\}")


def names(value: Any) -> tuple[str, ...]:
    """Return the placeholders in a text, and in all texts of a nested value, each once."""
    found = (name for text in _texts(value) for name in _PLACEHOLDER.findall(text))
    return tuple(dict.fromkeys(found))


def fill(value: Any, values: Mapping[str, str]) -> Any:
    """Return the same with every placeholder replaced; keys of tables are no place for one.

    Raises:
        KeyError: a placeholder has no value; :func:`names` says which there are.
    """
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: values[found[1]], value)
    if isinstance(value, dict):
        return {key: fill(each, values) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(fill(each, values) for each in value)
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)
