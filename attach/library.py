"""Libraries: whose front ends are served, and the places where each goes from a key to a compiled kernel (its seams).

A library is declared once, in a file of a few lines: ``precast/attach/libraries`` holds those that ship, and a
program or an engine declares its own:

>>> from precast.loader.attach import Functions, Library
>>> mine = Library(
...     name="mine",
...     distribution="my-engine",
...     package="my_engine",
...     seams=(Functions("my_engine.kernels", ("_compiled",)),),
... )
>>> mine.op("my_engine.kernels:_compiled")
'attach.mine.kernels_compiled_e31dfb3b'
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from precast.attach.compiler.dsl import Answers
from precast.attach.guards import BY_MODULE, Guard, guard_of, version_of
from precast.loader.contract.format.config import config_text, value_text
from precast.loader.contract.format.patterns import LIBRARY_NAME
from precast.loader.contract.import_hook import imported_below
from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError
from precast.loader.fast_start.installed import Installed

SHIPPED = ("quack", "flash_attention", "flashinfer", "cutlass_operators", "vllm", "sglang")
_LONGEST = 55  # of the readable part of an op's name


class KernelSource(Protocol):
    """Where a seam gets kernels from: an attachment."""

    @property
    def recording(self) -> bool:
        """Whether the arguments of calls are recorded."""
        ...

    @property
    def notes(self) -> dict[str, Any]:
        """What seams noted about values that are valid in this process only, for ``Library.describe``."""
        ...

    def on_change(self, forget: Callable[[], None]) -> None:
        """Call a function whenever a change of the mode may change earlier answers."""
        ...

    def obtain(
        self,
        library: Library,
        function: str,
        arguments: Mapping[str, Any],
        *,
        call: Callable[[], Mapping[str, Any]] | None = None,
        fallback: Callable[[Answers], Any] | None = None,
        owner: type | None = None,
    ) -> Any:
        """What the library's function returns for a key; None where the library must compile it as before."""
        ...


class Seam(Immutable):
    """A place where a library goes from a key to a compiled kernel. Each kind defines how it is found and replaced.

    What it puts in the place of a function, ``functools.wraps`` makes like that function: that a program has replaced a
    function is a fact of kernels.
    """

    def install(self, attachment: KernelSource, library: Library) -> None:
        """Replace it, now or as soon as its module is imported."""
        raise NotImplementedError

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        """Why it is too late to install it in this process; None while every later call will go through it.

        This is called for every seam before any is installed, so it also raises what ``install`` would raise for a
        module that is imported already. A kind of seam that does not define it is late as soon as a module of the
        library is imported.
        """
        return next((f"{name} is already imported" for name in imported_below(library.package)), None)


def _refuses_nothing(forms: Mapping[str, Any]) -> str | None:
    return None


class Library(Immutable, kw_only=True):
    """One library and its seams.

    Parameters
    ----------
    name
        Its name in recordings and ops; lower case.
    distribution, package
        Its names for pip and for Python's import; they and the digest of its sources guard every key.
    seams
        Where it compiles.
    imports
        Further packages whose code its kernels use, and that import the DSL: where it is not installed, they get
        placeholders, too.
    environment
        Variables to set before it is imported, unless the user has: such as one that turns off a disk cache.
    answers
        Functions of the library that query the DSL about the GPU, by ``module:name``, and their replacements
        where the DSL is not installed.
    native_modules
        The functions that build or load the library's native modules, as ``module:function`` or
        ``module:Class.method``: a program that is recorded without a GPU gets modules that do nothing.
    without_gpu
        Called in the builder's processes, before the library is imported, where it queries more than CUDA;
        its compile functions then get tensors without memory, streams and events.
    refuses
        Why an encoded key is valid in this process only, so that its kernel is compiled as before; None for all others.
    compile_recorded
        Compiles a kernel in a worker of the build, where the key does not hold the arguments of a compile function: it
        takes the key as it is written, and by name what was recorded with it, with tensors that have no memory.
    describe, makers
        How a value that is valid in one process only is made again in another: see ``keys.encode`` and
        ``key_reader.decode``. ``describe`` takes the value, and what the library's seams noted about such values.
    by_module
        Whether each kernel is guarded by the modules whose code it uses, in place of all of the library's files: for a
        large one, such as an engine, whose other files change often.
    """

    name: str
    distribution: str
    package: str
    seams: tuple[Seam, ...]
    imports: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    answers: Mapping[str, Callable[..., Any]] = {}
    native_modules: tuple[str, ...] = ()
    without_gpu: Callable[[], None] | None = None
    refuses: Callable[[Mapping[str, Any]], str | None] = _refuses_nothing
    compile_recorded: Callable[..., Any] | None = None
    describe: Callable[[Any, Mapping[str, Any]], tuple[str, tuple[Any, ...]] | None] | None = None
    makers: Mapping[str, Callable[..., Any]] = {}
    by_module: bool = False

    def op(self, function: str) -> str:
        """The op that the kernels of one of its functions are filed under, by ``module:name``.

        An op's name has lower-case letters only, so that ``Compile`` and ``_compile`` read alike: the digest of the
        place at its end keeps their kernels apart.
        """
        module, _, name = function.partition(":")
        readable = f"{module.removeprefix(self.package)}_{name}".lower()
        words = re.sub(r"[^a-z0-9]+", "_", readable)[:_LONGEST].strip("_").lstrip("_0123456789") or "function"
        return f"attach.{self.name}.{words}_{hashlib.sha256(function.encode()).hexdigest()[:8]}"

    def manifest_lines(self, function: str, config: Mapping[str, Any]) -> str:
        """The lines of a manifest that build a key of one of its functions."""
        entry = {name: [value] if isinstance(value, list) else value for name, value in config.items()}
        return "\n".join((
            "kernels:",
            f"  - compile: {value_text(f'{function}@{self.name}')}",
            f"    op: {self.op(function)}",
            f"    config: {config_text(entry)}",
        ))  # fmt: skip

    def guard(self) -> Guard:
        """The guard of its keys: the installed version, and unless each kernel has its own, a digest of its sources."""
        if self.by_module:
            return Guard(version=version_of(self.distribution), source=BY_MODULE)
        return guard_of(self.distribution, self.package)


# By name: a declaration is for the process, as an import is.
_declared: dict[str, Library] = {}


def declare(library: Library) -> Library:
    """Make a library available by its name, to ``attach`` and to the builder.

    A distribution declares one by an entry point of the group ``precast.libraries``.
    """
    if not LIBRARY_NAME.admits(library.name):
        raise ConfigError(
            f"{library.name!r} is not a valid name of a library: use at most 32 of a-z, 0-9 and _, the first a letter"
        )
    _declared[library.name] = library
    return library


def library_named(name: str) -> Library:
    """The library of a name: declared in this process, shipped, or by an entry point.

    >>> library_named("quack").package
    'quack'
    """
    if name in _declared:
        return _declared[name]
    if name in SHIPPED:
        library: Library = importlib.import_module(f"precast.attach.libraries.{name}").LIBRARY
        return declare(library)
    for declared_name, module in Installed().entry_points("precast.libraries"):
        if declared_name == name:
            return declare(importlib.import_module(module).LIBRARY)
    names = ", ".join(sorted({*SHIPPED, *_declared}))
    raise ConfigError(
        f"no library {name!r} is declared: use one of {names}, or declare it with precast.loader.attach.declare(...)"
    )
