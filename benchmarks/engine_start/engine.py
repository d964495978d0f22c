"""One start of vLLM: ``engine.py RESULT MODEL [--graph] [--option NAME=JSON]`` answers 27 prompts and times each step.

RESULT is a JSON file: seconds from the start of the process (``START``, in seconds since 1970) to each mark, what was
compiled just in time and which processes ran, the tokens and their log-probabilities. The weights are made: seeded by
place and shape, in a range in which a model does not repeat one token. Each request waits for the one before it, since
requests that arrive together form batches by time, and two starts then differ. At the end all come at once, to be
answered and not compared: kernels for batches must be there, too.

An engine that vLLM spawns imports this file as well, so that its weights and its compilations are seen.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.util
import json
import os
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

START = float(os.environ.get("START") or time.time())
EVENTS = os.environ.get("EVENTS", os.devnull)
"""A file to which every process of the start appends its events, a line each."""
ATTACHED = "PRECAST_ATTACH" in os.environ
RANGE = 0.01
PROMPTS = [[(7 * i * i + 13 * i + 5) % 30000 + 100 for i in range(length)] for length in (6, 300, 1500)]
SHORT = [PROMPTS[1][: 40 + 9 * i] for i in range(24)]


def now() -> float:
    return round(time.time() - START, 2)


def event(kind: str, name: object, seconds: float) -> None:
    line = json.dumps({"kind": kind, "name": str(name)[:160], "seconds": round(seconds, 4), "at": now()})
    with open(EVENTS, "a") as file:
        file.write(line + "\n")


def watch_processes() -> None:
    """Programs that this process starts and waits for: ptxas, gcc, Python."""
    start, wait = subprocess.Popen.__init__, subprocess.Popen.wait

    def timed_start(self: Any, *args: Any, **more: Any) -> None:
        self.began, self.words = time.time(), args[0] if args else more["args"]
        start(self, *args, **more)

    def timed_wait(self: Any, *args: Any, **more: Any) -> int:
        code = wait(self, *args, **more)
        began, self.began = getattr(self, "began", None), None
        if began is not None:
            words = self.words if isinstance(self.words, str) else " ".join(map(str, self.words))
            event(f"process {os.path.basename(words.split()[0])}", words, time.time() - began)
        return code

    subprocess.Popen.__init__, subprocess.Popen.wait = timed_start, timed_wait


def watch_triton() -> None:
    """Kernels that Triton compiles; one that it has in its cache is no event."""
    from triton import knobs

    def compiled(*, src: Any = None, times: Any = None, cache_hit: bool = False, **_: Any) -> None:
        if not cache_hit:
            event("Triton", getattr(getattr(src, "fn", None), "__name__", "?"), getattr(times, "total", 0) / 1e6)

    knobs.compilation.listener = compiled


class WatchCompiler(importlib.abc.MetaPathFinder):
    """Times ``cute.compile`` once something imports it: to import it here would take its seconds."""

    MODULE = "cutlass.base_dsl.compiler"

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_watch(module: Any) -> None:
            execute(module)
            self.watch(module.CompileCallable)

        spec.loader.exec_module = execute_and_watch  # type: ignore[method-assign]
        return spec

    def watch(self, compiler: Any) -> None:
        compile_ = compiler._compile

        def timed(self: Any, function: Any, *args: Any, **more: Any) -> Any:
            began = time.time()
            try:
                return compile_(self, function, *args, **more)
            finally:
                event("DSL", getattr(function, "__qualname__", type(function).__qualname__), time.time() - began)

        compiler._compile = timed


def seed_weights() -> None:
    """Have vLLM make other weights than its +-0.001 of one seed, with which a model repeats its prompt's last token."""
    import torch
    from vllm.model_executor.model_loader import dummy_loader

    make, number = dummy_loader.initialize_single_dummy_weight, 0

    def seeded(param: Any, name: str = "") -> None:
        nonlocal number
        number += 1
        seed = zlib.crc32(f"{number} {name} {tuple(param.shape)}".encode())
        if torch.is_floating_point(param) and torch.finfo(param.dtype).bits >= 16:
            low, high = (0.9, 1.1) if param.dim() <= 1 else (-RANGE, RANGE)
            make(param, low, high, seed=seed, name=name)
        else:
            make(param, seed=seed, name=name)

    dummy_loader.initialize_single_dummy_weight = seeded


