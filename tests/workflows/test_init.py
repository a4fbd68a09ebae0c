"""Beginning a series: of a real distribution from start to finish, and of small made-up ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import archives, engine
from tests.support.index_server import IndexServer, serving

from pseries.errors import (
    FolderRefused,
    PseriesError,
    ReleaseNotFound,
    ReleaseTaken,
    ReleaseUnreachable,
    SeriesExists,
    TagUnclear,
    UpstreamInvalid,
)
from pseries.model import spec as specs
from pseries.model.spec import Upstream
from pseries.upstream.store import Store
from pseries.workflows.exchange import import_, init
from pseries.workflows.exchange.init import Begun, Wanted
from pseries.workflows.series import catalog
from pseries.workflows.series.means import Means
from pseries.workflows.target import apply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pseries.model.series import Series

HOST = "https://host.invalid/a.git"


@pytest.mark.index
def test_requests_from_start_to_finish(
    target: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Init, a patch with the repository's paths, applied to what pip installed, taken off again."""
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    begun = init.begin(Wanted("requests", "2.32.5"), "", None, Means())
    assert begun.folder == str(tmp_path / "series" / "requests-2.32.5")
    assert begun.root == "src"  # where its repository keeps it, and its sdist; no wheel says so
    location = catalog.locate()
    assert location is not None
    catalog.load(begun.series, location).locked()

    site = target("requests", "2.32.5")
    before = (site / "requests/__version__.py").read_bytes()
    after = before.replace(b"2.32.5", b"2.32.5000")
    assert after != before
    diff = engine.diff({"requests/__version__.py": before}, {"requests/__version__.py": after},
                       tmp_path / "diff")  # fmt: skip
    (tmp_path / "mine.patch").write_bytes(engine.message("Say more") + diff)
    asked = import_.Asked((tmp_path / "mine.patch",), into=begun.series)
    report = import_.start(asked, location, Means())
    assert "src/ was put before its names" in report.patches[0].changes[0]

    applied = apply.apply(catalog.load(begun.series, location), site)
    assert applied.action is apply.Action.APPLIED
    assert (site / "requests/__version__.py").read_bytes() == after


# --- small ones --------------------------------------------------------------------------------


@pytest.fixture
def index() -> Iterator[IndexServer]:
    with serving() as server:
        yield server


