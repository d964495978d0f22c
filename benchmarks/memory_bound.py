"""Memory-bound kernels of this project beside their peers, in one run: ``python benchmarks/memory_bound.py``.

The caches of PRECAST_CACHE_PATH are built from benchmarks/performance.yaml. Each contest is one op at one size: what
``loader.get`` chooses for the size, the kernels of other libraries for the same, torch's own as it is and as
``torch.compile`` makes it, and a copy of as many bytes. All work on the same inputs and take turns, each launch with a
cold L2 cache, from which all that others wrote is in memory; ours and the copy once more right behind writes. A rival
that fails, or that the caches lack, is told, and costs itself alone. ``--prepare N`` lets N processes compile first, so
that torch finds what it compiled in its own cache.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from precast import loader
from precast.kernels.authoring.declare import declaration_of
from precast.kernels.authoring.registry import find, load
from precast.loader.errors import PrecastError
from precast.measure.launching.cases import bound
from precast.measure.timing import timer
from precast.measure.timing.bench import compiled_for_this

Run = Callable[[], Any]
LAUNCHES = 30
ROWS = (16, 512, 4096, 16384)  # tokens: a step of decoding, and prompts
LOGITS = (16, 512, 4096)
HALF = {"dtype": "bfloat16"}
QUACK_HALF = "bfloat16"


@dataclass(frozen=True, slots=True)
class Rival:
    """Another library's kernel for the same: its op in performance.yaml, and which of our arguments each of its takes.

    Beside our arguments there are the number of rows, a scale, and room for a sum.
    """

    op: str
    config: Mapping[str, Any]
    arguments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Contest:
    """An op of this project, the sizes of its problems, and the kernels of other libraries that do the same."""

    op: str
    config: Mapping[str, Any]
    sizes: tuple[int, ...] = ROWS
    name: str = "rows"
    rivals: tuple[Rival, ...] = ()


def quack_norm(hidden: int, **arguments: str) -> Rival:
    """quack's norm of rows, with a residual or a bias where it has the arguments."""
    residual, bias = (QUACK_HALF if name in arguments else None for name in ("mRes", "mB"))
    config = {
        "dtype": QUACK_HALF, "out_dtype": QUACK_HALF, "res_dtype": residual, "weight_dtype": QUACK_HALF,
        "bias_dtype": bias, "res_out_dtype": residual, "N": hidden, "is_layernorm": bias is not None,
    }  # fmt: skip
    shared = {"mX": "x", "mW": "weight", "mO": "out", "eps": "eps"}
    return Rival("quack.layernorm" if bias else "quack.rmsnorm", config, {**shared, **arguments})


def flashinfer_norm(op: str, config: Mapping[str, Any], *names: str, **others: str) -> Rival:
    """FlashInfer's norm of rows, with arguments that have our names, and others."""
    return Rival(f"flashinfer.{op}", config, {**{name: name for name in names}, **others, "eps": "eps"})


