"""The manifest entry that builds what a request resolved to, or what is missing, as far as the caches know the op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.loader.contract.diagnostics.requests import ManifestEntry
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
    plain = {}
    for name, value in config.items():
        try:
            plain[name] = to_json(to_value(value))
        except ConfigError:
            try:
                plain[name] = dtype_name(value)
            except ConfigError:
                return None
    return plain


def entry_for_artifact(op: str, artifact: Artifact, keys: tuple[Key, ...]) -> ManifestEntry:
    """The entry that builds an artifact again."""
    values = {name: to_json(value) for name, value in artifact.config.items()}
    return _entry(op, artifact.provenance, values, keys, str(artifact.target))


def entry_for_resolution(resolution: Resolution) -> ManifestEntry:
    """The entry that would build what a request needs.

    What the request leaves out has its default, or else the value of the nearest variant.
    """
    nearest = resolution.rejected[0].candidate if resolution.rejected else None
    source = nearest.source if nearest else next(iter(resolution.sources), None)
    request, keys = resolution.request, source.op.keys if source else ()
    values = {**(nearest.config if nearest else {}), **{key.name: key.default for key in keys if key.has_default}}
    values |= Requirements.of(request, keys).values
    plain = {name: to_json(value) for name, value in values.items()}
    provenance = nearest.artifact.provenance if nearest else {}
    return _entry(request.op, provenance, plain, keys, target_to_build(resolution) or None)


def entry_for_unknown_op(op: str, config: Mapping[str, Any], machine: Machine) -> ManifestEntry:
    """The entry of an op that no cache holds: a registered op, as far as the caches show."""
    target = machine.target or (own_target(machine.capability) if machine.capability else None)
    return ManifestEntry(op=op, config=config, tuned={}, env={}, target=str(target) if target else None)


def entry_for_error(error: Exception, op: str, config: Mapping[str, Any], machine: Machine) -> ManifestEntry | None:
    """The entry that would build what is missing by an error; None where no entry would help."""
    resolution = getattr(error, "resolution", None)
    try:
        if isinstance(resolution, Resolution):
            return entry_for_resolution(resolution)
        return entry_for_unknown_op(op, config, machine)
    except PrecastError:
        return None


def _entry(
    op: str, provenance: Mapping[str, Any], values: Mapping[str, Any], keys: tuple[Key, ...], target: str | None
) -> ManifestEntry:
    tuned = {key.name for key in keys if key.tuned}
    source = source_of(op, provenance)
    return ManifestEntry(
        op=source.op,
        function=source.function,
        config={name: value for name, value in values.items() if name not in tuned},
        tuned={name: value for name, value in values.items() if name in tuned},
        parts=source.parts,
        env=source.env,
        target=target,
    )
