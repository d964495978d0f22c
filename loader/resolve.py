"""Resolution: which artifact serves a request on a machine, and why each other one does not. All of it is pure."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from precast.loader.candidate import Candidate, Request, Source, Wanted, bucketing
from precast.loader.errors import CacheError, ConfigError, FormatError, TargetError
from precast.loader.frozen import frozen, replace
from precast.loader.index import OpIndex
from precast.loader.lazily import IMPORTING
from precast.loader.machine import Machine, version
from precast.loader.target import Target

if TYPE_CHECKING:
    from precast.loader.tuning import Choice

_CUDA = "nvidia-cuda-runtime-cu"
_FFI = "apache-tvm-ffi"


@frozen()
class Accepted:
    """A candidate that serves the request; ``literal`` unless it spells a dtype in another way than the request."""

    candidate: Candidate
    literal: bool = True


@frozen()
class Rejected:
    """A candidate that does not, with every reason, the config keys that differ, and by how much they do."""

    candidate: Candidate
    reasons: tuple[str, ...]
    differing: tuple[str, ...] = ()
    gap: float = 0.0


def meaning(candidate: Candidate, wanted: Wanted, machine: Machine) -> str | None:
    config = candidate.artifact.config
    differing = wanted.differing(config)
    if differing:
        return "; ".join(
            f"{n} is {config[n]!r}, not {wanted.values[n]!r}" if n in config else f"it says nothing of {n}"
            for n in differing
        )
    return None


def described(candidate: Candidate, wanted: Wanted, machine: Machine) -> str | None:
    unknown = sorted(set(candidate.artifact.config) - {key.name for key in wanted.keys})
    return f"its config has keys that its op does not declare: {', '.join(unknown)}" if unknown else None


def launchable(candidate: Candidate, wanted: Wanted, machine: Machine) -> str | None:
    bare = candidate.artifact.kind == "cubin" and candidate.artifact.plan is None
    return "a cubin without a launch plan, which is there for tools to read" if bare else None


def architecture(candidate: Candidate, wanted: Wanted, machine: Machine) -> str | None:
    target = candidate.artifact.target
    if machine.capability is None:
        return f"built for {target}, and there is no CUDA device here"
    if not target.runs_on(machine.capability):
        return f"built for {target}, this GPU is {machine.capability}"
    return None


def host(candidate: Candidate, wanted: Wanted, machine: Machine) -> str | None:
    built = candidate.artifact.host
    if built is not None and built.arch != machine.arch:
        return f"built for {built.arch} hosts, this one is {machine.arch}"
    return None


def glibc(candidate: Candidate, wanted: Wanted, machine: Machine) -> str | None:
    needs = [_version(h.glibc) for h in (candidate.artifact.host, *_runtime_hosts(candidate)) if h is not None]
    if needs and (machine.glibc is None or machine.glibc < max(needs)):
        here = f"this host has {version(machine.glibc)}" if machine.glibc else "this host has none"
        return f"needs glibc {version(max(needs))}, {here}"
    return None


def runtime(candidate: Candidate, wanted: Wanted, machine: Machine) -> str | None:
    if candidate.artifact.kind == "object" and not _runtime_hosts(candidate):
        return "its cache has no runtime library for its host"
    return None


def driver(candidate: Candidate, wanted: Wanted, machine: Machine) -> str | None:
    for package, text in candidate.source.index.toolchain.items():
        made = _version(text) if package.startswith(_CUDA) else None
        if made and machine.driver and machine.driver[0] < made[0]:
            return f"made with CUDA {version(made)}, this driver is for CUDA {version(machine.driver)}"
    return None


def ffi_abi(candidate: Candidate, wanted: Wanted, machine: Machine) -> str | None:
    made = candidate.source.index.toolchain.get(_FFI)
    if machine.tvm_ffi is None:
        return f"needs {_FFI}, which is not installed"
    if made is not None and _version(made) != _version(machine.tvm_ffi):
        return f"made with {_FFI} {made}, {machine.tvm_ffi} is installed"
    return None


RULES = (meaning, described, launchable, architecture, host, glibc, runtime, driver, ffi_abi)


def judge(candidate: Candidate, wanted: Wanted, machine: Machine) -> Accepted | Rejected:
    """Whether a candidate serves a request on a machine; if not, every reason."""
    reasons = tuple(reason for rule in RULES if (reason := rule(candidate, wanted, machine)))
    config = candidate.artifact.config
    if reasons:
        differing = wanted.differing(config)
        gap = sum(_gap(config.get(name), wanted.values[name]) for name in differing)
        return Rejected(candidate, reasons, differing, gap)
    return Accepted(candidate, wanted.literal(config))


def _gap(one: object, other: object) -> float:
    """How far apart two values are: numbers by their ratio, less than 1; what cannot be compared, 1."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other) and one:
        return sum(map(_gap, one, other)) / len(one)
    if _number(one) and _number(other):
        return _ratio(one, other)  # type: ignore[arg-type]
    return 0.0 if one == other and type(one) is type(other) else 1.0


def _ratio(one: float, other: float) -> float:
    bits = abs(math.log2(abs(one) + 1) - math.log2(abs(other) + 1)) + ((one < 0) != (other < 0))
    return bits / (bits + 1)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@frozen()