def contests() -> Iterator[Contest]:
    """What is measured, in the order of the page."""
    elements = tuple(rows * 8192 for rows in ROWS)
    yield Contest("scale", HALF, elements, "n")
    yield Contest("add", HALF, elements, "n")
    for function in ("relu", "silu", "gelu", "gelu_tanh"):
        yield Contest("apply", {**HALF, "function": function}, elements, "n")
    for hidden in (4096, 8192):
        one = {**HALF, "hidden": hidden}
        fixed = {"H": hidden, "enable_pdl": False}
        fp8 = {**fixed, "dtype_str": "bfloat16", "out_dtype_str": "float8_e4m3fn"}
        rows = {"mX": "x", "mY": "out", "M": "rows"}
        yield Contest("rmsnorm", one, rivals=(
            quack_norm(hidden), flashinfer_norm("rmsnorm", one, "x", "weight", "out", "rows"),
        ))  # fmt: skip
        yield Contest("fused_add_rmsnorm", one, rivals=(
            quack_norm(hidden, mRes="residual", mResO="sum"),
            flashinfer_norm("fused_add_rmsnorm", one, "x", "residual", "weight", "rows"),
        ))  # fmt: skip
        yield Contest("layernorm", one, rivals=(
            quack_norm(hidden, mB="bias"),
            flashinfer_norm("layernorm", {**fixed, "dtype_str": "bfloat16"}, mGamma="weight", mBeta="bias", **rows),
        ))  # fmt: skip
        yield Contest("rmsnorm_fp8", one, rivals=(flashinfer_norm("rmsnorm_fp8", fp8, mW="weight", mS="one", **rows),))
    for width, sizes in ((4096, ROWS), (32000, LOGITS), (128256, LOGITS)):
        config = {"dtype": QUACK_HALF, "out_dtype": QUACK_HALF, "N": width}
        yield Contest("softmax", {**HALF, "width": width}, sizes, rivals=(
            Rival("quack.softmax", config, {"mX": "x", "mO": "out"}),
        ))  # fmt: skip
    yield Contest("reduce", {**HALF, "width": 4096, "function": "sum"})
    yield Contest("reduce", {**HALF, "width": 4096, "function": "max"})
    for width in (4096, 32000, 128256):
        yield Contest("reduce", {**HALF, "width": width, "function": "argmax"}, LOGITS if width > 4096 else ROWS)
    for block in ("token", 128):
        yield Contest("quantize_fp8", {**HALF, "width": 4096, "block": block})
        yield Contest("dequantize_fp8", {**HALF, "width": 4096, "block": block})
    yield Contest("act_and_mul", {**HALF, "width": 14336})
    yield Contest("silu_and_mul_fp8", {**HALF, "width": 14336})
    yield Contest("moe_permute", {**HALF, "hidden": 7168, "topk": 8}, LOGITS, "tokens")
    yield Contest("moe_finalize", {**HALF, "hidden": 7168, "topk": 8}, LOGITS, "tokens")


