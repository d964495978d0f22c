"""The process that records without a GPU: a program runs on tensors without memory, as if a GPU were there.

``python -m precast.build.child.record_main SETTINGS SCRIPT ...``: what attached libraries ask their compiler for is
written down; nothing is compiled or launched. Tensors have shapes, strides and dtypes and no values, so that a program
that reads a value ends there, with what it asked for until then kept.
"""

from __future__ import annotations

import json
import runpy
import sys
from typing import Any

from precast.build.child.fact_recorder import FactRecorder
from precast.build.child.fake_gpu import install_fake_gpu
from precast.build.gpu.profile import profile_of
from precast.kernels.adapters.scripts.meta_tensors import without_memory
from precast.loader.attach import attach
from precast.loader.format.target import Target


def main() -> None:
    """Run a script; its own errors are its own."""
    settings = json.loads(sys.argv[1])
    target = Target.parse(settings["target"])
    install_fake_gpu(FactRecorder(**profile_of(target).to_json()))
    attachment = attach(settings["libraries"], mode="record", missing="skip", recording=settings["recording"])
    open_torch()
    sys.argv = sys.argv[2:]
    try:
        with without_memory():
            runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        print(json.dumps({"recorded": len(attachment.recorder.recorded)}))


def open_torch() -> None:
    """What a program asks of a GPU beside its properties: there is nothing to wait for."""
    import torch

    cuda: Any = torch.cuda
    cuda.synchronize = cuda.empty_cache = lambda *args, **kwargs: None
    cuda.mem_get_info = lambda *args: (1 << 40, 1 << 40)
    node: Any = torch.autograd.function.BackwardCFunction
    apply = node.apply

    def apply_without_memory(self: Any, *args: Any) -> Any:
        with without_memory():  # autograd calls a backward pass outside of every mode
            return apply(self, *args)

    node.apply = apply_without_memory


if __name__ == "__main__":
    main()
