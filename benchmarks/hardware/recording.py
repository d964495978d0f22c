"""Launches one problem of each variant on the GPU. A variant that breaks the GPU's context ends one process only."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from precast.loader import current_session
from precast.loader.contract.format.artifact import Artifact
from precast.loader.resolve.cache import Cache
from precast.measure.launching.cases import bound, declaration_for, launchable, obstacle, this_device

from .problem import choose, digest, on_gpu, raw
from .stored import Output, Result, sample

TARGET = "sm_90a"
SHARDS = 6  # processes


def variants(caches: list[Path]) -> Iterator[tuple[Cache, str, Artifact]]:
    """Every launchable artifact of the target, each config once."""
    seen: set[str] = set()
    for path in caches:
        cache = Cache(path)
        for op, artifact in launchable(cache, sorted(cache.index.ops)):
            if str(artifact.target) == TARGET and artifact.key not in seen:
                seen.add(artifact.key)
                yield cache, op, artifact


def record(cache: Cache, op: str, artifact: Artifact) -> Result:
    """Launch one variant on its problem."""
    import torch

    config = ", ".join(f"{k}={v}" for k, v in artifact.config.items())
    about = Result(manifest=cache.path.name, op=op, key=artifact.key, config=config)
    refused = obstacle(artifact, this_device())
    declaration = declaration_for(op, artifact)
    if refused or not declaration.verifiable or declaration.ranks is not None:
        return _failed(about, refused or "its declaration names no problems, inputs and outputs")
    chosen = choose(declaration, artifact)
    if chosen is None:
        return _failed(about, "no declared problem writes anything")
    inputs = {name: digest(raw(v)) for name, v in chosen.values.items() if isinstance(v, torch.Tensor)}
    kernel = current_session().opener.open(cache, op, artifact)
    there = on_gpu(chosen.values)
    bound(kernel, there)()
    torch.cuda.synchronize()
    outputs = []
    for name in chosen.outputs:
        data = raw(there[name])
        dtype = str(there[name].dtype).removeprefix("torch.")
        outputs.append(
            Output(name=name, dtype=dtype, shape=tuple(there[name].shape), digest=digest(data), sample=sample(data))
        )
    return Result(
        manifest=about.manifest,
        op=op,
        key=artifact.key,
        config=config,
        problem=chosen.problem,
        inputs=inputs,
        outputs=tuple(outputs),
    )


def _failed(about: Result, reason: str) -> Result:
    return Result(manifest=about.manifest, op=about.op, key=about.key, config=about.config, failed=reason)


def record_from(caches: list[Path], start: int, out: Path) -> None:
    """In a child process: append the results of every `SHARDS`-th variant from one on, each as it comes."""
    import torch

    torch.set_num_threads(2)
    torch.zeros(1, device="cuda")
    with out.open("ab") as file:
        for number, (cache, op, artifact) in enumerate(variants(caches)):
            if number < start or number % SHARDS != start % SHARDS:
                continue
            begun = time.monotonic()
            try:
                result = record(cache, op, artifact)
            except Exception as error:
                config = ", ".join(f"{k}={v}" for k, v in artifact.config.items())
                about = Result(manifest=cache.path.name, op=op, key=artifact.key, config=config)
                result = _failed(about, f"{type(error).__name__}: {str(error)[:300]}")
            pickle.dump((number, result), file)
            file.flush()
            taken = time.monotonic() - begun
            if result.failed or taken > 2:
                print(f"{number} {op} {artifact.key[:12]} {taken:.1f} s {result.failed[:160]}", flush=True)
            if "CUDA" in result.failed and "error" in result.failed.lower():
                return  # its context may be broken


def record_all(caches: list[Path], folder: Path) -> list[Result]:
    """All variants, by several processes at once, and by as many as it takes."""
    total = sum(1 for _ in variants(caches))
    with ThreadPoolExecutor(SHARDS) as pool:
        parts = list(
            pool.map(lambda shard: _record_shard(caches, folder / f"part{shard}.tmp", shard, total), range(SHARDS))
        )
    results = {number: result for part in parts for number, result in part.items()}
    return [results[number] for number in sorted(results)]


def _record_shard(caches: list[Path], kept: Path, shard: int, total: int) -> dict[int, Result]:
    start, results = shard, dict[int, Result]()
    program = str(Path(__file__).parent.parent / "emulation_hardware.py")
    while start < total:
        subprocess.run([sys.executable, program, "record-from", str(start), str(kept), *map(str, caches)], check=False)
        results = dict(_read(kept))
        start = max(max(results, default=start) + SHARDS, start + SHARDS)
    kept.unlink(missing_ok=True)
    return results


def _read(path: Path) -> Iterator[tuple[int, Result]]:
    """What child processes of this program appended to its own file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)
            except (EOFError, pickle.UnpicklingError):
                return
