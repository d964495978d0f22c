"""Identities of Sigstore: certificates and log entries of a private one, verified by the library ``sigstore``.

No public Sigstore is reached, so what its services answer to ``precast sign --keyless`` is not tested.
"""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from pathlib import Path

import pytest

from precast.build.cache.contents import CacheContents
from precast.fetch.trust.policy import TrustPolicy
from precast.loader.errors import SignatureError
from precast.publish.signing.provenance import statement
from tests.helpers.packed_caches import Built
from tests.helpers.signatures.private_sigstore import NOW, PrivateSigstore
from tests.helpers.signatures.signed import key_pair, policy_file, signed_cache

pytest.importorskip("sigstore", reason="sigstore is not installed: the extra 'sign'")
pytestmark = pytest.mark.slow  # its import takes a second

WORKFLOW = "https://github.com/acme/kernels/.github/workflows/build.yml@refs/heads/main"
ISSUER = "https://token.actions.githubusercontent.com"
REFUSED = (
    rf"it is not signed by {WORKFLOW}, known to {ISSUER} \((CertValidationError|VerificationError|InvalidBundle): "
)


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> PrivateSigstore:
    return PrivateSigstore(tmp_path_factory.mktemp("sigstore") / "root.json")


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> CacheContents:
    return CacheContents.open(Built().write(tmp_path_factory.mktemp("built") / "cache"))


@pytest.fixture(scope="module")
def payload(contents: CacheContents) -> bytes:
    return statement(contents, int(NOW.timestamp()))


def accept(private: PrivateSigstore, contents: CacheContents, bundle: bytes) -> str:
    policy = policy_file(
        private.root.parent / "policy.json",
        identities=[{"identity": WORKFLOW, "issuer": ISSUER}],
        trusted_root=private.root.name,
    )
    return TrustPolicy.read(policy).accept("demo", contents.cache.digest, [bundle]).by


def test_a_workflow_is_accepted(private: PrivateSigstore, contents: CacheContents, payload: bytes) -> None:
    bundle = private.sign(payload, WORKFLOW, ISSUER)
    assert accept(private, contents, bundle) == f"{WORKFLOW}, known to {ISSUER}"


@pytest.mark.parametrize(
    ("identity", "issuer"),
    [
        (WORKFLOW.replace("/acme/", "/acne/"), ISSUER),
        (f"{WORKFLOW}s", ISSUER),
        (WORKFLOW, ISSUER.replace("https", "http")),
        ("ci@acme.example", ISSUER),
    ],
)
def test_an_identity_that_differs_by_a_letter(
    private: PrivateSigstore, contents: CacheContents, payload: bytes, identity: str, issuer: str
) -> None:
    with pytest.raises(SignatureError, match=REFUSED):
        accept(private, contents, private.sign(payload, identity, issuer))


@pytest.mark.parametrize("minutes", [11, -1])
def test_a_certificate_that_had_expired_or_did_not_hold_yet(
    private: PrivateSigstore, contents: CacheContents, payload: bytes, minutes: int
) -> None:
    with pytest.raises(SignatureError, match=REFUSED):
        accept(private, contents, private.sign(payload, WORKFLOW, ISSUER, logged=timedelta(minutes=minutes)))


def test_another_authority(private: PrivateSigstore, contents: CacheContents, payload: bytes, tmp_path: Path) -> None:
    stranger = PrivateSigstore(tmp_path / "root.json")
    with pytest.raises(SignatureError, match=REFUSED):
        accept(private, contents, stranger.sign(payload, WORKFLOW, ISSUER))


@pytest.mark.parametrize("change", ["payload", "signature", "entry", "log", "no entry"])
def test_a_changed_bundle(private: PrivateSigstore, contents: CacheContents, payload: bytes, change: str) -> None:
    bundle = json.loads(private.sign(payload, WORKFLOW, ISSUER))
    other = json.loads(private.sign(payload.replace(b"demo", b"dome"), WORKFLOW, ISSUER))
    entries = bundle["verificationMaterial"]["tlogEntries"]
    if change == "payload":
        bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload + b" ").decode()
    elif change == "signature":
        bundle["dsseEnvelope"]["signatures"] = other["dsseEnvelope"]["signatures"]
    elif change == "entry":
        bundle["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"]
    elif change == "log":
        entries[0]["inclusionProof"]["rootHash"] = base64.b64encode(b"\0" * 32).decode()
    else:
        entries.clear()
    with pytest.raises(SignatureError, match=REFUSED):
        accept(private, contents, json.dumps(bundle).encode())


def test_a_key_is_no_identity_and_an_identity_is_no_key(
    private: PrivateSigstore, contents: CacheContents, payload: bytes, tmp_path: Path
) -> None:
    pair = key_pair(tmp_path)
    cache = signed_cache(tmp_path / "cache", pair)
    with pytest.raises(SignatureError, match="it is signed with a key, and not by"):
        accept(private, contents, (cache / "index.json.sigstore.json").read_bytes())
    with pytest.raises(SignatureError, match="it is not signed by the key"):
        bundle = private.sign(payload, WORKFLOW, ISSUER)
        TrustPolicy.of(keys=[pair.public]).accept("demo", contents.cache.digest, [bundle])


def test_the_public_root_needs_no_network(
    private: PrivateSigstore, contents: CacheContents, payload: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes with the library; a private authority is a stranger to it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    policy = TrustPolicy.of(identities=[(WORKFLOW, ISSUER)])
    with pytest.raises(SignatureError, match=REFUSED):
        policy.accept("demo", contents.cache.digest, [private.sign(payload, WORKFLOW, ISSUER)])
