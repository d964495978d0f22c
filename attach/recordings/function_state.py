"""Function state: what a program may have replaced in a function: its code, its defaults, and what its closure holds.

It is the same in each process that has imported the same source. The DSL puts another code in the place of a function's
as it compiles, and a process without the DSL has other decorators around it: neither counts. Nor do precast's hooks.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any
from weakref import WeakValueDictionary

from precast.attach.recordings.keys import is_of_dsl

NO_KERNELS = ("precast", "torch")
"""Packages without device code in the DSL."""
FAR = (*NO_KERNELS, "numpy", "triton", "cuda", "nvidia", "tvm_ffi", "pynvml", "typing_extensions")
"""Packages that no kernel is made of."""
_SCALARS = (bool, int, float, str, type(None))
_TICK = 10**8  # nanoseconds in which a file system may give two changes of a file one time
_files: dict[tuple[object, str], tuple[object, Any]] = {}
# Codes that were found in their modules' files.
_right: WeakValueDictionary[tuple[str, int], CodeType] = WeakValueDictionary()


def state_of_function(value: Any, *, whole: bool, bare: bool = False) -> list[Any]:
    """The state of a function and of the wrappers around it; empty for any other value, and for those of ``FAR``.

    Parameters
    ----------
    value
        A function, or what wraps one.
    whole
        Whether its line counts, plain defaults, and plain values and functions in closures. Not those that the function
        sets itself: it may count calls.
    bare
        Whether wrappers of its own package are left out.

    >>> acme = {"__name__": "acme"}
    >>> exec("def scaled(n=2): return n", acme)
    >>> state_of_function(acme["scaled"], whole=True), state_of_function(len, whole=True)
    ([['acme', 'scaled', True, 1, ['int 2'], []]], [])
    """
    links = list(_chain(value))
    inner = links[-1]
    if type(inner) is not FunctionType:
        return []
    own = _module_of(inner).partition(".")[0] if bare else None
    wrappers = [link for link in links[:-1] if type(link) is FunctionType and _module_of(link).partition(".")[0] != own]
    functions = [link for link in (*wrappers, inner) if _counts(_module_of(link))]
    return [[*_identity(link), *(_contents(link, inner) if whole else ())] for link in functions]


@functools.cache
def _counts(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in sys.stdlib_module_names and top not in FAR and not is_of_dsl(module)


def wrapped_function(value: Any) -> FunctionType | None:
    """The function below all wrappers; None where there is none.

    >>> wrapped_function(functools.cache(wrapped_function)) is wrapped_function
    True
    """
    *_, inner = _chain(value)
    return inner if type(inner) is FunctionType else None


def is_of_its_source(function: FunctionType) -> bool:
    """Whether a function's code is in its module's file; true where that cannot be read.

    >>> is_of_its_source(is_of_its_source)
    True
    """
    code, name = _code_of(function), _module_of(function)
    if _right.get((name, id(code))) is not code:
        module = sys.modules.get(name)
        codes = None if module is None else by_file(str(getattr(module, "__file__", "")), _codes_in, module)
        if codes is not None and code not in codes:
            return False
        _right[name, id(code)] = code
    return True


def by_file(file: str, read: Callable[[Any], Any], argument: Any) -> Any:
    """What is read of a file, read again whenever the file has changed; None where it is absent.

    >>> by_file(__file__, len, "abc"), by_file("no such file", len, "abc")
    (3, None)
    """
    try:
        status = os.stat(file)
    except OSError:
        return None
    stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    kept = _files.get((read, file))
    if kept is None or kept[0] != stamp:
        kept = stamp, read(argument)
        if time.time_ns() - status.st_ctime_ns > _TICK:
            _files[read, file] = kept
    return kept[1]


def _codes_in(module: Any) -> frozenset[CodeType] | None:
    try:
        code = module.__spec__.loader.get_code(module.__name__)
    except Exception:  # a loader of somebody else
        return None
    return None if code is None else frozenset(_codes(code))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _chain(value: Any) -> Iterator[Any]:
    """A value, and what it wraps, from the outermost on."""
    for _ in range(100):  # a circle of wrappers has no function
        if isinstance(value, (staticmethod, classmethod, MethodType)):
            value = value.__func__
        elif isinstance(value, (property, functools.cached_property)):
            value = value.fget if isinstance(value, property) else value.func
        yield value
        try:
            value = object.__getattribute__(value, "__dict__").get("__wrapped__")  # none of its own code runs
        except AttributeError:
            return
        if value is None:
            return


def _code_of(function: FunctionType) -> CodeType:
    """The code that was written. A wrapper may have that of the function that it wraps as an attribute."""
    own: CodeType = function.__code__
    written: CodeType | None = vars(function).get("_original_code")
    if written is None:
        return own
    alike = (written.co_name, len(written.co_freevars)) == (own.co_name, len(own.co_freevars))
    return written if alike else own


def _identity(function: FunctionType) -> list[Any]:
    return [_module_of(function), _code_of(function).co_name, is_of_its_source(function)]


def _contents(function: FunctionType, inner: FunctionType) -> Iterator[Any]:
    """A function's line, and the forms of its defaults and of what its closure holds."""
    code = _code_of(function)
    yield code.co_firstlineno
    yield [_form(default, inner) for default in function.__defaults__ or ()]
    yield [[name, _form(default, inner)] for name, default in sorted((function.__kwdefaults__ or {}).items())]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        if name not in _stored(code):
            try:
                yield _form(cell.cell_contents, inner)
            except ValueError:  # an empty cell
                yield None


@functools.lru_cache(maxsize=4096)
def _stored(code: CodeType) -> frozenset[str]:
    """The variables of a closure that code sets."""
    steps = (step for part in _codes(code) for step in dis.get_instructions(part))
    return frozenset(step.argval for step in steps if step.opname == "STORE_DEREF")


def _form(value: Any, inner: FunctionType) -> Any:
    if type(value) in _SCALARS:
        return f"{type(value).__name__} {value!r}"
    if type(value) is tuple:
        return [_form(item, inner) for item in value]
    function = wrapped_function(value)
    return [] if function is None or function is inner else _identity(function)


def _module_of(function: FunctionType) -> str:
    return str(function.__globals__.get("__name__"))
