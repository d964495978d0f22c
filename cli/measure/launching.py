"""What ``verify`` and ``bench`` share: what of a cache this machine's GPU runs, with its declarations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from precast.kernels.authoring.declare import Declaration, declaration_of
from precast.kernels.authoring.registry import FunctionRef, find, load
from precast.loader import session
from precast.loader.errors import NoCudaDevice, PrecastError
from precast.loader.format.artifact import Artifact
from precast.loader.launch.kernel import Kernel
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.driver import Device, NoDriver


@dataclass(frozen=True, slots=True)
class Case:
    """One artifact that can be launched here."""

    op: str
    artifact: Artifact
    kernel: Kernel
    declaration: Declaration

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.artifact.config.items())
        return f"{self.op}({values}) for {self.artifact.target}"


@dataclass(frozen=True, slots=True)
class Left:
    """One that cannot, and why."""

    op: str
    artifact: Artifact
    reason: str


def this_device() -> Device:
    """The current device; NoCudaDevice where there is none."""
    try:
        return session.default.machines.driver.find()
    except NoDriver as reason:
        raise NoCudaDevice(f"there is no CUDA device: {reason}. Run this where there is one") from None


def facts(device: Device) -> dict[str, Any]:
    """What evidence and measurements say of where they were made."""
    return {"gpu": device.name, "capability": str(device.capability)}


def cases(cache: Cache, device: Device, ops: tuple[str, ...]) -> Iterator[Case | Left]:
    """Every artifact of some ops of a cache, ready to launch, or the reason why not."""
    for op in sorted(cache.index.ops):
        if ops and op not in ops:
            continue
        for artifact in cache.op(op).artifacts:
            if artifact.kind != "object":
                continue
            if not artifact.target.runs_on(device.capability):
                yield Left(op, artifact, f"built for {artifact.target}, this GPU is {device.capability}")
                continue
            try:
                yield Case(op, artifact, session.default.opener.open(cache, op, artifact), _declaration(op, artifact))
            except PrecastError as error:
                yield Left(op, artifact, str(error))


def _declaration(op: str, artifact: Artifact) -> Declaration:
    """By the function that the artifact was made of, where it can be imported; else by the op's registered one."""
    function = artifact.provenance.get("function")
    if isinstance(function, str) and artifact.provenance.get("registered") is False:
        return declaration_of(load(FunctionRef.parse(function)), op)
    return declaration_of(load(find(op)))
