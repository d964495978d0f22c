"""Completion of values with the Tab key: targets, GPUs, ops and keys of a cache, manifests, codes of errors.

A shell waits for this: nothing slow is imported, and nothing is printed, not even about a cache that cannot be read. No
text of a cache other than names and keys is returned, since zsh evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from precast.loader.resolve.cache import Cache

MOST = 200
"""The largest number of completions: a cache may have thousands of keys."""
_DIGITS = 16  # of a key; 'precast show' takes a prefix
_AT_ONCE = """
if [[ "${funcstack[1]}" == "_%(prog_name)s" ]]; then %(complete_func)s "$@"; fi
"""

Source = Callable[[Any, str], Iterable[str]]
"""Returns values for the context of an unfinished command line and the beginning of its last word."""


def add_completion(command: Any, name: str) -> None:
    """Set the source of values of each parameter of a command that has one in ``SOURCES``."""
    for parameter in command.params:
        source = SOURCES.get((name, parameter.name)) or SOURCES.get(("", parameter.name))
        if source is not None:
            # What click's shell_complete= sets. Typer sets it only in a parameter's declaration.
            parameter._custom_shell_complete = _quietly(source)


def answer_first_tab() -> None:
    """Make the installed zsh script complete at the first Tab of a shell: Typer's only loads itself then.

    zsh runs the file as a function at that Tab, by the file's name.
    """
    try:
        from typer._completion_shared import _completion_scripts as scripts  # Typer has no public name for it
    except ImportError:  # another version of Typer: its own script is installed
        return
    if "zsh" in scripts and _AT_ONCE not in scripts["zsh"]:
        scripts["zsh"] += _AT_ONCE


def _quietly(source: Source) -> Callable[[Any, Any, str], list[str]]:
    def complete(ctx: Any, parameter: Any, incomplete: str) -> list[str]:
        try:
            values = (value for value in source(ctx, incomplete) if value.startswith(incomplete))
            return list(dict.fromkeys(islice(values, MOST)))
        except Exception:  # a damaged cache, for example: the command will report it
            return []

    return complete


def targets(ctx: Any, incomplete: str) -> Iterator[str]:
    """Every target that precast knows a GPU for.

    >>> [target for target in targets(None, "") if target.startswith("sm_9")]
    ['sm_90', 'sm_90a']
    """
    from precast.build.gpu.gpu_table import TABLE
    from precast.build.gpu.profile import profile_of
    from precast.loader.contract.format.target import Target
    from precast.loader.errors import TargetError

    for major, minor in TABLE:
        for suffix in ("", "a", "f"):
            try:
                target = Target.parse(f"sm_{major}{minor}{suffix}")
                profile_of(target)
            except TargetError:
                continue
            yield str(target)


def gpus(ctx: Any, incomplete: str) -> Iterator[str]:
    """The GPUs that a build can be for, without parts of a GPU: a shell would split their names at the spaces."""
    from precast.build.gpu.gpu_table import GPUS

    yield from (name for name in GPUS if " " not in name)


def ops(ctx: Any, incomplete: str) -> Iterator[str]:
    """The ops of the cache on the line; without one, those of the installed caches."""
    cache = None if ctx.info_name == "explain" else _cache(ctx)
    if cache is None:
        from precast import loader

        yield from (op for cache in loader.caches() if cache.index for op in sorted(cache.index.ops))
    else:
        yield from sorted(cache.index.ops)


def keys(ctx: Any, incomplete: str) -> Iterator[str]:
    """The beginnings of the keys of the cache on the line."""
    cache = _cache(ctx)
    if cache is None:
        return
    for op in sorted(cache.index.ops):
        yield from (artifact.key[:_DIGITS] for artifact in cache.op(op).artifacts)


def ops_and_keys(ctx: Any, incomplete: str) -> Iterator[str]:
    """The ops first: they are fewer, and readable."""
    yield from ops(ctx, incomplete)
    yield from keys(ctx, incomplete)


def shipped(ctx: Any, incomplete: str) -> Iterator[str]:
    """The manifests that ship with precast, unless a file matches: then the shell completes the file."""
    from precast import manifests

    here = Path(incomplete).expanduser()
    if any(here.parent.glob(f"{here.name}*")) if incomplete else any(Path().glob("*.yaml")):
        return
    yield from sorted(str(path) for path in Path(next(iter(manifests.__path__))).glob("*.yaml"))


def codes(ctx: Any, incomplete: str) -> Iterator[str]:
    """The codes of errors; after the first letter, also the names of their classes."""
    from precast.loader.command_line.error_page import entries

    yield from (entry.code for entry in entries())
    if incomplete:
        yield from (entry.name for entry in entries())


def _cache(ctx: Any) -> Cache | None:
    """The cache on the line. While the last option has no value, the arguments before it are not parsed."""
    from precast.loader.resolve.cache import Cache

    words = [ctx.params["cache"]] if ctx.params.get("cache") else ctx.args
    return next((Cache(Path(str(word)).expanduser()) for word in words if not str(word).startswith("-")), None)


SOURCES: dict[tuple[str, str | None], Source] = {
    ("", "target"): targets,
    ("record", "build_for"): targets,
    ("tune model", "gpu"): gpus,
    ("", "profile"): gpus,
    ("", "op"): ops,
    ("", "key"): keys,
    ("show", "key"): ops_and_keys,
    ("explain", "words"): ops,
    ("", "manifests"): shipped,
    ("", "manifest"): shipped,
    ("", "paths"): shipped,
    ("error", "code"): codes,
}
"""Sources by command, where "" is every command, and by the name of the parameter."""
