"""Row kernels: kernels over the rows of matrices, declared by a table of their arguments.

Inputs, outputs and the cost of a launch follow from the table. A kernel that needs more than this declares its own
functions with ``precast.kernels.kernel``, as ``precast.kernels.own.norms.rmsnorm`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import EllipsisType
from typing import Any, Literal, TypeVar

from precast.kernels import configs
from precast.kernels.authoring import tensors
from precast.kernels.authoring.declare import (
    SPECIAL_VALUES,
    Cost,
    Peers,
    Problem,
    Problems,
    Reference,
    Supports,
    Tolerance,
    kernel,
)
from precast.kernels.authoring.dtypes import bits
from precast.loader.contract.format.config import Config

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument.

    Each dimension of ``shape`` is a config key, a size of the problem, or a number: ``("rows", "hidden")``. ``dtype``
    is a config key or a dtype; a key whose value is None means the dtype of the key ``dtype``. With ``when``, the
    argument is None unless the config has that key and it is true.
    """

    name: str
    shape: tuple[str | int, ...]
    dtype: str = "dtype"
    role: Literal["in", "out", "in_out"] = "in"
    when: str = ""

    def present(self, config: Config) -> bool:
        """Whether the kernel of a config has this argument."""
        return not self.when or bool(config.get(self.when))

    def dtype_of(self, config: Config) -> str:
        """The dtype in a config.

        >>> Tensor("weight", ("hidden",), "weight_dtype").dtype_of({"dtype": "float16", "weight_dtype": None})
        'float16'
        """
        return str(config[self.dtype] or config["dtype"]) if self.dtype in config else self.dtype

    def sizes(self, config: Config, problem: Problem) -> tuple[int, ...]:
        """The shape for one problem.

        >>> Tensor("x", ("rows", "hidden")).sizes({"hidden": 4096}, {"rows": 3})
        (3, 4096)
        """
        return tuple(_size(axis, config, problem) for axis in self.shape)

    def make(self, config: Config, problem: Problem, *, device: Any, seed: int) -> Any:
        """Random values for an argument that is read, uninitialised memory for others and for integers.

        The rows of a matrix are ``problem["padding"]`` elements further apart than they are long.
        """
        sizes, dtype = self.sizes(config, problem), self.dtype_of(config)
        is_matrix = len(sizes) == 2 and self.shape[0] == "rows"
        stride = sizes[1] + problem.get("padding", 0) if is_matrix else None
        if self.role == "out" or dtype.startswith(("int", "uint")):
            return tensors.empty(sizes, dtype, device=device, row_stride=stride)
        return tensors.normal(sizes, dtype, device=device, seed=seed, row_stride=stride)

    def memory(self, config: Config, problem: Problem) -> int:
        """How many bits a launch reads and writes of it: each element once, or twice where it does both."""
        passes = 2 if self.role == "in_out" else 1
        return passes * prod(self.sizes(config, problem)) * bits(self.dtype_of(config))


def _size(axis: str | int, config: Config, problem: Problem) -> int:
    if isinstance(axis, int):
        return axis
    return problem[axis] if axis in problem else configs.integer(config, axis)


@dataclass(frozen=True, slots=True)
class Constant:
    """An argument with the same value in every call: a number, or None. A name stands for that size of the problem."""

    name: str
    value: float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKernel:
    """A decorator that declares a kernel over rows.

    ``arguments`` are all arguments in call order. ``prepare`` changes the inputs after they are made, where random
    values do not do: ``prepare(config, inputs, seed)``. ``flops`` is how many operations each element of the first
    tensor takes. ``names`` maps the argument names of the compiled function to those of ``arguments``. Everything else
    is as in ``kernel``, which also takes the module's functions by their names.

    >>> double = RowKernel(
    ...     op="double",
    ...     arguments=(Tensor("x", ("rows", "hidden")), Tensor("out", ("rows", "hidden"), role="out")),
    ...     problems=lambda config: row_problems(configs.integer(config, "hidden")),
    ...     reference=lambda config, inputs: {"out": 2 * inputs["x"].double()},
    ...     flops=1,
    ... )
    >>> @double
    ... def compile_double(dtype: str, hidden: int): ...
    >>> double.outputs, double.cost({"dtype": "float32", "hidden": 8}, {"rows": 10})
    (('out',), Cost(flops=80, bytes=640))
    """

    op: str
    arguments: tuple[Tensor | Constant, ...]
    flops: int
    problems: Problems | EllipsisType = ...
    reference: Reference | EllipsisType = ...
    targets: tuple[str, ...] = ()
    supports: Supports | EllipsisType | None = ...
    tolerance: Callable[[Config], Tolerance] | EllipsisType | None = ...
    large: Callable[[Config], Problem] | EllipsisType | None = ...
    special_values: Sequence[str] = SPECIAL_VALUES
    deterministic: bool = True
    peer: Peers | EllipsisType | None = ...
    prepare: Callable[[Config, dict[str, Any], int], None] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()

    def __call__(self, function: F) -> F:
        """Declare the function that compiles the kernel."""
        declare = kernel(
            op=self.op,
            targets=self.targets,
            supports=self.supports,
            problems=self.problems,
            large=self.large,
            inputs=self.inputs,
            outputs=self.outputs,
            in_place=tuple(tensor.name for tensor in self._tensors if tensor.role == "in_out"),
            reference=self.reference,
            tolerance=self.tolerance,
            special_values=self.special_values,
            deterministic=self.deterministic,
            cost=self.cost,
            peer=self.peer,
            arguments=self.names,
            imports=self.imports,
        )
        return declare(function)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The arguments that are written."""
        return tuple(tensor.name for tensor in self._tensors if tensor.role != "in")

    def inputs(self, config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
        """Every argument, by name and in call order; None for those that the config does without."""
        values: dict[str, Any] = {}
        for number, argument in enumerate(self.arguments):
            if isinstance(argument, Constant):
                value = argument.value
                values[argument.name] = problem[value] if isinstance(value, str) else value
            elif argument.present(config):
                values[argument.name] = argument.make(config, problem, device=device, seed=seed + number)
            else:
                values[argument.name] = None
        if self.prepare:
            self.prepare(config, values, seed)
        return values

    def cost(self, config: Config, problem: Problem) -> Cost:
        """``flops`` for each element of the first tensor; every tensor read or written once."""
        present = [tensor for tensor in self._tensors if tensor.present(config)]
        elements = prod(present[0].sizes(config, problem))
        return Cost(self.flops * elements, sum(tensor.memory(config, problem) for tensor in present) // 8)

    @property
    def _tensors(self) -> tuple[Tensor, ...]:
        return tuple(argument for argument in self.arguments if isinstance(argument, Tensor))


def row_problems(width: int, *, pad: int = 0, largest: int = 1 << 25) -> Sequence[Problem]:
    """One row, few, an odd number, one more than a tile of 128, and last a matrix of ``largest`` elements.

    ``pad`` is what must divide the distance between rows.

    >>> row_problems(4096, pad=8)[1]
    {'rows': 2, 'padding': 8}
    """
    cases = [(1, 0), (2, pad), (17, 0), (129, pad), (1031, 3 * pad), (max(64, largest // width), 0)]
    return [{"rows": rows, "padding": padding} for rows, padding in cases]
