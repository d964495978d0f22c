"""A cache that is served in each way that a reference can name, through a server that can be told to misbehave."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from precast.build.cache.contents import CacheContents
from precast.publish.push.folder_push import folder_files
from precast.publish.push.layering import layers_of
from precast.publish.push.push import push_cache
from tests.helpers.web.hub import Hub
from tests.helpers.web.many import QUICK
from tests.helpers.web.registry import in_front_of
from tests.helpers.web.server import Handler, Server, files_of, serving

KINDS = ("image", "hub", "layers", "files")
LARGE = {"image": "/blobs/sha256:", "hub": "layers/", "layers": "layers/", "files": "/blobs/"}
"""What the addresses of blobs, or of the layers they are in, have in common."""


_NUMBERS = count()


@dataclass
class Served:
    """``handler`` is what answers when nothing misbehaves; ``put`` makes a cache what is served."""

    kind: str
    server: Server
    handler: Handler
    place: Path
    hub: Hub
    upstream: str = ""
    repository: str = "kernels/a"

    @property
    def reference(self) -> str:
        if self.kind == "image":
            return f"oci://{self.server.host}/{self.repository}:v1"
        return "hf://acme/kernels@main/h200" if self.kind == "hub" else f"{self.server.url}/caches"

    @property
    def large(self) -> str:
        return LARGE[self.kind]

    def put(self, cache: Path) -> None:
        if self.kind == "image":
            push_cache(cache, f"oci://{self.upstream}/{self.repository}:v1", patience=QUICK)
            return
        contents = CacheContents.open(cache)
        layered = folder_files(layers_of(contents.files()))
        if self.kind == "hub":
            self.hub.commit({f"h200/{name}": data for name, data in layered.items()})
            return
        files = layered if self.kind == "layers" else contents.files()
        shutil.rmtree(self.place / "caches", ignore_errors=True)
        for name, data in files.items():
            path = self.place / "caches" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def misbehave(self, handler: Handler) -> None:
        self.server.handler = handler

    def behave(self) -> None:
        self.server.handler = self.handler
        self.server.requests.clear()


@contextmanager
def serve_as(kind: str, folder: Path, upstream: str = "") -> Iterator[Served]:
    """Serve in one of the ways of ``KINDS``; an image from a real registry, in a repository of its own."""
    hub = Hub()
    if kind == "image":
        with serving(in_front_of(upstream)) as server:
            yield Served(kind, server, server.handler, folder, hub, upstream, f"kernels/t{next(_NUMBERS)}")
        return
    with serving(hub if kind == "hub" else files_of(folder)) as server:
        yield Served(kind, server, server.handler, folder, hub)
