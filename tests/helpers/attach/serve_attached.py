"""A program of its own: calls a library's front end, attached, on tensors without memory, up to each launch.

``python serve_attached.py TARGET LIBRARY[,...] hidden|forbidden PROGRAM ...``. A program is a Python file whose
functions ``call_...`` are called one by one. The DSL is hidden, or is there and may not compile. A line of JSON says
what each call ended in, and what was served.
"""

from __future__ import annotations

import json
import runpy
import sys
from types import ModuleType
from typing import Any

from precast.attach import attach
from precast.attach.compiler import dsl as dsl_answers
from precast.attach.compiler import occupancy
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.child.stand_in.fake_cuda import install_fake_cuda
from precast.build.child.stand_in.fake_gpu import install_fake_gpu
from precast.build.child.stand_in.tensor_values import TensorValues
from precast.build.gpu.profile import profile_of
from precast.kernels.adapters.scripts.meta_tensors import own_operators, without_memory
from precast.loader.contract.format.target import Target
from precast.loader.contract.import_hook import after_import


def forbid(module: ModuleType) -> None:
    def compile_nothing(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("compiling is forbidden here")

    vars(module)["CompileCallable"].__call__ = compile_nothing


def outcome(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "returned"


def main() -> None:
    target, library, dsl, *programs = sys.argv[1:]
    profile = profile_of(Target.parse(target))
    install_fake_gpu(FactRecorder(**profile.to_json()))
    if dsl == "hidden":
        sys.path[:] = [folder for folder in sys.path if "nvidia_cutlass_dsl" not in folder]
    else:
        after_import({"cutlass.base_dsl.compiler": forbid})
    # Attached, the driver counts clusters, and there is none here.
    for module in (dsl_answers, occupancy):
        vars(module)["max_active_clusters"] = lambda size, *_: profile.facts[f"max_active_clusters_{size}"].value
    attached = attach(library.split(","), mode="frozen", target=target, without_compiler=dsl == "hidden")
    install_fake_cuda()
    for one in attached.libraries.values():
        if one.without_gpu is not None:
            one.without_gpu()
    with without_memory(), TensorValues(), own_operators():
        names = {name: value for program in programs for name, value in runpy.run_path(program).items()}
        calls = {name: f for name, f in names.items() if name.startswith("call_")}
        ended = {name: outcome(call) for name, call in calls.items()}
    counts = {one.function: [one.hits, one.misses] for one in attached.counts()}
    print(json.dumps({"ended": ended, "counts": counts}))


if __name__ == "__main__":
    main()
