"""References: the address of a cache: an image in a registry, a folder on a model hub, a web server or a disk."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError

MOST = 2048  # characters of a reference
_FORMS = (
    "write oci://HOST/NAME:TAG, oci://HOST/NAME@sha256:DIGEST, hf://OWNER/NAME@REVISION, https://HOST/FOLDER or"
    " file:///FOLDER"
)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]{{2,39}}\])(?::[0-9]{{1,5}})?")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HUB_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,127}){0,3}")
_STEP = re.compile(r"[A-Za-z0-9_+=,~ -][A-Za-z0-9._+=,~ -]{0,127}")
_LOOPBACK = re.compile(r"localhost|127(?:\.[0-9]{1,3}){3}|\[::1\]")


class ImageReference(Immutable, kw_only=True):
    """An image in a registry, by tag, by the digest of its manifest, or by both: then the digest counts."""

    host: str
    name: str
    tag: str = ""
    digest: str = ""
    plain: bool = False

    @property
    def secure(self) -> bool:
        """Whether the connection is protected: by TLS, or because it stays on this machine."""
        return not self.plain or is_loopback(self.host)

    @property
    def origin(self) -> str:
        """The address of the registry. The registry of Docker Hub has another name than its images."""
        host = "registry-1.docker.io" if self.host == "docker.io" else self.host
        return f"{'http' if self.plain or is_loopback(host) else 'https'}://{host}"

    def __str__(self) -> str:
        tag, digest = self.tag and f":{self.tag}", self.digest and f"@{self.digest}"
        return f"oci{'+http' if self.plain else ''}://{self.host}/{self.name}{tag}{digest}"


class HubReference(Immutable, kw_only=True):
    """A folder of a repository on the Hugging Face Hub. ``kind`` is ``models`` or ``datasets``."""

    kind: str
    name: str
    revision: str = "main"
    folder: str = ""

    def __str__(self) -> str:
        kind = "" if self.kind == "models" else f"{self.kind}/"
        return f"hf://{kind}{self.name}@{quote(self.revision, safe='')}{self.folder and f'/{self.folder}'}"


class FolderReference(Immutable, kw_only=True):
    """A folder by its URL, without a slash at the end; or one of this machine, by its path."""

    url: str = ""
    path: str = ""

    @property
    def secure(self) -> bool:
        """Whether the connection is protected."""
        parts = urlsplit(self.url)
        return bool(self.path) or parts.scheme == "https" or is_loopback(parts.netloc)

    def __str__(self) -> str:
        return self.url or f"file://{quote(self.path)}"


Reference = ImageReference | HubReference | FolderReference


def is_loopback(host: str) -> bool:
    """Whether a host, with or without a port, is this machine by name.

    >>> is_loopback("localhost:5000"), is_loopback("127.0.0.1"), is_loopback("localhost.example.com")
    (True, True, False)
    """
    return _LOOPBACK.fullmatch(re.sub(r":[0-9]+\Z", "", host)) is not None


def read_reference(text: str) -> Reference:
    """Parse a reference that a user wrote. Anything else is a ConfigError, a reference with a password too.

    >>> read_reference("oci://registry.example.com/kernels/llama:v3").tag
    'v3'
    >>> str(read_reference("hf://acme/kernels@v1.0/h200"))
    'hf://acme/kernels@v1.0/h200'
    >>> read_reference("oci://example.com/kernels")
    Traceback (most recent call last):
    precast.loader.errors.ConfigError: oci://example.com/kernels has no version: add a :TAG or a ...
    """
    if len(text) > MOST or not text.isprintable():
        raise ConfigError(f"{text[:80]!r} is not a reference: {_FORMS}")
    scheme, separator, rest = text.partition("://")
    if separator and scheme in ("oci", "oci+http"):
        return _image(rest, plain=scheme == "oci+http")
    if separator and scheme == "hf":
        return _hub(rest)
    if separator and scheme in ("https", "http"):
        return _web(text)
    if separator and scheme == "file":
        return _disk(rest, text)
    raise ConfigError(f"{_hidden(text)!r} is not a reference: {_FORMS}")


def _image(rest: str, *, plain: bool) -> ImageReference:
    host, _, name = rest.partition("/")
    name, at, digest = name.partition("@")
    name, colon, tag = name.partition(":")
    if _HOST.fullmatch(host) is None:
        raise ConfigError(f"{_hidden(host)!r} is not the host of a registry: write it like registry.example.com:5000")
    if len(name) > 255 or _REPOSITORY.fullmatch(name) is None:
        use = "use lower-case letters, digits and single separators"
        raise ConfigError(f"{name[:80]!r} is not the name of a repository: {use}")
    if colon and _TAG.fullmatch(tag) is None:
        raise ConfigError(f"{tag[:80]!r} is not a tag: use at most 128 letters, digits, dots, dashes and underscores")
    if at and _DIGEST.fullmatch(digest) is None:
        raise ConfigError(f"{digest[:80]!r} is not a digest: write @sha256: and 64 digits, as 'precast push' prints it")
    if not colon and not at:
        raise ConfigError(f"oci://{host}/{name} has no version: add a :TAG or a @sha256:DIGEST")
    return ImageReference(host=host, name=name, tag=tag, digest=digest, plain=plain)


def _hub(rest: str) -> HubReference:
    kind = "datasets" if rest.startswith("datasets/") else "models"
    rest = rest.removeprefix("datasets/")
    owner, _, rest = rest.partition("/")
    name, at, folder = rest.partition("@")
    if at:
        revision, _, folder = folder.partition("/")
        revision = unquote(revision)
    else:
        revision = "main"
        name, _, folder = rest.partition("/")
    if _HUB_PART.fullmatch(owner) is None or _HUB_PART.fullmatch(name) is None:
        raise ConfigError(f"{f'{owner}/{name}'[:80]!r} is not a repository of the hub: write hf://OWNER/NAME@REVISION")
    if _REVISION.fullmatch(revision) is None or ".." in revision:
        raise ConfigError(f"{revision[:80]!r} is not a revision: name a branch, a tag or a commit; write / as %2F")
    folder = folder.strip("/")
    if folder and not all(map(_STEP.fullmatch, folder.split("/"))):
        raise ConfigError(f"{folder[:80]!r} is not a folder of a repository: write names without . at their beginning")
    return HubReference(kind=kind, name=f"{owner}/{name}", revision=revision, folder=folder)


def _web(text: str) -> FolderReference:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ConfigError(f"{_hidden(text)!r} is not a URL: {_FORMS}") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "a reference must not hold a password, since references are printed: serve the folder without one"
        )
    if _HOST.fullmatch(parts.netloc) is None or parts.query or parts.fragment or port == 0 or " " in text:
        raise ConfigError(f"{_hidden(text)!r} is not the URL of a folder: write it like https://HOST/FOLDER")
    return FolderReference(url=text.rstrip("/"))


def _disk(rest: str, text: str) -> FolderReference:
    path = unquote(rest.removeprefix("localhost") if rest.startswith("localhost/") else rest)
    if not path.startswith("/") or "\0" in path:
        raise ConfigError(f"{text[:80]!r} is not a folder of this machine: write file:///FOLDER, an absolute path")
    return FolderReference(path=str(Path(path)))


def _hidden(text: str) -> str:
    """The beginning of a text, without a possible password or signature."""
    return re.sub(r"[^/@]*@(?!sha256:)", "...@", text[:160].partition("?")[0])[:80]
