"""The one way to the network: a session with the user's certificates, proxies and credentials.

Plain HTTP is refused unless the host is this machine or pip trusts it; credentials go only to the
host they were given for; every wait has an end; nothing that may be secret is put into words.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import mimetypes
import os
import selectors
import socket
import time
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from requests.utils import get_auth_from_url, get_netrc_auth, select_proxy
from urllib3 import HTTPResponse
from urllib3.util import Retry

from pseries import __version__
from pseries.upstream.release import local_path

if TYPE_CHECKING:
    from pseries.upstream.settings import Settings

CONNECT_TIMEOUT = 5.0
"""Seconds to wait for a host to take a connection: one that is not there must not cost more."""
READ_TIMEOUT = 30.0
"""Seconds to wait for the next bytes."""
WHOLE_FILE = {"Accept-Encoding": "identity"}
"""Headers to ask for a file's own bytes: what is hashed must not be unpacked on the way."""


class NotAllowed(requests.RequestException):
    """The request was not sent: what it would do is against the rules here."""


class Session(requests.Session):
    """A session of requests, with the rules of this module; ``trust_env`` stays on."""

    def __init__(self, settings: Settings, *, offline: bool = False) -> None:
        super().__init__()
        self._settings = settings
        self._offline = offline
        self._awake: set[tuple[str, int]] = set()
        self.headers["User-Agent"] = f"pseries/{__version__} {requests.utils.default_user_agent()}"
        self.auth = _Login(settings)
        if settings.client_cert:
            self.cert = settings.client_cert
        if settings.proxy:
            self.proxies = {"http": settings.proxy, "https": settings.proxy}
        retry = Retry(connect=0, read=1, status=2, status_forcelist=(502, 503, 504), redirect=0,
                      other=0, backoff_factor=0.3, raise_on_status=False)  # fmt: skip
        for scheme in ("https://", "http://"):
            self.mount(scheme, HTTPAdapter(max_retries=retry))
        for host in settings.trusted_hosts:
            for prefix in (f"https://{host}/", f"https://{host}:"):
                self.mount(prefix, _Unverified(max_retries=retry))
        self.mount("file://", _LocalFiles())

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> requests.Response:
        """As in requests, with a time limit and pip's certificates where none are given."""
        options.setdefault("timeout", (CONNECT_TIMEOUT, READ_TIMEOUT))
        if self._settings.cert:
            options.setdefault("verify", self._settings.cert)
        return super().request(method, url, *args, **options)

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """As in requests; no server may lead to a file of this machine."""
        target = super().get_redirect_target(resp)
        if target and urlsplit(target).scheme == "file":
            raise NotAllowed("it redirects to a file of this machine")
        return target

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """As in requests, redirects included: each address is looked at before it is asked."""
        parts = urlsplit(request.url or "")
        if parts.scheme != "file":
            if self._offline:
                raise NotAllowed("the network is forbidden (--offline)")
            if parts.scheme != "https" and not self._plain_allowed(parts.hostname, parts.port):
                raise NotAllowed(f"{parts.hostname} is asked over plain HTTP and is not trusted")
            self._knock(request, options)
        return super().send(request, **options)

    def _knock(self, request: requests.PreparedRequest, options: dict[str, Any]) -> None:
        """Make sure, once a host, that it is there: urllib3 waits for each address in turn."""
        parts = urlsplit(request.url or "")
        if select_proxy(request.url or "", options.get("proxies")) or parts.hostname is None:
            return
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if (parts.hostname, port) not in self._awake:
            try:
                _connect_any(parts.hostname, port, CONNECT_TIMEOUT)
            except OSError as error:
                kind = (
                    requests.ConnectTimeout
                    if isinstance(error, TimeoutError)
                    else (requests.ConnectionError)
                )
                raise kind(error, request=request) from error
            self._awake.add((parts.hostname, port))

    def _plain_allowed(self, host: str | None, port: int | None) -> bool:
        trusted = self._settings.trusted_hosts
        return host in trusted or f"{host}:{port}" in trusted or _loopback(host or "")


