"""Signing caches and wheels: what is signed, where the signature goes, and what drops it."""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from precast.build.cache.merge import merge_caches
from precast.build.cache.up_to_date import tree_digest
from precast.build.errors import WheelError
from precast.build.wheel.wheel import write_wheels
from precast.fetch.trust.bundle import BUNDLE_FILE
from precast.fetch.trust.policy import TrustPolicy
from precast.loader.contract.values import replace
from precast.loader.errors import ConfigError, IntegrityError, SignatureError
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.pins import read_pins
from precast.publish.push.push import push_cache
from precast.publish.signing.sign import keyless, sign, with_key
from precast.publish.signing.signed import add_pin, verify_signature
from tests.helpers.packed_caches import ARM, Built, code_of, damage
from tests.helpers.signatures.signed import Pair, bundle_of, key_pair, signed_cache

ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return key_pair(tmp_path)


@pytest.fixture
def cache(tmp_path: Path, pair: Pair) -> Path:
    return signed_cache(tmp_path / "cache", pair)


def wheel_of(cache: Path, folder: Path) -> Path:
    (wheel,) = write_wheels(cache, folder, version="1.0")
    return wheel


def by(path: Path, pair: Pair) -> str:
    return verify_signature(path, TrustPolicy.of(keys=[pair.public]))[1].by


def statement_of(cache: Path) -> dict[str, Any]:
    return json.loads(base64.b64decode(bundle_of(cache)["dsseEnvelope"]["payload"]))  # type: ignore[no-any-return]


