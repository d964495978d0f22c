"""Attacks on signatures: each changes a bundle that is right, or makes one that looks right. None is accepted."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from precast.fetch.trust import ecdsa
from precast.fetch.trust.bundle import BUNDLE_FILE, BUNDLE_LIMIT, encode_bundle, signed_bytes
from precast.fetch.trust.policy import TrustPolicy
from precast.loader.errors import SignatureError
from precast.loader.resolve.cache import Cache
from precast.publish.signing.sign import sign, with_key
from tests.helpers.packed_caches import Built
from tests.helpers.signatures.signed import Pair, bundle_of, key_pair, signed_cache

Json = dict[str, Any]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return key_pair(tmp_path)


@pytest.fixture
def cache(tmp_path: Path, pair: Pair) -> Path:
    return signed_cache(tmp_path / "cache", pair)


def refused(pair: Pair, cache: Path, bundle: bytes) -> str:
    opened = Cache(cache)
    with pytest.raises(SignatureError) as raised:
        TrustPolicy.of(keys=[pair.public]).accept(opened.name, opened.digest, [bundle])
    return str(raised.value)


def signed_with(pair: Pair, payload: bytes) -> bytes:
    """A right signature of any payload."""
    key = ecdsa.private_key(pair.private.read_bytes(), "key")
    return encode_bundle(payload, ecdsa.sign(key, signed_bytes(payload)), ecdsa.hint(key.public_key()))


def statement_of(cache: Path) -> Json:
    return json.loads(base64.b64decode(bundle_of(cache)["dsseEnvelope"]["payload"]))  # type: ignore[no-any-return]


def flip(text: str) -> str:
    data = bytearray(base64.b64decode(text))
    data[len(data) // 2] ^= 1
    return base64.b64encode(data).decode()


def _payload(bundle: Json) -> None:
    bundle["dsseEnvelope"]["payload"] = flip(bundle["dsseEnvelope"]["payload"])


def _signature(bundle: Json) -> None:
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = flip(bundle["dsseEnvelope"]["signatures"][0]["sig"])


def _empty_signature(bundle: Json) -> None:
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = ""


def _type(bundle: Json) -> None:
    bundle["dsseEnvelope"]["payloadType"] = "application/json"


def _two(bundle: Json) -> None:
    bundle["dsseEnvelope"]["signatures"] *= 2


def _none(bundle: Json) -> None:
    bundle["dsseEnvelope"]["signatures"] = []


def _no_algorithm(bundle: Json) -> None:
    bundle["dsseEnvelope"]["signatures"] = [{"alg": "none", "sig": ""}]


def _both(bundle: Json) -> None:
    bundle["verificationMaterial"]["certificate"] = {"rawBytes": ""}


def _message(bundle: Json) -> None:
    bundle["messageSignature"] = {"messageDigest": {}, "signature": ""}


def _version(bundle: Json) -> None:
    bundle["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.1"


def _not_base64(bundle: Json) -> None:
    bundle["dsseEnvelope"]["payload"] = "*" + bundle["dsseEnvelope"]["payload"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_payload, "it is not signed by the key"),
        (_signature, "it is not signed by the key"),
        (_empty_signature, "it is not signed by the key"),
        (_type, "'application/json' is not one of application/vnd.in-toto"),
        (_two, "2 items, more than the 1"),
        (_none, "it has no signature"),
        (_no_algorithm, "unknown key"),
        (_both, "expected a certificate or the hint of a key"),
        (_message, "unknown key in 'messageSignature'"),
        (_version, "it is not a Sigstore bundle of version 0.3"),
        (_not_base64, "not base64"),
    ],
)
def test_a_bundle_with_a_change(pair: Pair, cache: Path, change: Callable[[Json], None], said: str) -> None:
    bundle = bundle_of(cache)
    change(bundle)
    assert said in refused(pair, cache, json.dumps(bundle).encode())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "JSON nests too deep"),
        (b" " * (BUNDLE_LIMIT + 1), "more than the 4194304"),
        (b"{" + b'"a":1,' * 3 + b'"b":2}', "twice"),
        (b"[]", "expected an object"),
    ],
)
def test_what_is_no_bundle(pair: Pair, cache: Path, data: bytes, said: str) -> None:
    assert said in refused(pair, cache, data)


def test_a_stranger_with_the_hint_of_the_key(tmp_path: Path, pair: Pair, cache: Path) -> None:
    hint = bundle_of(cache)["verificationMaterial"]
    sign(cache, with_key(key_pair(tmp_path, "stranger").private))
    bundle = bundle_of(cache)
    assert bundle["verificationMaterial"] != hint
    bundle["verificationMaterial"] = hint
    assert "it is not signed by the key" in refused(pair, cache, json.dumps(bundle).encode())


def test_the_bundle_of_another_cache(tmp_path: Path, pair: Pair, cache: Path) -> None:
    other = signed_cache(tmp_path / "other", pair, doc="other")
    assert "is about another cache" in refused(pair, cache, (other / BUNDLE_FILE).read_bytes())


def _swap_digest(statement: Json) -> None:
    """The digest of the index under the name of something else."""
    index, image = statement["subject"]
    index["digest"], image["digest"] = image["digest"], index["digest"]


def _scan(statement: Json) -> None:
    statement["predicateType"] = "https://in-toto.io/attestation/vulns/v0.1"


def _other_builder(statement: Json) -> None:
    statement["predicate"]["buildDefinition"]["buildType"] = "https://actions.github.io/buildtypes/workflow/v1"


def _no_time(statement: Json) -> None:
    del statement["predicate"]["runDetails"]["metadata"]["finishedOn"]


def _twice(statement: Json) -> None:
    statement["subject"].append({"name": "index.json", "digest": {"sha256": "0" * 64}})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_swap_digest, "is about another cache"),
        (_scan, "is not the provenance of a cache"),
        (_other_builder, "is not the provenance of a cache"),
        (_no_time, "missing in 'finishedOn'"),
        (_twice, "two subjects have one name"),
    ],
)
def test_another_statement_of_a_trusted_signer(
    pair: Pair, cache: Path, change: Callable[[Json], None], said: str
) -> None:
    """A signer signs more than that a cache was built: also that it was scanned, or what other programs built."""
    statement = statement_of(cache)
    change(statement)
    assert said in refused(pair, cache, signed_with(pair, json.dumps(statement).encode()))


@pytest.mark.parametrize("payload", [b"", b"null", b"[" * 100_000, b"{}"])
def test_a_signed_payload_that_is_no_statement(pair: Pair, cache: Path, payload: bytes) -> None:
    assert "is not the provenance of a cache" in refused(pair, cache, signed_with(pair, payload))


def test_words_of_a_bundle_move_no_cursor(pair: Pair, cache: Path) -> None:
    bundle = bundle_of(cache)
    bundle["dsseEnvelope"]["payloadType"] = "\x1b[2Jtrusted"
    assert "\x1b" not in refused(pair, cache, json.dumps(bundle).encode())


def test_an_unsigned_cache(tmp_path: Path, pair: Pair) -> None:
    cache = Cache(Built().write(tmp_path / "cache"))
    with pytest.raises(SignatureError, match=r"it is not signed, .* Get it from those whom you trust, or sign it"):
        TrustPolicy.of(keys=[pair.public]).accept(cache.name, cache.digest, [])
