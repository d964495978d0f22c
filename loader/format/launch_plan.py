"""Launch plans: how a cubin's kernel is launched for any sizes, as an author writes it down and an index holds it.

An expression is a number, a size by its argument, or a function of expressions: ``("ceil_div", "x.shape[0]", 2048)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from precast.loader.errors import FormatError
from precast.loader.fast_start.values import Immutable
from precast.loader.format import fields
from precast.loader.format.program.expression import Expression, leaves_in, to_json
from precast.loader.format.program.host_program import ONE, Extent, Launch, Step
from precast.loader.format.signature import Signature

SIZE = re.compile(r"[A-Za-z_]\w{0,63}(?:\.(?:shape|strides)\[[0-9]\])?", re.ASCII)
FUNCTIONS = ("add", "sub", "mul", "floor_div", "ceil_div", "mod", "min", "max")
DEPTH = 8


class LaunchPlan(Immutable, kw_only=True):
    """How to launch for any sizes. ``parameters`` are the arguments that the device code takes, in its order.

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
        """The launch for these sizes; one that exceeds every device's limits is refused."""
        step = Step(
            kernel="", grid=self.grid, block=self.block, cluster=self.cluster, shared=self.shared, parameters=()
        )
        launch = step.launch(sizes)
        assert launch is not None  # it is made whatever the sizes are
        return launch

    def check(self, signature: Signature) -> None:
        """Refuse a plan that names what the signature does not have, and a signature that no call is checked by."""
        known = set(sizes_of(signature))
        for expression in (*self.grid, *self.block, *self.cluster, self.shared):
            for name in leaves_in(expression):
                if name not in known:
                    raise FormatError(f"{name!r} is not a size of {signature}", "plan")
        passed = {a.name: a for a in signature.passed}
        for name in self.parameters:
            if name not in passed or passed[name].kind not in ("tensor", "scalar"):
                raise FormatError(f"{name!r} is not a tensor or number of {signature}", "plan.parameters")
        signature.check_shapes()

    def to_json(self) -> dict[str, Any]:
        extents = {"grid": self.grid, "block": self.block, "cluster": self.cluster}
        return {
            **{name: [to_json(e) for e in extent] for name, extent in extents.items()},
            "shared": to_json(self.shared),
            "parameters": list(self.parameters),
        }

    @classmethod
    def parse(cls, value: object) -> LaunchPlan:
        data = fields.known(fields.as_object(value), ("grid", "block", "cluster", "shared", "parameters"))
        return cls(
            grid=_extent(data, "grid"),
            block=_extent(data, "block"),
            cluster=_extent(data, "cluster"),
            shared=fields.parsed(data, "shared", _expression),
            parameters=fields.items(data, "parameters", fields.text, most=64),
        )


def sizes_of(signature: Signature) -> Iterator[str]:
    """The names that an expression may use for a kernel."""
    for argument in signature.passed:
        if argument.kind == "tensor":
            for place in range(len(argument.shape)):
                yield f"{argument.name}.shape[{place}]"
                yield f"{argument.name}.strides[{place}]"
        elif argument.kind == "scalar" and argument.dtype.startswith(("int", "uint")):
            yield argument.name


def _extent(data: fields.Object, name: str) -> Extent:
    extent = fields.items(data, name, _expression, most=3)
    if len(extent) != 3:
        raise FormatError("expected three expressions", name)
    return extent[0], extent[1], extent[2]


def _expression(value: object, depth: int = 0) -> Expression:
    if type(value) is int and abs(value) < 2**62:
        return value
    if isinstance(value, str) and SIZE.fullmatch(value):
        return value
    function = value[0] if isinstance(value, (list, tuple)) and len(value) == 3 else None
    if isinstance(value, (list, tuple)) and isinstance(function, str) and function in FUNCTIONS and depth < DEPTH:
        return (function, _expression(value[1], depth + 1), _expression(value[2], depth + 1))
    raise FormatError(f"expected a number, a size such as 'x.shape[0]', or one of {', '.join(FUNCTIONS)} with two")
