"""Kernel facts: what decides the kernel of an attached library beside its arguments, as a worker finds it.

- Environment variables count if the library's code reads them while it compiles the kernel, or if a module that the
  kernel is made of reads them when it is imported.
- Modules count if the kernel's code can be in them: ``reach`` follows what the compile function names, in whichever
  distribution, and the functions and classes that the key names.
- Data files of a package count if code of these modules reads them.
- Globals of these modules count if their source makes them the same everywhere: a program may have changed them.
- So do methods and plain attributes of their classes, and plain attributes of objects in globals, such as settings.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from precast.attach.builder.child.facts.object_state import attributes_of, attributes_of_class
from precast.attach.builder.child.facts.reach import Reach, reach_of
from precast.attach.builder.child.facts.steady_globals import is_decorated, is_steady, origin_of, takes_constants
from precast.attach.fact_check import source_digest
from precast.attach.guards import folder_of
from precast.attach.recordings.function_state import FAR, NO_KERNELS, wrapped_function
from precast.attach.recordings.kernel_facts import BARE, WHOLE, Globals, KernelFacts, Package, find_global
from precast.attach.seams.compile_sites import function_of
from precast.build.child.requests import Request
from precast.build.inputs.closure import named_modules
from precast.build.inputs.sources import is_below
from precast.build.interpreter import distributions_of_packages

_DSL = "cutlass"
_STANDARD = sys.stdlib_module_names
_NAMING = ("$ref", "$enum", "$dataclass", "$namedtuple")  # forms that name a module
_SCALARS = (bool, int, float, str)
# Variables of the machine and the user, in which caches are found; builds set those of the DSL.
_NO_FACTS = re.compile(
    r"(CUTE_DSL|XDG|PRECAST|PYTHON)_?.*|CUDA_(HOME|PATH|VISIBLE_DEVICES)|PATH|HOME|USER|LOGNAME|TMPDIR|TEMP|TMP|PWD"
)


def kernel_facts(
    roots: Collection[object],
    package: str,
    config: object,
    *,
    requests: Collection[Request],
    compiling: Collection[Request],
) -> KernelFacts:
    """The facts of a kernel that a function has compiled.

    Parameters
    ----------
    roots, package
        The function, for a method also its class, and the package of its library: a class of a user may derive from one
        of the library.
    config
        The key, whose forms may name functions and classes.
    requests, compiling
        All requests of this process, and those that were made while the function ran.
    """
    named = {name for name in named_modules(config) if _may_count(name)}
    named_values = list(_named_values(config))
    reach = reach_of([*roots, *named_values], lambda module: module in named or _counts(module, package))
    parts = reach.modules | {origin for name in reach.values if (origin := _origin(name, package))} | named
    own = {file for name in sys.modules if is_below(name, package) and (file := _file(name))}
    of_parts = {file for name in parts if (file := _file(name))}
    importing = {file for name in parts if uses_dsl(name) and (file := _file(name))}
    batches = ((requests, importing), (compiling, own | of_parts))
    names = {
        what
        for batch, files in batches
        for kind, what, file in batch
        if kind == "variable" and file in files and not _NO_FACTS.fullmatch(what)
    }
    tops = {name.partition(".")[0] for name in parts}
    packages = {top: owner for top in tops - {package.partition(".")[0]} if (owner := _package(top))}
    opened = {what for kind, what, file in requests if kind == "file" and file in of_parts}
    environment = os.environ
    return KernelFacts(
        variables={name: environment.get(name) for name in names},
        packages=packages,
        modules={name: digest for name in parts if (digest := source_digest(name))},
        files=dict(_data_files(opened, tops)),
        globals=dict(_globals([*roots, *named_values], reach, lambda module: _counts(module, package))),
    )


def _counts(module: str, package: str) -> bool:
    """Whether a kernel may be made of a module."""
    if is_below(module, package):
        return True
    top = module.partition(".")[0]
    return top not in _STANDARD and not any(is_below(module, other) for other in (_DSL, *FAR)) and top != "__main__"


def _origin(name: str, package: str) -> str | None:
    """The module that a global is imported from, where a kernel may be made of that."""
    origin = origin_of(*name.split(":"))
    return origin if origin is not None and origin in sys.modules and _counts(origin, package) else None


def _data_files(opened: Collection[str], tops: Collection[str]) -> Iterator[tuple[str, str]]:
    """The data of these packages among files that were opened, named by package and path, with their digests."""
    folders = {top: folder for top in tops if (folder := folder_of(top)) is not None}
    for path in map(Path, opened):
        for top, folder in folders.items():
            if path.suffix not in (".py", ".pyc", ".so") and path.is_relative_to(folder) and path.is_file():
                yield f"{top}/{path.relative_to(folder)}", hashlib.sha256(path.read_bytes()).hexdigest()


def _globals(roots: Collection[object], reach: Reach, counts: Callable[[str], bool]) -> Iterator[tuple[str, Globals]]:
    """The globals that are reached and are the same wherever the same source is imported, and the plain attributes of
    classes and of objects that reached code reads by name."""
    names: dict[str, set[str]] = {}
    for root in filter(None, map(wrapped_function, roots)):
        if root.__module__ in reach.modules and "<" not in root.__qualname__:
            names.setdefault(root.__module__, set()).add(root.__qualname__)
    for path, value in reach.values.items():
        module, _, name = path.partition(":")
        if module not in reach.modules:
            continue
        if not _is_plain(name, value):
            names.setdefault(module, set()).update(attributes_of(name, value, reach.attributes, counts))
        elif is_steady(module, name) or (isinstance(value, FunctionType) and takes_constants(module, name)):
            names.setdefault(module, set()).add(name)
    for owner in reach.classes:
        if owner.__module__ in sys.modules and "<" not in owner.__qualname__:
            of_class = attributes_of_class(owner, reach.attributes)
            names.setdefault(owner.__module__, set()).update(of_class)
    for module, some in sorted(names.items()):
        if some:
            values = vars(sys.modules[module])
            marked = (f"{name}{_mark(module, name, values, reach)}" for name in some)
            yield module, Globals.of(tuple(sorted(marked)), values)


def _mark(module: str, name: str, values: Mapping[str, Any], reach: Reach) -> str:
    """What the name of a function of a module whose source counts ends with: what of it is the same everywhere."""
    value = find_global(name, values)
    function = wrapped_function(value)
    if function is None or function.__module__ not in reach.modules:
        return ""
    constant = takes_constants(module, name)
    if is_decorated(module, name) and (value is function or not constant):
        return BARE
    return WHOLE if constant else ""


def _is_plain(name: str, value: Any) -> bool:
    """Whether a global is a value that can be compared: a number or a text, a constant table, a function, a class. A
    table by another name than a constant's is filled as programs run."""
    if value is None or isinstance(value, (*_SCALARS, tuple, frozenset)):
        return True
    if isinstance(value, (dict, list, set)):
        return name.isupper()
    module = getattr(value, "__module__", None)
    definition = isinstance(value, type) or function_of(value) is not None
    return definition and isinstance(module, str) and not any(is_below(module, other) for other in (_DSL, *FAR))


def _named_values(form: object) -> Iterator[object]:
    """The functions and classes that the forms of a key name, as far as they are imported."""
    if isinstance(form, str):
        tag, _, location = form.partition(":")
        module, _, path = location.partition(":")
        value: Any = sys.modules.get(module) if tag in _NAMING else None
        for part in path.split("."):
            value = getattr(value, part, None)
        yield from () if value is None else (value if isinstance(value, type) else type(value), value)
    elif isinstance(form, (dict, list, tuple)):
        for inner in form.values() if isinstance(form, dict) else form:
            yield from _named_values(inner)


def uses_dsl(name: str) -> bool:
    """Whether a module refers to the DSL.

    >>> uses_dsl("json")
    False
    """
    return any(is_below(other, _DSL) for other in _referred(name))


def _may_count(name: str) -> bool:
    return name in sys.modules and not any(is_below(name, other) for other in (_DSL, *NO_KERNELS))


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


def _package(name: str) -> Package | None:
    """An installed package; None for one that no distribution owns."""
    owners = distributions_of_packages().get(name)
    if not owners:
        return None
    return Package(distribution=owners[0], version=importlib.metadata.version(owners[0]))
