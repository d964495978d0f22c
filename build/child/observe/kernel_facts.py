"""Kernel facts: what decides the kernel of an attached library beside its arguments, as a worker observes it.

Two things are facts. Environment variables count if the library's code reads them while it compiles the kernel, or if a
module that the kernel is made of reads them when it is imported. Modules count if the kernel is made of them: they use
the DSL and the modules of the compile function refer to them, or the key names one of their functions or classes. A
module of another distribution stands for its whole package.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from types import ModuleType

from precast.loader.attach import guard_of, source_digest
from precast.loader.contract.recordings.kernel_facts import KernelFacts, Package

Request = tuple[str, str, str]
"""A request: its kind, what was requested, and the file of the code that made it."""

_DSL = "cutlass"
_STANDARD = sys.stdlib_module_names
_NAMING = ("$ref", "$enum", "$dataclass", "$namedtuple")  # forms that name a module
_NO_KERNELS = ("precast", "torch")  # packages without device code in the DSL
# Variables of the machine and the user, in which caches are found; builds set those of the DSL.
_NO_FACTS = re.compile(
    r"(CUTE_DSL|XDG|PRECAST|PYTHON)_?.*|CUDA_(HOME|PATH|VISIBLE_DEVICES)|PATH|HOME|USER|LOGNAME|TMPDIR|TEMP|TMP|PWD"
)


def kernel_facts(
    modules: Collection[str],
    package: str,
    config: object,
    *,
    requests: Collection[Request],
    compiling: Collection[Request],
    new: Collection[str],
) -> KernelFacts:
    """The facts of a kernel that a function has compiled.

    Parameters
    ----------
    modules, package
        The function's module, those of the bases of its class, and the package of its library: a class of a user may
        derive from one of the library.
    config
        The key, whose forms may name modules.
    requests, compiling
        All requests of this process, and those that were made while the function ran.
    new
        The modules that were imported while it ran.
    """
    users = {name for name in modules if not is_below(name, package)}
    named = {
        name
        for name in {*named_modules(config), *users}
        if _may_count(name) and name.partition(".")[0] not in _STANDARD
    }
    parts = kernel_modules({*modules, *new, *named}, package) | named
    own = {file for name in sys.modules if is_below(name, package) and (file := _file(name))}
    importing = {file for name in parts if uses_dsl(name) and (file := _file(name))}
    calling = own | {file for name in parts if (file := _file(name))}
    names = {
        what
        for batch, files in ((requests, importing), (compiling, calling))
        for kind, what, file in batch
        if kind == "variable" and file in files and not _NO_FACTS.fullmatch(what)
    }
    others = {name for name in parts if not is_below(name, package)}
    packages = {top: owner for top in {name.partition(".")[0] for name in others} if (owner := _package(top))}
    own_modules = {name for name in others if name.partition(".")[0] not in packages}
    environment = os.environ
    return KernelFacts(
        variables={name: environment.get(name) for name in names},
        packages=packages,
        modules={name: digest for name in own_modules if (digest := source_digest(name))},
    )


def named_modules(form: object) -> set[str]:
    """The modules that the forms of a key name.

    >>> named_modules({"op": ["$dataclass:mine.tiles:Tile", ["rows", 8]]})
    {'mine.tiles'}
    """
    if isinstance(form, str):
        tag, _, name = form.partition(":")
        return {name.partition(":")[0]} if tag in _NAMING else set()
    if isinstance(form, dict):
        form = list(form.values())
    return set().union(*map(named_modules, form)) if isinstance(form, (list, tuple)) else set()


def kernel_modules(roots: Collection[str], package: str) -> set[str]:
    """The modules that a kernel is made of: those of its library or that use the DSL, as far as one refers to another.

    >>> kernel_modules({"json.decoder"}, "json") >= {"json.decoder", "json.scanner"}
    True
    """
    modules: set[str] = set()
    uses = functools.cache(uses_dsl)

    def counts(name: str) -> bool:
        return name not in modules and (is_below(name, package) or (_may_count(name) and uses(name)))

    following = [name for name in roots if counts(name)]
    while following:
        name = following.pop()
        if name not in modules:
            modules.add(name)
            following += [part for other in _referred(name) for part in _parts(other) if counts(part)]
    return modules & sys.modules.keys()


def uses_dsl(name: str) -> bool:
    """Whether a module refers to the DSL.

    >>> uses_dsl("json")
    False
    """
    return any(is_below(other, _DSL) for other in _referred(name))


def _may_count(name: str) -> bool:
    return name in sys.modules and not any(is_below(name, other) for other in (_DSL, *_NO_KERNELS))


def _parts(name: str) -> Iterator[str]:
    """A module, and the modules of a package: code that has the package uses any of them."""
    yield name
    if hasattr(sys.modules.get(name), "__path__") and _may_count(name):
        yield from [other for other in sys.modules if other.startswith(f"{name}.")]


def is_below(name: str, package: str) -> bool:
    """Whether a module is a package or belongs to it."""
    return name == package or name.startswith(f"{package}.")


def _referred(name: str) -> Iterator[str]:
    """The modules that the globals of a module name, or that define one of them."""
    values: Mapping[str, object] = vars(sys.modules[name]) if name in sys.modules else {}
    for value in list(values.values()):
        if isinstance(value, ModuleType):
            yield value.__name__
        elif isinstance(value, type) or callable(value):
            module = getattr(value, "__module__", None)
            if isinstance(module, str):
                yield module


def _file(name: str) -> str | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    return os.path.abspath(file) if isinstance(file, str) else None


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _package(name: str) -> Package | None:
    """An installed package; None for one that no distribution owns."""
    owners = _distributions().get(name)
    if not owners:
        return None
    guard = guard_of(owners[0], name)
    return Package(distribution=owners[0], version=guard.version, source=guard.source)
