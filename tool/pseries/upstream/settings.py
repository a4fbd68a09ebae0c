"""Which package index to ask and how, as pip and uv are configured on this machine.

Order: the argument, ``PIP_INDEX_URL``, ``UV_DEFAULT_INDEX``, ``UV_INDEX_URL``, pip's configuration
files, the public index. pip's files are read in pip's own order (pip documentation, "Configuration
files"): global, user, virtual environment, ``PIP_CONFIG_FILE``, later ones win. Of each the
sections ``[global]`` and ``[install]`` count, for that is what installs the engine.
"""

from __future__ import annotations

import configparser
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from pseries.errors import UpstreamInvalid
from pseries.upstream.release import local_path, public

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SECTIONS = ("global", "install")


@dataclass(frozen=True)
class Index:
    """A package index: its address and, never shown, who asks.

    An empty ``url`` stands for the public index, which the client library knows.
    """

    url: str
    login: tuple[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Settings:
    """How to reach package indexes.

    Attributes:
        indexes: asked in this order, each for what the ones before do not have.
        cert: a file with certificates to trust instead of the usual ones.
        client_cert: a file with a certificate to show.
        proxy: the way out, if it is not in the environment.
        trusted_hosts: ``host`` or ``host:port`` that need no valid certificate, or no TLS at all.
    """

    indexes: tuple[Index, ...] = (Index(""),)
    cert: str = ""
    client_cert: str = ""
    proxy: str = field(default="", repr=False)
    trusted_hosts: frozenset[str] = frozenset()


def configured(
    index_url: str = "",
    *,
    environ: Mapping[str, str] | None = None,
    files: tuple[Path, ...] | None = None,
) -> Settings:
    """Return the settings that pip and uv would use on this machine.

    Args:
        index_url: what the user gave on the command line; then further indexes of the
            configuration are left alone, for the user has named the one to ask.
        environ: the environment, ``os.environ`` by default.
        files: pip's configuration files, where pip looks for them by default.

    Raises:
        UpstreamInvalid: an address has no allowed form, or a file cannot be read.
    """
    parts = urlsplit(index_url)
    if parts.scheme == "file" and not local_path(parts.path).is_dir():
        raise UpstreamInvalid("index", index_url, "there is no such folder")
    environ = os.environ if environ is None else environ
    pip = _pip_options(configuration_files(environ) if files is None else files)
    pip.update(_pip_environment(environ))
    main = (
        index_url
        or environ.get("PIP_INDEX_URL", "").strip()
        or environ.get("UV_DEFAULT_INDEX", "").strip()
        or environ.get("UV_INDEX_URL", "").strip()
        or pip.get("index-url", "").strip()
    )
    further = () if index_url else tuple(pip.get("extra-index-url", "").split())
    return Settings(
        indexes=tuple(dict.fromkeys(index(url) for url in (main, *further))),
        cert=pip.get("cert", ""),
        client_cert=pip.get("client-cert", ""),
        proxy=pip.get("proxy", ""),
        trusted_hosts=frozenset(pip.get("trusted-host", "").split()),
    )


def index(url: str) -> Index:
    """Return the index at ``url``, credentials set apart; raises :class:`UpstreamInvalid`.

    uv's ``NAME=URL`` is understood.
    """
    name, equals, rest = url.partition("=")
    if equals and "/" not in name:
        url = rest
    if not url:
        return Index("")
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http", "file") or (parts.scheme != "file") != bool(
        parts.hostname
    ):
        raise UpstreamInvalid("index", public(url), "not an https://, http:// or file:// address")
    login, at, host = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    bare = urlunsplit((parts.scheme, host, parts.path.rstrip("/") + "/", "", ""))
    return Index(bare, (unquote(user), unquote(password)) if at else None)


# --- pip's configuration ----------------------------------------------------------------------


def configuration_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files that pip reads here, in its order; not all of them exist."""
    own = environ.get("PIP_CONFIG_FILE", "")
    if own == os.devnull:
        return ()
    home = Path(environ.get("HOME") or Path.home())
    shared = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    everyone = [Path(folder, "pip", "pip.conf") for folder in shared.split(os.pathsep) if folder]
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [*everyone, Path("/etc/pip.conf")]
    if not (own and Path(own).exists()):
        files += [home / ".pip" / "pip.conf", user / "pip" / "pip.conf"]
    files.append(Path(sys.prefix, "pip.conf"))
    return (*files, *([Path(own)] if own else []))


def _pip_options(files: tuple[Path, ...]) -> dict[str, str]:
    """Return the options of all files together; what a section or file says later wins."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for file in files:
        for section, name, value in _options(file):
            found[section][name] = value
    return {name: value for section in _SECTIONS for name, value in found[section].items()}


def _options(file: Path) -> Iterator[tuple[str, str, str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except (OSError, UnicodeError, configparser.Error) as error:
        reason = str(error).splitlines()[0]
        raise UpstreamInvalid("pip configuration", str(file), reason) from None
    for section in _SECTIONS:
        if parser.has_section(section):
            for name, value in parser.items(section):
                yield section, _option_name(name), value


def _pip_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        _option_name(name.removeprefix("PIP_")): value
        for name, value in environ.items()
        if name.startswith("PIP_") and value
    }


def _option_name(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")
