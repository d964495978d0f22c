"""Write a manifest of the kernels in caches that libraries keep on disk.

Keys are read from the names of files, and the objects are never used: 'precast build' compiles the keys. A name that
is a digest is compared with the keys of --candidates. Exit status 1 means that no key was recovered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.build.disk.scratch import write_output
from precast.build.plan.recordings.recorded_manifest import manifest_of
from precast.cli.shared.output import count, print_message
from precast.cli.shared.own_target import own_target
from precast.cli.shared.values import check_output_file
from precast.loader.attach import SHIPPED, library_named
from precast.loader.contract.format.patterns import CACHE_NAME
from precast.loader.contract.format.target import Target
from precast.loader.errors import ConfigError

if TYPE_CHECKING:
    from precast.build.harvest.harvest import Harvest

_KINDS = {
    "named": "named by arguments (FlashInfer)",
    "digest": "named by a digest (quack, FlashAttention-4, SGLang)",
    "other": "with other names",
}


def command(
    folders: Annotated[list[Path], typer.Argument(help="The folders of the caches.", metavar="FOLDER...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The manifest to write.", metavar="FILE")],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", help="The target of the caches; by default that of this machine's GPU.", metavar="TARGET"
        ),
    ] = None,
    candidates: Annotated[
        list[Path] | None,
        typer.Option(
            "--candidates",
            help="A manifest of recorded keys, calls or scripts that the caches may have; may be repeated.",
            metavar="MANIFEST",
        ),
    ] = None,
    library: Annotated[
        list[str] | None,
        typer.Option(
            "--library", help="Recover keys of this library only; may be repeated. By default all.", metavar="NAME"
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The name in the manifest.", metavar="NAME")] = "harvested",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print every file that was not recovered.")] = False,
) -> None:
    from precast.build.harvest.candidates import candidates_of
    from precast.build.harvest.harvest import harvest

    check_output_file("--output", output)
    if not CACHE_NAME.admits(name):
        raise ConfigError(f"{name!r} is not a name of a manifest: use lower-case letters, digits and single dashes")
    libraries = [library_named(library_name) for library_name in library or SHIPPED]
    parsed = Target.parse(target or own_target("harvest for"))
    keys = [key for path in candidates or () for key in candidates_of(path, parsed)]
    if library:
        keys = [key for key in keys if key.library in library]
    result = harvest(folders, candidates=keys, target=parsed, libraries=libraries)
    _print(result, verbose=verbose)
    if not result.recorded:
        print_message("no key was recovered: record the program with 'precast record' instead")
        raise typer.Exit(1)
    write_output(output, manifest_of(result.recorded, name=name, targets=[str(parsed)]).encode())
    numbers = Counter(key.library for key in result.recorded)
    listed = ", ".join(f"{library_name} {number}" for library_name, number in sorted(numbers.items()))
    print(f"{output}: {count(len(result.recorded), 'kernel')} ({listed})")
    print(f"build it: precast build {output} -o cache")


def _print(result: Harvest, *, verbose: bool) -> None:
    """The numbers of files and of recovered ones by kind, and the reasons of the others."""
    for kind, (number, recovered) in sorted(result.counts().items()):
        print(f"{count(number, 'file')} {_KINDS[kind]}: {recovered} recovered")
        paths = defaultdict(list)
        for harvested in result.files:
            if harvested.file.kind == kind and harvested.reason:
                paths[harvested.reason].append(str(harvested.file.path))
        for reason, listed in paths.items():
            print(f"  {count(len(listed), 'file')} not recovered: {reason}")
            for path in listed if verbose else ():
                print(f"    {path!a}")  # anybody may have written the folder
    for reason in result.unnamed:
        print_message(f"not compared: {reason}")
