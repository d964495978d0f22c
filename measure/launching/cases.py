"""Launching: the artifacts of a cache that this machine's GPU can run, opened and with what their author declares."""

from __future__ import annotations

import functools
import itertools
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, cast

from precast.kernels.authoring.declare import Declaration, Problem, declaration_of
from precast.kernels.authoring.registry import is_unregistered, load, part_of, reference_for, source_of
from precast.loader import Kernel, current_session
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import canonical, suggest
from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.errors import ConfigError, NoCudaDevice, PrecastError
from precast.loader.machine.driver import Device, NoDriver
from precast.loader.resolve.assumptions import unmet
from precast.loader.resolve.cache import Cache


@dataclass(frozen=True, slots=True)
class Selected:
    """One artifact, and what its author declares about it."""

    op: str
    artifact: Artifact
    declaration: Declaration

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.artifact.config.items())
        return f"{self.op}({values}) for {self.artifact.target}"


@dataclass(frozen=True, slots=True)
class Case(Selected):
    """One artifact that can be launched here."""

    kernel: Kernel

    __str__ = Selected.__str__


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One artifact that cannot be launched here, and why."""

    op: str
    artifact: Artifact
    reason: str

    def __str__(self) -> str:
        return f"{self.op} for {self.artifact.target}"


def this_device() -> Device:
    """The current device.

    Raises:
        NoCudaDevice: there is none, or no driver.
    """
    try:
        return current_session().machines.driver.find()
    except NoDriver as reason:
        raise NoCudaDevice(f"there is no CUDA device: {reason}. Run this where there is one") from None


def ops_of(cache: Cache, requested: Sequence[str]) -> tuple[str, ...]:
    """The ops to launch: those that were requested, or all of the cache.

    Raises:
        ConfigError: the cache has no such op.
    """
    for op in requested:
        if op not in cache.index.ops:
            raise ConfigError(f"cache {cache.name!r} has no op {op!r}{suggest(op, cache.index.ops)}")
    return tuple(sorted(set(requested) or cache.index.ops))


def launchable(cache: Cache, ops: Sequence[str], key: str = "") -> Iterator[tuple[str, Artifact]]:
    """The artifacts of some ops that can be launched: objects, and cubins of which the cache has no object; with a
    ``key``, the one that has it."""
    for op in ops:
        artifacts = [artifact for artifact in cache.op(op).artifacts if artifact.launchable]
        objects = {(str(a.target), canonical(a.config)) for a in artifacts if a.kind == "object"}
        for artifact in artifacts:
            other = artifact.kind == "cubin" and (str(artifact.target), canonical(artifact.config)) in objects
            if artifact.key == key or not (key or other):
                yield op, artifact


def cases(cache: Cache, device: Device, ops: Sequence[str], key: str = "") -> Iterator[Case | LeftOut]:
    """Every artifact of some ops that can be launched, opened and ready, or the reason why it is left out.

    With a ``key``, the one artifact that has it.
    """
    for op, artifact in launchable(cache, ops, key):
        if refused := obstacle(artifact, device):
            yield LeftOut(op, artifact, refused)
            continue
        try:
            kernel = current_session().opener.open(cache, op, artifact)
            yield Case(op, artifact, declaration_for(op, artifact), kernel)
        except PrecastError as error:
            yield LeftOut(op, artifact, str(error))


def selected(cache: Cache, ops: Sequence[str], targets: Sequence[str] = ()) -> Iterator[Selected | LeftOut]:
    """The same artifacts, for some targets or all, as they are called where there is no GPU: nothing is opened."""
    for op, artifact in launchable(cache, ops):
        if targets and str(artifact.target) not in targets:
            continue
        here = platform.machine()
        if artifact.host is not None and artifact.host.arch != here:
            yield LeftOut(op, artifact, f"its host code is for {artifact.host.arch}, this machine is {here}")
            continue
        try:
            yield Selected(op, artifact, declaration_for(op, artifact))
        except PrecastError as error:
            yield LeftOut(op, artifact, str(error))


def obstacle(artifact: Artifact, device: Device) -> str:
    """Why a device must not launch an artifact; empty where it may."""
    if not artifact.target.runs_on(device.capability):
        return f"built for {artifact.target}, this GPU is {device.capability}"
    return (
        unmet(artifact, current_session().machines.on(device.ordinal)) or ""
    )  # its blocks may wait forever for others


def tiling(op: str, artifact: Artifact, device: Device) -> Tiling | None:
    """How an artifact cuts a problem on a device, as its author declares it; None without a declaration."""
    declaration = declaration_for(op, artifact)
    tile = declaration.tile(artifact.config, artifact.target) if declaration.tile else None
    ask = current_session().machines.on(device.ordinal).query
    return tile.on(ask) if tile and ask else None


def misfit(requested: Sequence[Problem], declared: Sequence[Problem]) -> str:
    """Why a kernel cannot run the given problems: it names other sizes. Empty where it can, or declares none.

    >>> misfit([{"m": 4}], [{"m": 1, "n": 1}])
    'its problems have the sizes m, n, not m'
    >>> misfit([{"m": 4, "n": 4}], [{"m": 1, "n": 1, "padding": 3}, {"m": 1, "n": 2, "padding": 0}])
    ''
    """
    declared_sizes = {tuple(sorted(problem)) for problem in declared}
    for problem in requested:
        if declared_sizes and tuple(sorted(filled(problem, declared))) not in declared_sizes:
            sizes = " or ".join(", ".join(names) for names in sorted(declared_sizes))
            return f"its problems have the sizes {sizes}, not {', '.join(sorted(problem))}"
    return ""


def is_layout(size: str) -> bool:
    """Whether a size of a problem only says how its tensors lie in memory, and may be 0.

    >>> is_layout("x_padding"), is_layout("offset"), is_layout("rows")
    (True, True, False)
    """
    return "padding" in size or size == "offset"


def filled(requested: Problem, declared: Sequence[Problem]) -> dict[str, int]:
    """A problem with what it may leave out: how tensors lie in memory, and what all declared problems have alike.

    >>> filled({"m": 4}, [{"m": 1, "l": 1, "padding": 3}, {"m": 2, "l": 1, "padding": 0}])
    {'m': 4, 'l': 1, 'padding': 0}
    """
    result = dict(requested)
    for name in dict.fromkeys(name for problem in declared for name in problem):
        values = {problem.get(name) for problem in declared}
        if name not in result and is_layout(name):
            result[name] = 0
        elif name not in result and len(declared) > 1 and len(values) == 1 and None not in values:
            result[name] = declared[0][name]
    return result


def declaration_for(op: str, artifact: Artifact) -> Declaration:
    """The declaration of the function that the artifact was built from, with a reference that is registered for it."""
    declared = _declared(op, artifact)
    if declared.verifiable:
        return declared
    part = reference_for(op, artifact.config, artifact.target)
    return declared if part is None else declared.verified_by(part)


def _declared(op: str, artifact: Artifact) -> Declaration:
    function = load(source_of(op, artifact))
    whole, part = part_of(op, artifact)
    if part and not is_unregistered(artifact):
        return declaration_of(function, whole).of_part(part, artifact.config, artifact.target)
    return declaration_of(function, op if is_unregistered(artifact) else None)


def bound(launch: Callable[..., Any], values: Mapping[str, Any]) -> Callable[[], Any]:
    """The call of a kernel with what its declaration's ``inputs`` made.

    They are passed by name where they cover all that the kernel takes, less those that its target does not take; else
    in their order. Arguments in the order of the signature are passed without names, which costs the host less. A
    stream that they leave out is the current one of each call. An emulated kernel has an ``own_stream``, and gets
    tensors for pointers. What has a ``bind`` of its own makes the call itself.
    """
    if (bind := getattr(launch, "bind", None)) is not None:
        return cast(Callable[[], Any], bind(values))
    signature = getattr(launch, "signature", None)
    taken = {a.name for a in signature.passed if not a.always_none} if isinstance(signature, Signature) else {""}
    streams = _streams(signature) - set(values)
    if not taken - streams <= set(values):
        return functools.partial(launch, *values.values())
    assert isinstance(signature, Signature)
    accepted = [a for a in signature.passed if a.name in values]
    own_stream = getattr(launch, "own_stream", None)
    keeps = own_stream is not None
    first = list(itertools.takewhile(lambda pair: pair[0] is pair[1], zip(accepted, signature.passed, strict=False)))
    ordered = [_as_passed(a, values[a.name], keeps) for a, _ in first]
    named = {a.name: _as_passed(a, values[a.name], keeps) for a in accepted[len(first) :]}
    if keeps:
        named |= dict.fromkeys(streams, own_stream)
        streams = set()
    if not named and not streams:  # a call without names passes everything
        ordered += [a.none_value for a in signature.passed[len(first) :]]
    call = functools.partial(launch, *ordered, **named)
    return functools.partial(_on_current, call, streams) if streams else call


def _streams(signature: Signature | None) -> set[str]:
    """The arguments that are streams, of a kernel that takes one from its caller."""
    return {a.name for a in signature.passed if a.kind == "stream"} if isinstance(signature, Signature) else set()


def _on_current(call: Callable[..., Any], streams: Set[str]) -> Any:
    import torch

    current = int(torch.cuda.current_stream().cuda_stream)
    return call(**dict.fromkeys(streams, current))


def _as_passed(argument: Argument, value: Any, keeps: bool) -> Any:
    """A pointer is passed as the address of its tensor, unless the kernel ``keeps`` the tensor."""
    is_address = argument.kind == "pointer" and hasattr(value, "data_ptr") and not keeps
    return value.data_ptr() if is_address else value
