"""One run of a kernel script on tensors without memory: what it launches, with which arguments."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from precast.kernels.adapters.scripts.meta_tensors import dlpack_views
from precast.kernels.authoring.errors import SourceError
from precast.loader.contract.format.patterns import PART


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a run of ``kernel_fn``: the part, its compiled object and its arguments. Pointers are tensors."""

    part: str
    compiled: Any
    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Launches:
    """What a run of ``kernel_fn`` launches, in order, and which arguments it returns, as ``(part, name)``.

    ``inputs`` are the arguments that are inputs of ``kernel_fn``.
    """

    parts: tuple[Launch, ...]
    returned: tuple[tuple[str, str], ...]
    inputs: frozenset[tuple[str, str]]


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

    def inputs(self, config: Mapping[str, Any]) -> list[Any]:
        """What ``get_inputs`` gives, which is passed the keys that it has a parameter for."""
        return as_list(self.module.get_inputs(**taken(self.module.get_inputs, config)))

    def call(self, inputs: Any, config: Mapping[str, Any]) -> Launches:
        """Run ``kernel_fn`` on inputs, with its keyword-only parameters, and return what it launches."""
        inputs = as_list(inputs)
        self.launches.clear()
        returned = as_list(self.module.kernel_fn(*inputs, **config))
        objects = [id(launched) for launched, _ in self.launches]
        if not objects or len(set(objects)) != len(objects):
            raise SourceError(
                f"{self.name}: kernel_fn called {len(set(objects))} objects returned by cute.compile, in "
                f"{len(objects)} calls: it must call at least one, and each one once "
                "(compile it with cute.compile, and call what that returns)"
            )
        parts = [(launched, launched.named(values)) for launched, values in self.launches]
        names = _part_names([launched.name for launched, _ in parts])
        places: dict[int, list[tuple[str, str]]] = {}
        for part, (_, arguments) in zip(names, parts, strict=True):
            for name, value in arguments.items():
                if (memory := _memory(value)) is not None:
                    places.setdefault(memory, []).append((part, name))
        positions = [places.get(_memory(value) or 0, [None])[-1] for value in returned]
        if not positions or None in positions:
            raise SourceError(
                f"{self.name}: kernel_fn returns something that it did not pass to the compiled object: "
                "return the tensors that the kernel writes"
            )
        input_memory = set(map(_memory, inputs))
        # A tensor that kernel_fn makes is written by the first object that takes it.
        first = {at[0] for memory, at in places.items() if memory not in input_memory} if len(parts) > 1 else set()
        written = first.union(location for location in positions if location is not None)
        return Launches(
            tuple(
                Launch(part, launched.compiled, arguments, tuple(n for n in arguments if (part, n) in written))
                for part, (launched, arguments) in zip(names, parts, strict=True)
            ),
            tuple(location for location in positions if location is not None),
            frozenset(location for memory, at in places.items() if memory in input_memory for location in at),
        )

    @contextlib.contextmanager
    def watching(self, *, stubs: bool) -> Iterator[None]:
        """While the block runs, calls of compiled objects are recorded in ``launches`` and launch nothing.

        With ``stubs`` nothing is compiled either.
        """
        from cutlass.base_dsl.compiler import CompileCallable
        from cutlass.base_dsl.dsl import BaseDSL
        from cutlass.cutlass_dsl import CuTeDSL

        compile_call, run_jit = CompileCallable.__call__, BaseDSL._func
        settings = CuTeDSL._get_dsl().envar
        for_ffi = settings.enable_tvm_ffi

        def compile_one(callable_: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(function, LaunchRecorder):
                return function
            compiled = None if stubs else compile_call(callable_, function, *args, **kwargs)
            return LaunchRecorder(self, function, compiled)

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise SourceError(
                f"{self.name}: a @cute.jit function is called directly: compile it once with cute.compile, "
                "and have kernel_fn call what that returns"
            )

        CompileCallable.__call__ = compile_one
        settings.enable_tvm_ffi = True
        BaseDSL._func = refuse if stubs else run_jit
        try:
            with dlpack_views():
                yield
        finally:
            CompileCallable.__call__ = compile_call
            settings.enable_tvm_ffi, BaseDSL._func = for_ffi, run_jit


class LaunchRecorder:
    """Replaces a compiled object: a call records the arguments and launches nothing."""

    def __init__(self, run: ScriptRun, function: Any, compiled: Any) -> None:
        self._run, self._function, self.compiled = run, function, compiled

    @property
    def name(self) -> str:
        """The name of the function that was compiled."""
        return str(getattr(self._function, "__name__", "kernel"))

    def __call__(self, *args: Any) -> None:
        self._run.launches.append((self, args))

    def named(self, values: Sequence[Any]) -> dict[str, Any]:
        """The arguments of a launch by name, with tensors for views and pointers."""
        return dict(zip(self._names(len(values)), map(_plain, values), strict=True))

    def _names(self, count: int) -> Sequence[str]:
        """The names of its arguments: the function's parameters that are not compile-time constants."""
        parameters = inspect.signature(self._function).parameters.values()
        names = [p.name for p in parameters if "Constexpr" not in str(p.annotation)]
        return names[:count] if len(names) >= count else [f"arg{i}" for i in range(count)]


def _part_names(names: Sequence[str]) -> list[str]:
    """A name for each launched object, by its function; one that comes again gets a number.

    >>> _part_names(["Reduce", "scale", "scale"])
    ['reduce', 'scale', 'scale_2']
    """
    results: list[str] = []
    for name in names:
        plain = name.lower().lstrip("_") if PART.admits(name.lower().lstrip("_")) else "part"
        results.append(next(n for i in itertools.count(1) if (n := plain if i == 1 else f"{plain}_{i}") not in results))
    return results


def taken(function: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some values that a function has a parameter for."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if name in parameters}


def _plain(value: Any) -> Any:
    """The tensor behind a view made by ``from_dlpack`` or a pointer to it; a number of the DSL as Python's own."""
    if hasattr(value, "tensor_behind"):
        return value.tensor_behind
    number = getattr(value, "value", None)
    return number if isinstance(number, (int, float)) and type(value).__module__.startswith("cutlass") else value


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
