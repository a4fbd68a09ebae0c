"""Asking a server that may be slow, wrong or hostile: every answer has an end in bytes and time."""

from __future__ import annotations

import ipaddress
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import requests
from urllib3.exceptions import HTTPError, ReadTimeoutError

from pseries.upstream import net

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES = 16 << 20
"""Of one answer."""
_PIECE = 64 << 10
_DIRECT: dict[str, Any] = {"http": None, "https": None, "all": None}
"""No proxy of the environment is the way to this machine."""


class Ask(NamedTuple):
    """A request: POST with this JSON, or GET where there is none."""

    url: str
    json: Any = None


class Answer(NamedTuple):
    """What came of it; ``trouble`` says why there is no whole answer, "" if there is one.

    Times are seconds since the request was begun; ``first_byte`` is that of the body.
    """

    status: int = 0
    content_type: str = ""
    body: bytes = b""
    first_byte: float = 0.0
    seconds: float = 0.0
    trouble: str = ""


def problem(url: str) -> str | None:
    """Say why an address may not be asked, or ``None`` if it may."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "it is not an address"
    if parts.scheme not in ("http", "https"):
        return "only http:// and https:// are asked"
    if not parts.hostname or port == 0:
        return "it names no host and port"
    if parts.query or parts.fragment:
        return "an address of a server has neither ? nor #"
    return None


def base(url: str) -> str:
    """Return an address to put paths behind; a last ``/v1``, which paths begin with, goes."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def shown(url: str) -> str:
    """Return an address as it may be printed: without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def ask(asked: Sequence[Ask], seconds: float) -> tuple[Answer, ...]:
    """Ask all at the same time; return the answers in the same order.

    Those that are not whole after ``seconds`` are given up. What a server can hold up longer than
    that is a thread of ours, which ends with the program.
    """
    answers = [Answer(seconds=seconds, trouble=_late(seconds)) for _ in asked]
    results: list[Answer | None] = [None] * len(asked)

    def work(number: int) -> None:
        results[number] = _ask(asked[number], seconds)

    threads = [
        threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(asked))
    ]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return tuple(result or answer for result, answer in zip(results, answers, strict=True))


def _late(seconds: float) -> str:
    return f"no whole answer within {seconds:g} s"


def _ask(asked: Ask, seconds: float) -> Answer:
    begun = time.monotonic()
    try:
        with requests.request(
            "GET" if asked.json is None else "POST",
            asked.url,
            json=asked.json,
            headers=net.WHOLE_FILE,
            timeout=(net.CONNECT_TIMEOUT, seconds),
            allow_redirects=False,
            stream=True,
            proxies=dict(_DIRECT) if _loopback(asked.url) else None,
        ) as response:
            return _read(response, begun, seconds)
    except (requests.RequestException, OSError, ValueError) as error:
        # ValueError: a name of a host, or a password, that cannot be encoded
        late = isinstance(error, requests.ReadTimeout)
        trouble = _late(seconds) if late else net.reason(error)
        return Answer(seconds=time.monotonic() - begun, trouble=trouble)


def _read(response: requests.Response, begun: float, seconds: float) -> Answer:
    body = bytearray()
    first = trouble = None
    try:
        for piece in response.raw.stream(_PIECE, decode_content=False):
            first = first or time.monotonic() - begun
            body += piece
            if len(body) > MOST_BYTES:
                trouble = f"its answer is larger than {MOST_BYTES >> 20} MiB"
            elif time.monotonic() - begun > seconds:
                trouble = _late(seconds)
            if trouble:
                break
    except ReadTimeoutError:
        trouble = _late(seconds)
    except (HTTPError, OSError) as error:
        trouble = f"the connection broke before the answer was whole ({net.reason(error)})"
    now = time.monotonic() - begun
    if response.headers.get("Content-Encoding", "identity") != "identity":
        trouble = trouble or "its answer is compressed, which was not asked for"
    content_type = response.headers.get("Content-Type", "")
    return Answer(response.status_code, content_type, bytes(body), first or now, now, trouble or "")


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
