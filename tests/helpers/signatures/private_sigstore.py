"""A Sigstore of our own, without a network: an authority that issues certificates, the log of these, and the log of
signatures, whose public halves are a trusted root. It signs as any identity, at any time."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from precast.fetch.trust.bundle import BUNDLE_TYPE, signed_bytes

_ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_TIMESTAMPS = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_DER = serialization.Encoding.DER
_ECDSA = ec.ECDSA(hashes.SHA256())
NOW = datetime(2026, 11, 1, 12, 0, tzinfo=timezone.utc)
MINUTES = timedelta(minutes=10)


class PrivateSigstore:
    """Its trusted root is the file ``root``."""

    def __init__(self, root: Path) -> None:
        self._authority, self._certificates, self._signatures = (_key() for _ in range(3))
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        builder = _certificate(self._name, self._name, self._authority, NOW - timedelta(days=9), timedelta(days=3650))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs=False), critical=True)
        own = x509.SubjectKeyIdentifier.from_public_key(self._authority.public_key())
        certificate = builder.add_extension(own, critical=False).sign(self._authority, hashes.SHA256())
        valid = {"start": "2026-01-01T00:00:00Z"}
        chain = {"certificates": [{"rawBytes": _base64(certificate.public_bytes(_DER))}]}
        authority = {
            "subject": {"organization": "a", "commonName": "a"},
            "uri": "https://a.test",
            "certChain": chain,
            "validFor": valid,
        }
        logs = [_log(key, valid) for key in (self._signatures, self._certificates)]
        self.root = root
        root.write_text(
            json.dumps(
                {
                    "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                    "tlogs": logs[:1],
                    "ctlogs": logs[1:],
                    "certificateAuthorities": [authority],
                    "timestampAuthorities": [],
                }
            )
        )

    def sign(self, payload: bytes, identity: str, issuer: str, *, logged: timedelta = timedelta(minutes=1)) -> bytes:
        """The bundle of a payload, signed by an identity, whose certificate is valid for ten minutes. ``logged`` is the
        time between the certificate and the entry in the log."""
        key = _key()
        certificate = self._issued(key, identity, issuer)
        signature = key.sign(signed_bytes(payload), _ECDSA)
        envelope = {
            "payload": _base64(payload),
            "payloadType": "application/vnd.in-toto+json",
            "signatures": [{"sig": _base64(signature)}],
        }
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        hashed = {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()}
        spec = {
            "envelopeHash": hashed,
            "payloadHash": hashed,
            "signatures": [{"signature": _base64(signature), "verifier": _base64(pem)}],
        }
        entry = self._entry(_canonical({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec}), NOW + logged)
        material = {"certificate": {"rawBytes": _base64(certificate.public_bytes(_DER))}, "tlogEntries": [entry]}
        bundle = {"mediaType": BUNDLE_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}
        return json.dumps(bundle).encode()

    def _issued(self, key: ec.EllipticCurvePrivateKey, identity: str, issuer: str) -> x509.Certificate:
        builder = _certificate(x509.Name([]), self._name, key, NOW, MINUTES)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING])
        own = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._authority.public_key())
        name: Any = x509.UniformResourceIdentifier if "://" in identity else x509.RFC822Name
        for extension, critical in (
            (x509.SubjectAlternativeName([name(identity)]), True),
            (_usage(signs=True), True),
            (usage, False),
            (own, False),
            (x509.UnrecognizedExtension(_ISSUER, issuer.encode()), False),
        ):
            builder = builder.add_extension(extension, critical=critical)
        before = builder.sign(self._authority, hashes.SHA256()).tbs_certificate_bytes
        time = struct.pack(">Q", int(NOW.timestamp() * 1000))
        by = hashlib.sha256(_public(self._authority)).digest()
        entry = b"\0\0" + time + b"\0\1" + by + struct.pack(">I", len(before))[1:] + before + b"\0\0"
        signature = self._certificates.sign(entry, _ECDSA)
        log = hashlib.sha256(_public(self._certificates)).digest()
        timestamp = b"\0" + log + time + b"\0\0" + b"\4\3" + struct.pack(">H", len(signature)) + signature
        listed = struct.pack(">HH", len(timestamp) + 2, len(timestamp)) + timestamp
        octets = bytes([4, len(listed)]) if len(listed) < 128 else bytes([4, 0x81, len(listed)])
        stamped = x509.UnrecognizedExtension(_TIMESTAMPS, octets + listed)
        return builder.add_extension(stamped, critical=False).sign(self._authority, hashes.SHA256())

    def _entry(self, body: bytes, time: datetime) -> dict[str, Any]:
        """The entry of the log, which is its only one."""
        log = hashlib.sha256(_public(self._signatures)).digest()
        seconds, leaf = int(time.timestamp()), hashlib.sha256(b"\0" + body).digest()
        promise = {"body": _base64(body), "integratedTime": seconds, "logID": log.hex(), "logIndex": 0}
        note = f"log.test\n1\n{_base64(leaf)}\n"
        line = _base64(log[:4] + self._signatures.sign(note.encode(), _ECDSA))
        return {
            "logIndex": "0",
            "logId": {"keyId": _base64(log)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(seconds),
            "inclusionPromise": {"signedEntryTimestamp": _base64(self._signatures.sign(_canonical(promise), _ECDSA))},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _base64(leaf),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\u2014 log.test {line}\n"},
            },
            "canonicalizedBody": _base64(body),
        }


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, start: datetime, lasts: timedelta
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(start).not_valid_after(start + lasts)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs,
        key_cert_sign=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _log(key: ec.EllipticCurvePrivateKey, valid: dict[str, str]) -> dict[str, Any]:
    public = _public(key)
    return {
        "baseUrl": "https://log.test",
        "hashAlgorithm": "SHA2_256",
        "publicKey": {"rawBytes": _base64(public), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid},
        "logId": {"keyId": _base64(hashlib.sha256(public).digest())},
    }


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return bytes(key.public_key().public_bytes(_DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
