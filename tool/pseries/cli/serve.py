"""Commands around a patched engine: env, serve, smoke, build-image."""

from __future__ import annotations

import signal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from typer.core import TyperCommand

from pseries.cli import progress, render
from pseries.cli.options import (
    IndexUrl,
    Interpreter,
    Json,
    Offline,
    SeriesDir,
    SeriesName,
    SitePackages,
    named_site,
)

if TYPE_CHECKING:
    from pseries.workflows.runtime.smoke import Report, Result

_EXTRA = "pseries.extra"
_MOST_TOKENS = 10_000_000
_BY_SIGNAL = 128
"""Added to the number of the signal that ended a child, as shells do."""


class _WithExtra(TyperCommand):
    """A command whose words behind ``--`` are not its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta[_EXTRA] = tuple(args[place + 1 :])
            args = args[:place]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            said: Any = error  # typer makes no name public for this kind of usage error
            if hasattr(said, "possibilities"):
                said.message += f"; what is for the engine goes behind --: … -- {said.option_name}"
            raise


class Format(str, Enum):
    """How the environment is written."""

    SH = "sh"
    DOCKER = "docker"
    JSON = "json"


class Builder(str, Enum):
    """Programs that build images."""

    BUILDAH = "buildah"
    DOCKER = "docker"
    NERDCTL = "nerdctl"


def register(app: typer.Typer) -> None:
    """Add the commands of this family."""
    app.command("env")(env)
    app.command(
        "serve",
        cls=_WithExtra,
        options_metavar="[OPTIONS]",
        epilog="Words behind -- are added to the engine's command.",
    )(serve)
    app.command("smoke")(smoke)
    app.command("build-image")(build_image)


def env(
    series: SeriesName,
    form: Annotated[
        Format, typer.Option("--format", help="For a shell's eval, for --env-file, or as JSON.")
    ] = Format.SH,
    series_dir: SeriesDir = None,
    json: Json = False,
) -> None:
    """Print the environment that a patched engine is served with."""
    from pseries.model.runtime import environment
    from pseries.workflows.runtime import serve as serving
    from pseries.workflows.series import catalog

    spec, _ = catalog.load_spec(series, catalog.locate(series_dir))
    variables = serving.served(series, spec).environment
    if json or form is Format.JSON:
        render.as_json(dict(variables))
        return
    text = environment.shell(variables) if form is Format.SH else environment.docker(variables)
    for line in text.splitlines():
        render.line(line)


def serve(
    context: typer.Context,
    series: SeriesName,
    site_packages: SitePackages = None,
    python: Interpreter = None,
    model: Annotated[
        Optional[str],  # noqa: UP045 - typer reads annotations at run time on Python 3.10
        typer.Option("--model", metavar="PATH", help="The model; {model} in the series' command."),
    ] = None,
    log: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--log", metavar="FILE", help="Append the engine's output to it; default: the terminal."
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--print", help="Print what would be run; look at no target.")
    ] = False,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Start it whatever the target holds.")
    ] = False,
    series_dir: SeriesDir = None,
    json: Annotated[bool, typer.Option("--json", help="With --print: as JSON.")] = False,
) -> None:
    """Start the patched engine.

    The target is verified, environment and limits are set: pseries serve SERIES … -- EXTRA.
    """
    from pseries.model.runtime import environment
    from pseries.workflows.runtime import serve as serving
    from pseries.workflows.series import catalog

    if json and not show:
        raise typer.BadParameter("--json goes with --print: the output of a server is its own")
    site_packages = named_site(site_packages, python)
    location = catalog.locate(series_dir)
    loaded = catalog.load(series, location)
    planned = serving.plan(series, loaded.spec, model, context.meta.get(_EXTRA, ()))
    if json:
        render.as_json({**planned._asdict(), "environment": dict(planned.environment), "log": log})
        return
    if show:
        target = None if log is None else str(log)
        script = environment.script(planned.environment, planned.memlock, planned.command, target)
        for line in script.splitlines():
            render.line(line)
        return
    distribution = loaded.spec.upstream.distribution
    goal = serving.target(distribution, site_packages, python, check=not no_check)
    if goal.site is not None and not no_check:
        serving.require_patched(loaded, goal.site, lambda: catalog.versions(distribution, location))
    for name in serving.replaced(planned):
        render.note(f"{name} is set as the series says, not as your environment does")
    if log is not None:
        render.note(f"the output goes to {log}")
    status = serving.start(planned, goal, series=loaded.name, digest=loaded.digest, log=log)
    if status < 0:
        memory = ": out of memory? see dmesg" if -status == signal.SIGKILL else ""
        render.note(f"the server was ended by {_signal_name(-status)}{memory}")
        status = _BY_SIGNAL - status
    raise typer.Exit(status)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def smoke(
    series: SeriesName,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="The server: http://HOST:PORT.")],
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--model", metavar="NAME", help="Default: the only one that it serves."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, max=256, help="Requests at once.")
    ] = 4,
    prompt_tokens: Annotated[
        str,
        typer.Option(
            "--prompt-tokens",
            metavar="LIST",
            help="Lengths of long prompts, 1037,4045: each plants a word to be returned.",
        ),
    ] = "",
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="S",
            min=0.1,
            max=86400,
            help="Seconds to wait for the server to start, and for each answer.",
        ),
    ] = 600,
    log: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--log", metavar="FILE", help="The server's log: no ERROR may be in it."),
    ] = None,
    series_dir: SeriesDir = None,
    json: Json = False,
) -> None:
    """Ask a served engine what the series says it must answer.

    Exit 1 if it does not.
    """
    from pseries.deploy import http
    from pseries.errors import SmokeFailed
    from pseries.workflows.runtime import smoke as smoking
    from pseries.workflows.series import catalog

    if trouble := http.problem(url):
        raise typer.BadParameter(f"--url: {trouble}")
    lengths = _lengths(prompt_tokens)
    if log is not None:  # now, not after an hour of waiting
        if log.exists() and not log.is_file():
            raise typer.BadParameter(f"--log: {log} is no plain file")
        log.open("rb").close()
    spec, _ = catalog.load_spec(series, catalog.locate(series_dir))
    report = smoking.smoke(
        series,
        spec,
        smoking.Server(url, timeout),
        model=model,
        concurrency=concurrency,
        lengths=lengths,
        log=log,
        tell=render.note,
    )
    if json:
        render.as_json({**report._asdict(), "passed": not report.problems})
    else:
        _print_report(report)
    if report.problems:
        raise SmokeFailed(report.series, report.problems)


def _lengths(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isascii() and word.isdecimal() and len(word) < 9 for word in words):
        raise typer.BadParameter(f"--prompt-tokens: {text!r} is no list such as 1037,4045")
    lengths = tuple(map(int, words))
    if len(lengths) > 100 or any(not 0 < length <= _MOST_TOKENS for length in lengths):
        raise typer.BadParameter(f"--prompt-tokens: 1 to {_MOST_TOKENS}, and at most 100 of them")
    return lengths


def _print_report(report: Report) -> None:
    render.line(f"{report.series} at {report.url}, model {report.model or '(not told)'}")
    head = ("request", "status", "first byte", "whole", "prompt", "generated", "")
    render.table([head, *map(_row, report.results)])
    for what in report.skipped:
        render.note(f"not tried any more: {what}")


def _row(result: Result) -> tuple[str, ...]:
    return (
        result.request,
        str(result.status or "-"),
        f"{result.first_byte:.3f} s" if result.status else "-",
        f"{result.seconds:.3f} s",
        "-" if result.prompt_tokens is None else str(result.prompt_tokens),
        "-" if result.tokens is None else str(result.tokens),
        "FAILED" if result.problem else render.short(repr(result.text), 60),
    )


def build_image(
    series: SeriesName,
    base: Annotated[
        str, typer.Option("--base", metavar="IMAGE", help="An image that holds the release.")
    ],
    tag: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("-t", "--tag", metavar="TAG", help="Default: DISTRIBUTION:VERSION-LABEL."),
    ] = None,
    builder: Annotated[
        Optional[Builder],  # noqa: UP045
        typer.Option("--builder", help="Default: the first of them that is there."),
    ] = None,
    show: Annotated[
        bool, typer.Option("--print", help="Print the Containerfile; build nothing.")
    ] = False,
    series_dir: SeriesDir = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Build an image with the series in it."""
    from pseries.deploy import builder as builders
    from pseries.workflows.exports import build_image as images
    from pseries.workflows.series import catalog

    loaded = catalog.load(series, catalog.locate(series_dir))
    planned = images.draft(loaded, base, tag)
    if show:
        if json:
            render.as_json({"tag": planned.tag, "containerfile": planned.containerfile})
            return
        for line in planned.containerfile.splitlines():
            render.line(line)
        return
    chosen = builders.choose(None if builder is None else builder.value)
    with progress.reaching(offline, index_url) as means:
        built = images.build_image(loaded, planned, chosen, means=means, tell=render.note)
    if json:
        render.as_json(built)
        return
    render.line(built.tag)
    render.table((path,) for path in built.files)
    for problem in built.skipped:
        render.note(f"skipped {problem}")
