"""Upload a cache to a registry, a model hub or a folder, from which 'precast fetch' downloads it.

Every byte of the cache is checked first. Layers that are there already are not sent again. The printed reference
and pin name exactly these bytes, whatever is pushed under the same tag later.
"""

from __future__ import annotations

from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_result, size

EXAMPLES = (
    "precast push cache oci://registry.example.com/kernels/llama:v3",
    "precast push cache hf://acme/kernels@main",
)


def command(
    cache: options.Cache,
    reference: Annotated[
        str,
        typer.Argument(help="oci://HOST/NAME:TAG, hf://OWNER/NAME@BRANCH or file:///FOLDER.", metavar="REFERENCE"),
    ],
    mount: Annotated[
        str, typer.Option(help="Another repository of the registry that may have some layers.", metavar="NAME")
    ] = "",
    as_json: options.Json = False,
) -> None:
    from precast.fetch.transport.progress import Progress
    from precast.publish.push.push import push_cache

    with Progress() as progress:
        done = push_cache(cache, reference, mount=mount, progress=progress)
    sizes = f"{size(done.sent)} sent, {size(done.kept)} there already"
    text = f"{done.reference}: {count(done.layers, 'layer')}, {sizes}\nPRECAST_PIN={done.name}={done.digest}"
    print_result(done.to_json(), text, as_json)
