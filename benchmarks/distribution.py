"""How a cache should lie in a registry: requests, bytes and seconds of a fetch, for three ways to cut it into layers.

A real registry answers, behind a proxy that waits before each answer, as a network does. For each way: a first fetch,
and a fetch of a cache in which some blobs are new.

    PYTHONPATH=. python benchmarks/distribution.py [--blobs 1000] [--new 10] [--delay 0.02]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from precast.build.cache.contents import CacheContents
from precast.build.push.layering import layer_of, layers_of
from precast.build.push.registry_push import RegistryPush
from precast.loader.contract.distribution.layers import Layer
from precast.loader.contract.distribution.reference import ImageReference
from precast.loader.fetch.fetcher import fetch
from precast.loader.transport.patience import PATIENCE
from precast.loader.transport.registry import Registry
from precast.loader.transport.web import Web
from tests.helpers.web.many import many
from tests.helpers.web.registry import in_front_of, registry
from tests.helpers.web.server import Request, Response, serving

Layers = Sequence[tuple[Layer, bytes]]


def one_layer(files: dict[str, bytes]) -> Layers:
    """Everything in one."""
    return [layer_of(files, files)]


def layer_for_each(files: dict[str, bytes]) -> Layers:
    """A layer for each file."""
    return [layer_of([name], files) for name in sorted(files)]


WAYS: dict[str, Callable[[dict[str, bytes]], Layers]] = {
    "a layer for each blob": layer_for_each,
    "one layer": one_layer,
    "as precast push": layers_of,
}


def main() -> None:
    """Measure, and print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blobs", type=int, default=1000)
    parser.add_argument("--new", type=int, default=10)
    parser.add_argument("--delay", type=float, default=0.02)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, registry(Path(folder, "registry")) as host:
        old = many(Path(folder, "old"), blobs=options.blobs, largest=10_000)
        new = many(Path(folder, "new"), blobs=options.blobs, largest=10_000, new=options.new)
        passing = in_front_of(host)

        def slow(request: Request) -> Response:
            time.sleep(options.delay)
            return passing(request)

        for number, (name, cut) in enumerate(WAYS.items()):
            for tag, cache in (("old", old), ("new", new)):
                reference = ImageReference(host=host, name=f"kernels/w{number}", tag=tag)
                with Web(PATIENCE) as web:
                    push = RegistryPush(web, Registry(web, reference, lambda host: None))
                    push.image(cut(CacheContents.open(cache).files()), ["x86_64"], {})
            row: dict[str, object] = {"layers": name, "sent again for the new cache": push.sent}
            with serving(slow) as server:
                for tag in ("old", "new"):
                    server.requests.clear()
                    begun = time.perf_counter()
                    done = fetch(f"oci://{server.host}/kernels/w{number}:{tag}", Path(folder, f"cache{number}"))
                    seconds = round(time.perf_counter() - begun, 2)
                    row[tag] = {"requests": len(server.requests), "bytes": done.received, "seconds": seconds}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
