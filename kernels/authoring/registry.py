"""The registry: which function compiles which op. Ops are found by entry points: nothing is imported to list them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from precast.kernels.authoring.errors import SourceError, UnknownOp
from precast.loader.format.config import suggest
from precast.loader.format.patterns import OP_NAME

GROUP = "precast.kernels"
_SOURCE = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)")


@dataclass(frozen=True, slots=True, order=True)
class FunctionRef:
    """Where a kernel function stands: ``module:function``, and the distribution that registers it, if one does.

    >>> FunctionRef.parse("quack.rmsnorm:_compile_rmsnorm_fwd")
    Source(module='quack.rmsnorm', function='_compile_rmsnorm_fwd', distribution='')
    """

    module: str
    function: str
    distribution: str = ""

    @classmethod
    def parse(cls, text: str, distribution: str = "") -> FunctionRef:
        """Read ``module:function``; the function may be an attribute of a class, with dots."""
        match = _SOURCE.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise SourceError(
                f"{text!r} names no function: write 'module:function', such as 'mylib.norms:compile_norm'"
            )
        return cls(match[1], match[2], distribution)

    def __str__(self) -> str:
        return f"{self.module}:{self.function}"


def known_ops() -> tuple[str, ...]:
    """Every op that an installed distribution registers.

    >>> "rmsnorm" in known_ops()
    True
    """
    return tuple(sorted({e.name for e in entry_points(group=GROUP) if OP_NAME.admits(e.name)}))


def find(op: str) -> FunctionRef:
    """The function registered for an op.

    >>> str(find("rmsnorm"))
    'precast.kernels.own.rmsnorm:rmsnorm'
    """
    found = [
        FunctionRef.parse(e.value, e.dist.name if e.dist else "") for e in entry_points(group=GROUP) if e.name == op
    ]
    if not found:
        raise UnknownOp(
            f"no installed distribution registers the op {op!r}{suggest(op, known_ops())}; "
            "or name its function with 'compile: module:function'"
        )
    places = {str(s) for s in found}
    if len(places) > 1:
        listed = ", ".join(f"{s} ({s.distribution or 'unknown'})" for s in sorted(found))
        raise SourceError(
            f"the op {op!r} is registered by more than one distribution: {listed}; "
            "uninstall one, or name the function with 'compile:'"
        )
    return min(found)


def load(source: FunctionRef) -> Callable[..., Any]:
    """Import the module and give the function; a class of CUTLASS's operators becomes one, and so does a whole file
    with ``kernel_fn``, ``reference_fn`` and ``get_inputs``.

    >>> load(FunctionRef.parse("json:dumps"))([1])
    '[1]'
    """
    if source.function == "kernel_fn":
        from precast.kernels.adapters.script_kernel import script_kernel

        if (found := script_kernel(source.module)) is not None:
            return found
    value: Any = _module(source)
    seen = source.module
    for name in source.function.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            public = [n for n in dir(value) if not n.startswith("__") and callable(getattr(value, n, None))]
            raise SourceError(f"{source}: {seen!r} has no {name!r}{suggest(name, public)}") from None
        seen = f"{seen}.{name}"
    if _is_operator(value):
        from precast.kernels.adapters.operators.ops import kernel_of

        return kernel_of(value)
    if not callable(value):
        kind = type(value).__name__
        raise SourceError(f"{source} is {kind}, not a function: name the function that compiles the kernel")
    return value  # type: ignore[no-any-return]


def _is_operator(value: object) -> bool:
    """Whether a value is a class of CUTLASS's operators; their package need not be there."""
    bases = value.__mro__ if isinstance(value, type) else ()
    return any(base.__module__ == "cutlass.operators.base" and base.__name__ == "Operator" for base in bases)


def _module(source: FunctionRef) -> Any:
    try:
        return importlib.import_module(source.module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if source.module == missing or source.module.startswith(f"{missing}."):
            raise SourceError(
                f"{source}: there is no module {missing!r}: "
                "install its distribution, or add its folder to 'path:' in the manifest"
            ) from error
        raise SourceError(f"{source}: importing it needs the module {missing!r}: install it") from error
    except Exception as error:
        kind = type(error).__name__
        raise SourceError(f"{source}: importing it failed with {kind}: {error}; fix the module") from error
