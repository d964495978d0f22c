"""The launching process: it times and verifies artifacts of a cache. A kernel that faults or hangs ends only it.

``precast.measure.on_gpu.launches`` starts it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from precast.build.child.serve import Answer, failure, serve
from precast.build.ipc.message import Message
from precast.kernels.authoring.registry import load, source_of
from precast.kernels.authoring.schema import call
from precast.loader.errors import IntegrityError, PrecastError
from precast.loader.resolve.cache import Cache
from precast.measure.checks.check import Check
from precast.measure.checks.verify import verify
from precast.measure.child.on_gpu.trials import Trials, Wrong
from precast.measure.launching.cases import Case, cases, filled, misfit, this_device
from precast.measure.launching.health import healthy
from precast.measure.timing.bench import bench, benched
from precast.measure.timing.ceilings import measured


def main() -> None:
    """Serve requests to launch."""
    serve(start)


def start(settings: Mapping[str, Any]) -> Answer:
    """Open the cache, and return the function that launches its artifacts."""
    _warm_up()
    cache, device, trials = Cache(Path(settings["cache"])), this_device(), Trials()
    kept: dict[tuple[str, str], Case] = {}  # the candidates of one group, which are requested repeatedly

    def answer(request: Mapping[str, Any]) -> Message:
        if "clocks" in request:
            return Message(trials.clocks())
        if "ceilings" in request:
            return Message({"ceilings": measured(request["ceilings"]).to_json()})
        group = str(request.get("group", ""))
        case = kept.get((group, request["key"])) or next(cases(cache, device, [request["op"]], request["key"]), None)
        if case is None:
            raise IntegrityError(f"{cache.path} was replaced while this ran: run it again")
        if not isinstance(case, Case):
            return Message({"left_out": case.reason, "timings": []})
        if group:
            if kept and next(iter(kept))[0] != group:
                kept.clear()
            kept[group, case.artifact.key] = case
            return Message(tried(trials, case, request))
        if "seed" in request:
            return Message(verified(case, request))
        return Message({"timings": timings(case, request["problems"], request["launches"], request["extras"])})

    return answer


def _warm_up() -> None:
    """Import torch and initialize the GPU while the process starts, so that no kernel's time includes it."""
    with contextlib.suppress(ImportError, RuntimeError):
        import torch

        if torch.cuda.is_available():
            torch.zeros(1, device="cuda")


def verified(case: Case, request: Mapping[str, Any]) -> dict[str, Any]:
    """The checks of ``verify`` for a kernel, up to one after which the GPU does not work any more."""
    checks: list[Check] = []
    options = {name: request[name] for name in ("seed", "problem", "most", "huge")}
    if options["problem"] and case.declaration.problems:
        options["problem"] = filled(options["problem"], case.declaration.problems(case.artifact.config))
    for check in verify(case.kernel, case.declaration, case.artifact.config, **options):
        checks.append(check)
        if check.broke and not healthy():
            return {"checks": [check.to_json() for check in checks], "healthy": False}
    return {"checks": [check.to_json() for check in checks], "healthy": True}


def tried(trials: Trials, case: Case, request: Mapping[str, Any]) -> dict[str, Any]:
    """The time of a candidate on one problem, or the reason why there is none."""
    options = {name: request[name] for name in ("group", "problem", "launches", "check", "enough")}
    try:
        return {"microseconds": trials.time(case, **options)}
    except Wrong as error:
        return {"refused": f"wrong: {error}", "healthy": healthy()}
    except Exception as error:
        return {"refused": str(failure(error).header["error"]), "healthy": healthy()}


def timings(case: Case, given: list[dict[str, int]] | None, launches: int, extras: list[str]) -> list[dict[str, Any]]:
    """The time of the kernel on each given or declared problem, or the reason why there is none.

    A refused problem does not affect the others, unless the GPU does not work any more after it.
    """
    config = case.artifact.config
    declared = benched(case.declaration, config) if case.declaration.problems or not given else []
    if given and (reason := misfit(given, declared)):
        return [{"refused": reason, "problem": {}, "healthy": True}]
    results: list[dict[str, Any]] = []
    compiled = functools.cache(lambda: just_in_time(case))
    for problem in given or declared:
        try:
            (timing,) = bench(
                case.kernel,
                case.declaration,
                config,
                problems=[filled(problem, declared)],
                launches=launches,
                extras=extras,
                just_in_time=compiled,
            )
            results.append({"problem": dict(problem), "timing": replace(timing, problem=dict(problem)).to_json()})
        except Exception as error:
            refused = str(failure(error).header["error"])
            results.append({"problem": dict(problem), "refused": refused, "healthy": healthy()})
            if not results[-1]["healthy"]:
                break
    return results


def just_in_time(case: Case) -> Callable[..., Any]:
    """The DSL's own object of a variant, compiled in this process for its GPU, for comparison."""
    compiled = call(load(source_of(case.op, case.artifact)), case.artifact.config)
    if not callable(compiled):
        raise PrecastError(f"{case.op} returns a {type(compiled).__name__}, which cannot be called")
    return compiled  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
