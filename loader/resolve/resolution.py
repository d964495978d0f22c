"""A decision, and its text: the request, the chosen candidate, why the others were not chosen, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format.config import config_text, to_json, value_text
from precast.loader.contract.format.target import Capability
from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError
from precast.loader.locks import IMPORT_LOCK
from precast.loader.machine.machine import Machine
from precast.loader.resolve.assumptions import unmet
from precast.loader.resolve.candidate import CachedOp, Candidate, Request, Requirements, Verified
from precast.loader.resolve.choose import Accepted, Rejected
from precast.loader.terminal_text import visible

if TYPE_CHECKING:
    from precast.loader.contract.format.tuning.estimate import Choice


class Resolution(Immutable):
    """A whole decision: what serves the request, the best first, and what does not, the nearest first.

    ``unjudged`` counts further artifacts, whose configs differ more than those of a thousand others.
    """

    request: Request
    machine: Machine
    accepted: tuple[Accepted, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[CachedOp, ...] = field(default=(), repr=False)
    measured: Choice | None = None
    unjudged: int = 0

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that ``get`` takes."""
        return self.accepted[0].candidate if self.accepted else None

    def __str__(self) -> str:
        return render(self)

    def __repr__(self) -> str:
        return render(self)


def render(resolution: Resolution) -> str:
    """The whole decision."""
    lines = [heading(resolution)]
    rows = list(rows_of(resolution))
    lines += _table([(verdict, *_facts(candidate), why) for verdict, candidate, why in rows])
    if not rows:
        lines.append("  no candidate")
    if resolution.unjudged:
        lines.append(f"  and {resolution.unjudged} more, which differ more")
    lines += [f"  note: {note}" for note in resolution.notes]
    if resolution.chosen is None:
        lines += advice(resolution)
    return visible("\n".join(lines))


def rows_of(resolution: Resolution) -> Iterator[tuple[str, Candidate, str]]:
    """Each candidate, with its verdict and the reason: first those that serve, then the others, the nearest first."""
    for position, accepted in enumerate(resolution.accepted):
        yield _verdict(position), accepted.candidate, _why(position, resolution)
    for rejected in resolution.rejected:
        yield "refused", rejected.candidate, "; ".join(rejected.reasons)


def _why(position: int, resolution: Resolution) -> str:
    accepted = resolution.accepted[position]
    measured = str(resolution.measured) if position == 0 and resolution.measured else ""
    outputs = f"it also writes {', '.join(accepted.outputs)}: pass it" if accepted.outputs else ""
    return "; ".join(filter(None, (measured, outputs, accepted.reservation)))


def heading(resolution: Resolution) -> str:
    """The request and the machine in one line."""
    request = resolution.request
    only = ", verified only" if request.verified else ""
    only = ", verified or emulated only" if request.verified == "emulated" else only
    return f"{request.op} {config_text(request.config)} {resolution.machine}{only}"


def advice(resolution: Resolution) -> list[str]:
    """The nearest variants, and the manifest lines that would build the one that is missing."""
    lines: list[str] = []
    fits = [r for r in resolution.rejected if len(r.differing) == len(resolution.rejected[0].differing)][:3]
    if fits:
        lines.append("nearest: " + " | ".join(_near(r) for r in fits))
    return lines + remedy(resolution)


def remedy(resolution: Resolution) -> list[str]:
    """What to do about a missing variant: the manifest lines that would build it, unless it is built already."""
    fits = [r for r in resolution.rejected if len(r.differing) == len(resolution.rejected[0].differing)][:3]
    required = resolution.request.verified
    if required and any(_only_unproven(r, resolution.machine, required) for r in fits):
        how = "--emulate --record'" if required == "emulated" else "--record' on such a GPU"
        return [f"it is built: run 'precast verify CACHE {how}, or ask without verified"]
    elsewhere = [r.candidate.artifact.target for r in fits if not r.differing and len(r.reasons) == 1]
    if resolution.machine.capability is None and elsewhere:
        return [f"it is built: run this where there is such a GPU, or give target='{elsewhere[0]}' to resolve for it"]
    here = any(not r.differing and unmet(r.candidate.artifact, resolution.machine) for r in fits)
    build = "precast build --profile-from-device' on this GPU" if here else "precast build'"
    lines = [f"to build it, put this in a manifest, run '{build}, and install the cache:"]
    return lines + [f"  {line}" for line in manifest_lines(resolution)]


