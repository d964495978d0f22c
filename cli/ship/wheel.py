"""Pack a cache as a wheel that pip installs and the loader finds.

Every byte of the cache is checked first. The default version has the UTC time at which the cache was written, or
SOURCE_DATE_EPOCH if that is set, and the digest of its index: pip upgrades to a cache that was built later, and the
same cache gives the same wheel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import checkout, print_message, print_result, size
from precast.cli.shared.progress import waiting
from precast.cli.shared.project import cache_or_project

EXAMPLES = ("precast wheel cache -o dist",)


def command(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the wheel.", metavar="DIST")],
    cache: options.CacheOrProject = None,
    version: Annotated[
        str, typer.Option(help="The wheel's version; by default 0.DATE.TIME+DIGEST of the cache.", metavar="VERSION")
    ] = "",
    host: Annotated[
        str, typer.Option(help="From a cache for several hosts, only the wheel for this one.", metavar="ARCH")
    ] = "",
    as_json: options.Json = False,
) -> None:
    from precast.build.wheel.wheel import write_wheels

    path, first = cache_or_project(cache), not any(output.glob("*.whl"))
    with waiting(f"checking and packing {path}"):
        wheels = write_wheels(path, output, version=version or None, host=host or None)
    sizes = {wheel: wheel.stat().st_size for wheel in wheels}
    data = {"wheels": [{"wheel": str(wheel), "size": number} for wheel, number in sizes.items()]}
    print_result(data, "\n".join(f"{wheel} ({size(number)})" for wheel, number in sizes.items()), as_json)
    if first and not as_json:
        loader = f"{checkout()}/loader" if checkout() else "precast-loader"
        print_message(
            f"next, where the kernels run: pip install {loader} {output}/*.whl && python -m precast.loader doctor"
        )
