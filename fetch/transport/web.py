"""HTTP: requests over connections that are kept open, with bounded answers and careful redirects.

It uses Python's own ``http.client``, so that fetching needs no further package. Connections are kept open between
requests: a cache may be a thousand files. Proxies are those of the environment, certificates those of the system.
"""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from precast.fetch.distribution.reference import is_loopback
from precast.fetch.transport.answer import BROKEN, CHUNK, Answer, Body, reason_of
from precast.fetch.transport.patience import Patience, Stopped, TransientError, retry_after
from precast.fetch.transport.watchdog import Watchdog
from precast.loader.errors import FetchError
from precast.loader.version import VERSION

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

_Origin = tuple[str, str, int]  # scheme, host, port
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_BUSY = (408, 425, 429, 500, 502, 503, 504)


class Web:
    """The connections of one fetch or push, which its threads share. Setting ``stop`` ends all of them.

    An ``Authorization`` header goes only to the host that it was made for, never to one that this redirects to.
    """

    def __init__(self, patience: Patience, report: Callable[[str], None] = lambda text: None) -> None:
        self.patience = patience
        self._report = report
        self.stop = threading.Event()
        self._idle: dict[_Origin, list[http.client.HTTPConnection]] = {}
        self._busy: set[http.client.HTTPConnection] = set()
        self._tls: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._watchdog = Watchdog()

    def __enter__(self) -> Web:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop everything; threads that wait for a server are woken."""
        self.stop.set()
        with self._lock:
            idle = [connection for some in self._idle.values() for connection in some]
            self._idle.clear()
            busy = [connection.sock for connection in self._busy]
        for connection in idle:
            connection.close()
        for sock in busy:
            if sock is not None:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def persist(self, url: str, action: Callable[[], T], progress: Callable[[], int] = lambda: 0) -> T:
        """The result of an action, retried while it raises TransientError."""
        return self.patience.persist(shown(url), action, self.stop, progress, self._report)

    def request(
        self, method: str, url: str, headers: Mapping[str, str], *, limit: int, body: bytes | None = None
    ) -> Answer:
        """One request and its whole answer. A busy server and a broken connection raise TransientError."""
        with self.open(method, url, headers, body=body) as response:
            data = response.read(limit) if method != "HEAD" else b""
            answer = response.answer
            return Answer(url=answer.url, status=answer.status, headers=answer.headers, data=data)

    @contextmanager
    def open(self, method: str, url: str, headers: Mapping[str, str], *, body: bytes | None = None) -> Iterator[Body]:
        """One request, its redirects followed, with the body still to be read."""
        sent = {"User-Agent": f"precast-loader/{VERSION}", "Accept-Encoding": "identity", **headers}
        for _ in range(_MOST_REDIRECTS + 1):
            connection, response = self._send(method, url, sent, body)
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or method not in ("GET", "HEAD") or not location:
                break
            self._leave(url, connection, response, done=True)
            url, sent = _redirected(url, location, sent)
        else:
            raise FetchError(f"{shown(url)}: more than {_MOST_REDIRECTS} redirects: check the address")
        headers = {name.lower(): value for name, value in response.headers.items()}
        answer = Answer(url=shown(url), status=response.status, headers=headers)
        done = False
        try:
            if response.status in _BUSY:
                pause = retry_after(response.headers.get("Retry-After"), time.time())
                message = Answer(url=url, status=response.status, headers={}, data=_glimpse(response)).message
                raise TransientError(f"the server answered {response.status} {message}".strip(), pause)
            yield Body(
                answer, response, self.patience, self.stop, lambda until: self._watchdog.allow(connection, until)
            )
            done = True
        finally:
            self._leave(url, connection, response, done=done)

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send one request. A kept connection that the server has closed meanwhile is replaced by a new one."""
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        proxy = _proxy(parts.scheme, parts.hostname or "")
        if proxy and parts.scheme == "http":
            path, headers = url, {**headers, **_proxy_login(proxy)}
        while True:
            connection, fresh = self._connection(url, proxy)
            self._watchdog.allow(connection, self.patience.answer_by(len(body or b"")))
            try:
                connection.request(method, path, body=body, headers=dict(headers))
                response = connection.getresponse()
                if not self._watchdog.is_late(connection):  # else its headers end where the connection was ended
                    return connection, response
                raise http.client.IncompleteRead(b"")
            except BaseException as error:
                late = self._watchdog.is_late(connection)
                self._drop(connection)
                if self.stop.is_set():
                    raise Stopped from None
                if late:
                    raise TransientError(f"no whole answer in {2 * self.patience.timeout:g} s", slow=True) from None
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise FetchError(
                        f"{shown(url)}: its certificate is not trusted ({error.verify_message}): check the address, or"
                        " name the certificates of your organisation in SSL_CERT_FILE"
                    ) from None
                if isinstance(error, (UnicodeError, http.client.InvalidURL)):
                    raise FetchError(f"{shown(url)[:300]} is not a valid address: check it") from None
                if not isinstance(error, BROKEN):
                    raise
                if fresh:
                    raise TransientError(f"no answer ({reason_of(error)})") from None

    def _connection(self, url: str, proxy: str) -> tuple[http.client.HTTPConnection, bool]:
        """A connection to the host of a URL, and whether it is a new one."""
        parts = urlsplit(url)
        with self._lock:
            idle = self._idle.get(_origin(url))
            if idle:
                idle_connection = idle.pop()
                self._busy.add(idle_connection)
                return idle_connection, False
        timeout = self.patience.timeout
        via = urlsplit(proxy) if proxy else parts
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            port = via.port or (80 if proxy else 443)
            connection = http.client.HTTPSConnection(via.hostname or "", port, timeout=timeout, context=self._context())
            if proxy:
                connection.set_tunnel(parts.hostname or "", parts.port or 443, _proxy_login(proxy))
        else:
            connection = http.client.HTTPConnection(via.hostname or "", via.port or 80, timeout=timeout)
        with self._lock:
            self._busy.add(connection)
        return connection, True

    def _context(self) -> ssl.SSLContext:
        with self._lock:
            self._tls = self._tls or ssl.create_default_context()
            return self._tls

    def _leave(
        self, url: str, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, *, done: bool
    ) -> None:
        """Finish an answer: the connection is kept where the whole answer was read."""
        if done and 0 < (response.length or 0) <= CHUNK:
            with suppress(*BROKEN):
                response.read()
        if done and response.length == 0:
            response.close()
        if not response.isclosed() or response.will_close or self.stop.is_set():
            response.close()
            self._drop(connection)
            return
        self._watchdog.release(connection)
        with self._lock:
            self._busy.discard(connection)
            self._idle.setdefault(_origin(url), []).append(connection)

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        self._watchdog.release(connection)
        with self._lock:
            self._busy.discard(connection)
        connection.close()