def test_the_provenance_is_what_the_cache_records(tmp_path: Path, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796000000")
    noted = {
        "function": "mine:scale",
        "closed": "namespaces",
        "inputs": {"digest": "ab" * 32, "read": {"file:search/tiles.json": "0" * 16}},
        "facts": {"packages": [{"distribution": "quack-kernels", "version": "0.6.5"}], "variables": {}},
    }
    cache = signed_cache(tmp_path / "cache", pair, change=lambda artifact: replace(artifact, provenance=noted))
    statement, index = statement_of(cache), Cache(cache)
    assert statement["subject"][0] == {"name": "index.json", "digest": {"sha256": index.digest}}
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {
        "name": "demo",
        "ops": {"scale": 2},
        "functions": ["mine:scale"],
        "targets": ["sm_90a"],
    }
    assert definition["internalParameters"] == {
        "toolchain": index.index.toolchain,
        "closed": ["namespaces"],
        "inputs": ["ab" * 32],
    }
    assert [item["uri"] for item in definition["resolvedDependencies"]] == [
        "pkg:pypi/apache-tvm-ffi@0.1.15",
        "pkg:pypi/nvidia-cutlass-dsl@4.8.1",
        "pkg:pypi/quack-kernels@0.6.5",
    ]
    written = datetime.fromtimestamp(1796000000, timezone.utc)
    assert statement["predicate"]["runDetails"]["metadata"] == {"finishedOn": f"{written:%Y-%m-%dT%H:%M:%SZ}"}


def test_provenance_of_any_form_can_be_signed(tmp_path: Path, pair: Pair) -> None:
    odd: dict[str, Any] = {"function": 3, "closed": None, "inputs": [], "facts": {"packages": ["quack", {}]}}
    cache = signed_cache(tmp_path / "cache", pair, change=lambda artifact: replace(artifact, provenance=odd))
    assert by(cache, pair) == f"the key {pair.public}"


def test_the_image_of_a_push_is_signed_before_it_is_pushed(tmp_path: Path, cache: Path, pair: Pair) -> None:
    name = statement_of(cache)["subject"][1]
    assert name["name"] == "demo" and len(name["digest"]["sha256"]) == 64


def test_signing_again_replaces_the_signature(cache: Path, pair: Pair, tmp_path: Path) -> None:
    other = key_pair(tmp_path, "other")
    sign(cache, with_key(other.private))
    assert by(cache, other)
    with pytest.raises(SignatureError, match="it is not signed by the key"):
        by(cache, pair)


def test_a_damaged_cache_is_not_signed(tmp_path: Path, pair: Pair) -> None:
    path = Built().write(tmp_path / "cache")
    damage(path, code_of("float16"))
    with pytest.raises(IntegrityError):
        sign(path, with_key(pair.private))
    assert not (path / BUNDLE_FILE).exists()


def test_a_flipped_byte_is_found_when_it_is_verified(cache: Path, pair: Pair) -> None:
    damage(cache, code_of("float16"))
    with pytest.raises(IntegrityError):
        by(cache, pair)


def _tuned(cache: Path, _: Path) -> Path:
    annotate = pytest.importorskip("precast.measure.annotate")  # of another distribution
    annotate.tune(Cache(cache), [annotate.Measurements({})])
    return cache


def _merged(cache: Path, folder: Path) -> Path:
    merge_caches([cache, Built(dtypes=("float32",)).write(folder / "more")], folder / "merged")
    return folder / "merged"


def _merged_into_itself(cache: Path, folder: Path) -> Path:
    merge_caches([cache, Built(dtypes=("float32",)).write(folder / "more")], cache)
    return cache


@pytest.mark.parametrize("change", [_tuned, _merged, _merged_into_itself])
def test_what_writes_a_cache_drops_its_signature(
    cache: Path, tmp_path: Path, change: Callable[[Path, Path], Path]
) -> None:
    assert not (change(cache, tmp_path) / BUNDLE_FILE).exists()


def test_a_build_with_nothing_to_do_leaves_the_signature(tmp_path: Path, pair: Pair) -> None:
    """It finds the files that it wrote."""
    path = Built().write(tmp_path / "cache")
    before = tree_digest(path)
    sign(path, with_key(pair.private))
    assert before == tree_digest(path)


@pytest.mark.parametrize("content", [None, b"{}"], ids=["of another index", "unreadable"])
def test_a_signature_of_something_else_is_not_shipped(
    cache: Path, tmp_path: Path, pair: Pair, content: bytes | None
) -> None:
    other = signed_cache(tmp_path / "other", pair, doc="other")
    (cache / BUNDLE_FILE).write_bytes((other / BUNDLE_FILE).read_bytes() if content is None else content)
    for ship in (lambda: wheel_of(cache, tmp_path / "dist"), lambda: push_cache(cache, f"file://{tmp_path}/shelf")):
        with pytest.raises(IntegrityError, match="sign the cache again, or remove that file"):
            ship()


def test_a_folder_of_pushed_caches_has_the_last_signature(cache: Path, tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    push_cache(cache, f"file://{shelf}")
    assert (shelf / BUNDLE_FILE).read_bytes() == (cache / BUNDLE_FILE).read_bytes()
    push_cache(Built(doc="unsigned").write(tmp_path / "unsigned"), f"file://{shelf}")
    assert not (shelf / BUNDLE_FILE).exists()


def test_a_wheel_has_the_signature_of_its_cache(cache: Path, tmp_path: Path, pair: Pair) -> None:
    wheel = wheel_of(cache, tmp_path / "dist")
    assert by(wheel, pair) == f"the key {pair.public}"
    with zipfile.ZipFile(wheel) as archive:
        assert f"precast_cache_demo/{BUNDLE_FILE}" in archive.namelist()
        assert (
            f"precast_cache_demo/{BUNDLE_FILE},sha256="
            in archive.read("precast_cache_demo-1.0.dist-info/RECORD").decode()
        )


def test_a_wheel_can_be_signed_itself(tmp_path: Path, pair: Pair) -> None:
    path = Built().write(tmp_path / "cache")
    wheel = wheel_of(path, tmp_path / "dist")
    with pytest.raises(SignatureError, match="it is not signed"):
        by(wheel, pair)
    assert sign(wheel, with_key(pair.private)) == Cache(path).digest
    assert by(wheel, pair)
    sign(wheel, with_key(pair.private))
    assert by(wheel, pair), "again"


def test_the_wheels_of_two_hosts_are_signed_one_by_one(tmp_path: Path, pair: Pair) -> None:
    """Each has an index of its own."""
    both = tmp_path / "both"
    merge_caches([Built().write(tmp_path / "x86"), Built(host=ARM).write(tmp_path / "arm")], both)
    sign(both, with_key(pair.private))
    for wheel in write_wheels(both, tmp_path / "dist", version="1.0"):
        with pytest.raises(SignatureError, match="it is not signed"):
            by(wheel, pair)
        sign(wheel, with_key(pair.private))
        assert by(wheel, pair)


Zip = Callable[[zipfile.ZipFile], None]


def _add(name: str) -> Zip:
    return lambda archive: archive.writestr(name, b"import os; os.system('id')\n")


@pytest.mark.parametrize(
    "change",
    [
        _add("precast_cache_demo.pth"),
        _add("precast_cache_demo/run.py"),
        _add("precast_cache_demo-1.0.data/scripts/precast"),
        _add("../precast_cache_demo/x.py"),
    ],
)
def test_a_wheel_with_more_than_its_cache(cache: Path, tmp_path: Path, pair: Pair, change: Zip) -> None:
    """It is signed, and its cache is intact: but what lies beside the cache would run."""
    wheel = wheel_of(cache, tmp_path / "dist")
    with zipfile.ZipFile(wheel, "a") as archive:
        change(archive)
    with pytest.raises(IntegrityError, match="differs from the wheel that this version of precast makes"):
        by(wheel, pair)


@pytest.mark.parametrize("name", ["METADATA", "RECORD", "entry_points.txt", "__init__.py"])
def test_a_wheel_with_other_metadata(cache: Path, tmp_path: Path, pair: Pair, name: str) -> None:
    wheel = wheel_of(cache, tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        content = {entry: archive.read(entry) for entry in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for entry, data in content.items():
            archive.writestr(entry, data + (b"\nRequires-Dist: evil\n" if entry.endswith(name) else b""))
    with pytest.raises(IntegrityError, match="differs from the wheel"):
        by(wheel, pair)


def test_bytes_between_the_files_of_a_wheel(cache: Path, tmp_path: Path, pair: Pair) -> None:
    """An installer that reads a wheel from its beginning would find other files than one that reads its list."""
    wheel = wheel_of(cache, tmp_path / "dist")
    hidden = tmp_path / "hidden.zip"
    with zipfile.ZipFile(hidden, "w") as archive:
        archive.writestr("precast_cache_demo/run.py", b"")
    wheel.write_bytes(hidden.read_bytes() + wheel.read_bytes())
    with pytest.raises(WheelError, match="has bytes between its files"):
        by(wheel, pair)


def test_a_wheel_that_grows(cache: Path, tmp_path: Path, pair: Pair) -> None:
    wheel = wheel_of(cache, tmp_path / "dist")
    with zipfile.ZipFile(wheel, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("precast_cache_demo/blobs/" + "0" * 64, bytes(8 << 20))
    with pytest.raises(WheelError, match="has more than 200 times its size"):
        by(wheel, pair)


@pytest.mark.parametrize(
    ("name", "said"), [("precast_cache_dome-1.0-py3-none-any.whl", "name it"), ("x.whl", "give the file that")]
)
def test_a_wheel_of_another_name(cache: Path, tmp_path: Path, pair: Pair, name: str, said: str) -> None:
    renamed = wheel_of(cache, tmp_path / "dist").rename(tmp_path / name)
    with pytest.raises((WheelError, IntegrityError)):
        by(renamed, pair)


def test_what_is_no_wheel(tmp_path: Path, pair: Pair) -> None:
    path = tmp_path / "precast_cache_demo-1.0-py3-none-any.whl"
    path.write_bytes(b"PK")
    with pytest.raises(WheelError, match="is not a wheel that can be read"):
        by(path, pair)


@pytest.mark.parametrize("which", ["public", "p384", "none"])
def test_a_key_that_cannot_sign(tmp_path: Path, pair: Pair, which: str) -> None:
    path = {"public": pair.public, "p384": key_pair(tmp_path, "p384", ec.SECP384R1()).private}.get(
        which, tmp_path / "no"
    )
    with pytest.raises(ConfigError):
        with_key(path)


def test_without_an_identity_nothing_is_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sigstore", reason="sigstore is not installed: the extra 'sign'")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    with pytest.raises(SignatureError, match="this job has no identity"):
        sign(Built().write(tmp_path / "cache"), keyless())


def test_pins_are_added_once(tmp_path: Path) -> None:
    pins, first, second = tmp_path / "pins.txt", f"demo={'0' * 64}", f"demo={'1' * 64}"
    assert add_pin(pins, first) and not add_pin(pins, first)
    pins.write_text(f"# of the release\n{first}")
    assert add_pin(pins, second)
    assert pins.read_text() == f"# of the release\n{first}\n{second}\n"
    assert read_pins(str(pins)) == {"demo": frozenset({"0" * 64, "1" * 64})}
