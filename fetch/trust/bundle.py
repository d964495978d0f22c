"""Sigstore bundles: a signed statement and what its signature is checked with, in one JSON file beside an index.

All of it is hostile. This module checks the form. A policy reads nothing of the payload before its signature was
verified; commands that only carry a signature read which index it names.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from precast.loader.contract.format import fields
from precast.loader.contract.format.index import encode
from precast.loader.contract.values import Immutable
from precast.loader.errors import CacheError, FormatError
from precast.loader.regular_file import read_regular

BUNDLE_FILE = "index.json.sigstore.json"
"""Beside ``index.json``. Programs for Sigstore look for a bundle under the name of the file that it signs."""
BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
BUNDLE_LIMIT = 4 << 20
_PAYLOAD_TYPE = "application/vnd.in-toto+json"


class Bundle(Immutable, kw_only=True):
    """A bundle with an envelope (DSSE) that has one signature. ``keyless`` if it has a certificate in place of the
    hint of a key; ``data`` is the whole file."""

    data: bytes
    payload: bytes
    signature: bytes
    keyless: bool

    @classmethod
    def parse(cls, data: bytes) -> Bundle:
        """Read a bundle. Raises a FormatError for another version, and for an envelope of something else.

        >>> Bundle.parse(encode_bundle(b"{}", b"signature", "hint")).payload
        b'{}'
        """
        root = fields.as_object(fields.read_json(data, limit=BUNDLE_LIMIT))
        if fields.get(root, "mediaType", str) != BUNDLE_TYPE:
            raise FormatError("it is not a Sigstore bundle of version 0.3", "mediaType")
        fields.known(root, ("mediaType", "verificationMaterial", "dsseEnvelope"))
        material = fields.parsed(root, "verificationMaterial", fields.as_object)
        if ("certificate" in material) == ("publicKey" in material):
            raise FormatError("expected a certificate or the hint of a key", "verificationMaterial")
        envelope = fields.parsed(root, "dsseEnvelope", fields.as_object)
        fields.known(envelope, ("payload", "payloadType", "signatures"))
        fields.one_of(envelope, "payloadType", (_PAYLOAD_TYPE,))
        signatures = fields.items(envelope, "signatures", _signature, most=1)
        if not signatures:
            raise FormatError("it has no signature", "signatures")
        payload = fields.parsed(envelope, "payload", _base64)
        return cls(data=data, payload=payload, signature=signatures[0], keyless="certificate" in material)


def encode_bundle(payload: bytes, signature: bytes, hint: str) -> bytes:
    """The bundle of a payload that was signed with a key. The hint helps to find the key, and proves nothing."""
    return encode(
        {
            "mediaType": BUNDLE_TYPE,
            "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
            "dsseEnvelope": {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": _PAYLOAD_TYPE,
                "signatures": [{"sig": base64.b64encode(signature).decode()}],
            },
        }
    )


def signed_bytes(payload: bytes) -> bytes:
    """The bytes that a signature is computed over: the payload with its type, as DSSE defines it.

    >>> signed_bytes(b"{}")
    b'DSSEv1 28 application/vnd.in-toto+json 2 {}'
    """
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD_TYPE), _PAYLOAD_TYPE.encode(), len(payload), payload)


def bundle_in(cache: Path) -> bytes | None:
    """The bundle in the folder of a cache, of which nothing was checked; None if it has none."""
    try:
        return read_regular(cache / BUNDLE_FILE, BUNDLE_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CacheError(f"{cache / BUNDLE_FILE} cannot be read ({error.strerror}): sign the cache again") from None


def _signature(value: object) -> bytes:
    return fields.parsed(fields.known(fields.as_object(value), ("sig", "keyid")), "sig", _base64)


def _base64(value: object) -> bytes:
    try:
        return base64.b64decode(fields.text(value), validate=True)
    except (binascii.Error, ValueError):
        raise FormatError("not base64") from None
