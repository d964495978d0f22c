"""A trust policy: the pins, keys and identities of which one must vouch for a cache."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from precast.fetch.trust.bundle import Bundle
from precast.fetch.trust.signers import Identity, Key, Signer
from precast.fetch.trust.statement import INDEX, TIME, Statement
from precast.loader.contract.format import fields
from precast.loader.contract.format.index import check_version
from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError, FormatError, SignatureError
from precast.loader.resolve.pins import Pins, check_pins

FORMAT = "precast-trust"
_FILE_LIMIT = 1 << 20
_MOST = 64
MOST_BUNDLES = 16
"""The bundles of one cache that are tried: a registry may have any number."""


class Accepted(Immutable, kw_only=True):
    """Why a cache is trusted: by whom, and, unless by a pin, the statement and the bundle that it came in."""

    by: str
    statement: Statement | None = None
    bundle: bytes = b""


class TrustPolicy(Immutable, kw_only=True):
    """Whom to trust. ``since`` is the time before which no signed cache may have been written; empty for any."""

    pins: Pins
    signers: tuple[Signer, ...]
    since: str = ""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> TrustPolicy:
        """Read the file of a policy. Files that it names are relative to its folder."""
        file = Path(path)
        try:
            root = fields.as_object(fields.read_json(read_named(file), limit=_FILE_LIMIT))
            check_version(root, FORMAT)
            fields.known(root, ("format", "version", "pins", "keys", "identities", "trusted_root", "since"))
            pins = fields.items(root, "pins", fields.text, most=_MOST, default=())
            keys = fields.items(root, "keys", fields.text, most=_MOST, default=())
            trusted = fields.get(root, "trusted_root", str, "")
            identities = fields.items(root, "identities", _identity, most=_MOST, default=())
            since = fields.matching(root, "since", TIME, "a time such as 2026-11-28T09:30:00Z", "")
        except FormatError as error:
            raise ConfigError(f"{file}: {error}: see the page on security") from None
        return cls.of(
            pins=pins,
            keys=[file.parent / key for key in keys],
            identities=identities,
            root=file.parent / trusted if trusted else None,
            since=since,
        )

    @classmethod
    def of(
        cls,
        *,
        pins: Sequence[str] = (),
        keys: Sequence[Path] = (),
        identities: Sequence[tuple[str, str]] = (),
        root: Path | None = None,
        since: str = "",
    ) -> TrustPolicy:
        """A policy of pins (``NAME=SHA256``), files of public keys, and pairs of an identity and its issuer."""
        signers: list[Signer] = [Key.read(read_named(key), str(key)) for key in keys]
        signers += [Identity(identity=who, issuer=by, root=str(root or "")) for who, by in identities]
        if not signers and not pins:
            raise ConfigError("the policy trusts no one: name a key, an identity or a pin")
        checked = check_pins(pin.partition("=")[::2] for pin in pins) if pins else {}
        return cls(pins=checked, signers=tuple(signers), since=since)

    def accept(self, name: str, sha256: str, bundles: Iterable[bytes]) -> Accepted:
        """Why a cache of this name and digest of its index is trusted, or a SignatureError with every reason."""
        if sha256 in self.pins.get(name, ()):
            return Accepted(by="a pin")
        reasons = []
        for data in list(bundles)[:MOST_BUNDLES]:
            try:
                bundle = Bundle.parse(data)
            except FormatError as error:
                reasons.append(f"its signature cannot be read: {error}")
                continue
            for signer in self.signers:
                try:
                    statement = self._checked(signer, bundle, sha256)
                except SignatureError as error:
                    reasons.append(str(error))
                else:
                    return Accepted(by=str(signer), statement=statement, bundle=data)
        why = "; ".join(dict.fromkeys(reasons)) or "it is not signed, and no pin of the policy names it"
        raise SignatureError(
            f"the cache {name!r} with the index {sha256[:12]}... is not trusted: {why}. Get it from those whom you"
            " trust, or sign it, or change the policy"
        )

    def _checked(self, signer: Signer, bundle: Bundle, sha256: str) -> Statement:
        """The statement of a bundle: verified, about this index, and not too old."""
        payload = signer.verify(bundle)
        try:
            statement = Statement.parse(payload)
        except FormatError as error:
            raise SignatureError(f"what {signer} signed is not the provenance of a cache: {error}") from None
        if statement.subjects.get(INDEX) != sha256:
            raise SignatureError(f"what {signer} signed is about another cache")
        if statement.written < self.since:
            raise SignatureError(f"{signer} signed it, but it is of {statement.written}, before {self.since}")
        return statement


def read_named(path: Path) -> bytes:
    """A small file that the user named. It may be a link, as files of a ConfigMap in Kubernetes are."""
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): check the path") from None
    if len(data) > _FILE_LIMIT:
        raise ConfigError(f"{path} has more than {_FILE_LIMIT} bytes: name another file")
    return data


def _identity(value: object) -> tuple[str, str]:
    data = fields.known(fields.as_object(value), ("identity", "issuer"))
    return fields.get(data, "identity", str), fields.get(data, "issuer", str)
