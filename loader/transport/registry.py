"""A registry, as the OCI distribution specification describes it: manifests by tag or digest, blobs by digest.

A digest is checked for whatever is read whole. Logins are sent to the registry and to the server that it names for
tokens, over TLS or within this machine, and to nobody else.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

from precast.loader.contract.distribution.image import INDEX_TYPE, MANIFEST_LIMIT, MANIFEST_TYPE
from precast.loader.contract.distribution.reference import ImageReference, is_loopback
from precast.loader.contract.format.fields import read_json
from precast.loader.contract.format.index import digest as sha256_of
from precast.loader.errors import ConfigError, FetchError, FormatError, IntegrityError
from precast.loader.transport.answer import Answer, Body, printable
from precast.loader.transport.credentials import Login
from precast.loader.transport.patience import Passing
from precast.loader.transport.web import Web, same_origin, shown

_SMALL = 1 << 20
_PARAMETER = re.compile(r'([a-zA-Z_]+)="([^"]*)"')
_BEARER = re.compile(r"[A-Za-z0-9._~+/=-]{1,65536}")


class Registry:
    """One repository of a registry. It asks for a token where the registry wants one, and once more when it expires."""

    def __init__(self, web: Web, reference: ImageReference, login: Callable[[str], Login | None]) -> None:
        self.reference = reference
        self._web, self._find_login = web, login
        self._root = f"{reference.origin}/v2/{reference.name}"
        self._authorization = ""
        self._lock = threading.Lock()

    def manifest(self, version: str) -> tuple[bytes, str]:
        """A manifest by a tag or a digest: its bytes, and their digest."""
        accept = {"Accept": f"{MANIFEST_TYPE}, {INDEX_TYPE}"}
        data = self._whole(f"{self._root}/manifests/{version}", accept, MANIFEST_LIMIT)
        found = f"sha256:{sha256_of(data)}"
        if version.startswith("sha256:") and version != found:
            raise IntegrityError(f"{self._root}/manifests/{version} gave other bytes, with the digest {found[:19]}...")
        return data, found

    def blob(self, sha256: str, limit: int) -> bytes:
        """A small blob, checked."""
        for _ in range(2):  # what was wrong on its way may be right the second time
            data = self._whole(self.blob_url(sha256), {}, limit)
            if sha256_of(data) == sha256:
                return data
        raise IntegrityError(f"{self.blob_url(sha256)} gave other bytes than those of its name, twice: push it again")

    def blob_url(self, sha256: str) -> str:
        """The address of a blob."""
        return f"{self._root}/blobs/sha256:{sha256}"

    @contextmanager
    def open(self, method: str, url: str, headers: Mapping[str, str], *, body: bytes | None = None) -> Iterator[Body]:
        """One request with the registry's authorization, of which a new one is made where it is refused.

        A registry may name another server to upload to: that one gets no authorization.
        """
        own = same_origin(url, self._root)
        if not own and url.startswith("http:") and self._root.startswith("https:"):
            raise FetchError(
                f"{self.reference}: the registry names {shown(url)[:200]!r} to upload to, without TLS: set up TLS there"
            )
        used = self._authorization if own else ""
        with self._web.open(method, url, self._headers(headers, used), body=body) as found:
            if found.answer.status != 401 or not own:
                yield found
                return
            challenge = found.answer.headers.get("www-authenticate", "")
        self._renew(challenge, used)
        with self._web.open(method, url, self._headers(headers, self._authorization), body=body) as found:
            yield found

    def ask(self, method: str, url: str, headers: Mapping[str, str] = {}, *, body: bytes | None = None) -> Answer:
        """One request and its small answer."""
        with self.open(method, url, headers, body=body) as found:
            data = found.read(_SMALL) if method != "HEAD" else b""
            answer = found.answer
        return Answer(url=answer.url, status=answer.status, headers=answer.headers, data=data)

    def refusal(self, answer: Answer, what: str) -> FetchError:
        """The error for an answer that is not what was asked for."""
        where = str(self.reference)
        if answer.status in (401, 403):
            return FetchError(
                f"{where}: the registry does not let this user {what} ({answer.status} {_said(answer)}): log in with"
                f" 'docker login {self.reference.host}', or ask for the right"
            )
        if answer.status == 404:
            return FetchError(f"{where}: the registry has no such thing ({_said(answer)}): check the name and the tag")
        return FetchError(f"{where}: cannot {what}: the registry answered {answer.status} {_said(answer)}")

    def _whole(self, url: str, headers: Mapping[str, str], limit: int) -> bytes:
        def once() -> bytes:
            with self.open("GET", url, headers) as found:
                if found.answer.status != 200:
                    raise self.refusal(_with_words(found), "read it")
                return found.read(limit)

        data: bytes = self._web.persist(url, once)
        return data

    def _headers(self, headers: Mapping[str, str], authorization: str) -> dict[str, str]:
        return {**headers, "Authorization": authorization} if authorization else dict(headers)

    def _renew(self, challenge: str, used: str) -> None:
        """An authorization that answers a challenge; of several threads that need one, the first gets it."""
        with self._lock:
            if self._authorization == used:
                self._authorization = self._answer_to(challenge)

    def _answer_to(self, challenge: str) -> str:
        login = self._find_login(self.reference.host)
        if login and not self.reference.secure:
            raise FetchError(
                f"{self.reference}: a password is not sent to another machine without TLS: use oci:// in place of oci+http://"
            )
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            if login is None:
                raise self.refusal(Answer(url=self._root, status=401, headers={}), "do this without a login")
            return login.header
        if scheme.lower() != "bearer":
            raise FetchError(
                f"{self.reference}: the registry asks for a login of an unknown kind, {scheme[:40]!r}: check it"
            )
        return f"Bearer {self._token(dict(_PARAMETER.findall(rest[:4096])), login)}"

    def _token(self, asked: Mapping[str, str], login: Login | None) -> str:
        realm = asked.get("realm", "")
        parts = urlsplit(realm)
        local = is_loopback(self.reference.host) and is_loopback(parts.netloc)
        if parts.scheme != "https" and not local and (login or self.reference.origin.startswith("https")):
            raise FetchError(
                f"{self.reference}: the registry names {realm[:200]!r} for tokens, without TLS: set up TLS"
            )
        query = {name: asked[name] for name in ("service", "scope") if asked.get(name)}
        url = f"{realm}{'&' if parts.query else '?'}{urlencode(query)}"

        def once() -> Answer:
            return self._web.ask("GET", url, {"Authorization": login.header} if login else {}, limit=_SMALL)

        answer: Answer = self._web.persist(realm, once)
        if answer.status != 200:
            raise self.refusal(answer, "have a token")
        try:
            found = read_json(answer.data, limit=_SMALL)
        except FormatError:
            found = None
        token = (found.get("token") or found.get("access_token")) if isinstance(found, dict) else None
        if not isinstance(token, str) or _BEARER.fullmatch(token) is None:
            raise FetchError(f"{self.reference}: {realm[:200]!r} gave something else than a token: check the registry")
        return token


def _with_words(found: Body) -> Answer:
    """An answer that is no success, with the beginning of its body."""
    try:
        data = b"".join(found.chunks(4096))
    except Passing:
        data = b""
    answer = found.answer
    return Answer(url=answer.url, status=answer.status, headers=answer.headers, data=data)


def _said(answer: Answer) -> str:
    """The first message of a registry's errors, else its own words."""
    try:
        data: Any = read_json(answer.data, limit=_SMALL)
        one = data["errors"][0]
        return printable(f"{one.get('code', '')}: {one.get('message', '')}")
    except (FormatError, LookupError, TypeError, AttributeError):
        return answer.said


def checked_version(reference: ImageReference) -> str:
    """What a reference asks the registry for. Raises ConfigError where anybody on the way could answer."""
    if not reference.digest and not reference.secure:
        raise ConfigError(f"{reference} is read without TLS: add @sha256:DIGEST, or --digest with that of the index")
    return reference.digest or reference.tag
