"""Whether a served engine answers as its series says: requests alone, at once, and long ones."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from pseries.deploy import http
from pseries.deploy.http import Ask
from pseries.errors import ModelUnclear, NotServed, Problem, ServerNotUp
from pseries.model.runtime import answer as answers
from pseries.model.runtime import placeholder, prompt, servelog
from pseries.model.runtime.prompt import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from pseries.deploy.http import Answer
    from pseries.model.spec import Smoke, Spec

MODELS = "/v1/models"
_NOT_YET = (502, 503, 504)
_ATTEMPT = 10.0
_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
_SHOWN = 500
_LONGEST_LINE = 64 << 10
_ORDER = (Kind.CHAT, Kind.COMPLETION, Kind.GENERATE)


class Result(NamedTuple):
    """A request and what came of it; ``problem`` is "" where the answer is as it must be.

    Times are seconds since the request was begun, to the first byte of the answer and to its end;
    tokens are what the server counted, ``None`` where it does not say.
    """

    request: str
    status: int
    first_byte: float
    seconds: float
    prompt_tokens: int | None
    tokens: int | None
    text: str
    problem: str


class Report(NamedTuple):
    """Everything that was asked, and the errors in the server's log since its last start.

    ``skipped`` names what was not asked any more, because something before it failed.
    """

    series: str
    url: str
    model: str
    results: tuple[Result, ...]
    skipped: tuple[str, ...]
    log_errors: tuple[str, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what is not as it must be."""
        failed = [Problem(each.request, each.problem) for each in self.results if each.problem]
        return (*failed, *(Problem("log", line) for line in self.log_errors))


class Server(NamedTuple):
    """A server's address, and how long to wait for it to come up and for each answer."""

    url: str
    seconds: float


def smoke(
    name: str,
    spec: Spec,
    server: Server,
    *,
    model: str | None = None,
    concurrency: int = 1,
    lengths: Sequence[int] = (),
    log: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Ask a server what its series wants asked; a stage that fails ends the asking.

    Args:
        name: the series.
        spec: what it says.
        server: where it is.
        model: what ``{model}`` in a request means; ``None`` for the only one it serves.
        concurrency: how many requests to send at once afterwards; 1 for none.
        lengths: tokens of long prompts, which plant a word that the answer has to hold.
        log: the server's log, to be searched for errors.
        tell: is told what is waited for.

    Raises:
        NotServed: the series has nothing to ask.
        ServerNotUp: nothing answers in time.
        ModelUnclear: no model was named, and there is not exactly one.
    """
    if not spec.smokes:
        raise NotServed(name, "[[smoke]]")
    url = http.shown(server.url)
    listed = _wait(server, tell)
    asks = _filled(spec.smokes, url, model, listed)
    stages: list[tuple[str, Callable[[], list[Result]]]] = [
        ("each request alone", lambda: _alone(asks, server))
    ]
    if concurrency > 1:
        stages.append((f"{concurrency} at once", lambda: _at_once(asks, server, concurrency)))
    if lengths:
        stages.append(("long prompts", lambda: _long(asks, server, lengths, tell)))
    results: list[Result] = []
    skipped: list[str] = []
    for what, stage in stages:
        if any(each.problem for each in results):
            skipped.append(what)
        else:
            results += stage()
    said = model or (listed[0] if len(listed) == 1 else "")
    errors = () if log is None else _errors(log)
    return Report(name, url, said, tuple(results), tuple(skipped), errors)


def _wait(server: Server, tell: Callable[[str], None]) -> tuple[str, ...]:
    """Return the server's models once it answers anything at all."""
    deadline = time.monotonic() + server.seconds
    pause, told = _PAUSE, ""
    while True:
        left = deadline - time.monotonic()
        asked = [Ask(http.base(server.url) + MODELS)]
        (answer,) = http.ask(asked, max(0.1, min(_ATTEMPT, left)))
        if not answer.trouble and answer.status not in _NOT_YET:
            break
        reason = answer.trouble or f"it answers with status {answer.status}"
        if time.monotonic() + pause > deadline:
            raise ServerNotUp(http.shown(server.url), server.seconds, reason)
        if reason != told:
            tell(f"waiting for the server: {reason}")
            told = reason
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 1.5)
    try:
        return answers.models(answers.parse(answer.content_type, answer.body))
    except answers.AnswerInvalid:
        return ()


