"""Write one variant of a cache as files for C++ and NVIDIA's tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import emit


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache.", metavar="CACHE")],
    key: Annotated[str, typer.Argument(help="The beginning of an artifact's key.", metavar="KEY")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the files.", metavar="DIR")],
    manifest: Annotated[
        list[Path] | None,
        typer.Option(help="The manifest it was built from, where its kernel is not installed; may be repeated."),
    ] = None,
    store: Annotated[Path | None, typer.Option(help="Where built variants are kept.", envvar="PRECAST_STORE")] = None,
    kernel_script: Annotated[
        bool,
        typer.Option(
            "--script",
            help="Also write kernel.py, with kernel_fn, reference_fn and get_inputs; this imports the kernel.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write one variant of a cache as files for C++ and NVIDIA's tools.

    Exit status 1 means that one of them could not be had; the others are written, and it says why.
    """
    from precast.build.disk.output_folder import check_output_folder
    from precast.build.results.export import export
    from precast.build.store.store import Store, default_store
    from precast.build.toolchains.plans import plans_of_files
    from precast.cli.inspect.show import NoSuchArtifact, find
    from precast.loader.resolve.cache import Cache

    check_output_folder(output)
    opened = Cache(cache)
    found = find(opened, key)
    if len(found) > 1:
        keys = ", ".join(artifact.key[:16] for _, artifact in found[:10])
        raise NoSuchArtifact(f"{key!r} stands for {len(found)} artifacts: give the key of one, such as {keys}")
    ((op, artifact),) = found
    plans = plans_of_files(manifest) if manifest else ()
    # Of several toolchains, that of the manifest which the cache has its name from.
    plan = next((one for one in plans if one.name == opened.name), next(iter(plans), None))
    made = export(opened, op, artifact, store=Store(store or default_store()), plan=plan, kernel_script=kernel_script)
    made.write(output)
    for kind, reason in made.left_out.items():
        print(f"not written: {kind}: {reason}", file=sys.stderr)
    data = {"folder": str(output), "files": sorted(made.files), "left_out": dict(made.left_out)}
    emit(data, "\n".join(str(output / name) for name in sorted(made.files)), as_json)
    if made.left_out:
        raise typer.Exit(1)
