"""A registry of the OCI distribution specification: manifests by tag or digest, blobs by digest.

Whatever is read whole is checked against its digest. Logins are sent to the registry and to the server that it names
for tokens, over TLS or within this machine, and nowhere else.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

from precast.fetch.distribution.image import INDEX_TYPE, MANIFEST_LIMIT, MANIFEST_TYPE
from precast.fetch.distribution.reference import ImageReference, is_loopback
from precast.fetch.transport.answer import Answer, Body, printable
from precast.fetch.transport.credentials import Login
from precast.fetch.transport.patience import TransientError
from precast.fetch.transport.web import Web, same_origin, shown
from precast.loader.contract.format.fields import read_json
from precast.loader.contract.format.index import digest as sha256_of
from precast.loader.errors import ConfigError, FetchError, FormatError, IntegrityError

_SMALL = 1 << 20
_PARAMETER = re.compile(r'([a-zA-Z_]+)="([^"]*)"')
_BEARER = re.compile(r"[A-Za-z0-9._~+/=-]{1,65536}")


class Registry:
    """One repository of a registry. It gets a token where the registry requires one, and another when that expires."""

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
        digest = f"sha256:{sha256_of(data)}"
        if version.startswith("sha256:") and version != digest:
            raise IntegrityError(
                f"{self._root}/manifests/{version} returned other bytes, with the digest {digest[:19]}..."
            )
        return data, digest

    def blob(self, sha256: str, limit: int) -> bytes:
        """A small blob, checked."""
        for _ in range(2):  # a transmission error does not happen twice
            data = self._whole(self.blob_url(sha256), {}, limit)
            if sha256_of(data) == sha256:
                return data
        raise IntegrityError(f"{self.blob_url(sha256)} returned bytes of another digest, twice: push it again")

    def referrers(self, digest: str) -> bytes | None:
        """The list of what refers to a manifest: the registry's own, else the one that clients keep under a tag. None
        where there is neither."""
        for address in (f"referrers/{digest}", f"manifests/{digest.replace(':', '-')}"):
            answer = self._get(f"{self._root}/{address}", {"Accept": INDEX_TYPE}, MANIFEST_LIMIT)
            if answer.status == 200:
                return answer.data
        if answer.status == 404:
            return None
        raise self.refusal(answer, "read its signatures")

    def blob_url(self, sha256: str) -> str:
        """The address of a blob."""
        return f"{self._root}/blobs/sha256:{sha256}"

    @contextmanager
    def open(self, method: str, url: str, headers: Mapping[str, str], *, body: bytes | None = None) -> Iterator[Body]:
        """One request with the registry's authorization, which is renewed where the registry refuses it.

        A registry may name another server for uploads: that one gets no authorization.
        """
        own = same_origin(url, self._root)
        if not own and url.startswith("http:") and self._root.startswith("https:"):
            raise FetchError(
                f"{self.reference}: the registry names {shown(url)[:200]!r} to upload to, without TLS: set up TLS there"
            )
        used = self._authorization if own else ""
        with self._web.open(method, url, self._headers(headers, used), body=body) as response:
            if response.answer.status != 401 or not own:
                yield response
                return
            challenge = response.answer.headers.get("www-authenticate", "")
        self._renew(challenge, used)
        with self._web.open(method, url, self._headers(headers, self._authorization), body=body) as response:
            yield response

    def request(self, method: str, url: str, headers: Mapping[str, str] = {}, *, body: bytes | None = None) -> Answer:
        """One request and its small answer."""
        with self.open(method, url, headers, body=body) as response:
            data = response.read(_SMALL) if method != "HEAD" else b""
            answer = response.answer
        return Answer(url=answer.url, status=answer.status, headers=answer.headers, data=data)

    def refusal(self, answer: Answer, what: str) -> FetchError:
        """The error for an answer that is not a success."""
        where = str(self.reference)
        if answer.status in (401, 403):
            return FetchError(
                f"{where}: the registry does not let this user {what} ({answer.status} {_message_of(answer)}): log"
                f" in with 'docker login {self.reference.host}', or get the permission"
            )
        if answer.status == 404:
            return FetchError(f"{where}: not found in the registry ({_message_of(answer)}): check the name and the tag")
        return FetchError(f"{where}: cannot {what}: the registry answered {answer.status} {_message_of(answer)}")

    def _whole(self, url: str, headers: Mapping[str, str], limit: int) -> bytes:
        answer = self._get(url, headers, limit)
        if answer.status != 200:
            raise self.refusal(answer, "read it")
        return answer.data

    def _get(self, url: str, headers: Mapping[str, str], limit: int) -> Answer:
        def once() -> Answer:
            with self.open("GET", url, headers) as response:
                if response.answer.status != 200:
                    return _with_message(response)
                answer = response.answer
                return Answer(url=answer.url, status=200, headers=answer.headers, data=response.read(limit))

        answer: Answer = self._web.persist(url, once)
        return answer

    def _headers(self, headers: Mapping[str, str], authorization: str) -> dict[str, str]:
        return {**headers, "Authorization": authorization} if authorization else dict(headers)

    def _renew(self, challenge: str, used: str) -> None:
        """Get an authorization for a challenge; of several threads that need it, the first gets it for all."""
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
                f"{self.reference}: the registry requires an unknown kind of login, {scheme[:40]!r}: check the registry"
            )
        return f"Bearer {self._token(dict(_PARAMETER.findall(rest[:4096])), login)}"

    def _token(self, parameters: Mapping[str, str], login: Login | None) -> str:
        realm = parameters.get("realm", "")
        parts = urlsplit(realm)
        local = is_loopback(self.reference.host) and is_loopback(parts.netloc)
        if parts.scheme != "https" and not local and (login or self.reference.origin.startswith("https")):
            raise FetchError(
                f"{self.reference}: the registry names {realm[:200]!r} for tokens, without TLS: set up TLS"
            )
        query = {name: parameters[name] for name in ("service", "scope") if parameters.get(name)}
        url = f"{realm}{'&' if parts.query else '?'}{urlencode(query)}"

        def once() -> Answer:
            return self._web.request("GET", url, {"Authorization": login.header} if login else {}, limit=_SMALL)

        answer: Answer = self._web.persist(realm, once)
        if answer.status != 200:
            raise self.refusal(answer, "have a token")
        try:
            reply = read_json(answer.data, limit=_SMALL)
        except FormatError:
            reply = None
        token = (reply.get("token") or reply.get("access_token")) if isinstance(reply, dict) else None
        if not isinstance(token, str) or _BEARER.fullmatch(token) is None:
            raise FetchError(f"{self.reference}: {realm[:200]!r} did not return a token: check the registry")
        return token


def _with_message(body: Body) -> Answer:
    """An answer that is not a success, with the beginning of its body."""
    try:
        data = b"".join(body.chunks(4096))
    except TransientError:
        data = b""
    answer = body.answer
    return Answer(url=answer.url, status=answer.status, headers=answer.headers, data=data)


def _message_of(answer: Answer) -> str:
    """The first message of a registry's errors, else the beginning of its body."""
    try:
        data: Any = read_json(answer.data, limit=_SMALL)
        error = data["errors"][0]
        return printable(f"{error.get('code', '')}: {error.get('message', '')}")
    except (FormatError, LookupError, TypeError, AttributeError):
        return answer.message


def checked_version(reference: ImageReference) -> str:
    """The digest or tag to request from the registry. Raises ConfigError where another server could answer instead."""
    if not reference.digest and not reference.secure:
        raise ConfigError(f"{reference} is read without TLS: add @sha256:DIGEST, or --digest with that of the index")
    return reference.digest or reference.tag
