"""Fetch a cache from a registry, a model hub or a folder, check every byte, and put it into place as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import emit


def command(
    reference: Annotated[
        str,
        typer.Argument(
            help="oci://HOST/NAME:TAG, oci://HOST/NAME@sha256:DIGEST, hf://OWNER/NAME@REVISION, https://HOST/FOLDER or"
            " file:///FOLDER.",
            metavar="REFERENCE",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the cache.", metavar="CACHE")],
    digest: Annotated[
        str, typer.Option(help="The digest that index.json must have, as 'precast push' prints it.", metavar="SHA256")
    ] = "",
    reuse: Annotated[
        list[Path],
        typer.Option(help="Another cache on this disk, whose blobs are not fetched again.", metavar="CACHE"),
    ] = [],  # noqa: B006 - typer reads it, nothing changes it
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Transfers at once.", metavar="N", min=1, max=64)] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Fetch a cache from a registry, a model hub or a folder, check every byte, and put it into place as a whole.

    'python -m precast.loader.fetch' is the same where only the loader is installed. An interrupted fetch goes on where
    it stopped. The cache that was at the place stays until the new one is whole, and what it has is not fetched again.
    """
    from precast.loader.fetch.fetcher import fetch
    from precast.loader.fetch.progress import Progress

    with Progress() as progress:
        done = fetch(reference, output, digest=digest, reuse=reuse, threads=jobs, progress=progress)
    emit(done.to_json(), str(done), as_json)
