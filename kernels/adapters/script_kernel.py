"""Contracts: a file with ``kernel_fn``, ``reference_fn`` and ``get_inputs`` is a kernel as it stands.

Such a file runs by itself where a GPU is: ``kernel_fn(*get_inputs())`` prepares arguments, calls what ``cute.compile``
has made, and returns what ``reference_fn`` computes too. Here it is imported and run on tensors that have shapes and no
memory, so that it compiles where no GPU is; and what it hands to the compiled object is seen: which arguments those
are, and which of them it returns. What is shipped is the compiled object, called with those arguments.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from precast.kernels.authoring.declare import Declaration, Problem, Tolerance, attach
from precast.kernels.authoring.errors import SourceError
from precast.kernels.authoring.meta_tensors import Handed, is_without_memory, on, without_memory
from precast.loader.format.config import Config
from precast.loader.format.patterns import OP_NAME

ENTRY = "kernel_fn"
OTHERS = ("reference_fn", "get_inputs")
_RTOL = _ATOL = 1e-3


def script_kernel(module: str) -> Callable[..., Any] | None:
    """The kernel of a module in the contract; None where it has nothing of it but a function of that name.

    Its op is the module's name, unless the manifest gives another; it has no config keys.
    """
    names = _names(module)
    if not names.intersection(OTHERS):
        return None
    missing = [name for name in (ENTRY, *OTHERS) if name not in names]
    if missing:
        has = " and ".join(name for name in (ENTRY, *OTHERS) if name in names)
        raise SourceError(
            f"{module} has {has} and no {' and no '.join(missing)}: a kernel file has all three, "
            f"{ENTRY}(*inputs), reference_fn(*inputs) and get_inputs(); add what is missing, "
            "or name a function that ends in cute.compile"
        )
    run = _Run(module)
    try:
        with run.watching(stubs=True), without_memory():
            seen = run.call(run.load().get_inputs())
    except SourceError:
        raise
    except Exception as error:
        raise SourceError(
            f"{module}: kernel_fn(*get_inputs()) failed with {type(error).__name__}: {error}; it is run on tensors "
            "without memory, so that no GPU is needed: it may look at shapes and types, and not at values"
        ) from error
    return _kernel(run, seen)


def _kernel(run: _Run, seen: _Seen) -> Callable[..., Any]:
    def kernel_fn() -> Any:
        """Compile what the file launches."""
        with run.watching(stubs=False), without_memory():
            return run.call(run.load().get_inputs()).compiled

    kernel_fn.__module__ = run.name
    kernel_fn.__doc__ = inspect.getdoc(run.module.kernel_fn) or inspect.getdoc(run.module) or ""
    op = run.name.rpartition(".")[2].lower()
    outputs = tuple(dict.fromkeys(seen.returned))
    types = [seen.arguments[name].dtype for name in outputs]
    declaration = Declaration(
        op=op if OP_NAME.admits(op) else "kernel",
        keys=(),
        problems=lambda config: ({"case": 1},),
        inputs=_Inputs(run),
        outputs=outputs,
        in_place=tuple(name for name in outputs if name in seen.given),
        reference=_reference(run),
        tolerance=lambda config: _tolerance(types),
    )
    return attach(kernel_fn, declaration)


@dataclass(frozen=True, slots=True)
class _Seen:
    """One run of ``kernel_fn``: what it launched, with which arguments, and which of them it returned, in order."""

    compiled: Any
    arguments: Mapping[str, Any]
    returned: tuple[str, ...]
    given: frozenset[str]


class _Values(dict[str, Any]):
    """The arguments of a launch, which remember what they were made of."""

    given: Sequence[Any]
    returned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Fresh inputs, by the file's own ``get_inputs``, and what ``kernel_fn`` makes of them."""

    run: _Run

    def __call__(self, config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
        import torch

        torch.manual_seed(seed)
        with self.run.watching(stubs=True), on(device):
            given = self.run.module.get_inputs()
            copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in given]
            seen = self.run.call(given)
        values = _Values(seen.arguments)
        values.given, values.returned = copies, seen.returned
        return values


def _reference(run: _Run) -> Callable[[Config, Mapping[str, Any]], dict[str, Any]]:
    def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
        assert isinstance(values, _Values)
        expected = _sequence(run.module.reference_fn(*values.given))
        if len(expected) != len(values.returned):
            raise SourceError(
                f"{run.name}: reference_fn returns {len(expected)} values and kernel_fn {len(values.returned)}: "
                "return the same from both"
            )
        pairs = zip(values.returned, expected, strict=True)
        return {n: e.reshape(values[n].shape) if e.numel() == values[n].numel() else e for n, e in pairs}

    return reference