class Resolution:
    """A whole decision: what serves the request, the best first, and what does not, the nearest first."""

    request: Request
    machine: Machine
    accepted: tuple[Accepted, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = field(default=(), repr=False)
    measured: Choice | None = None

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that ``get`` takes."""
        return self.accepted[0].candidate if self.accepted else None

    def __str__(self) -> str:
        with IMPORTING:
            from precast.loader.trace import render
        return render(self)


def resolve(
    request: Request,
    machine: Machine,
    sources: Iterable[Source],
    *,
    full: bool = True,
    notes: Iterable[str] = (),
) -> Resolution:
    """Judge every artifact of an op.

    Parameters
    ----------
    request
        The op and the config.
    machine
        Where it is to run.
    sources
        The op in each cache that has it.
    full
        Whether those that differ in config or target are to be judged, too: to explain, yes; to choose, no.
    notes
        What else is worth saying in the trace.
    """
    accepted: list[Accepted] = []
    rejected: list[Rejected] = []
    remarks = list(notes)
    refusals: list[ConfigError | CacheError] = []
    sources = tuple(sorted(sources, key=lambda source: source.precedence))
    for source in sources:
        noted: list[str] = []
        try:
            wanted = Wanted.of(request, source.op.keys)
            verdicts = list(_verdicts(source, wanted, machine, full, noted))
        except (ConfigError, CacheError) as refusal:
            refusals.append(refusal)
            remarks.append(f"cache {source.cache!r} was left out: {refusal}")
            continue
        remarks += noted
        accepted += [verdict for verdict in verdicts if isinstance(verdict, Accepted)]
        rejected += [verdict for verdict in verdicts if isinstance(verdict, Rejected)]
    if refusals and len(refusals) == len(sources):
        raise refusals[0]
    resolution = Resolution(
        request,
        machine,
        tuple(sorted(accepted, key=lambda a: (not a.literal, *a.candidate.rank))),
        tuple(sorted(rejected, key=lambda r: (len(r.differing), len(r.reasons), r.gap, *r.candidate.rank))),
        tuple(remarks),
        sources,
    )
    return by_measurement(resolution) if request.problem is not None and accepted else resolution


def _verdicts(
    source: Source, wanted: Wanted, machine: Machine, full: bool, notes: list[str]
) -> Iterator[Accepted | Rejected]:
    """A judgement of every artifact of a source, or of those that may serve."""
    for position in range(len(source.op.rows)) if full else _likely(source.op, wanted):
        if full or _plausible(source.op.rows[position], wanted, machine):
            try:
                yield judge(Candidate(source, source.op.artifact(position)), wanted, machine)
            except FormatError as error:
                notes.append(f"cache {source.cache!r}: an artifact was left out: {error}")


def by_measurement(resolution: Resolution) -> Resolution:
    """The same decision with the variant first that measurements favour, and what they say.

    They decide only where nothing but the author's order would: among variants of one cache, for one target, of one
    kind, that spell their dtypes alike.
    """
    problem, machine = resolution.request.problem, resolution.machine
    first = resolution.accepted[0]
    peers = [a for a in resolution.accepted if _decided_by_author(a) == _decided_by_author(first)]
    assert problem is not None
    try:
        table = first.candidate.source.op.tuning
    except FormatError as error:
        return _noting(resolution, f"the measurements of cache {first.candidate.cache!r} were left out: {error}")
    gpu = machine.device.name if machine.device else None
    keys = [a.candidate.artifact.key for a in peers]
    with IMPORTING:
        from precast.loader.tuning import choose
    choice = choose(table, problem, keys, gpu=gpu, capability=machine.capability)
    if choice is None:
        axes = ", ".join(sorted(problem)) or "nothing"
        return _noting(
            resolution,
            f"cache {first.candidate.cache!r} has no measurement for a problem of {axes} on such a GPU, so the author's"
            " order decided: measure with 'precast bench', add with 'precast tune'",
        )
    best = peers[keys.index(choice.key)]
    rest = tuple(a for a in resolution.accepted if a is not best)
    return replace(resolution, accepted=(best, *rest), measured=choice)


def _decided_by_author(accepted: Accepted) -> tuple[Any, ...]:
    candidate = accepted.candidate
    return accepted.literal, candidate.target, candidate.source.precedence, candidate.artifact.kind


def _noting(resolution: Resolution, note: str) -> Resolution:
    return replace(resolution, notes=(*resolution.notes, note))


def _likely(op: OpIndex, wanted: Wanted) -> list[int]:
    """Where the rows stand that agree with the request in every meaning key."""
    bucket = bucketing(op.keys)
    return op.positions(bucket, bucket(wanted.values))


def _plausible(row: Mapping[str, Any], wanted: Wanted, machine: Machine) -> bool:
    """A cheap look at a row that was not parsed yet: False only for what ``judge`` would refuse."""
    if wanted.differing(row.get("config")):
        return False
    target = row.get("target")
    if isinstance(target, str) and machine.capability is not None:
        try:
            return _target(target).runs_on(machine.capability)
        except TargetError:
            pass
    return True


@functools.lru_cache(maxsize=256)
def _target(text: str) -> Target:
    return Target.parse(text)


def _runtime_hosts(candidate: Candidate) -> list[Any]:
    built = candidate.artifact.host
    return [r.host for r in candidate.source.index.runtimes if built is not None and r.host.arch == built.arch]


@functools.lru_cache(maxsize=256)
def _version(text: str) -> tuple[int, int]:
    """The first two numbers of a version; what is not there counts as 0."""
    major, minor, *_ = [int(part) if part.isascii() and part.isdigit() else 0 for part in (*text.split("."), "0", "0")]
    return major, minor
