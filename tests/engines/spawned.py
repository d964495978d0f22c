"""A process that vLLM's own way starts: spawned from its context, with its plug-ins, attached by the environment alone.

``PRECAST_ATTACH=vllm python spawned.py TARGET hidden|here PROGRAM``. The parent only starts it. The child hides the
DSL, or not, and calls the functions ``call_...`` of PROGRAM up to each launch, since no GPU is here. A line of JSON
says what each ended in, and what was served.
"""

from __future__ import annotations

import importlib
import json
import runpy
import sys
from typing import Any


def work(target: str, dsl: str, program: str, results: Any) -> None:
    """What the worker does: everything before its plug-ins stands in for the GPU."""
    from precast.attach import attached, library_named
    from precast.attach.builder.child.engines.model_kernels import operator_failed
    from precast.attach.compiler import dsl as dsl_answers
    from precast.build.child.stand_in.fact_recorder import FactRecorder
    from precast.build.child.stand_in.fake_cuda import install_fake_cuda
    from precast.build.child.stand_in.fake_gpu import install_fake_gpu
    from precast.build.child.stand_in.tensor_values import TensorValues
    from precast.build.gpu.profile import profile_of
    from precast.kernels.adapters.scripts.meta_tensors import own_operators, without_memory
    from precast.loader.contract.format.target import Target
    from tests.helpers.attach.serve_attached import outcome

    profile = profile_of(Target.parse(target))
    install_fake_gpu(FactRecorder(**profile.to_json()))
    if dsl == "hidden":
        sys.path[:] = [folder for folder in sys.path if "nvidia_cutlass_dsl" not in folder]
    vars(dsl_answers)["max_active_clusters"] = lambda size, device: profile.facts[f"max_active_clusters_{size}"].value
    install_fake_cuda()
    prepare = library_named("vllm").without_gpu
    if prepare is not None:
        prepare()
    importlib.import_module("vllm.plugins").load_general_plugins()  # as a worker does first
    attachment = attached()
    assert attachment is not None and attachment.mode == "frozen"
    attachment.target = target
    with without_memory(), TensorValues(zeros=True), own_operators(operator_failed):
        calls = {name: f for name, f in runpy.run_path(program).items() if name.startswith("call_")}
        ended = {name: outcome(call) for name, call in calls.items()}
    counts = {one.function: [one.hits, one.misses] for one in attachment.counts()}
    results.put({"ended": ended, "counts": counts, "libraries": sorted(attachment.libraries)})


def main() -> None:
    context = importlib.import_module("vllm.utils.system_utils").get_mp_context()
    results = context.Queue()
    process = context.Process(target=work, args=(*sys.argv[1:], results))
    process.start()
    answer = results.get(timeout=300)
    process.join()
    print(json.dumps({**answer, "method": context.get_start_method()}))


if __name__ == "__main__":
    main()
