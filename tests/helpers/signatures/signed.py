"""Keys, signed caches and policies of tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from precast.fetch.trust.bundle import BUNDLE_FILE
from precast.publish.signing.sign import sign, with_key
from tests.helpers.packed_caches import Built


@dataclass(frozen=True)
class Pair:
    """The files of a private key and its public half."""

    private: Path
    public: Path


def key_pair(folder: Path, name: str = "key", curve: ec.EllipticCurve | None = None) -> Pair:
    """A new pair of keys, on P-256 unless another curve is given."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(curve or ec.SECP256R1())
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.pub")
    pair.private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    pair.public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return pair


def signed_cache(path: Path, pair: Pair, **changes: Any) -> Path:
    """A small cache with a signature."""
    Built(**changes).write(path)
    sign(path, with_key(pair.private))
    return path


def policy_file(path: Path, **fields: Any) -> Path:
    """The file of a policy with these fields."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": "precast-trust", "version": 1, **fields}))
    return path


def bundle_of(cache: Path) -> dict[str, Any]:
    """The signature beside an index, as JSON."""
    return json.loads((cache / BUNDLE_FILE).read_bytes())  # type: ignore[no-any-return]
