"""Commands about upstream releases: upstream fetch, list, add, remove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pseries.cli import progress, render
from pseries.cli.options import IndexUrl, Json, Offline

if TYPE_CHECKING:
    from pseries.upstream.release import Release

Distribution = Annotated[
    str, typer.Argument(metavar="DISTRIBUTION", help="Name on the package index.")
]
Version = Annotated[str, typer.Argument(metavar="VERSION", help="Version of the release.")]
Root = Annotated[
    str,
    typer.Option(
        "--root", metavar="DIR", help="Folder of the git tree that installs into site-packages."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this family."""
    family = typer.Typer(
        help="Fetch, list, add and remove upstream releases in the store.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    family.command()(fetch)
    family.command("list")(list_releases)
    family.command()(add)
    family.command()(remove)
    app.add_typer(family, name="upstream")


def fetch(
    distribution: Distribution,
    version: Version,
    git: Annotated[str, typer.Option("--git", metavar="URL", help="Repository to try first.")] = "",
    tag: Annotated[str, typer.Option("--tag", metavar="TAG", help="Default: v<version>.")] = "",
    root: Root = "",
    source: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads annotations at run time on Python 3.10
        typer.Option(
            "--source", metavar="KIND", help="git, sdist or wheel; repeat to give an order."
        ),
    ] = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Fetch a release into the store, from the first source that has it."""
    from pseries.model.spec import SOURCES, Upstream
    from pseries.upstream import fetch as fetching
    from pseries.upstream import settings
    from pseries.upstream.store import Store

    unknown = sorted(set(source or ()) - set(SOURCES))
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(SOURCES)}")
    sources = tuple(source or (SOURCES if git else SOURCES[1:]))
    wanted = Upstream(distribution, version, git, tag, root, sources)
    with progress.reaching(offline, index_url) as means:
        release = fetching.fetch(
            wanted,
            Store.open(distribution),
            settings.configured(index_url or ""),
            offline=means.offline,
            progress=means.progress,
            report=means.report,
        )
    _print((release,), json=json)


def list_releases(
    distribution: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[DISTRIBUTION]", help="Only this one.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """List the releases in the store."""
    from pseries.upstream.store import Store

    stores = Store.all() if distribution is None else (Store.open(distribution),)
    releases = tuple(release for store in stores for release in store.releases())
    _print(releases, json=json)
    if not releases and not json:
        others = ", ".join(store.distribution for store in Store.all() if store.releases())
        has = f"has no {distribution}, but: {others}" if others else "is empty"
        render.note(f"the store {has}")


def add(
    distribution: Distribution,
    version: Version,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="A checkout, or a site-packages folder or its environment."
        ),
    ],
    root: Root = "",
    accept_changed: Annotated[
        bool,
        typer.Option("--accept-changed", help="Take files that differ from their RECORD too."),
    ] = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Take the place of the release from an index or git."),
    ] = False,
    json: Json = False,
) -> None:
    """Add a release from a folder, for a fork that is not public."""
    from pseries.site.distribution import site_of
    from pseries.upstream import imports
    from pseries.upstream.store import Store

    store = Store.open(distribution)
    path = site_of(path)
    with store.lock(_waiting):
        release = imports.add_folder(
            store, version, path, root, accept_changed=accept_changed, replace=replace
        )
    _print((release,), json=json)


def remove(distribution: Distribution, version: Version, json: Json = False) -> None:
    """Forget a release; what checkouts and other releases share stays."""
    from pseries.upstream.store import Store

    store = Store.open(distribution)
    release = store.remove(version, _waiting)
    if json:
        render.as_json(release)
        return
    render.line(f"removed: {release.distribution} {release.version} ({release.origin})")
    render.note(f"its objects stay in {store.git_dir}, its downloads in {store.downloads}")


def _waiting() -> None:
    render.note("another process imports into this store; waiting")


def _print(releases: tuple[Release, ...], *, json: bool) -> None:
    if json:
        render.as_json(releases)
        return
    render.table(
        (
            release.distribution,
            release.version,
            release.source,
            release.tree[:12],
            release.origin,
        )
        for release in releases
    )