def watch() -> None:
    """What both processes of a start do first."""
    watch_processes()
    if not ATTACHED:
        sys.meta_path.insert(0, WatchCompiler())
    import vllm  # noqa: F401

    seed_weights()
    watch_triton()


def answer_all(answer: Callable[[list[list[int]], int], list[Any]], marks: dict[str, float]) -> list[Any]:
    """The answers to all prompts, one by one, with a mark for each step; at last all prompts come at once."""
    answer(PROMPTS[:1], 1)
    marks["first token"] = now()
    outputs = [answer([prompt], 24)[0] for prompt in PROMPTS] + [answer([prompt], 8)[0] for prompt in SHORT]
    marks["all prompts"] = now()
    answer(PROMPTS + SHORT, 8)
    marks["all at once"] = now()
    return outputs


def run(model: str, graph: bool, option: str = "") -> dict[str, Any]:
    """Start, answer, and return the result."""
    from vllm import LLM, SamplingParams

    marks = {"vllm imported": now()}
    mode: dict[str, Any] = (
        {"compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64]}} if graph else {}
    )
    if option:
        name, _, value = option.partition("=")
        mode[name] = json.loads(value)
    llm = LLM(
        model=model, load_format="dummy", dtype="bfloat16", enforce_eager=not graph, max_model_len=4096,
        max_num_seqs=64, max_num_batched_tokens=4096, gpu_memory_utilization=0.5, seed=0, skip_tokenizer_init=True,
        disable_log_stats=True, **mode,
    )  # fmt: skip
    marks["ready"] = now()

    def answer(prompts: list[list[int]], tokens: int) -> list[Any]:
        sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False, logprobs=1)
        requests = [{"prompt_token_ids": prompt} for prompt in prompts]
        return [output.outputs[0] for output in llm.generate(requests, sampling, use_tqdm=False)]

    outputs = answer_all(answer, marks)
    seconds = llm.llm_engine.vllm_config.compilation_config.compilation_time
    if seconds:
        event("torch.compile", "vLLM's figure", seconds)
    return {
        "marks": marks,
        "tokens": [list(output.token_ids) for output in outputs],
        "logprobs": [[round(next(iter(step.values())).logprob, 6) for step in output.logprobs] for output in outputs],
    }


def memory() -> int:
    """The most memory that this process has held, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def served() -> list[list[Any]]:
    """What precast was asked for in this process: function, kernels served, kernels not."""
    from precast import loader

    return [[count.function, count.hits, count.misses] for count in loader.attach([]).counts()]


def finish(run: Callable[[str, bool, str], dict[str, Any]]) -> int:
    """Make a start as the arguments say, and write its result; return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result", type=Path)
    parser.add_argument("model")
    parser.add_argument("--graph", action="store_true", help="torch.compile and CUDA graphs, as by default")
    parser.add_argument("--option", default="", help="a further option of the engine")
    given = parser.parse_args()
    try:
        result = run(given.model, given.graph, given.option)
        status = 0
    except BaseException as error:
        traceback.print_exc()
        result, status = {"failed": f"{type(error).__name__}: {error}"[:600]}, 1
    import torch

    result |= {
        "memory": memory(), "compiler": sorted({"cutlass", "cutlass.cute"} & set(sys.modules)),
        "served": served() if ATTACHED else [], "gpu": torch.cuda.get_device_name(0),
    }  # fmt: skip
    given.result.write_text(json.dumps(result))
    return status


if __name__ in ("__main__", "__mp_main__"):
    watch()
if __name__ == "__main__":
    code = finish(run)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # an engine's threads and processes do not hold the measurement up