@pytest.fixture
def begin(
    index: IndexServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Begun]:
    """Return ``begin(version, **what)`` for the distribution ``eng``, in an empty folder."""
    monkeypatch.setenv("PSERIES_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "shipped", lambda: None)

    def run(
        version: str = "1.0", variant: str = "", offline: bool = False, **what: object
    ) -> Begun:
        wanted = Wanted("eng", version, **what)  # type: ignore[arg-type]
        return init.begin(wanted, variant, catalog.locate(), Means(offline, index.simple))

    return run


def loaded(begun: Begun) -> Series:
    folder = Path(begun.folder)
    return catalog.load(begun.series, catalog.Location(folder.parent, "the test's"))


SRC = {f"src/{path}": data for path, data in engine.FILES.items()}
DEEP = {f"lib/py/{path}": data for path, data in engine.FILES.items()}
TOP = {"pyproject.toml": b"[project]\n", "PKG-INFO": b"Metadata-Version: 2.1\n"}


def offer(index: IndexServer, sdist: dict[str, bytes] | None, version: str = "1.0") -> None:
    index.add("eng", f"eng-{version}-py3-none-any.whl",
              archives.wheel("eng", version, engine.FILES))  # fmt: skip
    if sdist is not None:
        index.add("eng", f"eng-{version}.tar.gz", archives.sdist("eng", version, sdist))


@pytest.mark.parametrize(("sdist", "root", "path"), [
    ({**SRC, **TOP, "tests/eng/__init__.py": b""}, "src", "src/eng/core.py"),
    ({**engine.FILES, **TOP}, "", "eng/core.py"),
    ({**DEEP, **TOP}, "lib/py", "lib/py/eng/core.py"),
    (None, "", "eng/core.py"),
])  # fmt: skip
def test_the_root_is_where_the_sdist_has_what_the_wheel_installs(
    sdist: dict[str, bytes] | None, root: str, path: str,
    index: IndexServer, begin: Callable[..., Begun],
) -> None:  # fmt: skip
    offer(index, sdist)
    begun = begin()
    assert begun.root == root
    guessed = any("paths are those of the wheel" in note for note in begun.notes)
    assert guessed == (sdist is None)
    series = loaded(begun)
    assert series.locked().patches == ()
    assert series.spec.upstream.sources == ("sdist", "wheel")
    store = Store.open("eng")
    release = store.find("1.0")
    assert release is not None
    from pseries.git import objects

    with objects.scratch(store.git_dir) as borrowed:
        assert path in borrowed.below(release.tree, "")[0]


def repository(tmp_path: Path, *tags: str, root: str = "python") -> Path:
    folder = tmp_path / "upstream"
    engine.write(folder, {f"{root}/{path}": data for path, data in engine.FILES.items()})
    engine.write(folder, engine.EXTRA)
    engine.git(folder, "init", "-q")
    engine.git(folder, "add", "-A")
    engine.git(folder, "commit", "-qm", "base")
    for tag in tags:
        engine.git(folder, "tag", tag)
    return folder


def test_a_git_repository_with_tags(begin: Callable[..., Begun], tmp_path: Path) -> None:
    """It need not be on the index."""
    folder = repository(tmp_path, "v0.9", "release-1.0", "v1.0rc1", "docs-1.0")
    begun = begin(git=str(folder))
    upstream = loaded(begun).spec.upstream
    assert (upstream.git, upstream.tag, upstream.root) == (str(folder), "release-1.0", "python")
    assert begun.source == "git"


def test_a_root_that_a_repository_has_not(begin: Callable[..., Begun], tmp_path: Path) -> None:
    with pytest.raises(UpstreamInvalid, match="no such folder"):
        begin(git=str(repository(tmp_path, "v1.0")), root="nope")
    assert not (tmp_path / "series").exists()


def test_the_wheel_says_where_the_package_lies_in_a_repository(
    index: IndexServer, begin: Callable[..., Begun], tmp_path: Path
) -> None:
    """Two folders hold a package of that name; only one has the files that are installed."""
    index.add("eng", "eng-1.0-py3-none-any.whl", archives.wheel("eng", "1.0", engine.FILES))
    folder = repository(tmp_path, "v1.0")
    engine.write(folder, {"eng/__init__.py": b"# something else\n"})
    engine.git(folder, "add", "-A")
    engine.git(folder, "commit", "-qm", "more")
    engine.git(folder, "tag", "-f", "v1.0")
    assert begin(git=str(folder)).root == "python"


def test_a_folder(begin: Callable[..., Begun], tmp_path: Path) -> None:
    engine.write(tmp_path / "fork", {**SRC, **TOP})
    begun = begin("1.0", path=tmp_path / "fork")
    assert (begun.source, begun.root) == ("folder", "src")
    assert loaded(begun).locked().upstream.root == "src"


def test_a_folder_does_not_take_the_place_of_a_release(
    index: IndexServer, begin: Callable[..., Begun], tmp_path: Path
) -> None:
    offer(index, None)
    begin("1.0")
    kept = Store.open("eng").find("1.0")
    engine.write(tmp_path / "fork", {**SRC, **TOP})
    with pytest.raises(ReleaseTaken):
        begin("1.0", path=tmp_path / "fork", variant="fork")
    assert Store.open("eng").find("1.0") == kept
    assert begin("1.0.post99", path=tmp_path / "fork").source == "folder"


def test_an_installed_tree(begin: Callable[..., Begun], tmp_path: Path) -> None:
    begun = begin("1.0", path=engine.install(tmp_path / "site"))
    assert (begun.source, begun.root) == ("folder", "")


def test_what_another_series_says_is_said_again(
    index: IndexServer, begin: Callable[..., Begun], tmp_path: Path
) -> None:
    offer(index, None, "1.1")
    engine.make_series(
        tmp_path / "series", {}, rest=f'git = "{HOST}"\ntag = "v1.0"\nroot = "python"\n'
        'sources = ["wheel"]',
    )  # fmt: skip
    upstream = loaded(begin("1.1")).spec.upstream
    assert upstream == Upstream("eng", "1.1", HOST, "v1.1", "python", ("wheel",))


def test_offline_with_the_release_in_the_store(
    index: IndexServer, begin: Callable[..., Begun]
) -> None:
    offer(index, {**SRC, **TOP})
    begin()
    index.files.clear()
    begun = begin(variant="again", offline=True)
    assert begun.series == "eng-1.0-again"
    assert begun.root == "src"


def test_the_toml_is_what_people_are_to_fill_in(
    index: IndexServer, begin: Callable[..., Begun]
) -> None:
    offer(index, None)
    begun = begin(variant="sm120")
    text = (Path(begun.folder) / "series.toml").read_text()
    problems: list[object] = []
    spec = specs.parse(text.encode(), problems)  # type: ignore[arg-type]
    assert problems == []
    assert spec.label == "sm120.1"
    assert "the wheel built with it is 1.0+sm120.1" in text
    assert all(len(line) <= 110 for line in text.split("\n"))
    assert sorted(path.name for path in Path(begun.folder).iterdir()) == [
        "README.md", "manifest.json", "series", "series.toml",
    ]  # fmt: skip


def test_it_stands_beside_the_others(
    index: IndexServer, begin: Callable[..., Begun], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    offer(index, None)
    engine.make_series(tmp_path / "series", {}, name="other-1.0", distribution="other")
    (tmp_path / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep/er")
    assert begin().folder == str(tmp_path / "series/eng-1.0")


# --- what cannot be ----------------------------------------------------------------------------


def test_an_existing_folder_is_left_alone(
    index: IndexServer, begin: Callable[..., Begun], tmp_path: Path
) -> None:
    offer(index, None)
    (tmp_path / "series/eng-1.0").mkdir(parents=True)
    with pytest.raises(SeriesExists):
        begin()
    assert list((tmp_path / "series").iterdir()) == [tmp_path / "series/eng-1.0"]
    assert index.requests == []  # nothing was fetched for nothing


@pytest.mark.parametrize(("what", "error"), [
    ({"version": "9.9"}, ReleaseNotFound),
    ({"version": "one"}, UpstreamInvalid),
    ({"variant": "../x"}, UpstreamInvalid),
    ({"git": "ext::sh -c x"}, UpstreamInvalid),
    ({"git": "/nowhere/at/all"}, ReleaseUnreachable),
    ({"root": "../x"}, UpstreamInvalid),
    ({"path": Path("/nowhere/at/all")}, FolderRefused),
])  # fmt: skip
def test_nothing_is_written_where_something_is_wrong(
    what: dict[str, object], error: type[PseriesError],
    index: IndexServer, begin: Callable[..., Begun], tmp_path: Path,
) -> None:  # fmt: skip
    offer(index, {**engine.FILES, **TOP})
    with pytest.raises(error):
        begin(**what)
    assert not (tmp_path / "series").exists()


@pytest.mark.parametrize(("tags", "tag"), [
    (("v1.2", "v1.2.1"), "v1.2"),
    (("1.2",), "1.2"),
    (("release-1.2",), "release-1.2"),
    (("releases/v1.2",), "releases/v1.2"),
    (("my-eng-1.2",), "my-eng-1.2"),
    (("my_eng-v1.2", "other-1.2"), "my_eng-v1.2"),
    (("v1.2.0",), "v1.2.0"),
    (("REL-1_2",), "REL-1_2"),
    (("v1.2", "1.2", "release-1.2"), "v1.2"),
])  # fmt: skip
def test_tags_of_every_form(tags: tuple[str, ...], tag: str) -> None:
    assert init.tag_for(Upstream("my-eng", "1.2", HOST), tags) == tag


@pytest.mark.parametrize("tags", [(), ("v1.3", "v1.2rc1"), ("docs-1.2",), ("v1.2.0", "v1.2.0.0")])
def test_a_tag_is_not_guessed(tags: tuple[str, ...]) -> None:
    with pytest.raises(TagUnclear):
        init.tag_for(Upstream("my-eng", "1.2", HOST), tags)
