"""The registry: which function compiles which op. Ops are entry points, so that listing them imports nothing."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from precast.kernels.authoring.adapter import adapt_class, adapt_function, adapt_library
from precast.kernels.authoring.composition import Part
from precast.kernels.authoring.errors import SourceError, UnknownOp
from precast.kernels.authoring.extras import installing
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Config, suggest
from precast.loader.contract.format.patterns import OP_NAME
from precast.loader.contract.format.target import Target

GROUP = "precast.kernels"
REFERENCES = "precast.references"
_FUNCTION_REF = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)(?:@([a-z][a-z0-9_]*))?")


@dataclass(frozen=True, slots=True, order=True)
class FunctionRef:
    """The location of a kernel function: ``module:function``, and the distribution that registers it, if one does.

    ``module:function@library`` is a compile function of an attached library, whose own keys are its config.

    >>> FunctionRef.parse("quack.rmsnorm:_compile_rmsnorm_fwd")
    FunctionRef(module='quack.rmsnorm', function='_compile_rmsnorm_fwd', distribution='', library='')
    """

    module: str
    function: str
    distribution: str = ""
    library: str = ""

    @classmethod
    def parse(cls, text: str, distribution: str = "") -> FunctionRef:
        """Read ``module:function``; the function may be an attribute of a class, with dots."""
        match = _FUNCTION_REF.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise SourceError(
                f"{text!r} is not a function's name: write 'module:function', such as 'mylib.norms:compile_norm'"
            )
        return cls(match[1], match[2], distribution, match[3] or "")

    def __str__(self) -> str:
        return f"{self.module}:{self.function}" + (f"@{self.library}" if self.library else "")


def known_ops() -> tuple[str, ...]:
    """Every op that an installed distribution registers.

    >>> "rmsnorm" in known_ops()
    True
    """
    return tuple(sorted({e.name for e in entry_points(group=GROUP) if OP_NAME.admits(e.name)}))


def find(op: str, registered: Iterable[EntryPoint] | None = None) -> FunctionRef:
    """The function registered for an op: by a distribution that is installed here, or by these entry points.

    >>> str(find("rmsnorm"))
    'precast.kernels.own.norms.rmsnorm:rmsnorm'
    """
    points = tuple(entry_points(group=GROUP) if registered is None else registered)
    functions = [FunctionRef.parse(e.value, e.dist.name if e.dist else "") for e in points if e.name == op]
    if not functions:
        ops = sorted({e.name for e in points if OP_NAME.admits(e.name)})
        raise UnknownOp(
            f"no installed distribution registers the op {op!r}"
            + suggest(op, ops, "or name its function with 'compile: module:function'")
        )
    places = {str(s) for s in functions}
    if len(places) > 1:
        places_text = ", ".join(f"{s} ({s.distribution or 'unknown'})" for s in sorted(functions))
        raise SourceError(
            f"the op {op!r} is registered by more than one distribution: {places_text}; "
            "uninstall one, or name the function with 'compile:'"
        )
    return min(functions)


def reference_for(op: str, config: Config, target: Target) -> Part | None:
    """What verifies an op whose function declares no reference: what an installed distribution registers for it.

    It is a function from a config and a target to a ``Part``, under the op's name in the group ``precast.references``.

    >>> reference_for("json.dumps", {}, Target.parse("sm_100a")) is None
    True
    """
    for point in entry_points(group=REFERENCES):
        if point.name == op:
            part: Part | None = load(FunctionRef.parse(point.value))(config, target)
            return part
    return None


def source_of(op: str, artifact: Artifact) -> FunctionRef:
    """The function that an artifact was built from; a registered op's is found by its name."""
    if is_unregistered(artifact):
        return FunctionRef.parse(str(artifact.provenance["function"]))
    return find(part_of(op, artifact)[0])


def part_of(op: str, artifact: Artifact) -> tuple[str, str]:
    """The op whose function made an artifact, and the name of the part that it is; empty where it made no other."""
    whole, _, name = op.rpartition(".")
    parts = artifact.provenance.get("parts")
    return (whole, name) if isinstance(parts, list) and name in parts else (op, "")


def is_unregistered(artifact: Artifact) -> bool:
    """Whether an artifact names the function that it was built from, since no distribution registers its op."""
    named = isinstance(artifact.provenance.get("function"), str)
    return named and artifact.provenance.get("registered") is False


def load(source: FunctionRef) -> Callable[..., Any]:
    """Import the module and return the function. Where an adapter takes what the source names, the function it makes.

    See also: ``precast.kernels.authoring.adapter``, for what is taken besides functions.

    >>> load(FunctionRef.parse("json:dumps"))([1])
    '[1]'
    """
    if source.library:
        return adapt_library(f"{source.module}:{source.function}", source.library)
    adapted = adapt_function(source.module, source.function)
    if adapted is not None:
        return adapted
    value: Any = _module(source)
    seen = source.module
    for name in source.function.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            public = [n for n in dir(value) if not n.startswith("__") and callable(getattr(value, n, None))]
            raise SourceError(f"{source}: {seen!r} has no {name!r}{suggest(name, public)}") from None
        seen = f"{seen}.{name}"
    adapted = adapt_class(value) if isinstance(value, type) else None
    if adapted is not None:
        return adapted
    if not callable(value):
        kind = type(value).__name__
        raise SourceError(f"{source} is {kind}, not a function: name the function that compiles the kernel")
    return value  # type: ignore[no-any-return]


def _module(source: FunctionRef) -> Any:
    try:
        return importlib.import_module(source.module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        command = installing(missing)
        if source.module == missing or source.module.startswith(f"{missing}."):
            raise SourceError(
                f"{source}: there is no module {missing!r}: "
                f"{command or 'install its distribution'}, add its folder to 'path:' in the manifest, or to PYTHONPATH"
            ) from error
        raise SourceError(f"{source}: importing it needs the module {missing!r}: {command or 'install it'}") from error
    except Exception as error:
        kind = type(error).__name__
        raise SourceError(f"{source}: importing it failed with {kind}: {error}; correct the module") from error
