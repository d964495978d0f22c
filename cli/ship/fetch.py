"""Download a cache from a registry, a model hub or a folder, and check every byte.

'python -m precast.loader.fetch' does the same where only the loader is installed. An interrupted download continues
where it stopped. An existing cache in CACHE is replaced when the new one is complete, and its blobs are reused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import print_result

EXAMPLES = (
    "precast fetch oci://registry.example.com/kernels/llama:v3 -o cache",
    "precast fetch hf://acme/kernels@v1.0/h200 -o cache",
)


def command(
    reference: Annotated[
        str,
        typer.Argument(
            help="oci://HOST/NAME:TAG, oci://HOST/NAME@sha256:DIGEST, hf://OWNER/NAME@REVISION, https://HOST/FOLDER or"
            " file:///FOLDER.",
            metavar="REFERENCE",
        ),
    ],
    output: options.OutputCache,
    digest: Annotated[
        str, typer.Option(help="The required digest of index.json, as 'precast push' prints it.", metavar="SHA256")
    ] = "",
    reuse: Annotated[
        list[Path] | None,
        typer.Option(help="A local cache to copy equal blobs from; may be repeated.", metavar="CACHE"),
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option(
            help="A file with the pins, keys and identities of which one must vouch for the cache.", metavar="POLICY"
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="The number of parallel transfers.", metavar="N", min=1, max=64)
    ] = 8,
    as_json: options.Json = False,
) -> None:
    from precast.fetch import fetch
    from precast.fetch.transport.progress import Progress

    with Progress() as progress:
        done = fetch(reference, output, digest=digest, reuse=reuse or (), trust=trust, threads=jobs, progress=progress)
    print_result(done.to_json(), str(done), as_json)
