"""Push a cache to a registry, a model hub or a folder, from where 'precast fetch' gets it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import count, emit, size


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of a cache.", metavar="CACHE")],
    reference: Annotated[
        str,
        typer.Argument(
            help="oci://HOST/NAME:TAG, hf://OWNER/NAME@BRANCH or file:///FOLDER.",
            metavar="REFERENCE",
        ),
    ],
    mount: Annotated[
        str, typer.Option(help="Another repository of the registry, which may have some layers.", metavar="NAME")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Push a cache to a registry, a model hub or a folder, from where 'precast fetch' gets it.

    Every byte of the cache is checked first. What is there already is not sent again. The reference and the pin that
    are printed name exactly what was pushed, whatever is pushed there later.
    """
    from precast.build.push.push import push_cache
    from precast.loader.transport.progress import Progress

    with Progress() as progress:
        done = push_cache(cache, reference, mount=mount, progress=progress)
    moved = f"{size(done.sent)} sent, {size(done.kept)} there already"
    emit(
        done.to_json(),
        f"{done.reference}: {count(done.layers, 'layer')}, {moved}\nPRECAST_PIN={done.name}={done.digest}",
        as_json,
    )
