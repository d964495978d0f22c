"""Write one variant of a cache as files for C++ and NVIDIA's tools.

Exit status 1 means that some of the files could not be made; the others are written, and the reason is printed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.artifacts import NoSuchArtifact, artifacts_named
from precast.cli.shared.output import print_message, print_result
from precast.cli.shared.project import store_folder

EXAMPLES = ("precast export cache 3f2a91c0 -o files",)


def command(
    cache: options.Cache,
    key: Annotated[str, typer.Argument(help="The beginning of an artifact's key.", metavar="KEY")],
    output: options.OutputFolder,
    manifest: Annotated[
        list[Path] | None,
        typer.Option(
            help="Its manifest, which is needed if the kernel is not installed; may be repeated.", metavar="MANIFEST"
        ),
    ] = None,
    store: options.Store = None,
    kernel_script: Annotated[
        bool,
        typer.Option(
            "--script",
            help="Also write kernel.py, with kernel_fn, reference_fn and get_inputs; this imports the kernel.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    from precast.build.disk.output_folder import check_output_folder
    from precast.build.plan.planner import plan_of_files
    from precast.build.store.store import Store
    from precast.loader.resolve.cache import Cache
    from precast.measure.exporting.export import export

    check_output_folder(output)
    opened = Cache(cache)
    selected = artifacts_named(opened, key)
    if len(selected) > 1:
        keys = ", ".join(artifact.key[:16] for _, artifact in selected[:10])
        raise NoSuchArtifact(f"{key!r} has {len(selected)} artifacts: give the key of one, such as {keys}")
    ((op, artifact),) = selected
    plan = plan_of_files(manifest) if manifest else None
    exported = export(opened, op, artifact, store=Store(store_folder(store)), plan=plan, kernel_script=kernel_script)
    exported.write(output)
    for kind, reason in exported.left_out.items():
        print_message(f"not written: {kind}: {reason}")
    data = {"folder": str(output), "files": sorted(exported.files), "left_out": dict(exported.left_out)}
    print_result(data, "\n".join(str(output / name) for name in sorted(exported.files)), as_json)
    if exported.left_out:
        raise typer.Exit(1)
