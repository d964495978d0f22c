"""The contract of kernel scripts, from a declared op: ``kernel_fn``, ``reference_fn`` and ``get_inputs``.

``script_kernel.py`` beside this file makes a kernel of a file with these three functions. Here is the other way round:
of an op with its declaration come three such functions, for a script that verifies or times kernel files. ``script``
writes a file of them, which ``script_kernel`` reads again.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from precast import loader
from precast.kernels.authoring.declare import Declaration, Problem, declaration_of
from precast.kernels.authoring.errors import DeclarationError
from precast.kernels.authoring.registry import FunctionRef, find, load
from precast.kernels.authoring.schema import call
from precast.loader.contract.format.config import Config, complete, to_json

_HEAD = '''"""{op}, as a kernel script: kernel_fn(*inputs), reference_fn(*inputs) and get_inputs().

kernel_fn makes the outputs and calls the compiled kernel. The keys of the config are keyword-only parameters of all.
"""

from precast.kernels.adapters.scripts.contract import contract

kernel_fn, reference_fn, get_inputs = contract(
    {op!r},
    {config},
    {problem},{source}
)
'''


class Contract(NamedTuple):
    """The three functions that a script for kernel files calls."""

    kernel_fn: Callable[..., Any]
    reference_fn: Callable[..., Any]
    get_inputs: Callable[..., list[Any]]


def contract(
    op: str, config: Mapping[str, object] | None = None, problem: Problem | None = None, *, source: str = ""
) -> Contract:
    """The contract of a registered op, or of one whose function is at ``source``, as ``module:function``.

    - ``get_inputs()`` gives the tensors that the kernel reads, on the GPU, random by torch's generator. Numbers are
      part of ``kernel_fn``.
    - ``kernel_fn(*inputs)`` makes the outputs, launches, and gives the outputs: one tensor, or a tuple. It takes the
      kernel from a cache where no compiler is installed. A kernel that works in place changes its inputs.
    - ``reference_fn(*inputs)`` computes the same with torch, rounded to the same dtypes, and leaves inputs as they are.

    The keys of the op's config are keyword-only parameters of each, ``config`` holds their values by default. Without a
    ``problem`` it is the last but one that the author declares: the last one is for measuring.

    >>> made = contract("scale", {"dtype": "float32"}, {"n": 1000})
    >>> [name for name in inspect.signature(made.kernel_fn).parameters if name in ("x", "dtype", "threads")]
    ['x', 'dtype', 'threads']
    """
    function = load(FunctionRef.parse(source) if source else find(op))
    declaration = declaration_of(function, op)
    if not declaration.verifiable:
        raise DeclarationError(
            f"{op} does not declare all of problems, inputs, outputs and reference: add what is missing to its @kernel"
        )
    if declaration.ranks is not None:
        raise DeclarationError(f"{op} is launched by several ranks together: a script has one process; leave it out")
    full = complete(declaration.keys, config or {}, op=declaration.op)
    kernel = _Kernel(function, declaration, full, dict(problem) if problem else None)
    names = [name for name, role in kernel.roles(kernel.key({})).items() if role.is_input]

    def kernel_fn(*args: Any, **keys: Any) -> Any:
        key = kernel.key(keys)
        roles = kernel.roles(key)
        values = kernel.filled(roles, dict(zip(names, args, strict=True)))
        kernel.compiled(key)(*values.values())
        return _as_returned([values[name] for name in declaration.outputs if values[name] is not None])

    def reference_fn(*args: Any, **keys: Any) -> Any:
        key = kernel.key(keys)
        roles = kernel.roles(key)
        values = kernel.filled(roles, dict(zip(names, args, strict=True)))
        assert declaration.reference
        results = declaration.reference(kernel.config(key), values)
        written = [name for name in declaration.outputs if values[name] is not None]
        return _as_returned([results[name].to(values[name].dtype).reshape(values[name].shape) for name in written])

    def get_inputs(**keys: Any) -> list[Any]:
        import torch

        values = kernel.new_inputs(kernel.key(keys), int(torch.randint(1 << 31, (), device="cpu")))
        return [values[name] for name in names]

    parameters = inspect.signature(function).parameters.values()
    keywords = [p.replace(kind=p.KEYWORD_ONLY, default=full[p.name]) for p in parameters]
    shown = [f"{name}_" if name in full else name for name in names]  # an argument may be named as a key is
    inputs = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in shown]
    functions = Contract(kernel_fn, reference_fn, get_inputs)
    for member, taken in zip(functions, (inputs, inputs, []), strict=True):
        member.__signature__ = inspect.Signature([*taken, *keywords])  # type: ignore[attr-defined]
        member.__wrapped__ = function  # type: ignore[attr-defined]  # where the names of its hints are looked up
        member.__doc__ = inspect.getdoc(function)
    return functions


def script(
    op: str, config: Mapping[str, object] | None = None, problem: Problem | None = None, *, source: str = ""
) -> str:
    """The text of a kernel script for an op, of which ``contract`` makes the functions.

    >>> "get_inputs = contract(" in script("scale", {"dtype": "float32"}, {"n": 1000})
    True
    """
    shown = f"\n    source={source!r}," if source else ""
    return _HEAD.format(op=op, config=dict(config or {}), problem=dict(problem) if problem else None, source=shown)


@dataclass(frozen=True, slots=True)
class _Role:
    """One argument of a launch: whether ``kernel_fn`` is given it, and otherwise what it is."""

    is_input: bool
    value: Any  # a number or None; of a workspace, the tensor with what it begins with
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dtype: Any = None
    begins: bool = False  # whether it begins with the values of ``value``


@dataclass(frozen=True, eq=False)
class _Kernel:
    """An op, with its compiled kernels and roles by config."""

    function: Callable[..., Any]
    declaration: Declaration
    defaults: Config
    problem: Problem | None

    @functools.cached_property
    def default_key(self) -> str:
        """The config with no key changed, as text."""
        return self._key({})

    def key(self, keys: Mapping[str, Any]) -> str:
        """A config with some keys changed, as text."""
        return self._key(keys) if keys else self.default_key

    def _key(self, keys: Mapping[str, Any]) -> str:
        full = complete(self.declaration.keys, {**self.defaults, **keys}, op=self.declaration.op)
        return json.dumps({name: to_json(value) for name, value in full.items()})

    def config(self, key: str) -> Config:
        """The config of a text."""
        return complete(self.declaration.keys, json.loads(key), op=self.declaration.op)

    @functools.lru_cache(maxsize=64)  # noqa: B019 - a contract lives as long as its module
    def compiled(self, key: str) -> Callable[..., Any]:
        """The compiled object; where there is no compiler, the kernel of a cache."""
        if importlib.util.find_spec("cutlass") is None:
            return loader.get(self.declaration.op, self.config(key))
        compiled: Callable[..., Any] = call(self.function, self.config(key))
        return compiled

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def roles(self, key: str) -> dict[str, _Role]:
        """What each argument of a launch is, in the order of the call."""
        import torch

        declared = self.declaration
        roles_by_name = {}
        for name, value in self._inputs(key, "cpu", 0).items():
            if not isinstance(value, torch.Tensor):
                roles_by_name[name] = _Role(is_input=False, value=value)
                continue
            written = name in declared.workspace or (name in declared.outputs and name not in declared.in_place)
            begins = name in declared.workspace
            kept = value if begins else None
            roles_by_name[name] = _Role(not written, kept, tuple(value.shape), value.stride(), value.dtype, begins)
        return roles_by_name

    def filled(self, roles: Mapping[str, _Role], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of a launch: those that are given, and new ones."""
        device = next((value.device for value in inputs.values()), "cuda")
        return {name: inputs[name] if role.is_input else _made(role, device) for name, role in roles.items()}

    def new_inputs(self, key: str, seed: int) -> dict[str, Any]:
        """New arguments, where CUDA tensors are made."""
        import torch

        probe = torch.empty(0, device="cuda")
        if not (probe.is_cpu or probe.is_meta):
            return self._inputs(key, "cuda", seed)
        values = self._inputs(key, "cpu", seed)
        return _moved(values)

    def _inputs(self, key: str, device: str, seed: int) -> dict[str, Any]:
        import torch

        config = self.config(key)
        assert self.declaration.inputs and self.declaration.problems
        problem = self.problem or list(self.declaration.problems(config))[-2:][0]
        if device != "cpu":
            return self.declaration.inputs(config, problem, device=device, seed=seed)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # a worker is forked after it has run this: waiting for torch's threads would deadlock
        try:
            with (
                torch._C.DisableTorchFunction()
            ):  # or what is made here would say that it is on a GPU, or have no memory
                return self.declaration.inputs(config, problem, device=device, seed=seed)
        finally:
            torch.set_num_threads(threads)


def _made(role: _Role, device: Any) -> Any:
    """A new tensor, or the number."""
    import torch

    if role.dtype is None:
        return role.value
    new = torch.empty_strided(role.shape, role.strides, dtype=role.dtype, device=device)
    return new.copy_(role.value) if role.begins else new


def _moved(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values where CUDA tensors are made, with their strides; what shares memory shares it again."""
    import torch

    buffers: dict[int, Any] = {}
    result = {}
    for name, value in values.items():
        if not isinstance(value, torch.Tensor):
            result[name] = value
            continue
        storage = value.untyped_storage()
        if storage._cdata not in buffers:
            whole = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
            buffers[storage._cdata] = torch.empty(whole.shape, dtype=torch.uint8, device="cuda").copy_(whole)
        buffer = buffers[storage._cdata].view(value.dtype)
        result[name] = buffer.as_strided(value.shape, value.stride(), value.storage_offset())
    return result


def _as_returned(outputs: list[Any]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
