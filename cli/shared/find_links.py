"""The options ``--find-links`` and ``--offline``: where the wheels of a manifest's toolchain come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from precast.build.toolchains.plans import Toolchains

FindLinks = Annotated[
    list[Path] | None,
    typer.Option(
        "--find-links", help="A folder with wheels for the manifests' toolchains; may be repeated.", metavar="DIR"
    ),
]
Offline = Annotated[
    bool, typer.Option("--offline", help="Make toolchains from --find-links and what uv has kept, without a network.")
]


def toolchains_from(
    find_links: Sequence[Path] | None = None, offline: bool = False, say: Callable[[str], None] = lambda text: None
) -> Toolchains:
    """The toolchains of this user, with wheels from these folders."""
    from precast.build.toolchains.plans import Toolchains
    from precast.build.toolchains.uv import Sources

    for folder in find_links or ():
        if not folder.is_dir():
            raise typer.BadParameter(f"--find-links: {folder} is not a folder: name one that holds wheels")
    return Toolchains(sources=Sources(find_links=tuple(find_links or ()), offline=offline), say=say)
