"""Importers: the packages whose imports of the DSL get placeholders, where it is not installed.

For everybody else it is not installed, as is true: torch's Inductor, for one, would call what it found. So no
placeholder is in ``sys.modules``. A module of such a package that imports the DSL is executed with its own
``__import__``, which its functions keep. The questions of these packages are answered as beside the DSL: by their
answers an engine chooses its kernels, and a cache has them.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from precast.attach.compiler import placeholder
from precast.attach.compiler.placeholder import DSL, NoCompiler
from precast.attach.recordings.provenance import DSL_DISTRIBUTION
from precast.loader.contract.import_hook import after_import, is_below

_SEPARATE = (f"{DSL}.operators", f"{DSL}.kernels")  # other distributions, inside the DSL's package


def install(version: str) -> bool:
    """Prepare placeholders for the DSL; refused where it is installed. ``admit`` names who gets them.

    Parameters
    ----------
    version
        The value of ``cutlass.__version__``: libraries read it while they are imported.

    Returns
    -------
    bool
        Whether they are new: False where they were installed before.
    """
    if is_installed():
        return False
    if not is_needed():
        raise NoCompiler(f"{DSL} is installed here: attach without without_compiler=True")
    vars(placeholder.module_named(DSL))["__version__"] = version
    _answer(importlib, "import_module", placeholder.module_named)
    _answer(importlib.util, "find_spec", lambda name: ModuleSpec(name, _Found(), is_package=True))
    after_import({"importlib.metadata": lambda module: _answer(module, "version", lambda _: version)})
    return True


def uninstall() -> None:
    """Answer everybody again as without placeholders. The finders of ``admit`` are the caller's to remove."""
    while _replaced:
        module, question, original = _replaced.pop()
        setattr(module, question, original)
    placeholder.forget()


def is_needed() -> bool:
    """Whether the DSL is not installed here, so that its names are placeholders or nothing."""
    if DSL in sys.modules:
        return False
    spec = importlib.util.find_spec(DSL)
    return spec is None or spec.loader is None  # without a loader it is a bare folder, of another package


def is_installed() -> bool:
    """Whether placeholders stand for the DSL in this process."""
    return bool(_replaced)


def admit(package: str) -> None:
    """Give placeholders to what the modules of a package import of the DSL, from now on."""
    if not is_admitted(package) and not is_below(package, DSL):
        sys.meta_path.insert(0, _Finder(package))


def is_admitted(module: str) -> bool:
    """Whether a module gets placeholders.

    >>> is_admitted("torch._inductor.utils")
    False
    """
    return any(isinstance(finder, _Finder) and is_below(module, finder.package) for finder in sys.meta_path)


_replaced: list[tuple[ModuleType, str, Callable[..., Any]]] = []  # the functions that were replaced


def _answer(module: ModuleType, question: str, answer: Callable[[str], Any]) -> None:
    """Have packages that get placeholders, and no others, get this answer of a function about the DSL."""
    original: Callable[..., Any] = getattr(module, question)

    @functools.wraps(original)
    def answer_or_search(name: str, *args: Any, **kwargs: Any) -> Any:
        if _stands_for(name) and is_admitted(sys._getframe(1).f_globals.get("__name__", "")):
            return answer(name)
        return original(name, *args, **kwargs)

    setattr(module, question, answer_or_search)
    _replaced.append((module, question, original))


def _stands_for(name: object) -> bool:
    """Whether a placeholder stands for this module, or for this distribution."""
    if not isinstance(name, str) or any(is_below(name, other) for other in _SEPARATE):
        return False
    return is_below(name, DSL) or name.replace("_", "-") == DSL_DISTRIBUTION


class _Finder(MetaPathFinder):
    """Finds what the finders after it find, with a loader that gives placeholders."""

    def __init__(self, package: str) -> None:
        self.package = package
        self._search = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # One after it, that of PRECAST_ATTACH, queries all finders in turn: this one does not answer such a search.
        if not is_below(fullname, self.package) or getattr(self._search, "runs", False):
            return None
        self._search.runs = True
        try:
            specs = (f.find_spec(fullname, path, target) for f in sys.meta_path[sys.meta_path.index(self) + 1 :])
            spec = next((spec for spec in specs if spec is not None), None)
        finally:
            self._search.runs = False
        if spec is not None and spec.loader is not None:  # a folder without __init__.py has none
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """The loader of a module, which lets its code import placeholders; in all else it behaves as that loader."""

    def __init__(self, inner: Loader) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Code that reads the loader off the module (inspect, importlib.resources) must get the real one.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        code = self._inner.get_code(module.__name__) if type(self._inner) is SourceFileLoader else None
        if code is None or _imports_dsl(code):
            vars(module)["__builtins__"] = _builtins()
        try:
            if code is None:
                self._inner.exec_module(module)
            else:
                exec(code, vars(module))
        except NoCompiler as error:
            _report(module.__name__, error)
            raise


_reported: set[str] = set()


def _report(module: str, error: NoCompiler) -> None:
    """Print which module needs the compiler to be imported: libraries catch the error and take other kernels.

    The modules that import this one fail by the same error, which names no other cause: they are not printed.
    """
    text = str(error)
    if text not in _reported:
        _reported.add(text)
        print(
            f"precast: {module} is not imported: {text.partition(', but')[0]}. The library may take kernels that are"
            f" not in the cache, without an error. pip install {DSL_DISTRIBUTION} where this module is needed",
            file=sys.stderr,
        )


@functools.cache
def _builtins() -> dict[str, Any]:
    """The built-in names of a module that gets placeholders, and of its functions."""
    return {**vars(builtins), "__import__": _import}


def _imports_dsl(code: CodeType) -> bool:
    """Whether the code of a module, or of a function in it, names the DSL."""
    return any(name == DSL or name.startswith(f"{DSL}.") for name in code.co_names) or any(
        isinstance(constant, CodeType) and _imports_dsl(constant) for constant in code.co_consts
    )


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """``__import__`` of a module that gets placeholders."""
    if level == 0 and _stands_for(name):
        imported = placeholder.module_named(name)
        return imported if fromlist else placeholder.module_named(DSL)
    return builtins.__import__(name, globals, locals, fromlist or (), level)


class _Found(Loader):
    """The loader in the answer to ``find_spec``."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return placeholder.module_named(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