def _loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _connect_any(host: str, port: int, timeout: float) -> None:
    """Return once any address of ``host`` takes a connection; all are tried at the same time."""
    deadline = time.monotonic() + timeout
    failure: OSError = TimeoutError(errno.ETIMEDOUT, "no connection in time")
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as selector:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            try:
                sock = opened.enter_context(socket.socket(family, kind, protocol))
                sock.setblocking(False)
                code = sock.connect_ex(address)
            except OSError as error:
                failure = error
                continue
            if code not in (0, errno.EINPROGRESS):
                failure = OSError(code, os.strerror(code))
                continue
            selector.register(sock, selectors.EVENT_WRITE)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(errno.ETIMEDOUT, "no connection in time")
            for key, _ in ready:
                sock = cast("socket.socket", key.fileobj)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code == 0:
                    return
                failure = OSError(code, os.strerror(code))
                selector.unregister(sock)
    raise failure


class _Login(AuthBase):
    """Credentials of an address, of the index on the same host, or of the user's netrc file."""

    def __init__(self, settings: Settings) -> None:
        self._logins = {
            _host(index.url): index.login for index in settings.indexes if index.login is not None
        }

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        url = request.url or ""
        own = get_auth_from_url(url)
        login = own if own != ("", "") else self._logins.get(_host(url)) or get_netrc_auth(url)
        return HTTPBasicAuth(*login)(request) if login else request


def _host(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


class _Unverified(HTTPAdapter):
    """For a host that pip is told to trust whatever certificate it shows."""

    def send(self, request: Any, **options: Any) -> requests.Response:  # type: ignore[override]
        options["verify"] = False
        return super().send(request, **options)


class _LocalFiles(BaseAdapter):
    """Answers ``file://`` addresses; a folder by its ``index.html``, as pip does."""

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
        parts = urlsplit(request.url or "")
        path = local_path(parts.path)
        if parts.netloc not in ("", "localhost"):
            raise NotAllowed("a file:// address names another host")
        if path.is_dir():
            path /= "index.html"
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        try:
            file = path.open("rb")
        except FileNotFoundError:
            answer = HTTPResponse(BytesIO(), status=404, preload_content=False)
        except OSError as error:
            raise requests.ConnectionError(str(error)) from None
        else:
            headers = {"Content-Type": kind, "Content-Length": str(path.stat().st_size)}
            answer = HTTPResponse(file, headers=headers, status=200, preload_content=False)
        return HTTPAdapter().build_response(request, answer)

    def close(self) -> None:
        pass


def probe(session: Session, url: str, login: tuple[str, str] | None) -> str | None:
    """Say why the git repository with this ``info/refs`` cannot be reached, or ``None`` if it can.

    The first request of git's own protocol (gitprotocol-http), so that the answer is git's, too.
    """
    auth = HTTPBasicAuth(*login) if login else None
    query = {"service": "git-upload-pack"}
    try:
        with session.get(url, params=query, auth=auth, stream=True) as answer:
            return None if answer.ok else status(answer)
    except requests.RequestException as error:
        return reason(error)


def netrc_login(url: str) -> tuple[str, str] | None:
    """Return user and password that the user's netrc file has for the host of ``url``."""
    return get_netrc_auth(url)


def reason(error: Exception) -> str:  # noqa: PLR0911 - one reason each
    """Say in a few words, and without any address, why a request failed."""
    if isinstance(error, NotAllowed):
        return str(error)
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return status(error.response)
    if isinstance(error, requests.ConnectTimeout):
        return f"no connection within {CONNECT_TIMEOUT:g} s"
    if isinstance(error, requests.Timeout):
        return f"no answer within {READ_TIMEOUT:g} s"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted, or TLS failed"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy did not let the request through"
    if isinstance(error, requests.TooManyRedirects):
        return "it redirects in circles"
    cause = _deepest(error)
    if isinstance(cause, socket.gaierror):
        return "its name is not known (DNS)"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return f"the connection failed ({type(cause).__name__})"


def status(response: requests.Response) -> str:
    """Say what an answer's status means for the user."""
    if response.status_code in (401, 403, 407):
        return f"it refuses access: status {response.status_code} (credentials?)"
    return f"it answers with status {response.status_code}"


def _deepest(error: BaseException) -> BaseException:
    """Follow the chain of causes to what happened first, through urllib3's wrappers."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        inner = getattr(error, "reason", None) or error.__cause__ or error.__context__
        if not isinstance(inner, BaseException):
            inner = next((item for item in error.args if isinstance(item, BaseException)), None)
        if inner is None:
            break
        error = inner
    return error
