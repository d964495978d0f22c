"""Measure a cache on this GPU and write docs/performance.md: ``make bench CACHE=CACHE``.

CACHE is built anywhere from benchmarks/performance.yaml and manifests/gemm.yaml; another from manifests/llama.yaml. A
part whose op a cache lacks is left out. Each is a command of its own; what it found is kept in
``benchmarks/results/MACHINE/PART.json``, and the page is made of all these files, so that parts can be measured one by
one, and on other machines. A part that fails is told, and leaves its last results as they are. Without ``--cache`` the
page alone is written. ``--parts`` names some; without it, all are run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import draw
from performance_page import page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"
PAGE = ROOT / "docs" / "performance.md"
KERNELS = ("attention",)  # what no other part has
LIMIT = 1800  # seconds of a part


@dataclass(frozen=True, slots=True)
class Part:
    """One command: its words, in which CACHE and FILE stand for paths, as people write it, and an op that it needs."""

    words: tuple[str, ...]
    shown: str
    needs: str = ""


def _gemm(*options: str) -> Part:
    words = ("benchmarks/gemm.py", "CACHE", *options)
    return Part((sys.executable, *words, "--json", "FILE"), " ".join(["python", *words]), needs="gemm")


PRECAST = (sys.executable, "-m", "precast.cli.main")
PARTS: Mapping[str, Part] = {
    "memory-bound": Part(
        (sys.executable, "benchmarks/memory_bound.py", "--prepare", "8", "--json", "FILE"),
        "python benchmarks/memory_bound.py --prepare 8",
        needs="rmsnorm",
    ),
    "kernels": Part((*PRECAST, "bench", "CACHE", "--json"), "precast bench CACHE --json"),
    "gemm-bfloat16": _gemm(),
    "gemm-bfloat16-written-back": _gemm("--written-back"),
    "gemm-float8": _gemm("--dtype", "float8_e4m3fn"),
    "gemm-float8-written-back": _gemm("--dtype", "float8_e4m3fn", "--written-back"),
    "attention": Part(
        (sys.executable, "benchmarks/attention.py", "CACHE", "--json", "FILE"),
        "python benchmarks/attention.py CACHE",
        needs="attention",
    ),
    "llama": Part(
        (sys.executable, "examples/llama.py", "--mlp", "both", "--json", "FILE"),
        "python examples/llama.py --mlp both",
        needs="rotary_paged",
    ),
    "llama-compile": Part(
        (sys.executable, "examples/llama.py", "--compile", "--tokens", "16", "128", "2048", "--json", "FILE"),
        "python examples/llama.py --compile --tokens 16 128 2048",
        needs="rotary_paged",
    ),
    "loader": Part((sys.executable, "benchmarks/loader.py", "--json", "FILE"), "python benchmarks/loader.py"),
}


def main(argv: list[str] | None = None) -> int:
    """Run the parts, keep what they found, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, metavar="CACHE")
    parser.add_argument("--parts", nargs="+", choices=sorted(PARTS), default=sorted(PARTS), metavar="PART")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="keep results and page there")
    options = parser.parse_args(argv)
    options.results.mkdir(parents=True, exist_ok=True)
    missed = 0
    if options.cache is not None:
        found = machine()
        if found is None:
            print("nothing is measured: nvidia-smi finds no GPU here", file=sys.stderr)
            return 1
        missed = sum(not measured(name, options.cache.resolve(), found, options.results) for name in options.parts)
    target = PAGE if options.results == RESULTS else options.results / PAGE.name
    target.write_text(page(stored(options.results)))
    print(f"{target} is written")
    if target == PAGE:
        draw.main()
    return 1 if missed else 0


def measured(name: str, cache: Path, found: Mapping[str, str], results: Path) -> bool:
    """Run one part and keep what it found; False, with the reason told, where it found nothing."""
    part = PARTS[name]
    if part.needs and part.needs not in ops_of(cache):
        print(f"{name}: left out: {cache} has no op {part.needs}", flush=True)
        return True
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "found.json")
        words = [{"CACHE": str(cache), "FILE": str(file)}.get(word, word) for word in part.words]
        if name == "kernels":
            words += [word for op in KERNELS if op in ops_of(cache) for word in ("--op", op)]
        print(f"{name}: {part.shown}", flush=True)
        environment = {**os.environ, "PRECAST_CACHE_PATH": str(cache)}
        with open(Path(folder, "stdout"), "w+") as out:
            try:
                done = subprocess.run(words, cwd=ROOT, env=environment, stdout=out, timeout=LIMIT, check=False)
                status = f"exit status {done.returncode}"
            except subprocess.TimeoutExpired as late:  # what it had written by then counts
                status = str(late)
            out.seek(0)
            printed = out.read()
        print(f"{'' if name == 'kernels' else printed}{name}: {status}", flush=True)
        try:
            data = json.loads(printed if name == "kernels" else file.read_text())
        except (OSError, ValueError) as error:
            print(f"{name} found nothing: {type(error).__name__}: {error}", file=sys.stderr)
            return False
    today = datetime.now(timezone.utc).date().isoformat()
    kept = {"part": name, "command": part.shown, "date": today, "machine": dict(found), "data": data}
    target = results / slug(found["name"]) / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(kept, sort_keys=True, indent=1) + "\n")
    return True


def stored(results: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """All results, by machine and part. Files of another form are left out."""
    found = {
        folder.name: {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
        for folder in sorted(results.iterdir())
        if folder.is_dir()
    }
    return {
        machine: {name: part for name, part in parts.items() if isinstance(part, dict) and "machine" in part}
        for machine, parts in found.items()
    }


def ops_of(cache: Path) -> Sequence[str]:
    """The ops of a cache."""
    from precast.loader.resolve.cache import Cache

    return tuple(Cache(cache).index.ops)


def machine() -> dict[str, str] | None:
    """The GPU and what runs on it; None where nvidia-smi finds none."""
    asked = ("name", "driver_version", "clocks.max.sm", "clocks.max.mem", "power.limit")
    command = ["nvidia-smi", f"--query-gpu={','.join(asked)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        values = [value.strip() for value in done.stdout.splitlines()[0].split(",")]
    except (OSError, subprocess.SubprocessError, IndexError):
        return None
    import torch

    versions = {"torch": str(torch.__version__), "cuda": str(torch.version.cuda)}
    return {**dict(zip(asked, values, strict=True)), **versions}


def slug(name: str) -> str:
    """A name as a folder has it.

    >>> slug("NVIDIA H200")
    'nvidia-h200'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "machine"


if __name__ == "__main__":
    sys.exit(main())