def _only_unproven(rejected: Rejected, machine: Machine, required: Verified) -> bool:
    """Whether a candidate would serve, had it been verified."""
    with IMPORT_LOCK:
        from precast.loader.resolve.evidence import EMULATED, unproven
    artifact, emulated = rejected.candidate.artifact, required == EMULATED
    return rejected.reasons == (unproven(artifact, machine.capability, emulated=emulated),)


def manifest_lines(resolution: Resolution) -> list[str]:
    """The YAML that builds what the request needs, with the function that compiled the nearest variant.

    Keys that a registered function does not declare as tuned may be tuned by the manifest, so these lines have them,
    too.
    """
    nearest = resolution.rejected[0].candidate if resolution.rejected else None
    source = nearest.source if nearest else next(iter(resolution.sources), None)
    tuned = {key.name for key in source.op.keys if key.tuned} if source else set()
    config = _config(resolution)
    pinned = {name: [value] for name, value in config.items() if name in tuned}
    source_entry = source_of(resolution.request.op, nearest.artifact.provenance if nearest else {})
    lines = ["kernels:"]
    if nearest is None or source_entry.function is None:
        lines.append(f"  - kernel: {source_entry.op}")
    else:
        lines += [f"  - compile: {value_text(source_entry.function)}", f"    op: {source_entry.op}"]
        free = {name: [to_json(nearest.config[name])] for name in sorted(tuned & set(nearest.config))}
        pinned = {**free, **pinned}
    meaning = {name: value for name, value in config.items() if name not in tuned}
    optional = {"config": config_text(meaning) if meaning else "", "tuned": config_text(pinned) if pinned else ""}
    if source_entry.parts:
        optional["parts"] = value_text(source_entry.parts)
    if source_entry.env:
        optional["env"] = config_text(source_entry.env)
    target = target_to_build(resolution)
    optional["targets"] = f"[{target}]" if target else ""
    return lines + [f"    {name}: {text}" for name, text in optional.items() if text]


class Source(Immutable, kw_only=True):
    """What a manifest names for an artifact: the op, and the function by ``module:name`` where it is not registered."""

    op: str
    function: str | None
    parts: tuple[Any, ...]
    env: Mapping[str, Any]


def source_of(op: str, provenance: Mapping[str, Any]) -> Source:
    """What a manifest names for an op, by the provenance of an artifact of it.

    >>> source_of("acme.split.main", {"function": "acme:split", "registered": False, "parts": ["main"]}).op
    'acme.split'
    """
    parts, function, env = provenance.get("parts"), provenance.get("function"), provenance.get("env")
    if isinstance(parts, list) and parts:
        op = op.rpartition(".")[0]
    if "objects" in provenance:  # of a function that compiles several: the manifest names the first
        op = op.partition(".object")[0]
    registered = provenance.get("registered") is not False or not isinstance(function, str)
    return Source(
        op=op,
        function=None if registered else function,
        parts=tuple(parts) if isinstance(parts, list) else (),
        env=env if isinstance(env, dict) else {},
    )


def _config(resolution: Resolution) -> Mapping[str, Any]:
    """The request in its one form, where a source knows it; defaults and free keys stay out."""
    request: Request = resolution.request
    for source in resolution.sources:
        try:
            required = Requirements.of(request, source.op.keys).values
        except ConfigError:
            continue
        return {name: to_json(required[name]) for name in request.config}
    return request.config


def target_to_build(resolution: Resolution) -> str:
    """What to build for: the requested target, else the best one for this device among the targets of the op."""
    machine = resolution.machine
    if machine.target is not None:
        return str(machine.target)
    if machine.capability is None:
        return ""
    targets = {r.candidate.artifact.target for r in resolution.rejected}
    here = sorted((t for t in targets if t.runs_on(machine.capability)), key=lambda t: t.rank)
    return str(here[0]) if here else own_target(machine.capability)


def own_target(capability: Capability) -> str:
    """The target with every feature of a device; from 9.0 on, that is the one with an ``a``."""
    return f"sm_{capability.major}{capability.minor}{'a' if capability.major >= 9 else ''}"


def _verdict(position: int) -> str:
    return "taken" if position == 0 else "fits"


def _facts(candidate: Candidate) -> tuple[str, ...]:
    artifact = candidate.artifact
    return (
        str(artifact.target),
        artifact.kind,
        artifact.key[:12],
        candidate.source.cache,
        config_text(artifact.config),
    )


def _near(rejected: Rejected) -> str:
    artifact = rejected.candidate.artifact
    return f"{config_text(artifact.config)} for {artifact.target}"


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    padded = ([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]] for row in rows)
    return [("  " + "  ".join(row)).rstrip() for row in padded]
