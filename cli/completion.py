"""What the Tab key offers for a value: targets, GPUs, ops and keys of a cache, manifests, codes of errors.

A shell waits for this, so that nothing slow is imported, and nothing is printed: where a cache cannot be read, there is
nothing to offer. What a cache says of itself is not shown beside a value, since zsh evaluates what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from precast.loader.resolve.cache import Cache

MOST = 200
"""Values that are offered at most: a cache may have thousands of keys."""
_DIGITS = 16  # of a key; 'precast show' takes the beginning of one
_AT_ONCE = """
if [[ "${funcstack[1]}" == "_%(prog_name)s" ]]; then %(complete_func)s "$@"; fi
"""

Source = Callable[[Any, str], Iterable[str]]
"""Values for the context of a command line so far, and the word that was begun."""


def complete(command: Any) -> None:
    """Give each parameter of a command that has such values the source of them, by the parameter's name."""
    for parameter in command.params:
        source = SOURCES.get((command.name, parameter.name)) or SOURCES.get(("", parameter.name))
        if source is not None:
            # What click's shell_complete= sets. Typer has a public way only where a parameter is declared.
            parameter._custom_shell_complete = _quietly(source)


def answer_first_tab() -> None:
    """Let the script that is installed for zsh answer the first Tab of a shell: Typer's only loads itself then.

    zsh runs the file as a function at that Tab, by the file's name.
    """
    try:
        from typer._completion_shared import _completion_scripts as scripts  # Typer has no public place for it
    except ImportError:  # another version's: its own script is installed
        return
    if "zsh" in scripts and _AT_ONCE not in scripts["zsh"]:
        scripts["zsh"] += _AT_ONCE


def _quietly(source: Source) -> Callable[[Any, Any, str], list[str]]:
    def offer(ctx: Any, parameter: Any, incomplete: str) -> list[str]:
        try:
            begun = (value for value in source(ctx, incomplete) if value.startswith(incomplete))
            return list(dict.fromkeys(islice(begun, MOST)))
        except Exception:  # a broken cache, say: the line is being typed, and its command will tell
            return []

    return offer


def targets(ctx: Any, incomplete: str) -> Iterator[str]:
    """Every target that precast knows a GPU for.

    >>> [one for one in targets(None, "") if one.startswith("sm_9")]
    ['sm_90', 'sm_90a']
    """
    from precast.build.gpu.gpu_table import TABLE
    from precast.build.gpu.profile import profile_of
    from precast.loader.errors import TargetError
    from precast.loader.format.target import Target

    for major, minor in TABLE:
        for suffix in ("", "a", "f"):
            try:
                target = Target.parse(f"sm_{major}{minor}{suffix}")
                profile_of(target)
            except TargetError:
                continue
            yield str(target)


def gpus(ctx: Any, incomplete: str) -> Iterator[str]:
    """The GPUs that a build may be for, but for parts of one, whose names a shell would take for several words."""
    from precast.build.gpu.gpu_table import GPUS

    yield from (name for name in GPUS if " " not in name)


def ops(ctx: Any, incomplete: str) -> Iterator[str]:
    """The ops of the cache on the line; without one, those of the caches that are found."""
    named = _named(ctx)
    if named is None:
        from precast import loader

        yield from (op for found in loader.caches() if found.index for op in sorted(found.index.ops))
    else:
        yield from sorted(_cache(named).index.ops)


def keys(ctx: Any, incomplete: str) -> Iterator[str]:
    """The beginnings of the keys of the cache on the line."""
    named = _named(ctx)
    if named is None:
        return
    cache = _cache(named)
    for op in sorted(cache.index.ops):
        yield from (artifact.key[:_DIGITS] for artifact in cache.op(op).artifacts)


def ops_and_keys(ctx: Any, incomplete: str) -> Iterator[str]:
    """Ops first: they are fewer, and say what they are."""
    yield from ops(ctx, incomplete)
    yield from keys(ctx, incomplete)


def shipped(ctx: Any, incomplete: str) -> Iterator[str]:
    """The manifests that ship with precast, where no file here begins so: then the shell completes the file."""
    from precast import manifests

    here = Path(incomplete).expanduser()
    if any(here.parent.glob(f"{here.name}*")) if incomplete else any(Path().glob("*.yaml")):
        return
    yield from sorted(str(path) for path in Path(next(iter(manifests.__path__))).glob("*.yaml"))


def codes(ctx: Any, incomplete: str) -> Iterator[str]:
    """The codes of errors; the names of their classes once one is begun."""
    from precast.cli.inspect.error_page import entries

    yield from (entry.code for entry in entries())
    if incomplete:
        yield from (entry.name for entry in entries())


def toolchains(ctx: Any, incomplete: str) -> Iterator[str]:
    """The names of the environments that manifests with ``toolchain:`` were built in."""
    from precast.build.toolchains.plans import Toolchains

    yield from (one.path.name for one in Toolchains().environments())


def _named(ctx: Any) -> Path | None:
    """The cache on the line. Where an option still lacks its value, the arguments before it are not told apart."""
    words = [ctx.params["cache"]] if ctx.params.get("cache") else ctx.args
    return next((Path(str(word)).expanduser() for word in words if not str(word).startswith("-")), None)


def _cache(path: Path) -> Cache:
    from precast.loader.resolve.cache import Cache

    return Cache(path)


SOURCES: dict[tuple[str, str | None], Source] = {
    ("", "target"): targets,
    ("record", "build_for"): targets,
    ("", "profile"): gpus,
    ("", "op"): ops,
    ("", "key"): keys,
    ("show", "key"): ops_and_keys,
    ("", "manifests"): shipped,
    ("", "manifest"): shipped,
    ("", "paths"): shipped,
    ("error", "code"): codes,
    ("toolchains", "remove"): toolchains,
}
"""By the command, or any, and the name of the parameter."""
