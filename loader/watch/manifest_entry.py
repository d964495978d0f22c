"""The manifest entry of a request: of what was found, or of what is missing, as far as the caches know the op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.loader.contract.diagnostics.requests import Wanted
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Key, dtype_name, to_json, to_value
from precast.loader.errors import ConfigError, PrecastError
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import Requirements
from precast.loader.resolve.resolution import Resolution, own_target, source_of, target_to_build


def plain_config(config: object) -> dict[str, Any] | None:
    """A config as JSON has it; None for one that no config can be.

    >>> plain_config({"tile": (64, 128)})
    {'tile': [64, 128]}
    """
    if not isinstance(config, Mapping):
        return {} if config is None else None
    found = {}
    for name, value in config.items():
        try:
            found[name] = to_json(to_value(value))
        except ConfigError:
            try:
                found[name] = dtype_name(value)
            except ConfigError:
                return None
    return found


def wanted_of_artifact(op: str, artifact: Artifact, keys: tuple[Key, ...]) -> Wanted:
    """The entry that builds an artifact again."""
    values = {name: to_json(value) for name, value in artifact.config.items()}
    return _wanted(op, artifact.provenance, values, keys, str(artifact.target))


def wanted_of_resolution(resolution: Resolution) -> Wanted:
    """The entry that would build what a request asked for: what it leaves out has its default, or else the value of the
    nearest variant."""
    nearest = resolution.rejected[0].candidate if resolution.rejected else None
    source = nearest.source if nearest else next(iter(resolution.sources), None)
    request, keys = resolution.request, source.op.keys if source else ()
    values = {**(nearest.config if nearest else {}), **{key.name: key.default for key in keys if key.has_default}}
    values |= Requirements.of(request, keys).values
    plain = {name: to_json(value) for name, value in values.items()}
    made = nearest.artifact.provenance if nearest else {}
    return _wanted(request.op, made, plain, keys, target_to_build(resolution) or None)


def wanted_of_unknown(op: str, config: Mapping[str, Any], machine: Machine) -> Wanted:
    """The entry of an op that no cache holds: a registered op, as far as anybody here can tell."""
    target = machine.target or (own_target(machine.capability) if machine.capability else None)
    return Wanted(op=op, config=config, tuned={}, env={}, target=str(target) if target else None)


def wanted_of_error(error: Exception, op: str, config: Mapping[str, Any], machine: Machine) -> Wanted | None:
    """The entry that would build what an error says is missing; None where no entry would help."""
    resolution = getattr(error, "resolution", None)
    try:
        if isinstance(resolution, Resolution):
            return wanted_of_resolution(resolution)
        return wanted_of_unknown(op, config, machine)
    except PrecastError:
        return None


def _wanted(
    op: str, made: Mapping[str, Any], values: Mapping[str, Any], keys: tuple[Key, ...], target: str | None
) -> Wanted:
    tuned = {key.name for key in keys if key.tuned}
    source = source_of(op, made)
    return Wanted(
        op=source.op,
        function=source.function,
        config={name: value for name, value in values.items() if name not in tuned},
        tuned={name: value for name, value in values.items() if name in tuned},
        parts=source.parts,
        env=source.env,
        target=target,
    )
