"""The process that records without a GPU: a program runs on tensors without memory, as if a GPU were there.

``python -m precast.build.child.record_main SETTINGS SCRIPT ...``, or ``... SETTINGS -m MODULE ...``: what attached
libraries ask their compiler for is written down; nothing is compiled or launched. Tensors have shapes, strides and
dtypes; of small ones that the program makes of values, the values too. A program that reads any other value ends there,
with what it asked for until then kept.
"""

from __future__ import annotations

import json
import os
import runpy
import sys

from precast.build.child.fact_recorder import FactRecorder
from precast.build.child.fake_gpu import install_fake_gpu
from precast.build.gpu.profile import profile_of
from precast.kernels.adapters.scripts.meta_tensors import without_memory
from precast.loader.attach import attach
from precast.loader.format.target import Target


def main() -> None:
    """Run a script or a module; its errors are its own."""
    settings = json.loads(sys.argv[1])
    profile = profile_of(Target.parse(settings["target"]))
    install_fake_gpu(FactRecorder(**profile.to_json()))
    attached = attach(
        settings["libraries"],
        mode="record",
        missing="skip",
        recording=settings["recording"],
        without_compiler=settings["without_compiler"],
    )
    from precast.build.child.fake_cuda import install_fake_cuda
    from precast.build.child.fake_modules import install_fake_modules
    from precast.build.child.known_values import KnownValues

    install_fake_cuda()
    install_fake_modules(place for library in attached.libraries.values() for place in library.native_modules)
    with without_memory(), KnownValues():
        run_program(sys.argv[2:])


def run_program(words: list[str]) -> None:
    """Run ``SCRIPT ...`` or ``-m MODULE ...`` as Python itself would: its arguments, and where it imports from."""
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))  # in place of the current folder
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
