"""One run of a kernel script on tensors without memory: what it launches, with which arguments."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from precast.kernels.adapters.scripts.meta_tensors import Handed, is_without_memory
from precast.kernels.authoring.errors import SourceError


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch of one run of ``kernel_fn``: the compiled object, its arguments, and which of them were returned."""

    compiled: Any
    arguments: Mapping[str, Any]
    returned: tuple[str, ...]
    given: frozenset[str]


@dataclass(slots=True)
class ScriptRun:
    """A kernel script, and the launches of its compiled objects."""

    name: str
    module: Any = None
    launches: list[tuple[LaunchRecorder, tuple[Any, ...]]] = field(default_factory=list)

    def load(self) -> Any:
        """Import the module again, so that it compiles again what it compiles at import."""
        spec = importlib.util.find_spec(self.name)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        before = sys.modules.get(self.name)
        sys.modules[self.name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            _restore(self.name, before)
            raise
        self.module = module
        return module

    def call(self, inputs: Any) -> Launch:
        """Run ``kernel_fn`` on inputs, and return what it launches."""
        inputs = as_list(inputs)
        self.launches.clear()
        returned = as_list(self.module.kernel_fn(*inputs))
        if len(self.launches) != 1:
            raise SourceError(
                f"{self.name}: kernel_fn called {len(self.launches)} objects returned by cute.compile: "
                "it must call one, once (compile it with cute.compile, and call what that returns)"
            )
        launched, values = self.launches[0]
        arguments = dict(zip(launched.names(len(values)), map(_tensor, values), strict=True))
        places = {_memory(value): name for name, value in arguments.items() if _memory(value) is not None}
        found = [places.get(_memory(value)) for value in returned]
        if not found or None in found:
            raise SourceError(
                f"{self.name}: kernel_fn returns something that it did not pass to the compiled object: "
                "return the tensors that the kernel writes"
            )
        held = frozenset(map(_memory, inputs))
        given = frozenset(name for name, value in arguments.items() if _memory(value) in held)
        return Launch(launched.compiled, arguments, tuple(str(name) for name in found), given)

    @contextlib.contextmanager
    def watching(self, *, stubs: bool) -> Iterator[None]:
        """While the block runs, calls of compiled objects are recorded in ``launches`` and launch nothing.

        With ``stubs`` nothing is compiled either.
        """
        from cutlass.base_dsl.compiler import CompileCallable
        from cutlass.base_dsl.dsl import BaseDSL
        from cutlass.cute.runtime import _Tensor
        from cutlass.cutlass_dsl import CuTeDSL

        compile_call, begin, run_jit = CompileCallable.__call__, _Tensor.__init__, BaseDSL._func
        settings = CuTeDSL._get_dsl().envar
        for_ffi = settings.enable_tvm_ffi

        def compile_one(callable_: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(function, LaunchRecorder):
                return function
            compiled = None if stubs else compile_call(callable_, function, *args, **kwargs)
            return LaunchRecorder(self, function, compiled)

        def remember(view: Any, tensor: Any, *args: Any, **kwargs: Any) -> None:
            if is_without_memory(tensor):
                kwargs["enable_tvm_ffi"] = False
                begin(view, Handed(tensor), *args, **kwargs)
            else:
                begin(view, tensor, *args, **kwargs)
            view._precast_tensor = tensor

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise SourceError(
                f"{self.name}: a @cute.jit function is called directly: compile it once with cute.compile, "
                "and have kernel_fn call what that returns"
            )

        CompileCallable.__call__, _Tensor.__init__ = compile_one, remember
        settings.enable_tvm_ffi = True
        BaseDSL._func = refuse if stubs else run_jit
        try:
            yield
        finally:
            CompileCallable.__call__, _Tensor.__init__ = compile_call, begin
            settings.enable_tvm_ffi, BaseDSL._func = for_ffi, run_jit


class LaunchRecorder:
    """Replaces a compiled object: a call records the arguments and launches nothing."""

    def __init__(self, run: ScriptRun, function: Any, compiled: Any) -> None:
        self._run, self._function, self.compiled = run, function, compiled

    def __call__(self, *args: Any) -> None:
        self._run.launches.append((self, args))

    def names(self, count: int) -> Sequence[str]:
        """The names of its arguments: the function's parameters that are not compile-time constants."""
        parameters = inspect.signature(self._function).parameters.values()
        names = [p.name for p in parameters if "Constexpr" not in str(p.annotation)]
        return names[:count] if len(names) >= count else [f"arg{i}" for i in range(count)]


def _tensor(value: Any) -> Any:
    """The tensor behind a view made by ``from_dlpack``; any other value unchanged."""
    return getattr(value, "_precast_tensor", value)


def _memory(value: Any) -> int | None:
    """The identity of a tensor's memory, which its views share; None for other values."""
    import torch

    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _restore(name: str, before: ModuleType | None) -> None:
    if before is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = before
