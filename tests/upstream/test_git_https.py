"""Fetching over HTTPS from git's own server: certificates, credentials, and what is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import git_server
from tests.support.git_server import GitServer

from pseries.errors import ReleaseUnreachable
from pseries.model.spec import Upstream
from pseries.upstream import fetch as fetching
from pseries.upstream.fetch import fetch
from pseries.upstream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pseries.upstream.release import Release
    from pseries.upstream.store import Store

pytestmark = pytest.mark.skipif(
    not git_server.available(), reason="openssl or git's http-backend is missing"
)


@pytest.fixture
def server(
    checkout: Callable[..., Path],
    git: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[GitServer]:
    folder = checkout({"python/eng/a.py": b"a = 1\n"})
    git(tmp_path, "clone", "--quiet", "--bare", str(folder), str(tmp_path / "served" / "eng.git"))
    with git_server.serving(tmp_path / "served", tmp_path) as started:
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(started.certificate))
        monkeypatch.setenv("GIT_SSL_CAINFO", str(started.certificate))
        yield started


def get(store: Store, url: str, settings: Settings = Settings()) -> Release:  # noqa: B008
    return fetch(Upstream("eng", "1.0", url, "v1.0", "python", ("git",)), store, settings)


def test_a_tag_comes_over_https(
    server: GitServer, store: Store, checkout: Callable[..., Path], git: Callable[..., str],
    tmp_path: Path,
) -> None:  # fmt: skip
    release = get(store, f"{server.url}/eng.git")
    assert release.recorded.upstream == git(tmp_path / "checkout", "rev-parse", "v1.0^{commit}")
    assert release.recorded.url == f"{server.url}/eng.git"


def test_tags_are_listed_over_https(server: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetching.tags(f"{server.url}/eng.git", Settings()) == ("v1.0",)
    with pytest.raises(ReleaseUnreachable):
        fetching.tags(f"{server.url}/none.git", Settings())
    with pytest.raises(ReleaseUnreachable):
        fetching.tags(f"{server.url}/eng.git", Settings(), offline=True)


def test_a_stranger_on_the_way_is_not_trusted(
    server: GitServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with pytest.raises(ReleaseUnreachable, match="certificate is not trusted"):
        get(store, f"{server.url}/eng.git")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(server.certificate))
    monkeypatch.setenv("GIT_SSL_CAINFO", "/dev/null")
    with pytest.raises(ReleaseUnreachable):
        get(store, f"{server.url}/eng.git")


def test_what_pip_trusts_is_trusted(
    server: GitServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own git configuration is sealed off: its certificates are, too."""
    monkeypatch.delenv("GIT_SSL_CAINFO")
    assert get(store, f"{server.url}/eng.git").source == "git"
    store.remove("1.0")
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    settings = Settings(cert=str(server.certificate))
    assert get(store, f"{server.url}/eng.git", settings).source == "git"


def test_credentials_come_from_the_address_or_from_netrc(
    server: GitServer, store: Store, tmp_path: Path
) -> None:
    server.login = ("me", "pass:word")
    with pytest.raises(ReleaseUnreachable, match="it refuses access: status 401"):
        get(store, f"{server.url}/eng.git")
    url = f"{server.url}/eng.git".replace("https://", "https://me:pass%3Aword@")
    release = get(store, url)
    assert "pass" not in repr(release)
    store.remove("1.0")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine localhost login me password pass:word\n")
    netrc.chmod(0o600)
    assert get(store, f"{server.url}/eng.git").commit == release.commit
    for path in store.git_dir.rglob("*"):
        assert path.is_dir() or b"pass" not in path.read_bytes()


def test_a_repository_that_is_not_there_is_said_so(server: GitServer, store: Store) -> None:
    with pytest.raises(ReleaseUnreachable, match="status 404"):
        get(store, f"{server.url}/gne.git")
