"""The times of attention at a shape: of the variant that the loader chooses, of peers, and of every other variant.

``serve`` is what a process of ``measuring_process.py`` runs: a peer may fault or hang the GPU, which costs its process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from attention_peers import peer
from attention_shapes import Shape, config, inputs, logarithms, wrong
from measuring_process import Failure
from tuned_variants import alternatives

LAUNCHES, FEW = 15, 3
NEAR = 1.1  # of the best in a first look: what is looked at again
USUAL = ("", None, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be timed in turns with our variant: peers, or with ``candidates`` every variant, too.

    Without ``graphs``, nothing is captured: all is timed between events, with what the host adds.
    """

    shape: Shape
    peers: tuple[str, ...]
    graphs: bool = True
    candidates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Microseconds of each launch, in turns: ours, and the peers'. ``left_out`` has the peers that do not take it."""

    chosen: str
    ours: tuple[float, ...]
    peers: Mapping[str, tuple[float, ...]]
    candidates: Mapping[str, float]
    left_out: Mapping[str, str]


class OwnError(Exception):
    """Our variant is missing, fails or is wrong: no peer can be compared with it."""


def serve(requests: Connection) -> None:
    """Reply to requests until there are no more."""
    try:
        warm_up()
    except Exception as error:
        requests.send(Failure(_reason(error), own=True))
        return
    requests.send(None)
    while True:
        try:
            request = requests.recv()
        except EOFError:
            return
        try:
            requests.send(times(request))
        except Exception as error:
            requests.send(Failure(_reason(error), own=isinstance(error, OwnError)))
            return  # the GPU may not work any more in this process


def warm_up() -> None:
    """Some tenths of a second of work: an idle GPU has a low clock."""
    import torch

    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    for _ in range(1000):
        a @ a
    torch.cuda.synchronize()


def times(request: Request) -> Times:
    """Time one shape; its tensors are gone when this returns."""
    from precast.measure.timing import timer

    shape = request.shape
    values = inputs(shape)
    try:
        kernel = own(shape, values)
    except Exception as error:
        raise OwnError(_reason(error)) from error
    chosen = text(kernel.config)
    kernels = {**(candidates(kernel, shape, values) if request.candidates else {}), chosen: kernel}
    calls = {name: call(each, values) for name, each in kernels.items()}
    looked: dict[str, float] = {}
    if len(calls) > 1:
        first = timer.cold([*calls.values()], "cuda", launches=FEW)
        looked = {name: round(min(took), 3) for name, took in zip(calls, first, strict=True)}
        near = NEAR * min(looked.values())
        calls = {name: run for name, run in calls.items() if name == chosen or looked[name] <= near}
    theirs, left_out = usable(request.peers, shape, values)
    runs = [*calls.values(), *theirs.values()]
    every = timer.cold(runs, "cuda", launches=LAUNCHES, graphs=request.graphs)
    found = {name: tuple(took) for name, took in zip([*calls, *theirs], every, strict=True)}
    return Times(
        chosen=chosen,
        ours=found[chosen],
        peers={name: found[name] for name in theirs},
        candidates={**looked, **{name: _median(found[name]) for name in calls}} if request.candidates else {},
        left_out=left_out,
    )


def own(shape: Shape, values: dict[str, Any]) -> Any:
    """The variant that the loader chooses, which is right; what else it takes joins the values."""
    from precast import loader

    kernel = loader.get("attention", config(shape), problem=shape.problem)
    if kernel.config["lse"]:  # a variant with one more output serves, too
        values["lse"] = logarithms(shape)
    if reason := mistake(kernel, shape, values):
        raise ValueError(reason)
    return kernel


def usable(
    names: tuple[str, ...], shape: Shape, values: dict[str, Any]
) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """The peers that run and are right, and why others are left out."""
    found, left_out = {}, {}
    for name in names:
        try:
            one = peer(name, shape, values)
            reason = wrong(shape, {**values, "out": one.result(one.run())})
        except Exception as error:
            reason = _reason(error)
        if reason:
            left_out[name] = reason
        else:
            found[name] = one.run
    return found, left_out


def call(kernel: Any, values: Mapping[str, Any]) -> Callable[[], Any]:
    """A launch with what the kernel takes."""
    return lambda: kernel(**values)


def mistake(kernel: Any, shape: Shape, values: dict[str, Any]) -> str | None:
    """Launch a kernel, and say what is wrong with its result, or None."""
    import torch

    values["out"].fill_(float("nan"))
    kernel(**values)
    torch.cuda.synchronize()
    return wrong(shape, values)


def candidates(chosen: Any, shape: Shape, values: dict[str, Any]) -> dict[str, Any]:
    """Every variant that differs from the chosen one in tuned keys alone, and is right."""
    from precast import loader

    found: dict[str, Any] = {}
    for artifact in alternatives("attention", chosen):
        name = text(artifact.config)
        try:
            kernel = loader.get("attention", dict(artifact.config))
            reason = mistake(kernel, shape, values)
        except Exception as error:
            reason = _reason(error)
        if reason:
            print(f"  left out: {name}: {reason}", flush=True)
        else:
            found[name] = kernel
    return found


def text(values: Mapping[str, Any]) -> str:
    """The tuned keys of a config on one line.

    >>> text({"dtype": "bfloat16", "pack": True, "queries_tile": 192, "keys_tile": None, "overlap": False})
    'pack, queries_tile: 192, overlap: False'
    """
    words = []
    for name in ("pack", "queries_tile", "keys_tile", "stages", "resident", "overlap", "two_cta"):
        value = values.get(name)
        if name == "overlap" and value is False:
            words.append("overlap: False")
        elif value not in USUAL and name != "overlap":
            words.append(name if value is True else f"{name}: {value}")
    return ", ".join(words) or "plain"


def _median(values: tuple[float, ...]) -> float:
    import statistics

    return round(statistics.median(values), 3)


def _reason(error: Exception) -> str:
    """An error on one line.

    >>> _reason(ValueError("first\\nsecond"))
    'ValueError: first'
    """
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
