"""JAX: a kernel as a function of arrays, for jax.jit, jax.export and whatever else traces.

XLA calls the kernel's entry through jax-tvm-ffi, without Python. It passes row-major arrays, the inputs side by side
and the outputs side by side, and numbers as attributes; a kernel that takes anything else is refused at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError, LoadError, NoCudaDevice
from precast.loader.launch.kernel import Kernel
from precast.loader.locks import IMPORT_LOCK

if TYPE_CHECKING:
    from precast.loader.contract.format.signature import Argument, Signature

_PLATFORMS = {"": "gpu", "cuda": "gpu", "cpu": "cpu"}
_REGISTERED: set[str] = set()  # targets, which XLA keeps for the process


class Plan(Immutable, kw_only=True):
    """How XLA passes the arguments of a kernel: the inputs, the outputs and the numbers, each in call order."""

    op: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    numbers: tuple[Argument, ...]
    order: tuple[str, ...]

    @property
    def platform(self) -> str:
        """Where XLA runs it."""
        return _PLATFORMS.get(self.outputs[0].device, "gpu")

    def shapes(self, given: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The shapes of the outputs for inputs of these shapes; raises ConfigError where an input does not fit."""
        sizes: dict[str, int] = {}
        for argument, shape in zip(self.inputs, given, strict=True):
            fits = len(shape) == len(argument.shape) and all(
                (sizes.setdefault(dim, size) if isinstance(dim, str) else dim) == size
                for dim, size in zip(argument.shape, shape, strict=True)
            )
            if not fits:
                raise ConfigError(f"{self.op} takes {argument}, not an array of shape {list(shape)}: pass that shape")
        return [tuple(sizes[dim] if isinstance(dim, str) else dim for dim in a.shape) for a in self.outputs]


def plan_of(op: str, signature: Signature, outputs: Iterable[str] | None = None) -> Plan:
    """The plan of a kernel; raises ConfigError, with the reason, for one that XLA cannot call."""
    passed = signature.passed
    tensors = [a for a in passed if a.kind == "tensor"]
    written = {a.name for a in tensors if a.written} if outputs is None else set(outputs)
    names = {a.name for a in tensors}
    if not written or written - names:
        raise ConfigError(f"{op}: its outputs are not known: give outputs=[..] out of {', '.join(sorted(names))}")
    order: list[str] = []
    for argument in passed:
        number = argument.kind == "scalar" or (argument.kind == "const" and isinstance(argument.value, (int, float)))
        if argument.kind != "tensor" and not number:
            raise ConfigError(f"{op}: XLA cannot pass {argument}, only arrays and numbers: use a variant without it")
        if not _row_major(argument):
            strides = ", ".join(map(str, argument.strides or ()))
            raise ConfigError(
                f"{op}: XLA passes row-major arrays, and {argument} has the strides ({strides}): use a variant in"
                " which its last dimension is contiguous"
            )
        part = f"attrs.{argument.name}" if number else "rets" if argument.name in written else "args"
        order += [part] if order[-1:] != [part] else []
    for part, what in (("args", "inputs"), ("rets", "outputs")):
        if order.count(part) > 1:
            raise ConfigError(
                f"{op}: XLA passes all {what} side by side, and it takes {', '.join(a.name for a in passed)}: use a"
                " variant with another order"
            )
    plan = Plan(
        op=op,
        inputs=tuple(a for a in tensors if a.name not in written),
        outputs=tuple(a for a in tensors if a.name in written),
        numbers=tuple(a for a in passed if a.kind != "tensor"),
        order=tuple(order),
    )
    unknown = {d for a in plan.outputs for d in a.shape if isinstance(d, str)} - {
        dim for a in plan.inputs for dim in a.shape
    }
    if unknown:
        raise ConfigError(f"{op}: no input has the size {', '.join(sorted(map(str, unknown)))} of an output")
    return plan


def _row_major(argument: Argument) -> bool:
    """Whether the strides may be those of a row-major array; what is known at the call only may be."""
    step: int | None = 1  # from one element of a dimension to the next in a row-major array, where it is known
    for size, stride in zip(reversed(argument.shape), reversed(argument.strides or ()), strict=False):
        if isinstance(stride, int) and size != 1 and stride != step and (step is not None or stride == 1):
            return False
        step = step * size if step is not None and isinstance(size, int) else None
    return True


def register(kernel: Kernel, outputs: Iterable[str] | None, vmap_method: str | None) -> Any:
    """The function of a kernel; the parameters are those of ``loader.jax_op``."""
    if not isinstance(kernel, Kernel):
        raise ConfigError(f"{kernel!r} is not a kernel: give what loader.get returned")
    plan = plan_of(kernel.op, kernel.signature, outputs)
    with contextlib.suppress(NoCudaDevice):  # a program may be exported on another machine than it runs on
        kernel.check_device()
    target = f"precast.{kernel.op}.{kernel.artifact.key[:16]}.{'.'.join(a.name for a in plan.outputs)}"
    with IMPORT_LOCK:
        function = kernel.tvm_ffi_function
        try:
            import jax
            import jax_tvm_ffi
        except ImportError as error:
            raise LoadError(f"{error}: pip install 'precast-loader[jax]'") from error
        if target not in _REGISTERED:
            order = list(plan.order)
            jax_tvm_ffi.register_ffi_target(target, function, order, platform=plan.platform, allow_cuda_graph=True)
            _REGISTERED.add(target)
    dtypes = {a.name: jax.numpy.dtype(a.dtype or type(a.value)) for a in (*plan.inputs, *plan.outputs, *plan.numbers)}

    def call(*arrays: Any, **named: Any) -> Any:
        values = _values(plan, arrays, named)
        traced = [name for name, value in values.items() if isinstance(value, jax.core.Tracer)]
        if traced:
            raise TypeError(
                f"{plan.op}: {', '.join(traced)} must be a number when JAX traces the call, not an argument of the"
                " traced function: name it in static_argnames, or put the number into the function"
            )
        arrays = tuple(map(jax.numpy.asarray, arrays))
        for argument, array in zip(plan.inputs, arrays, strict=True):
            if array.dtype != dtypes[argument.name]:
                raise ConfigError(f"{plan.op} takes {argument}, not {array.dtype}: convert it, or get another variant")
        shapes = zip(plan.outputs, plan.shapes(array.shape for array in arrays), strict=True)
        results = [jax.ShapeDtypeStruct(shape, dtypes[argument.name]) for argument, shape in shapes]
        launch = jax.ffi.ffi_call(target, results if len(results) > 1 else results[0], vmap_method=vmap_method)
        return launch(*arrays, **{name: dtypes[name].type(value) for name, value in values.items()})

    call.__name__ = call.__qualname__ = kernel.op
    jax_function: Any = call
    jax_function.target = target  # the name that jax.export has to allow
    return jax_function


def _values(plan: Plan, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the numbers: those that are given by name, and the kernel's own constants."""
    constants = {a.name: a.value for a in plan.numbers if a.kind == "const"}
    if len(arrays) != len(plan.inputs) or set(named) != {a.name for a in plan.numbers} - set(constants):
        inputs = [a.name for a in plan.inputs] + [f"{a.name}=" for a in plan.numbers if a.name not in constants]
        results = ", ".join(a.name for a in plan.outputs)
        raise TypeError(f"call it as {plan.op}({', '.join(inputs)}), and it returns {results}")
    return {**constants, **named}
