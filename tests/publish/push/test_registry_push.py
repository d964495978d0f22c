"""Pushing to a real registry: what is sent, what is not sent again, and what other programs make of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from precast.build.cache.merge import merge_caches
from precast.fetch.distribution.image import INDEX_TYPE, MANIFEST_TYPE, Descriptor, encode_manifest
from precast.fetch.fetcher import fetch
from precast.loader.contract.format.index import digest
from precast.loader.errors import ConfigError, FetchError, IntegrityError
from precast.loader.resolve.cache import Cache
from precast.publish.push.push import push_cache
from tests.helpers.packed_caches import ARM, Built, tree
from tests.helpers.web.many import QUICK, many
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
def tmp_path() -> Iterator[Path]:
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        yield Path(folder)


def test_the_same_again_sends_nothing(front: Server, tmp_path: Path) -> None:
    cache = many(tmp_path / "cache")
    first = push_cache(cache, f"oci://{front.host}/kernels/again:v1", patience=QUICK)
    front.requests.clear()
    again = push_cache(cache, f"oci://{front.host}/kernels/again:v1", patience=QUICK)
    assert again.reference == first.reference and again.digest == first.digest == Cache(cache).digest
    assert (again.sent, again.kept) == (0, first.sent)
    assert [r.method for r in front.requests if "/uploads/" in r.path] == []
    assert first.reference.startswith(f"oci://{front.host}/kernels/again:v1@sha256:")


def test_another_machine_makes_the_same_image(front: Server, tmp_path: Path) -> None:
    one = push_cache(many(tmp_path / "one"), f"oci://{front.host}/kernels/one:v1", patience=QUICK)
    shutil.copytree(tmp_path / "one", tmp_path / "deeper" / "two")
    two = push_cache(tmp_path / "deeper" / "two", f"oci://{front.host}/kernels/two:v1", patience=QUICK)
    assert one.reference.partition("@")[2] == two.reference.partition("@")[2]


def test_a_layer_is_mounted_from_another_repository(front: Server, tmp_path: Path) -> None:
    cache = many(tmp_path / "cache")
    first = push_cache(cache, f"oci://{front.host}/kernels/there:v1", patience=QUICK)
    front.requests.clear()
    done = push_cache(cache, f"oci://{front.host}/kernels/here:v1", mount="kernels/there", patience=QUICK)
    assert (done.sent, done.kept) == (0, first.sent)
    assert not any(request.method == "PUT" and "/uploads/" in request.path for request in front.requests)
    fetch(f"oci://{front.host}/kernels/here:v1", tmp_path / "fetched", patience=QUICK)
    assert tree(tmp_path / "fetched") == tree(cache)


def test_a_push_that_is_interrupted_is_tried_again(front: Server, tmp_path: Path) -> None:
    cache, passing, refused = many(tmp_path / "cache"), front.handler, [4]

    def fragile(request: Request) -> Response:
        if request.method in ("PUT", "POST") and refused[0]:
            refused[0] -= 1
            return Response(502 if refused[0] % 2 else 500, {"Retry-After": "0"}, b"passing")
        return passing(request)

    front.handler = fragile
    push_cache(cache, f"oci://{front.host}/kernels/fragile:v1", patience=QUICK)
    assert refused == [0]
    fetch(f"oci://{front.host}/kernels/fragile:v1", tmp_path / "fetched", patience=QUICK)
    assert tree(tmp_path / "fetched") == tree(cache)


def test_another_server_to_upload_to_gets_no_login(
    upstream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registries may name one in the answer that begins an upload."""
    basic = "Basic Y2k6c2VjcmV0"
    passing = in_front_of(upstream)
    with serving(passing) as other:

        def handle(request: Request) -> Response:
            if request.headers.get("authorization") != basic:
                return Response(401, {"WWW-Authenticate": 'Basic realm="x"'})
            response = passing(request)
            place = response.headers.get("Location", "")
            if request.method == "POST" and place:
                return response.changed(headers={**response.headers, "Location": other.url + place})
            return response

        with serving(handle) as server:
            monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
            auths = {"auths": {server.host: {"auth": basic.partition(" ")[2]}}}
            (tmp_path / "config.json").write_text(json.dumps(auths))
            done = push_cache(many(tmp_path / "cache"), f"oci://{server.host}/kernels/elsewhere:v1", patience=QUICK)
    assert done.sent > 0
    assert {request.method for request in other.requests} == {"PUT"}
    assert not any("authorization" in request.headers for request in other.requests)


def test_a_tag_is_moved_when_all_else_is_there(front: Server, tmp_path: Path) -> None:
    passing = front.handler
    reference = f"oci://{front.host}/kernels/moved:v1"
    push_cache(many(tmp_path / "old"), reference, patience=QUICK)

    def refusing(request: Request) -> Response:
        last = request.method == "PUT" and "/manifests/" in request.path
        return Response(403, body=b'{"errors":[{"code":"DENIED","message":"read only"}]}') if last else passing(request)

    front.handler = refusing
    with pytest.raises(FetchError, match=r"does not let this user push a manifest to it \(403 DENIED: read only"):
        push_cache(many(tmp_path / "new", new=3), reference, patience=QUICK)
    front.handler = passing
    fetch(reference, tmp_path / "fetched", patience=QUICK)
    assert tree(tmp_path / "fetched") == tree(tmp_path / "old")