def shown(url: str) -> str:
    """A URL as messages show it: the part after a question mark is often a signature, which is a secret.

    >>> shown("https://cdn.example.com/a?signature=1")
    'https://cdn.example.com/a?...'
    """
    before, mark, _ = url.partition("?")
    return f"{before}?..." if mark else before


def same_origin(first: str, second: str) -> bool:
    """Whether two URLs name the same host, port and scheme.

    >>> same_origin("https://a.example/x", "https://a.example:443/y"), same_origin("https://a.example", "http://a.example")
    (True, False)
    """
    return _origin(first) == _origin(second)


def _origin(url: str) -> _Origin:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _redirected(url: str, location: str, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The target of a redirect, and the headers that may be sent there."""
    try:
        target = urljoin(url, quote(location, safe="%/:=&?~#+!$,;'@()*[]")).partition("#")[0]
        parts = urlsplit(target)
        _origin(target)
    except ValueError:
        raise FetchError(f"{shown(url)} redirects to an invalid address: check the server") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise FetchError(
            f"{shown(url)} redirects to {shown(target)[:200]}, which is not an http(s) address: check the server"
        )
    if parts.scheme == "http" and urlsplit(url).scheme == "https":
        raise FetchError(f"{shown(url)} redirects from https to http, which is not secure: check the server")
    if same_origin(url, target):
        return target, dict(headers)
    return target, {name: value for name, value in headers.items() if name.lower() != "authorization"}


def _proxy(scheme: str, host: str) -> str:
    """The proxy for a host, from the environment; empty where there is none."""
    proxy = getproxies().get(scheme, "")
    if not proxy or is_loopback(host) or proxy_bypass(host):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _proxy_login(proxy: str) -> dict[str, str]:
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def _glimpse(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(1200)
    except BROKEN:
        return b""
