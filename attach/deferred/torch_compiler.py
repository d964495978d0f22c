"""Torch's compiler, deferred: ``torch._dynamo`` with all that it imports, such as sympy and distributed tensors.

A library decorates functions at its import, with ``torch.compiler.disable`` and the like, and wraps others with
``torch.compile``. Neither has an effect before something is compiled. So each decorated function is a stand-in, which
calls the function itself, and from the first use of ``torch._dynamo`` on what torch's own decorator made of it. Without
that use nothing is traced, so that nothing has to be excluded from tracing. Its settings are a module of their own,
which a library may change at its import.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import Any

from precast.attach.deferred.module import Deferral, defer
from precast.attach.library import KernelSource, Library, Seam
from precast.loader.contract.import_hook import after_import

DYNAMO = "torch._dynamo"


class TorchCompiler(Seam):
    """Defers ``torch._dynamo`` where a library imports it for its decorators, unless a recording is made."""

    def install(self, attachment: KernelSource, library: Library) -> None:
        if attachment.recording:
            return
        deferral = deferral_of_dynamo()
        if defer(deferral):
            after_import({"torch": lambda torch: replace_compile(torch, deferral, library.package)})

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        """Never too late: where it is imported already, there is nothing to defer."""
        return None


def deferral_of_dynamo() -> Deferral:
    """A deferral that answers the decorators, and lets settings be made."""
    deferral = Deferral(DYNAMO, apart=("config",))

    def disable(function: Any = None, *args: Any, **kwargs: Any) -> Any:
        def own(each: Any) -> Any:
            return sys.modules[DYNAMO].disable(each, *args, **kwargs)

        if not isinstance(function, (FunctionType, MethodType)):  # a class, or a context manager
            deferral.load()
            return own(function)
        return stand_in(deferral, function, own, until=function)

    def assume_constant_result(function: Any) -> Any:
        deferral.after_use(lambda: sys.modules[DYNAMO].assume_constant_result(function))  # it marks the function
        return function

    deferral.answers.update(
        disable=disable,
        assume_constant_result=assume_constant_result,
        is_compiling=lambda: sys.modules["torch"].compiler.is_compiling(),
    )
    return deferral


def replace_compile(torch: ModuleType, deferral: Deferral, package: str) -> None:
    """Until ``torch._dynamo`` is used, functions that a package passes to ``torch.compile`` are compiled later."""
    original: Callable[..., Any] = torch.compile

    @functools.wraps(original)
    def compile(model: Any = None, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if deferral.loaded or not isinstance(model, FunctionType) or caller.partition(".")[0] != package:
            return original(model, **kwargs)
        return stand_in(deferral, model, lambda each: original(each, **kwargs))

    def restore() -> None:
        if torch.compile is compile:
            torch.compile = original  # type: ignore[attr-defined]

    torch.compile = compile  # type: ignore[attr-defined]
    deferral.before_use(restore)  # torch._dynamo looks its own functions up by their identity


def stand_in(
    deferral: Deferral,
    function: Callable[..., Any],
    decorate: Callable[[Any], Any],
    *,
    until: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """A function in place of ``decorate(function)``.

    Parameters
    ----------
    deferral
        That of the module which the decorator needs.
    function
        What is decorated.
    decorate
        The decorator. It runs once: after the first use of the module, or at the first call.
    until
        What calls get before the module is used; if None, the first call is a use.
    """

    @functools.cache
    def decorated() -> Any:
        return decorate(function)

    def first(*args: Any, **kwargs: Any) -> Any:
        deferral.load()
        return decorated()(*args, **kwargs)

    current = [first if until is None else until]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return current[0](*args, **kwargs)

    def use() -> None:
        try:
            current[0] = decorated()
        except Exception:  # the decorator's own, which belongs to the function's call and not to an import
            current[0] = lambda *args, **kwargs: decorate(function)(*args, **kwargs)

    deferral.after_use(use)
    return call