def test_a_cache_for_two_hosts_is_an_image_for_each(front: Server, tmp_path: Path) -> None:
    merged = tmp_path / "merged"
    merge_caches([Built().write(tmp_path / "x86"), Built(host=ARM).write(tmp_path / "arm")], merged, threads=1)
    pushed = push_cache(merged, f"oci://{front.host}/kernels/both:v1", patience=QUICK)
    top = front.handler(Request("GET", "/v2/kernels/both/manifests/v1", {"accept": INDEX_TYPE}))
    index = json.loads(top.body)
    assert [one["platform"]["architecture"] for one in index["manifests"]] == ["arm64", "amd64"]
    assert pushed.reference.endswith(digest(top.body))
    images = [
        json.loads(
            front.handler(Request("GET", f"/v2/kernels/both/manifests/{one['digest']}", {"accept": MANIFEST_TYPE})).body
        )
        for one in index["manifests"]
    ]
    assert images[0]["layers"] == images[1]["layers"], "the layers are there once"
    fetch(f"oci://{front.host}/kernels/both:v1", tmp_path / "fetched", digest=pushed.digest, patience=QUICK)
    assert tree(tmp_path / "fetched") == tree(merged)


def test_device_code_alone_is_for_every_host(front: Server, tmp_path: Path) -> None:
    cache = Built(kind="cubin").write(tmp_path / "cache")
    push_cache(cache, f"oci://{front.host}/kernels/cubins:v1", patience=QUICK)
    fetch(f"oci://{front.host}/kernels/cubins:v1", tmp_path / "fetched", patience=QUICK)
    assert tree(tmp_path / "fetched") == tree(cache)


def test_a_damaged_cache_is_not_pushed(front: Server, tmp_path: Path) -> None:
    cache = many(tmp_path / "cache")
    blob = max((cache / "blobs").iterdir())
    blob.write_bytes(b"x" * len(blob.read_bytes()))
    with pytest.raises(IntegrityError, match="damaged"):
        push_cache(cache, f"oci://{front.host}/kernels/damaged:v1", patience=QUICK)
    assert front.requests == []


def test_a_digest_cannot_be_pushed_to(front: Server, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a push computes the digest: push to a :TAG"):
        push_cache(many(tmp_path / "cache"), f"oci://{front.host}/kernels/a@sha256:{'0' * 64}", patience=QUICK)


def test_an_image_of_something_else_is_refused(front: Server, tmp_path: Path) -> None:
    """A container image, say: its config has no table of layers."""
    push_cache(many(tmp_path / "cache"), f"oci://{front.host}/kernels/image:v1", patience=QUICK)
    config = b'{"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}'
    begun = front.handler(Request("POST", "/v2/kernels/image/blobs/uploads/", {}))
    place = f"{begun.headers['Location']}&digest=sha256:{digest(config)}"
    front.handler(Request("PUT", place, {"content-type": "application/octet-stream"}, config))
    described = Descriptor(kind="application/vnd.oci.image.config.v1+json", sha256=digest(config), size=len(config))
    manifest = encode_manifest(described, [], {})
    path = "/v2/kernels/image/manifests/other"
    assert front.handler(Request("PUT", path, {"content-type": MANIFEST_TYPE}, manifest)).status == 201
    with pytest.raises(FetchError, match="is not an image of a cache, without a table of layers: push caches with"):
        fetch(f"oci://{front.host}/kernels/image:other", tmp_path / "fetched", patience=QUICK)


@pytest.mark.skipif(
    not (shutil.which("skopeo") and shutil.which("umoci")), reason="skopeo and umoci are not installed: other readers"
)
def test_other_programs_unpack_the_same_cache(upstream: str, tmp_path: Path) -> None:
    """As a container runtime does: so the image can be mounted, or copied from."""
    cache = many(tmp_path / "cache")
    push_cache(cache, f"oci://{upstream}/kernels/unpacked:v1", patience=QUICK)
    layout = f"oci:{tmp_path / 'layout'}:v1"
    source = f"docker://{upstream}/kernels/unpacked:v1"
    policy = ["--insecure-policy", "copy", "--src-tls-verify=false"]
    subprocess.run(["skopeo", *policy, source, layout], check=True, capture_output=True)
    unpack = ["umoci", "raw", "unpack", "--rootless", "--image", f"{tmp_path / 'layout'}:v1", str(tmp_path / "root")]
    subprocess.run(unpack, check=True, capture_output=True)
    assert tree(tmp_path / "root") == tree(cache)
    assert all(Cache(tmp_path / "root").op("first").artifacts)
