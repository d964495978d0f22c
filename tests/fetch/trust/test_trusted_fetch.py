"""Fetching by a policy: what it does not accept is refused before anything of the destination changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from precast.cli import main as cli
from precast.fetch import __main__ as command
from precast.fetch.fetcher import fetch
from precast.fetch.trust.bundle import BUNDLE_FILE
from precast.loader.errors import FetchError, IntegrityError, SignatureError
from precast.loader.resolve.cache import Cache
from precast.publish.push.push import push_cache
from precast.publish.signing.sign import sign, with_key
from tests.helpers.packed_caches import tree
from tests.helpers.signatures.signed import Pair, key_pair, policy_file
from tests.helpers.web.many import many


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return key_pair(tmp_path)


@pytest.fixture
def policy(tmp_path: Path, pair: Pair) -> Path:
    return policy_file(tmp_path / "policy.json", keys=["key.pub"])


@pytest.fixture
def signed(new: Path, pair: Pair) -> Path:
    sign(new, with_key(pair.private))
    return new


@pytest.mark.parametrize("shelf", [False, True])
def test_a_signed_cache_brings_its_signature(
    signed: Path, policy: Path, pair: Pair, tmp_path: Path, shelf: bool
) -> None:
    source = tmp_path / "shelf" if shelf else signed
    if shelf:
        push_cache(signed, f"file://{source}")
    done = fetch(f"file://{source}", tmp_path / "cache", trust=policy)
    assert done.trusted == f"the key {pair.public}" and f"trusted by {done.trusted}" in str(done)
    assert tree(tmp_path / "cache") == tree(signed)


@pytest.mark.parametrize("how", ["unsigned", "by a stranger", "of another cache"])
def test_nothing_changes_where_it_is_refused(signed: Path, policy: Path, old: Path, tmp_path: Path, how: str) -> None:
    before = tree(old)
    if how == "unsigned":
        (signed / BUNDLE_FILE).unlink()
    elif how == "by a stranger":
        sign(signed, with_key(key_pair(tmp_path, "stranger").private))
    else:
        other = many(tmp_path / "other", new=1)
        shutil.copyfile(signed / BUNDLE_FILE, other / BUNDLE_FILE)
        signed = other
    with pytest.raises(SignatureError, match="is not trusted: "):
        fetch(f"file://{signed}", old, trust=policy)
    with pytest.raises(SignatureError, match="is not trusted: "):
        fetch(f"file://{signed}", old, trust=policy, digest=Cache(signed).digest)
    assert tree(old) == before


def test_a_blob_that_was_exchanged_under_a_right_signature(signed: Path, policy: Path, tmp_path: Path) -> None:
    first, second, *_ = sorted((signed / "blobs").iterdir(), key=lambda blob: blob.stat().st_size)
    size = first.stat().st_size
    first.write_bytes(second.read_bytes()[:size])
    with pytest.raises(IntegrityError):
        fetch(f"file://{signed}", tmp_path / "cache", trust=policy)
    assert not (tmp_path / "cache").exists()


def test_without_a_policy_no_signature_is_fetched(signed: Path, tmp_path: Path) -> None:
    done = fetch(f"file://{signed}", tmp_path / "cache")
    assert done.trusted == "" and not (tmp_path / "cache" / BUNDLE_FILE).exists()


def test_what_is_there_and_signed_needs_no_network(signed: Path, policy: Path, tmp_path: Path, pair: Pair) -> None:
    digest = Cache(signed).digest
    fetch(f"file://{signed}", tmp_path / "cache", trust=policy, digest=digest)
    again = fetch("file:///nowhere", tmp_path / "cache", trust=policy, digest=digest)
    assert not again.changed and again.trusted == f"the key {pair.public}"
    (tmp_path / "cache" / BUNDLE_FILE).unlink()
    with pytest.raises(FetchError, match="file:///nowhere is not a folder"):
        fetch("file:///nowhere", tmp_path / "cache", trust=policy, digest=digest)


def test_a_pinned_cache_needs_no_signature(new: Path, tmp_path: Path) -> None:
    pins = policy_file(tmp_path / "policy.json", pins=[f"many={Cache(new).digest}"])
    assert fetch(f"file://{new}", tmp_path / "cache", trust=pins).trusted == "a pin"


@pytest.mark.parametrize("builder", [False, True])
def test_both_commands_have_the_policy(
    new: Path, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], builder: bool
) -> None:
    words = [f"file://{new}", "-o", str(tmp_path / "cache"), "--trust", str(policy)]
    if builder:
        with pytest.raises(SystemExit) as ended:
            cli.run(["fetch", *words])
        status = ended.value.code
    else:
        status = command.main(words)
    assert status == 1 and "is not trusted: it is not signed" in capsys.readouterr().err.replace("\n", " ")
    sign(new, with_key(tmp_path / "key.pem"))
    if not builder:
        assert command.main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["trusted"].startswith("the key ")
