"""Launch every variant of a cache on this GPU, and compare what it writes with its reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.cli.shared.output import count, emit
from precast.cli.shared.progress import Progress

if TYPE_CHECKING:
    from precast.loader.resolve.cache import Cache
    from precast.loader.resolve.driver import Device


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache.", metavar="CACHE")],
    op: Annotated[
        list[str] | None, typer.Option("--op", help="Verify this op only; may be repeated.", metavar="OP")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="The seed of the random inputs, below 2**63.", metavar="N")
    ] = 0,
    record: Annotated[bool, typer.Option("--record", help="Write the evidence into the cache.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the evidence as JSON.")] = False,
) -> None:
    """Launch every variant of a cache on this GPU, and compare what it writes with its reference.

    Exit status 1 means that one is wrong, or that none could be verified.
    """
    from precast.build.cache.annotate import add_evidence as write
    from precast.kernels.authoring.launching import ops_of, this_device
    from precast.loader.resolve.cache import Cache

    if seed >= 1 << 63:
        raise typer.BadParameter(f"--seed {seed} is too large: torch takes less than 2**63")
    opened = Cache(cache)
    ops = ops_of(opened, op or ())
    try:
        device = this_device()
        evidence, lines, total = _verify(opened, ops, device, seed)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("no evidence was written") from None
    done = sum(map(len, evidence.values()))
    lines.append(f"{count(done, 'variant')} verified on {device.name}, {total - done} left out")
    if record and done:
        write(opened, evidence)
    emit(evidence, "\n".join(lines), as_json)
    if len(lines) > 1 or not done:
        raise typer.Exit(1)


def _verify(
    cache: Cache, ops: Sequence[str], device: Device, seed: int
) -> tuple[dict[str, dict[str, Any]], list[str], int]:
    """The evidence by op and key, a line for each output that is wrong, and how many artifacts there are."""
    from precast.kernels.authoring.launching import Case, cases, facts
    from precast.kernels.authoring.verify import outcome, verify

    evidence: dict[str, dict[str, Any]] = {}
    lines: list[str] = []
    with Progress() as progress:
        progress.stage(f"opening the artifacts of {count(len(ops), 'op')}")
        found = list(cases(cache, device, ops))
        progress.total = len(found)
        for case in found:
            if not isinstance(case, Case):
                progress.step(str(case), f"left out: {case.reason}")
                continue
            if not case.declaration.verifiable:
                progress.step(str(case), "left out: its @kernel gives no problems, inputs, outputs and reference")
                continue
            progress.begin(str(case))
            result = outcome(list(verify(case.kernel, case.declaration, case.artifact.config, seed=seed)))
            entry = {"check": "verify", **facts(device), "seed": seed, **result}
            evidence.setdefault(case.op, {})[case.artifact.key] = entry
            wrong = [f"wrong: {case}: {text}" for text in result["failed"]]
            progress.step(str(case), wrong[0] if wrong else f"{result['worst']:.2f} of the tolerance", keep=bool(wrong))
            lines += wrong
    return evidence, lines, len(found)