def main(argv: list[str] | None = None) -> int:
    """Measure every contest; exit status 1 where one of this project's own kernels is missing or fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--op", action="append", default=[], metavar="OP", help="these ops only")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--prepare", type=int, default=0, metavar="N", help="compile in N processes first")
    parser.add_argument("--share", type=int, nargs=2, metavar=("I", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    chosen = [(one, size) for one in contests() if not options.op or one.op in options.op for size in one.sizes]
    if options.share:
        number, count = options.share
        for one, size in chosen[number::count]:
            rivals_of_torch(one, inputs_of(one.op, one.config, one.name, size), True)
        return 0
    if options.prepare and not options.no_compile:
        prepared(options.prepare, argv if argv is not None else sys.argv[1:])
    rows: list[dict[str, Any]] = []
    missed = 0
    for one, size in chosen:
        try:
            rows.append(measured(one, size, not options.no_compile))
        except PrecastError as error:
            missed += 1
            print(f"{one.op} {dict(one.config)}, {one.name} {size}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        print(line(rows[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps({"rows": rows}, sort_keys=True, indent=1) + "\n")
    return 1 if missed else 0


def prepared(count: int, words: list[str]) -> None:
    """Let processes compile a share of the contests each; what fails there fails again when it is measured."""
    command = [sys.executable, str(Path(__file__).resolve()), *words]
    shares = [[*command, "--share", str(i), str(count)] for i in range(count)]
    for process in [subprocess.Popen(share, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for share in shares]:
        process.wait()


def inputs_of(op: str, config: Mapping[str, Any], name: str, size: int) -> dict[str, Any]:
    """The arguments of an op by name, of one contiguous problem."""
    declaration = declaration_of(load(find(op)))
    assert declaration.inputs is not None
    problem = {name: size, "padding": 0, **({"segments": 1} if name == "tokens" else {})}
    return dict(declaration.inputs(whole(op, config), problem, device="cuda", seed=0))


def whole(op: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """A config with the defaults of its op."""
    from precast.kernels.authoring.schema import keys_of
    from precast.loader.contract.format.config import complete

    return dict(complete(keys_of(load(find(op))), dict(config), op=op))


def measured(one: Contest, size: int, compiled: bool) -> dict[str, Any]:
    """The times of one contest, in microseconds."""
    inputs = inputs_of(one.op, one.config, one.name, size)
    ours = loader.get(one.op, dict(one.config), problem={one.name: size})
    runs: dict[str, Run] = {"ours": bound(ours, inputs)}
    notes: list[str] = []
    more_inputs = (
        {"rows": size, "one": torch.ones(1, device="cuda"), "sum": torch.empty_like(inputs["x"])} if one.rivals else {}
    )
    for rival in one.rivals:
        theirs = {name: {**inputs, **more_inputs}[ours_] for name, ours_ in rival.arguments.items()}
        try:
            runs[rival.op] = tried(bound(loader.get(rival.op, dict(rival.config)), theirs))
        except Exception as error:
            notes.append(f"{rival.op}: {said(error)}")
    found, more = rivals_of_torch(one, inputs, compiled)
    cost = declaration_of(load(find(one.op))).cost
    assert cost is not None
    moved = cost(whole(one.op, one.config), {one.name: size}).bytes
    runs |= {**found, "copy": copy_of(moved)}
    times = dict(zip(runs, timer.cold(list(runs.values()), "cuda", launches=LAUNCHES, written_back=True), strict=True))
    behind = timer.cold([runs["ours"], runs["copy"]], "cuda", launches=LAUNCHES // 2)
    middle = {name: statistics.median(taken) for name, taken in times.items()}
    quarters = statistics.quantiles(times["ours"], n=4)
    us, copied = middle.pop("ours"), middle.pop("copy")
    return {
        "op": one.op,
        "config": dict(one.config),
        "chosen": {key: value for key, value in ours.config.items() if key not in set(one.config)},
        "problem": {one.name: size},
        "bytes": moved,
        "us": us,
        "spread": max(quarters[2] - quarters[0], timer.RESOLUTION) / 2,
        "copy": copied,
        "behind_writes": dict(zip(("us", "copy"), map(statistics.median, behind), strict=True)),
        "peers": middle,
        "notes": [*notes, *more],
    }


def rivals_of_torch(one: Contest, inputs: Mapping[str, Any], compiled: bool) -> tuple[dict[str, Run], list[str]]:
    """torch's own for the same, as it is and compiled for this very size; and what failed."""
    declaration, found, notes = declaration_of(load(find(one.op))), {}, []
    made = dict(declaration.peer(whole(one.op, one.config), inputs)) if declaration.peer else {}
    for name, run in made.items():
        try:
            found[name] = tried(run)
            if compiled:
                found["torch.compile"] = tried(compiled_for_this(run))
        except Exception as error:
            notes.append(f"{name}: {said(error)}")
    return found, notes


def tried(run: Run) -> Run:
    """A run that was run once."""
    run()
    torch.cuda.synchronize()
    return run


def copy_of(moved: int) -> Run:
    """A kernel that reads half of some bytes and writes the other half."""
    source = torch.zeros(max(1, moved // 8), dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return lambda: torch.neg(source, out=target)


def said(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}"


def line(row: Mapping[str, Any]) -> str:
    """A row for people: ours, its share of the copy, and each peer's time over ours."""
    size = " ".join(f"{name}={value}" for name, value in row["problem"].items())
    config = " ".join(str(value) for key, value in row["config"].items() if key != "dtype")
    peers = ", ".join(f"{name} {taken / row['us']:.2f}" for name, taken in row["peers"].items())
    notes = "".join(f" ! {note}" for note in row["notes"])
    return f"{row['op']} {config} {size}: {row['us']:.2f} us, {row['copy'] / row['us']:.2f} of a copy; {peers}{notes}"


if __name__ == "__main__":
    sys.exit(main())
