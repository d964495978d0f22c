"""Disk caches: the files in which an attached library itself keeps the kernel of a key.

The library's own functions name the files, since a name is a digest of the key, or a text that not all arguments can
be read from. Nothing is compiled, and no cache is read.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from precast.kernels.authoring.errors import SourceError
from precast.loader.attach import CacheAttribute, CompileFunctions, Decorator, Library, library_named
from precast.loader.contract.recordings.key_reader import decode, find, original_of
from precast.loader.contract.recordings.provenance import COMPILER, SOURCE, VERSION
from precast.loader.contract.recordings.recording import Recorded
from precast.loader.contract.values import Immutable

_GUARD = (VERSION, SOURCE, COMPILER)
_NAMED_HERE = "flashinfer.jit.cute_dsl_core"
_KEEP = "build_and_load_cute_dsl_kernel"


class DiskFile(Immutable, kw_only=True):
    """One file of a library's cache: its folders below the cache, and its name without the extension.

    ``meta`` is what the library expects in the file ``meta.json`` of the folder, where it has one.
    """

    folders: tuple[str, ...]
    name: str
    meta: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """The file as JSON."""
        return {"folders": list(self.folders), "name": self.name, "meta": self.meta}


def files_of(recorded: Recorded, root: Path) -> tuple[DiskFile, ...]:
    """The files that may hold the kernel of a key: each way to pass the arguments has its own in some libraries.

    ``root`` is the folder of the process's own caches, which are empty.
    """
    library = library_named(recorded.library)
    values = {name: decode(form, makers=library.makers) for name, form in recorded.config.items() if name not in _GUARD}
    module = recorded.compile.partition(":")[0]
    for seam in library.seams:
        if isinstance(seam, CacheAttribute) and seam.module == module:
            return tuple(_of_mapping(getattr(find(recorded.compile), seam.attribute), values["key"], root))
        if isinstance(seam, CompileFunctions) and _KEEP in seam.through:
            return (_of_function(library, original_of(recorded.compile), values),)
        if isinstance(seam, Decorator):
            return tuple(_of_decorated(seam.module, original_of(recorded.compile), values))
    raise SourceError(f"{library.name} keeps no files on disk, or under names that are unknown: record its program")


def _of_mapping(mapping: Any, key: Any, root: Path) -> Iterator[DiskFile]:
    """The file of a mapping that is kept on disk: it has a method for the digest, and the folder."""
    if not hasattr(mapping, "_key_to_hash") or not hasattr(mapping, "cache_path"):
        raise SourceError("this version of the library names its files in another way: record its program")
    folders = Path(mapping.cache_path).relative_to(root).parts
    for same_key in (key, _interned(key)):
        yield DiskFile(folders=folders, name=mapping._key_to_hash(same_key))


def _of_decorated(module: str, function: Callable[..., Any], values: Mapping[str, Any]) -> Iterator[DiskFile]:
    """The files of a function whose arguments are digested as they were passed: by position or by name."""
    cache: Any = importlib.import_module(module)
    if not hasattr(cache, "_key_to_hash") or not hasattr(cache, "_compute_source_fingerprint"):
        raise SourceError("this version of the library names its files in another way: record its program")
    folders = (cache._compute_source_fingerprint(),)
    for arguments in passed_forms(inspect.signature(function), values):
        for key in (arguments, _interned(arguments)):
            yield DiskFile(folders=folders, name=cache._key_to_hash((function.__qualname__, *key)))


def passed_forms(signature: inspect.Signature, values: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The ways in which a caller may pass these arguments: the first ones by position, and the others by name.

    Defaults are passed or left out. Named arguments come last, as pairs in the order of their names.

    >>> list(passed_forms(inspect.signature(lambda n, eps=0.5: None), {"n": 8, "eps": 0.5}))
    [(('eps', 0.5), ('n', 8)), (('n', 8),), (8, ('eps', 0.5)), (8,), (8, 0.5)]
    """
    parameters = signature.parameters
    by_position = [
        name for name, parameter in parameters.items() if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    ]
    seen = set()
    for number in range(len(by_position) + 1):
        first = tuple(values[name] for name in by_position[:number])
        rest = [name for name in parameters if name not in by_position[:number]]
        given = [name for name in rest if not _is_default(parameters[name], values[name])]
        for names in (rest, given):
            if (number, tuple(names)) not in seen:
                seen.add((number, tuple(names)))
                yield (*first, *((name, values[name]) for name in sorted(names)))


def _is_default(parameter: inspect.Parameter, value: Any) -> bool:
    return type(parameter.default) is type(value) and bool(parameter.default == value)


def _interned(value: Any) -> Any:
    """The same key, in which equal texts are one object: a pickle, and so its digest, distinguishes the two."""
    if type(value) is str:
        return sys.intern(value)
    return tuple(map(_interned, value)) if type(value) is tuple else value


class _Named(BaseException):
    """A function has named its file. No error: a handler of errors must not catch it."""

    def __init__(self, module: str, kernel: str, sources: tuple[str, ...]) -> None:
        super().__init__(f"{module}/{kernel}")
        self.module, self.kernel, self.sources = module, kernel, sources


class _NotKept(BaseException):
    """A function compiles without a file. No error: a handler of errors must not catch it."""


def _of_function(library: Library, function: Callable[..., Any], values: Mapping[str, Any]) -> DiskFile:
    """The file of a function that names it in a call: it runs up to there."""
    core: Any = importlib.import_module(_NAMED_HERE)
    original = getattr(core, _KEEP)

    def name_it(module_name: str, kernel_name: str, compile_fn: Any, extra_key_files: Any = ()) -> Any:
        raise _Named(module_name, kernel_name, tuple(map(str, extra_key_files)))

    compiler: Any = importlib.import_module("cutlass.base_dsl.compiler").CompileCallable
    compile_it = compiler.__call__

    def compile_nothing(*args: Any, **kwargs: Any) -> Any:
        raise _NotKept

    _replace(library.package, original, name_it)
    compiler.__call__ = compile_nothing
    try:
        function(**values)
    except _Named as named:
        spec = core.JitSpecCuteDsl(named.module, named.kernel, None, core._hash_source_files(named.sources))
        return DiskFile(folders=(spec.module_dir_name,), name=spec.kernel_name, meta=spec.expected_meta)
    except _NotKept:
        pass
    finally:
        compiler.__call__ = compile_it
        _replace(library.package, name_it, original)
    raise SourceError(f"{function.__module__}:{function.__qualname__} keeps no file on disk: record its program")


def _replace(package: str, old: Any, new: Any) -> None:
    """Replace a function in every module of a package that has it."""
    for module in [value for name, value in sys.modules.items() if name.partition(".")[0] == package]:
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)
