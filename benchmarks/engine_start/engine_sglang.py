"""One start of SGLang: ``engine_sglang.py RESULT MODEL [--graph] [--option JSON]``, as ``engine.py`` starts vLLM.

The option is an object of names and values of SGLang's ``ServerArgs``. The scheduler, which launches the kernels, is a
process that SGLang spawns and ends by a signal: what precast served there is written each second.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from engine import ATTACHED, RANGE, WatchCompiler, answer_all, event, finish, now, watch_processes, watch_triton


def seed_weights() -> None:
    """Have SGLang make other weights than its +-0.001, with which a model repeats its prompt's last token."""
    from sglang.srt.model_loader import loader

    make = loader.initialize_dummy_weights
    loader.initialize_dummy_weights = lambda model: make(model, -RANGE, RANGE)


def write_counts() -> None:
    """Write what precast was asked for in this process, whenever it has changed."""
    from precast import loader

    before = None
    while True:
        time.sleep(1)
        counts = loader.attach([]).counts()
        totals = [sum(count.hits for count in counts), sum(count.misses for count in counts)]
        if totals != before:
            event("served", json.dumps(totals), 0)
            before = totals


def run(model: str, graph: bool, option: str = "") -> dict[str, Any]:
    """Start, answer, and return the result."""
    import sglang

    marks = {"sglang imported": now()}
    more = json.loads(option or "{}")
    if graph:
        more["cuda_graph_config"] = {"decode": {"bs": [1, 2, 4, 8, 16, 32, 64]}}
    engine = sglang.Engine(
        model_path=model, load_format="dummy", dtype="bfloat16", skip_tokenizer_init=True, context_length=4096,
        max_running_requests=64, chunked_prefill_size=4096, max_total_tokens=65536, disable_cuda_graph=not graph,
        random_seed=0, log_level="warning", **more,
    )  # fmt: skip
    marks["ready"] = now()

    def answer(prompts: list[list[int]], tokens: int) -> list[Any]:
        sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
        return list(engine.generate(input_ids=prompts, sampling_params=sampling, return_logprob=True))

    outputs = answer_all(answer, marks)
    time.sleep(2 * ATTACHED)  # for the last counts
    steps = [output["meta_info"]["output_token_logprobs"] for output in outputs]
    return {
        "marks": marks,
        "tokens": [[step[1] for step in answer] for answer in steps],
        "logprobs": [[round(step[0], 6) for step in answer] for answer in steps],
    }


if __name__ in ("__main__", "__mp_main__"):
    watch_processes()
    if not ATTACHED:
        sys.meta_path.insert(0, WatchCompiler())
    watch_triton()
    if __name__ == "__mp_main__":
        seed_weights()
        if ATTACHED:
            threading.Thread(target=write_counts, daemon=True).start()
if __name__ == "__main__":
    code = finish(run)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
