"""Signers whom a policy accepts: keys, and identities of Sigstore. They verify without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precast.fetch.trust.bundle import Bundle, signed_bytes
from precast.loader.contract.values import Immutable
from precast.loader.errors import SignatureError

if TYPE_CHECKING:
    from precast.fetch.trust.ecdsa import PublicKey


class Key(Immutable, kw_only=True):
    """A public key, by the name of its file."""

    name: str
    public: PublicKey

    @classmethod
    def read(cls, pem: bytes, name: str) -> Key:
        """Read a key in PEM."""
        try:
            from precast.fetch.trust.ecdsa import public_key
        except ImportError:
            raise SignatureError("cryptography is not installed: pip install 'precast-loader[trust]'") from None
        return cls(name=name, public=public_key(pem, name))

    def __str__(self) -> str:
        return f"the key {self.name}"

    def verify(self, bundle: Bundle) -> bytes:
        """The payload of a bundle, if this key signed it, else a SignatureError. The hint in it proves nothing, and is
        not used."""
        from precast.fetch.trust.ecdsa import is_signed

        if bundle.keyless or not is_signed(self.public, bundle.signature, signed_bytes(bundle.payload)):
            raise SignatureError(f"it is not signed by {self}")
        return bundle.payload


class Identity(Immutable, kw_only=True):
    """The holder of a certificate of Sigstore, and the issuer that knew them: both must be equal to the letter.

    ``root`` is the file with the trusted root of a private Sigstore; empty for the public one.
    """

    identity: str
    issuer: str
    root: str = ""

    def __str__(self) -> str:
        return f"{self.identity}, known to {self.issuer}"

    def verify(self, bundle: Bundle) -> bytes:
        """The payload of a bundle, if its certificate was issued to this identity, was valid when Sigstore's log took
        the signature, and the log's own signatures are right; else a SignatureError."""
        if not bundle.keyless:
            raise SignatureError(f"it is signed with a key, and not by {self}")
        try:
            from sigstore.models import Bundle as SigstoreBundle
            from sigstore.models import TrustedRoot
            from sigstore.verify import Verifier
            from sigstore.verify.policy import Identity as Holder
        except ImportError:
            raise SignatureError("sigstore is not installed: pip install 'precast-loader[keyless]'") from None
        try:
            root = TrustedRoot.from_file(self.root) if self.root else None
            verifier = Verifier(trusted_root=root) if root else Verifier.production(offline=True)
            holder = Holder(identity=self.identity, issuer=self.issuer)
            _, payload = verifier.verify_dsse(SigstoreBundle.from_json(bundle.data), holder)
        except Exception as error:  # whatever a hostile bundle makes the parsers raise, it is not verified
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise SignatureError(f"it is not signed by {self} ({reason})") from None
        if payload != bundle.payload:
            raise SignatureError(f"two readers find different statements in it, and {self} signed one of them")
        return bundle.payload


Signer = Key | Identity
