"""Policies: what their files may say, and whom they accept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from precast.fetch.trust.bundle import BUNDLE_FILE
from precast.fetch.trust.policy import TrustPolicy
from precast.loader.errors import ConfigError, SignatureError
from precast.loader.resolve.cache import Cache
from precast.publish.signing.sign import sign, with_key
from tests.helpers.packed_caches import Built
from tests.helpers.signatures.signed import Pair, key_pair, policy_file, signed_cache


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return key_pair(tmp_path)


def accept(policy: TrustPolicy, path: Path) -> str:
    cache = Cache(path)
    bundle = path / BUNDLE_FILE
    return policy.accept(cache.name, cache.digest, [bundle.read_bytes()] if bundle.exists() else []).by


def test_a_key_by_its_file_beside_the_policy(tmp_path: Path, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = TrustPolicy.read(policy_file(tmp_path / "policy.json", keys=["key.pub"]))
    assert accept(policy, signed_cache(tmp_path / "cache", pair)) == f"the key {pair.public}"


def test_any_of_several_signers_is_enough(tmp_path: Path, pair: Pair) -> None:
    other = key_pair(tmp_path, "other")
    policy = TrustPolicy.of(keys=[other.public, pair.public])
    assert accept(policy, signed_cache(tmp_path / "cache", pair)) == f"the key {pair.public}"


def test_a_pin_needs_no_signature_and_no_cryptography(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "precast.fetch.trust.ecdsa", None)
    cache = Cache(Built().write(tmp_path / "cache"))
    policy = TrustPolicy.read(policy_file(tmp_path / "policy.json", pins=[f"demo={cache.digest}"]))
    assert accept(policy, cache.path) == "a pin"
    with pytest.raises(SignatureError, match="it is not signed, and no pin of the policy names it"):
        accept(policy, Built(doc="another").write(tmp_path / "other"))
    with pytest.raises(SignatureError, match=r"cryptography is not installed: pip install 'precast-loader\[trust\]'"):
        TrustPolicy.of(keys=[key_pair(tmp_path).public])


def test_an_older_cache_is_refused_by_its_time(tmp_path: Path, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its signature stays valid: a policy, or a pin, says that it is too old."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1793500000")  # 2026-11-01
    old = signed_cache(tmp_path / "old", pair)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796000000")  # 2026-11-30
    new = signed_cache(tmp_path / "new", pair, doc="new")
    policy = TrustPolicy.read(policy_file(tmp_path / "policy.json", keys=["key.pub"], since="2026-11-15T00:00:00Z"))
    assert accept(policy, new)
    with pytest.raises(SignatureError, match=r"it is of 2026-11-01T\d\d:\d\d:\d\dZ, before 2026-11-15T00:00:00Z"):
        accept(policy, old)
    assert accept(TrustPolicy.of(keys=[pair.public]), old), "by the key alone, an old cache is as good as a new one"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "the policy trusts no one"),
        ({"pins": [], "keys": []}, "the policy trusts no one"),
        ({"kyes": ["key.pub"]}, "unknown key in 'kyes'"),
        ({"version": 2, "keys": ["key.pub"]}, "format version 2"),
        ({"format": "precast-cache", "keys": ["key.pub"]}, "is not 'precast-trust'"),
        ({"keys": "key.pub"}, "expected a list, got str in 'keys'"),
        ({"keys": ["none.pub"]}, "none.pub cannot be read"),
        ({"keys": ["key.pem"]}, "key.pem is not a public key of ECDSA on P-256"),
        ({"keys": ["p384.pub"]}, "p384.pub is not a public key of ECDSA on P-256"),
        ({"keys": ["key.pub"], "since": "2026-11-15"}, "'2026-11-15' is not a time such as"),
        ({"pins": ["demo=1234"]}, "is not a pin"),
        ({"identities": [{"identity": "ci@acme.example"}]}, r"missing in 'identities\[0\].issuer'"),
        ({"identities": ["ci@acme.example"]}, "expected an object, got str"),
        ({"keys": ["key.pub"], "note": "x" * (1 << 20)}, "more than 1048576 bytes"),
    ],
)
def test_a_policy_that_is_wrong(tmp_path: Path, pair: Pair, fields: dict[str, Any], said: str) -> None:
    key_pair(tmp_path, "p384", ec.SECP384R1())
    with pytest.raises(ConfigError, match=said):
        TrustPolicy.read(policy_file(tmp_path / "policy.json", **fields))


def test_a_key_twice_in_a_policy_is_no_choice_of_readers(tmp_path: Path, pair: Pair) -> None:
    text = '{"format": "precast-trust", "version": 1, "keys": ["key.pub"], "keys": []}'
    (tmp_path / "policy.json").write_text(text)
    with pytest.raises(ConfigError, match="the key occurs twice in 'keys'"):
        TrustPolicy.read(tmp_path / "policy.json")


def test_a_policy_in_a_config_map_is_a_link(tmp_path: Path, pair: Pair) -> None:
    policy_file(tmp_path / "..data" / "policy.json", keys=["key.pub"])
    (tmp_path / "..data" / "key.pub").write_bytes(pair.public.read_bytes())
    (tmp_path / "mounted").mkdir()
    for name in ("policy.json", "key.pub"):
        (tmp_path / "mounted" / name).symlink_to(Path("..", "..data", name))
    assert TrustPolicy.read(tmp_path / "mounted" / "policy.json").signers


def test_the_first_of_many_bundles_are_tried(tmp_path: Path, pair: Pair) -> None:
    cache = signed_cache(tmp_path / "cache", pair)
    bundle = (cache / BUNDLE_FILE).read_bytes()
    sign(cache, with_key(key_pair(tmp_path, "stranger").private))
    stranger = (cache / BUNDLE_FILE).read_bytes()
    policy, opened = TrustPolicy.of(keys=[pair.public]), Cache(cache)
    assert policy.accept("demo", opened.digest, [stranger, b"{}", bundle]).bundle == bundle
    with pytest.raises(SignatureError):
        policy.accept("demo", opened.digest, [*[stranger] * 16, bundle])
