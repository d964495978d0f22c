"""Where the time of examples/llama.py goes: each kernel of a layer, ours and torch's, in the order of a graph's replay.
Torch's attention is the backend that torch chooses, and cuDNN's.

    PRECAST_CACHE_PATH=CACHE python benchmarks/llama_profile.py --tokens 1 128

Kernels that begin before the one before them has ended overlap: ``gap`` is the time to the end of that one, and may be
below zero.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_REPLAYS = 12


def example() -> Any:
    """The module of the example."""
    examples = Path(__file__).parents[1] / "examples"
    sys.path.insert(0, str(examples))  # it imports what stands beside it
    spec = importlib.util.spec_from_file_location("llama_example", examples / "llama.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["llama_example"] = module
    spec.loader.exec_module(module)
    return module


def kernels(replay: Callable[[], None]) -> list[tuple[str, float, float]]:
    """The name of each kernel of a replay, its median duration and the median gap before it, in microseconds."""
    replay()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(_REPLAYS):
            replay()
            torch.cuda.synchronize()
    events = [e for e in profile.profiler.kineto_results.events() if e.device_type() == torch.autograd.DeviceType.CUDA]
    events.sort(key=lambda e: e.start_ns())
    count = len(events) // _REPLAYS
    runs = [events[i * count : (i + 1) * count] for i in range(_REPLAYS)]
    found = []
    for place in range(count):
        taken = statistics.median(run[place].duration_ns() for run in runs) / 1e3
        gaps = [run[place].start_ns() - run[place - 1].start_ns() - run[place - 1].duration_ns() for run in runs]
        found.append((runs[0][place].name(), taken, statistics.median(gaps) / 1e3 if place else 0.0))
    return found


@torch.inference_mode()
def main() -> None:
    """Print the kernels of the second of two layers, and the final norm's."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 128])
    options = parser.parse_args()
    llama = example()
    layers = [llama.Layer.random() for _ in range(2)]
    norm = torch.ones(llama.HIDDEN, device="cuda", dtype=llama.DTYPE)
    for tokens in options.tokens:
        hidden = torch.randn(tokens, llama.HIDDEN, device="cuda").to(llama.DTYPE)
        sides = {"separate": llama.Precast(layers, norm, tokens, fused=False)}
        sides |= {"fused": llama.Precast(layers, norm, tokens, fused=True)}
        sides |= {name: llama.Torch(layers, norm, tokens, backend=one) for name, one in llama.PEERS.items()}
        for name, side in sides.items():
            replay, _ = llama.captured(lambda side=side, hidden=hidden: side(hidden))
            found = kernels(replay)
            print(f"{tokens} tokens, {name}: {len(found)} kernels of two layers, the second half of them:")
            for kernel, taken, gap in found[len(found) // 2 :]:
                print(f"  {taken:8.2f} us  gap {gap:6.2f}  {kernel[:100]}")


if __name__ == "__main__":
    main()
