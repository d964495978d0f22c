"""The first launch: a function that makes tensors, compiles a kernel and launches it, is run up to the launch.

Examples and front ends are such functions: what they compile depends on tensors that they make or are given. Here these
have no memory, so that no GPU is needed, and the function ends where it would launch.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from precast.kernels.adapters.scripts.meta_tensors import dlpack_views, without_memory
from precast.loader.contract.import_hook import after_import

Tensors = Callable[[], contextlib.AbstractContextManager[None]]


def compiled_until_launch(run: Callable[[], Any], *, tensors: Tensors = without_memory) -> Any:
    """What ``run()`` returns, or the compiled object that it calls first: ``run`` ends there.

    ``tensors`` is entered as soon as torch is imported. A ``@cute.jit`` function that is called without
    ``cute.compile``, as some do to fill inputs, does nothing.
    """
    with contextlib.ExitStack() as stack, _ending():

        @functools.cache
        def begin(module: Any) -> None:
            stack.enter_context(_without_values())
            stack.enter_context(dlpack_views())
            stack.enter_context(tensors())

        after_import({"torch": begin})
        try:
            return run()
        except _Launched as launched:
            return launched.compiled


def _without_values() -> Any:
    """While it is entered, a copy of a tensor without memory to the host is that tensor: reading it stays an error."""
    from torch import Tensor
    from torch.overrides import TorchFunctionMode

    class WithoutValues(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            copies = function is Tensor.cpu or (function is Tensor.to and "cpu" in map(str, args[1:]))
            return args[0] if copies and args[0].is_meta else function(*args, **(kwargs or {}))

    return WithoutValues()


class _Launched(BaseException):
    """A compiled object is called. No error: a handler of errors must not catch it."""

    def __init__(self, compiled: Any) -> None:
        super().__init__("a compiled object was called")
        self.compiled = compiled


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """While the block runs, the call of a compiled object raises ``_Launched``."""
    from cutlass.base_dsl.compiler import CompileCallable
    from cutlass.base_dsl.dsl import BaseDSL

    compiler: Any = CompileCallable
    dsl: Any = BaseDSL
    compile_call, run_jit = compiler.__call__, dsl._func
    calls: dict[Any, Any] = {}
    compiling = 0

    def launch(compiled: Any, *args: Any, **kwargs: Any) -> None:
        raise _Launched(compiled)

    def compile_one(callable_: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal compiling
        compiling += 1
        try:
            compiled = compile_call(callable_, *args, **kwargs)
        finally:
            compiling -= 1
        kind: Any = type(compiled)
        if kind not in calls:
            calls[kind], kind.__call__ = kind.__call__, launch
        return compiled

    def run_directly(*args: Any, **kwargs: Any) -> Any:
        return run_jit(*args, **kwargs) if compiling else None

    compiler.__call__, dsl._func = compile_one, run_directly
    try:
        yield
    finally:
        compiler.__call__, dsl._func = compile_call, run_jit
        for kind, call in calls.items():
            kind.__call__ = call
