"""Signatures in a registry: beside the image, where Sigstore's programs look for them.

cosign itself was not available; the names and types are those of its specification. The real registry of these tests
has no list of referrers, so the tag in its place is tested there, and the list through a server in front of it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from precast.build.cache.merge import merge_caches
from precast.fetch.distribution.image import INDEX_TYPE, MANIFEST_TYPE
from precast.fetch.fetcher import fetch
from precast.fetch.trust.bundle import BUNDLE_FILE, BUNDLE_TYPE
from precast.loader.errors import FetchError, SignatureError
from precast.publish.push.push import push_cache
from precast.publish.signing.sign import sign, with_key
from tests.helpers.packed_caches import ARM, Built, tree
from tests.helpers.signatures.signed import Pair, key_pair, policy_file, signed_cache
from tests.helpers.web.many import QUICK
from tests.helpers.web.registry import in_front_of, registry
from tests.helpers.web.server import Request, Response, Server, serving


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture
def front(upstream: str) -> Iterator[Server]:
    with serving(in_front_of(upstream)) as server:
        yield server


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return key_pair(tmp_path)


@pytest.fixture
def policy(tmp_path: Path, pair: Pair) -> Path:
    return policy_file(tmp_path / "policy.json", keys=["key.pub"])


def manifest(server: Server, name: str, version: str) -> dict[str, Any]:
    accept = {"accept": f"{INDEX_TYPE}, {MANIFEST_TYPE}"}
    return json.loads(server.handler(Request("GET", f"/v2/{name}/manifests/{version}", accept)).body)  # type: ignore[no-any-return]


def test_a_signature_refers_to_its_image(front: Server, tmp_path: Path, pair: Pair, policy: Path) -> None:
    cache = signed_cache(tmp_path / "cache", pair)
    pushed = push_cache(cache, f"oci://{front.host}/kernels/signed:v1", patience=QUICK)
    image = pushed.reference.partition("@")[2]
    (listed,) = manifest(front, "kernels/signed", image.replace(":", "-"))["manifests"]
    assert listed["artifactType"] == BUNDLE_TYPE
    referrer = manifest(front, "kernels/signed", listed["digest"])
    assert referrer["subject"]["digest"] == image and referrer["artifactType"] == BUNDLE_TYPE
    bundle = json.loads((cache / BUNDLE_FILE).read_bytes())
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    signed = [f"sha256:{subject['digest']['sha256']}" for subject in statement["subject"]]
    assert image in signed, "who verifies the image finds it in the statement"
    done = fetch(f"oci://{front.host}/kernels/signed:v1", tmp_path / "fetched", trust=policy, patience=QUICK)
    assert done.trusted and tree(tmp_path / "fetched") == tree(cache)


def test_pushing_again_lists_a_signature_once(front: Server, tmp_path: Path, pair: Pair, policy: Path) -> None:
    cache, reference = signed_cache(tmp_path / "cache", pair), f"oci://{front.host}/kernels/twice:v1"
    image = push_cache(cache, reference, patience=QUICK).reference.partition("@")[2]
    push_cache(cache, reference, patience=QUICK)
    tag = image.replace(":", "-")
    assert len(manifest(front, "kernels/twice", tag)["manifests"]) == 1
    sign(cache, with_key(key_pair(tmp_path, "other").private))
    push_cache(cache, reference, patience=QUICK)
    assert len(manifest(front, "kernels/twice", tag)["manifests"]) == 2
    assert fetch(reference, tmp_path / "fetched", trust=policy, patience=QUICK).trusted, "the first one still counts"


def test_an_image_for_two_hosts_has_one_signature(front: Server, tmp_path: Path, pair: Pair, policy: Path) -> None:
    both, reference = tmp_path / "both", f"oci://{front.host}/kernels/both:v1"
    merge_caches([Built().write(tmp_path / "x86"), Built(host=ARM).write(tmp_path / "arm")], both)
    sign(both, with_key(pair.private))
    push_cache(both, reference, patience=QUICK)
    assert fetch(reference, tmp_path / "fetched", trust=policy, patience=QUICK).trusted
    assert tree(tmp_path / "fetched") == tree(both)


def test_an_unsigned_image_is_refused(front: Server, tmp_path: Path, policy: Path) -> None:
    reference = f"oci://{front.host}/kernels/unsigned:v1"
    push_cache(Built().write(tmp_path / "cache"), reference, patience=QUICK)
    with pytest.raises(SignatureError, match="it is not signed"):
        fetch(reference, tmp_path / "fetched", trust=policy, patience=QUICK)
    assert not (tmp_path / "fetched").exists()


def test_a_registry_that_keeps_the_list(front: Server, tmp_path: Path, pair: Pair, policy: Path) -> None:
    passing, kept = front.handler, list[bytes]()

    def listing(request: Request) -> Response:
        if "/referrers/" in request.path:
            manifests = [
                {"mediaType": MANIFEST_TYPE, "digest": "sha256:" + "0" * 64, "size": 2, "artifactType": "text/plain"},
                *map(json.loads, kept),
            ]
            index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests}
            return Response(200, {"Content-Type": INDEX_TYPE}, json.dumps(index).encode())
        response = passing(request)
        if request.method == "PUT" and b'"subject"' in request.body:
            digest = response.headers["Docker-Content-Digest"]
            one = {"mediaType": MANIFEST_TYPE, "digest": digest, "size": len(request.body), "artifactType": BUNDLE_TYPE}
            kept.append(json.dumps(one).encode())
            subject = json.loads(request.body)["subject"]["digest"]
            return response.changed(headers={**response.headers, "OCI-Subject": subject})
        return response

    front.handler = listing
    cache, reference = signed_cache(tmp_path / "cache", pair), f"oci://{front.host}/kernels/listed:v1"
    push_cache(cache, reference, patience=QUICK)
    assert not any("/manifests/sha256-" in request.path for request in front.requests), "no tag in place of the list"
    assert fetch(reference, tmp_path / "fetched", trust=policy, patience=QUICK).trusted


@pytest.mark.parametrize("status", [400, 404, 405])
def test_registries_say_differently_that_they_have_no_list(
    front: Server, tmp_path: Path, pair: Pair, policy: Path, status: int
) -> None:
    passing = front.handler
    front.handler = lambda request: Response(status) if "/referrers/" in request.path else passing(request)
    reference = f"oci://{front.host}/kernels/answers:v1"
    push_cache(signed_cache(tmp_path / "cache", pair), reference, patience=QUICK)
    assert fetch(reference, tmp_path / "fetched", trust=policy, patience=QUICK).trusted


def test_a_list_that_is_none(front: Server, tmp_path: Path, pair: Pair, policy: Path) -> None:
    reference = f"oci://{front.host}/kernels/broken:v1"
    push_cache(signed_cache(tmp_path / "cache", pair), reference, patience=QUICK)
    passing = front.handler
    front.handler = lambda request: Response(200, {}, b"<html>") if "/referrers/" in request.path else passing(request)
    with pytest.raises(FetchError, match="its signatures: not JSON"):
        fetch(reference, tmp_path / "fetched", trust=policy, patience=QUICK)
