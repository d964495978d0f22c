"""Kernel scripts: a file with ``kernel_fn``, ``reference_fn`` and ``get_inputs`` is a kernel without any change.

Such a file runs by itself where a GPU is: ``kernel_fn(*get_inputs())`` prepares arguments, calls the object that
``cute.compile`` returned, and returns what ``reference_fn`` computes too. Here it is imported and run on tensors that
have shapes and no memory, so that it compiles without a GPU. The run shows which arguments the compiled object is
called with, and which of them ``kernel_fn`` returns. The compiled object is shipped, to be called with those arguments.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.kernels.adapters.scripts.meta_tensors import on, without_memory
from precast.kernels.adapters.scripts.script_run import Launch, ScriptRun, as_list
from precast.kernels.authoring.declare import Declaration, Problem, Tolerance, attach
from precast.kernels.authoring.errors import SourceError
from precast.loader.format.config import Config
from precast.loader.format.patterns import OP_NAME

ENTRY = "kernel_fn"
OTHERS = ("reference_fn", "get_inputs")
_RTOL = _ATOL = 1e-3


def script_kernel(module: str) -> Callable[..., Any] | None:
    """The kernel of a kernel script; None for a module that has only a function of that name, which is a plain kernel.

    Its op is the module's name, unless the manifest gives another; it has no config keys. This is the adapter for
    functions named ``kernel_fn``: see ``precast.kernels.authoring.adapter``.
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
    run = ScriptRun(module)
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


def _kernel(run: ScriptRun, seen: Launch) -> Callable[..., Any]:
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


class _Values(dict[str, Any]):
    """The arguments of a launch, with the inputs of ``kernel_fn`` that they came from."""

    given: Sequence[Any]
    returned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Makes fresh inputs with the file's ``get_inputs``, and the arguments that ``kernel_fn`` launches for them."""

    run: ScriptRun

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


def _reference(run: ScriptRun) -> Callable[[Config, Mapping[str, Any]], dict[str, Any]]:
    def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
        assert isinstance(values, _Values)
        expected = as_list(run.module.reference_fn(*values.given))
        if len(expected) != len(values.returned):
            raise SourceError(
                f"{run.name}: reference_fn returns {len(expected)} values and kernel_fn {len(values.returned)}: "
                "return the same from both"
            )
        pairs = zip(values.returned, expected, strict=True)
        return {n: e.reshape(values[n].shape) if e.numel() == values[n].numel() else e for n, e in pairs}

    return reference


def _tolerance(types: Sequence[Any]) -> Tolerance:
    """A relative error of 0.001, or one unit in the last place of a less precise dtype."""
    import torch

    return Tolerance(rtol=max(_RTOL, *(torch.finfo(t).eps for t in types if t.is_floating_point), 0.0), atol=_ATOL)


def _names(module: str) -> set[str]:
    """The names that a module's file defines, read without running it; none where there is no such file."""
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
    """The statements of a module, including those inside if, try and with."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _statements([c for c in ast.iter_child_nodes(node) if isinstance(c, ast.stmt)])
            for handler in getattr(node, "handlers", ()):
                yield from _statements(handler.body)
        else:
            yield node
