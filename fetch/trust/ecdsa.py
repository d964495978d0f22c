"""ECDSA on the curve P-256 with SHA-256, keys in PEM: the only module that imports ``cryptography``, itself imported
where a signature is made or verified."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from precast.loader.errors import ConfigError

PublicKey: TypeAlias = ec.EllipticCurvePublicKey
PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey
_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm)  # TypeError: a private key with a password
_ALGORITHM = ec.ECDSA(SHA256())


def public_key(pem: bytes, name: str) -> PublicKey:
    """Read a public key; ``name`` is that of its file, for errors."""
    try:
        key = load_pem_public_key(pem)
    except _UNREADABLE:
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigError(f"{name} is not a public key of ECDSA on P-256 in PEM: write one with 'openssl ec -pubout'")
    return key


def private_key(pem: bytes, name: str) -> PrivateKey:
    """Read a private key without a password; ``name`` is that of its file, for errors."""
    try:
        key = load_pem_private_key(pem, None)
    except _UNREADABLE:
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigError(
            f"{name} is not a private key of ECDSA on P-256 in PEM, without a password: make one with"
            " 'openssl ecparam -genkey -noout -name prime256v1'"
        )
    return key


def sign(key: PrivateKey, data: bytes) -> bytes:
    """The signature of some bytes.

    >>> key = ec.generate_private_key(ec.SECP256R1())
    >>> signature = sign(key, b"data")
    >>> is_signed(key.public_key(), signature, b"data"), is_signed(key.public_key(), signature, b"date")
    (True, False)
    """
    return bytes(key.sign(data, _ALGORITHM))


def is_signed(key: PublicKey, signature: bytes, data: bytes) -> bool:
    """Whether the signature of some bytes is one of this key."""
    try:
        key.verify(signature, data, _ALGORITHM)
    except InvalidSignature:
        return False
    return True


def hint(key: PublicKey) -> str:
    """The hint of a key, as other programs for Sigstore write it: the digest of its encoded form."""
    return base64.b64encode(sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()).decode()
