"""Kernel scripts: a file with ``kernel_fn``, ``reference_fn`` and ``get_inputs`` is a kernel without any change.

Such a file runs by itself where a GPU is: ``kernel_fn(*get_inputs())`` prepares arguments, calls the object that
``cute.compile`` returned, and returns what ``reference_fn`` computes too. Here it is imported and run on tensors that
have shapes and no memory, so that it compiles without a GPU. The run shows which arguments the compiled object is
called with, and which of them ``kernel_fn`` returns. The compiled object is shipped, to be called with those arguments.
Where ``kernel_fn`` calls several, each is a part of its own.
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
from precast.kernels.adapters.scripts.script_run import Launches, ScriptRun, as_list, taken
from precast.kernels.authoring.declare import Declaration, Problem, Tolerance, attach
from precast.kernels.authoring.errors import SourceError
from precast.kernels.authoring.schema import call, keys_of
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.patterns import OP_NAME

ENTRY = "kernel_fn"
OTHERS = ("reference_fn", "get_inputs")
_RTOL = _ATOL = 1e-3


def script_kernel(module: str) -> Callable[..., Any] | None:
    """The kernel of a kernel script; None for a module that has only a function of that name, which is a plain kernel.

    Its op is the module's name, unless the manifest gives another; its config keys are the keyword-only parameters of
    ``kernel_fn``. This is the adapter for
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
            run.load()
            defaults = {name: parameter.default for name, parameter in _keywords(run).items()}
            seen = run.call(run.inputs(defaults), defaults)
    except SourceError:
        raise
    except Exception as error:
        raise SourceError(
            f"{module}: kernel_fn(*get_inputs()) failed with {type(error).__name__}: {error}; it is run on tensors "
            "without memory, so that no GPU is needed: it may look at shapes and types, and not at values"
        ) from error
    return _kernel(run, seen)


def _keywords(run: ScriptRun) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of ``kernel_fn``: its config keys. Each has a default, for the run that shows all."""
    parameters = inspect.signature(run.module.kernel_fn).parameters
    keywords = {name: argument for name, argument in parameters.items() if argument.kind is argument.KEYWORD_ONLY}
    for name, parameter in keywords.items():
        if parameter.default is parameter.empty:
            raise SourceError(
                f"{run.name}: the keyword-only parameter {name!r} of kernel_fn is a config key, and has no default: "
                "give it one, with which the file runs by itself"
            )
    return keywords


def _with_keys(run: ScriptRun, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose parameters are the config keys, with the type hints that the file gives them."""
    function.__signature__ = inspect.Signature(list(_keywords(run).values()))  # type: ignore[attr-defined]
    function.__wrapped__ = run.module.kernel_fn  # type: ignore[attr-defined]  # where the names of hints are looked up
    return function


def _kernel(run: ScriptRun, seen: Launches) -> Callable[..., Any]:
    def kernel_fn(**config: Any) -> Any:
        """Compile what the file launches."""
        with run.watching(stubs=False), without_memory():
            run.load()
            result = run.call(run.inputs(config), config)
        if _shape(result) != _shape(seen):
            raise SourceError(
                f"{run.name}: kernel_fn launches or returns other objects with this config than with its defaults: "
                "launch the same ones, or move them to a file of their own"
            )
        compiled = tuple(part.compiled for part in result.parts)
        return compiled if len(compiled) > 1 else compiled[0]

    kernel_fn.__module__ = run.name
    kernel_fn.__doc__ = inspect.getdoc(run.module.kernel_fn) or inspect.getdoc(run.module) or ""
    _with_keys(run, kernel_fn)
    op = run.name.rpartition(".")[2].lower()
    several = len(seen.parts) > 1
    outputs = tuple(dict.fromkeys(seen.returned))
    declaration = Declaration(
        op=op if OP_NAME.admits(op) else "kernel",
        keys=keys_of(kernel_fn),
        problems=lambda config: ({"case": 1},),
        inputs=_Inputs(run),
        outputs=tuple(_name(location, several) for location in outputs),
        in_place=tuple(_name(location, several) for location in outputs if location in seen.inputs),
        workspace=tuple(
            _name(location, several) for location in _places(seen) if location not in {*outputs, *seen.inputs}
        ),
        special_values=(),  # the reference computes from what get_inputs made
        reference=_reference(run),
        tolerance=lambda config: _tolerance(_types(run, config)),
        parts={part.part: part.outputs for part in seen.parts} if several else {},
    )
    return attach(kernel_fn, declaration)


def _places(seen: Launches) -> list[tuple[str, str]]:
    """The arguments of all launches: those that are neither given nor returned, the file makes for itself."""
    return [(part.part, name) for part in seen.parts for name in part.arguments]


def _shape(seen: Launches) -> object:
    """What must not depend on the config: the parts, their arguments, and what is returned."""
    return [(part.part, tuple(part.arguments), part.outputs) for part in seen.parts], seen.returned


def _name(location: tuple[str, str], several: bool) -> str:
    """The name of an argument among those of all parts."""
    return ".".join(location) if several else location[1]


def _config(run: ScriptRun, config: Config) -> dict[str, Any]:
    """A config's values in the types of the file's hints."""
    return dict(call(_with_keys(run, lambda **values: values), config))


class _Values(dict[str, Any]):
    """The arguments of a launch, with the inputs of ``kernel_fn`` that they came from."""

    inputs: Sequence[Any]
    returned: tuple[str, ...]
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Makes fresh inputs with the file's ``get_inputs``, and the arguments that ``kernel_fn`` launches for them."""

    run: ScriptRun

    def __call__(self, config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
        import torch

        torch.manual_seed(seed)
        with self.run.watching(stubs=True), on(device):
            keys = _config(self.run, config)
            inputs = self.run.inputs(keys)
            copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
            seen = self.run.call(inputs, keys)
        several = len(seen.parts) > 1
        values = _Values(
            {_name((p.part, name), several): value for p in seen.parts for name, value in p.arguments.items()}
        )
        values.returned = tuple(_name(location, several) for location in seen.returned)
        values.inputs, values.config = copies, keys
        return values


def _reference(run: ScriptRun) -> Callable[[Config, Mapping[str, Any]], dict[str, Any]]:
    def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
        assert isinstance(values, _Values)
        function = run.module.reference_fn
        expected = as_list(function(*values.inputs, **taken(function, values.config)))
        if len(expected) != len(values.returned):
            raise SourceError(
                f"{run.name}: reference_fn returns {len(expected)} values and kernel_fn {len(values.returned)}: "
                "return the same from both"
            )
        pairs = zip(values.returned, expected, strict=True)
        return {n: e.reshape(values[n].shape) if e.numel() == values[n].numel() else e for n, e in pairs}

    return reference


def _types(run: ScriptRun, config: Config) -> list[Any]:
    """The dtypes of what ``kernel_fn`` returns for a config."""
    keys = _config(run, config)
    with run.watching(stubs=True), without_memory():
        seen = run.call(run.inputs(keys), keys)
    arguments = {part.part: part.arguments for part in seen.parts}
    return [arguments[part][name].dtype for part, name in seen.returned]


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
    names: set[str] = set()
    for node in _statements(body):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        else:
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, including those inside if, try and with."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _statements([c for c in ast.iter_child_nodes(node) if isinstance(c, ast.stmt)])
            for handler in getattr(node, "handlers", ()):
                yield from _statements(handler.body)
        else:
            yield node
