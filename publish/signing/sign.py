"""Signing the provenance of a cache or of the cache in a wheel, with a key, or with an identity and no key."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from precast.build.disk.scratch import write_output
from precast.build.wheel.wheel import content_time, wheel_content, zipped
from precast.fetch.trust.bundle import BUNDLE_FILE, encode_bundle, signed_bytes
from precast.fetch.trust.policy import read_named
from precast.loader.errors import SignatureError
from precast.publish.signing.provenance import statement
from precast.publish.signing.signed import opened

Signing = Callable[[bytes], bytes]
"""From a statement to the bundle with its signature."""


def sign(path: Path, signing: Signing) -> str:
    """Sign the cache in a folder or a wheel, after every byte was checked, and return the digest of its index.

    A signature that is there is replaced. The file of a wheel is written again, with the signature in it.
    """
    with opened(path) as (wheel, contents):
        bundle = {BUNDLE_FILE: signing(statement(contents, content_time(contents.cache.path)))}
        if wheel is None:
            write_output(path / BUNDLE_FILE, bundle[BUNDLE_FILE])
        else:
            write_output(path, zipped(wheel_content(wheel, {**contents.files(), **bundle})))
        return contents.cache.digest


def with_key(path: Path) -> Signing:
    """Sign with a private key, from a file in PEM."""
    try:
        from precast.fetch.trust import ecdsa
    except ImportError:
        raise SignatureError("cryptography is not installed: pip install 'precast[sign]'") from None
    key = ecdsa.private_key(read_named(path), str(path))
    hint = ecdsa.hint(key.public_key())
    return lambda payload: encode_bundle(payload, ecdsa.sign(key, signed_bytes(payload)), hint)


def keyless() -> Signing:
    """Sign with a certificate that Sigstore issues to the identity of this CI job, or of the person at the terminal.

    The signature, and so the name of the identity, goes to Sigstore's public log.
    """
    try:
        from sigstore.dsse import Statement
        from sigstore.models import ClientTrustConfig
        from sigstore.oidc import IdentityToken, Issuer, detect_credential
        from sigstore.sign import SigningContext
    except ImportError:
        raise SignatureError("sigstore is not installed: pip install 'precast[sign]'") from None

    def signing(payload: bytes) -> bytes:
        try:
            ambient = detect_credential()
            if ambient is None and not sys.stdin.isatty():
                raise SignatureError("this job has no identity: give it the permission 'id-token: write', or use --key")
            config = ClientTrustConfig.production()
            token = IdentityToken(ambient) if ambient else Issuer(config.signing_config.get_oidc_url()).identity_token()
            with SigningContext.from_trust_config(config).signer(token) as signer:
                return bytes(signer.sign_dsse(Statement(payload)).to_json().encode())
        except SignatureError:
            raise
        except Exception as error:  # of Sigstore's services, or of what reaches them
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise SignatureError(f"Sigstore did not sign it ({reason}): try again, or use --key") from None

    return signing
