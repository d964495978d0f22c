"""Launch plans: how a cubin's kernel is launched for any sizes, as an author writes it in ``@kernel(launch=...)``.

A build checks a plan against the object's host code and writes it into the cache as a host program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.program.expression import Expression, is_integer, parse_expression, to_json
from precast.loader.contract.format.program.host_program import (
    ONE,
    Extent,
    HostProgram,
    Launch,
    Parameter,
    Step,
    Word,
    parse_extent,
)
from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

_INTEGER_SIZES = {f"{sign}int{8 * size}": size for sign in ("", "u") for size in (1, 2, 4, 8)}
_SCALAR_SIZES = {**_INTEGER_SIZES, "float16": 2, "float32": 4, "float64": 8, "bool": 1}


class LaunchPlan(Immutable, kw_only=True):
    """How to launch for any sizes. ``parameters`` are the arguments that the device code takes, in its order.

    An expression is a number, a size such as ``"x.shape[0]"`` or the name of an integer argument, or a function of two
    expressions, such as ``("ceil_div", "x.shape[0]", 256)``.

    >>> plan = LaunchPlan(grid=(("ceil_div", "x.shape[0]", 256), 1, 1), block=(256, 1, 1), parameters=("x",))
    >>> plan.launch({"x.shape[0]": 1000}).grid
    (4, 1, 1)
    """

    grid: Extent
    block: Extent
    parameters: tuple[str, ...]
    cluster: Extent = ONE
    shared: Expression = 0

    def launch(self, sizes: Mapping[str, int]) -> Launch:
        """The launch for these sizes. Raises a LaunchError if it exceeds the limits of every device."""
        launch = self._step("", ()).launch(sizes)
        assert launch is not None  # the step has no condition
        return launch

    def program(self, signature: Signature, kernel: str) -> HostProgram:
        """The host program that launches ``kernel`` by this plan.

        A tensor is packed as its address, then the sizes and strides that the signature leaves open; a scalar as its
        value. Each value is aligned to its own size. Raises a FormatError if the plan does not fit the signature, or
        if the packing of an argument is unknown.
        """
        signature.check_shapes()
        arguments = {argument.name: argument for argument in signature.passed}
        parameters = []
        for name in self.parameters:
            if name not in arguments or arguments[name].kind not in ("tensor", "scalar"):
                raise FormatError(f"{name!r} is not a tensor or scalar of {signature}", "parameters")
            parameters.append(_parameter(arguments[name], signature))
        program = HostProgram(steps=(self._step(kernel, tuple(parameters)),))
        program.check(signature)
        return program

    def _step(self, kernel: str, parameters: tuple[Parameter, ...]) -> Step:
        return Step(
            kernel=kernel,
            grid=self.grid,
            block=self.block,
            cluster=self.cluster,
            shared=self.shared,
            parameters=parameters,
        )

    def to_json(self) -> dict[str, Any]:
        """The plan as a worker process sends it to the build."""
        extents = {"grid": self.grid, "block": self.block, "cluster": self.cluster}
        return {
            **{name: [to_json(e) for e in extent] for name, extent in extents.items()},
            "shared": to_json(self.shared),
            "parameters": list(self.parameters),
        }

    @classmethod
    def parse(cls, value: object) -> LaunchPlan:
        """Read a plan that a worker process sent."""
        data = fields.known(fields.as_object(value), ("grid", "block", "cluster", "shared", "parameters"))
        return cls(
            grid=parse_extent(data, "grid"),
            block=parse_extent(data, "block"),
            cluster=parse_extent(data, "cluster"),
            shared=fields.parsed(data, "shared", parse_expression),
            parameters=fields.items(data, "parameters", fields.text, most=64),
        )


def _parameter(argument: Argument, signature: Signature) -> Parameter:
    words = tuple(_tensor_words(argument, signature) if argument.kind == "tensor" else _scalar_words(argument))
    return Parameter(size=words[-1].offset + words[-1].width, words=words)


def _scalar_words(argument: Argument) -> Iterator[Word]:
    if argument.dtype not in _SCALAR_SIZES:
        raise FormatError(f"the packing of {argument.dtype} is unknown", f"signature.{argument.name}")
    leaf = argument.name if is_integer(argument.dtype) else f"{argument.name}.bits"
    yield Word(0, _SCALAR_SIZES[argument.dtype], leaf)


def _tensor_words(argument: Argument, signature: Signature) -> Iterator[Word]:
    name, offset = argument.name, 8
    if argument.strides is None:
        raise FormatError("the packing is unknown without strides", f"signature.{name}")
    yield Word(0, 8, f"{name}.data")
    for what, dims in (("shape", argument.shape), ("strides", argument.strides)):
        for axis, dim in enumerate(dims):
            if isinstance(dim, str):
                dtype = signature.symbols[dim].dtype
                if dtype not in _INTEGER_SIZES:
                    raise FormatError(f"the packing of sizes of type {dtype!r} is unknown", f"signature.{name}")
                size = _INTEGER_SIZES[dtype]
                offset = -(-offset // size) * size
                yield Word(offset, size, f"{name}.{what}[{axis}]")
                offset += size