def _tolerance(types: Sequence[Any]) -> Tolerance:
    """One in a thousand, or a unit in the last place where a result has fewer digits."""
    import torch

    return Tolerance(rtol=max(_RTOL, *(torch.finfo(t).eps for t in types if t.is_floating_point), 0.0), atol=_ATOL)


@dataclass(slots=True)
class _Run:
    """A module in the contract, and what its compiled objects were called with."""

    name: str
    module: Any = None
    launches: list[tuple[_Launched, tuple[Any, ...]]] = field(default_factory=list)

    def load(self) -> Any:
        """Import the module anew: what it compiles while it is imported, it compiles again."""
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

    def call(self, inputs: Any) -> _Seen:
        """Run ``kernel_fn`` on inputs and see what it launches."""
        inputs = _sequence(inputs)
        self.launches.clear()
        returned = _sequence(self.module.kernel_fn(*inputs))
        if len(self.launches) != 1:
            raise SourceError(
                f"{self.name}: kernel_fn called {len(self.launches)} objects that cute.compile has made: "
                "it must call one, once (compile it with cute.compile, and call what that returns)"
            )
        launched, values = self.launches[0]
        arguments = dict(zip(launched.names(len(values)), map(_tensor, values), strict=True))
        places = {_memory(value): name for name, value in arguments.items() if _memory(value) is not None}
        found = [places.get(_memory(value)) for value in returned]
        if not found or None in found:
            raise SourceError(
                f"{self.name}: kernel_fn returns what it did not hand to the compiled object: "
                "return the tensors that the kernel writes"
            )
        held = frozenset(map(_memory, inputs))
        given = frozenset(name for name, value in arguments.items() if _memory(value) in held)
        return _Seen(launched.compiled, arguments, tuple(str(name) for name in found), given)

    @contextlib.contextmanager
    def watching(self, *, stubs: bool) -> Iterator[None]:
        """While the block runs, what ``cute.compile`` gives is called with nothing, and says so to ``launches``.

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
            if isinstance(function, _Launched):
                return function
            compiled = None if stubs else compile_call(callable_, function, *args, **kwargs)
            return _Launched(self, function, compiled)

        def remember(view: Any, tensor: Any, *args: Any, **kwargs: Any) -> None:
            if is_without_memory(tensor):
                kwargs["enable_tvm_ffi"] = False
                begin(view, Handed(tensor), *args, **kwargs)
            else:
                begin(view, tensor, *args, **kwargs)
            view._precast_tensor = tensor

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise SourceError(
                f"{self.name}: a @cute.jit function is called as it is: compile it once with cute.compile, "
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


class _Launched:
    """What stands for a compiled object: called, it notes the arguments and launches nothing."""

    def __init__(self, run: _Run, function: Any, compiled: Any) -> None:
        self._run, self._function, self.compiled = run, function, compiled

    def __call__(self, *args: Any) -> None:
        self._run.launches.append((self, args))

    def names(self, count: int) -> Sequence[str]:
        """The names of its arguments: those of the function's parameters that are not constants."""
        parameters = inspect.signature(self._function).parameters.values()
        names = [p.name for p in parameters if "Constexpr" not in str(p.annotation)]
        return names[:count] if len(names) >= count else [f"arg{i}" for i in range(count)]


def _tensor(value: Any) -> Any:
    """The tensor behind a view of the compiler's; anything else as it is."""
    return getattr(value, "_precast_tensor", value)


def _memory(value: Any) -> int | None:
    """What two tensors share when one is a view of the other."""
    import torch

    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _sequence(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _restore(name: str, before: ModuleType | None) -> None:
    if before is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = before


def _names(module: str) -> set[str]:
    """The names that a module's file defines, without running it; none where there is no such file."""
    try:
        spec = importlib.util.find_spec(module)
        if spec is None or not spec.has_location or not str(spec.origin).endswith(".py"):
            return set()
        body = ast.parse(Path(str(spec.origin)).read_bytes()).body
    except (ImportError, SyntaxError, ValueError, OSError):
        return set()
    found: set[str] = set()
    for node in _statements(body):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        else:
            found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those under if, try and with too."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _statements([c for c in ast.iter_child_nodes(node) if isinstance(c, ast.stmt)])
            for handler in getattr(node, "handlers", ()):
                yield from _statements(handler.body)
        else:
            yield node
