"""Failures of a call: the exception that a kernel's error becomes, and the author's names for its arguments."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from precast.loader.contract.abi.tvm_ffi_abi import take_error
from precast.loader.errors import LaunchError
from precast.loader.launch.library import load_ffi

_PLACE = re.compile(r"argument #([0-9]{1,3})\b(?! \()")
_KNOWN: tuple[type[Exception], ...] = (
    AssertionError, AttributeError, IndexError, KeyError, MemoryError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
_TYPES = {cls.__name__: cls for cls in _KNOWN}


def exception_of(kind: str, message: str, names: Sequence[str]) -> BaseException:
    """What tvm_ffi would raise for an error of this kind, with the arguments named. A kind it has no class for is a
    RuntimeError.

    >>> exception_of("TypeError", "Mismatched type on argument #1, expected Tensor", ("x", "out"))
    TypeError('Mismatched type on argument #1 (out), expected Tensor')
    """
    if kind == LaunchError.__name__:
        return LaunchError(message)
    core = getattr(sys.modules.get("tvm_ffi"), "core", None)
    types = _TYPES if core is None else core.ERROR_NAME_TO_TYPE  # where a program may have added its own
    error: BaseException = types.get(kind, RuntimeError)(naming(message, names))
    return error


def name_arguments(error: BaseException, names: Sequence[str]) -> None:
    """Name the arguments in an error that tvm_ffi raised for a kernel; any other error is left as it is."""
    if hasattr(error, "__tvm_ffi_error__") and len(error.args) == 1 and isinstance(error.args[0], str):
        error.args = (naming(error.args[0], names),)


def naming(message: str, names: Sequence[str]) -> str:
    """A message with the author's name behind each argument's number, once.

    >>> naming("Mismatched Tensor on argument #0", ("x", "out"))
    'Mismatched Tensor on argument #0 (x)'
    """

    def name(position: re.Match[str]) -> str:
        number = int(position[1])
        return f"{position[0]} ({names[number]})" if number < len(names) else position[0]

    return _PLACE.sub(name, message)


def raised() -> str:
    """The kind and the text of the error that TVM-FFI holds for this thread; it is cleared."""
    kind, message = take_error(load_ffi())
    return f"{kind}: {message}" if kind or message else "no error was set"