def _filled(
    smokes: Iterable[Smoke], url: str, model: str | None, listed: tuple[str, ...]
) -> list[Smoke]:
    if any(placeholder.names(each.json) for each in smokes) and model is None:
        if len(listed) != 1:
            raise ModelUnclear(url, listed)
        model = listed[0]
    return [
        each._replace(json=placeholder.fill(each.json, {"model": model or ""})) for each in smokes
    ]


def _alone(smokes: Iterable[Smoke], server: Server) -> list[Result]:
    return [_judged(each.path, each, _ask([each], [each.json], server)[0], None) for each in smokes]


def _at_once(smokes: Sequence[Smoke], server: Server, count: int) -> list[Result]:
    each = smokes[0]
    kind = Kind.of(each.path)
    request = each.json if kind is None else prompt.streamed(kind, each.json)
    found = _ask([each] * count, [request] * count, server)
    return [
        _judged(f"{each.path} {number}/{count} at once", each, answer, None)
        for number, answer in enumerate(found, 1)
    ]


def _long(
    smokes: Sequence[Smoke],
    server: Server,
    lengths: Iterable[int],
    tell: Callable[[str], None],
) -> list[Result]:
    kinds = {Kind.of(each.path): each for each in reversed(smokes)}
    kind = next((kind for kind in _ORDER if kind in kinds), None)
    if kind is None:
        tell("no request of this series takes a prompt that is known here: no long prompts")
        return []
    each = kinds[kind]

    def asked(words: int) -> tuple[Answer, str]:
        chance = secrets.SystemRandom()
        planted = chance.choice(prompt.WORDS)
        beginning = chance.choices(prompt.BEGINNINGS, k=prompt.BEGINNING)
        text = prompt.haystack(words, planted, " ".join(beginning))
        return _ask([each], [prompt.asking(kind, each.json, text)], server)[0], planted

    tried = [_counted(asked(words)[0]) for words in prompt.MEASURED]
    measure = prompt.measure(*tried)
    if measure is None:
        tell("the server does not count tokens: one word is taken for one")
        measure = prompt.Measure()
    results = []
    for length in lengths:
        answer, planted = asked(measure.words(length))
        results.append(_judged(f"{each.path} {length} tokens", each, answer, planted))
    return results


def _counted(answer: Answer) -> int | None:
    try:
        return answers.tokens(answers.parse(answer.content_type, answer.body)).prompt
    except answers.AnswerInvalid:
        return None


def _ask(smokes: Iterable[Smoke], requests: Iterable[Any], server: Server) -> tuple[Answer, ...]:
    base = http.base(server.url)
    pairs = zip(smokes, requests, strict=True)
    return http.ask([Ask(base + each.path, request) for each, request in pairs], server.seconds)


def _judged(request: str, smoke: Smoke, answer: Answer, planted: str | None) -> Result:
    parsed, problem = None, _refused(answer)
    if not problem:
        try:
            parsed = answers.parse(answer.content_type, answer.body)
        except answers.AnswerInvalid as error:
            problem = f"{error}: {_text(answer)}"
    text = "" if problem else answers.said(parsed, smoke.expect)
    if not problem and planted is not None and planted not in text.lower():
        problem = f"the planted word {planted!r} is not in its answer: {text[:_SHOWN]!r}"
    elif not problem and planted is None and not answers.text_at(parsed, smoke.expect):
        problem = f"no text at {smoke.expect} in its answer: {_text(answer)}"
    count = answers.tokens(parsed)
    return Result(
        request,
        answer.status,
        round(answer.first_byte, 4),
        round(answer.seconds, 4),
        count.prompt,
        count.generated,
        text[:_SHOWN],
        problem,
    )


def _refused(answer: Answer) -> str:
    if answer.trouble:
        said = f": {_text(answer)}" if answer.body else ""
        return f"{answer.trouble}{said}"
    if 300 <= answer.status < 400:
        return f"it redirects (status {answer.status}): give the address that it leads to"
    if answer.status != 200:
        return f"status {answer.status}: {_text(answer)}"
    return ""


def _text(answer: Answer) -> str:
    """Return the beginning of an answer as it came."""
    text = answer.body[: 4 * _SHOWN].decode("utf-8", "replace").strip() or "(an empty answer)"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _errors(log: Path) -> tuple[str, ...]:
    with log.open("rb") as file:
        lines = iter(lambda: file.readline(_LONGEST_LINE), b"")
        return servelog.errors(line.decode("utf-8", "replace") for line in lines)
