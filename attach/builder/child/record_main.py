"""The process that records without a GPU: a program runs on tensors without memory, as if there were a GPU.

``python -m precast.attach.builder.child.record_main SETTINGS SCRIPT ...``, or ``... SETTINGS -m MODULE ...``: the
compile requests of attached libraries are recorded; nothing is compiled or launched. Tensors have shapes, strides and
dtypes, and small ones that the program makes from values have these values. A program that reads any other value ends
there; its recorded requests are kept.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from precast.attach.attachment import Attachment
from precast.attach.builder.child.engines.model_kernels import operator_failed
from precast.attach.process import attach
from precast.build.child.author_traceback import author_frames
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.child.stand_in.fake_gpu import install_fake_gpu
from precast.build.child.stand_in.no_gpu import without_gpu
from precast.build.gpu.profile import profile_of
from precast.loader.contract.format.target import Target


def main() -> None:
    """Run a script or a module; of its errors, only a value that does not exist here is handled."""
    settings = json.loads(sys.argv[1])
    record_without_gpu(
        profile_of(Target.parse(settings["target"])).to_json(),
        libraries=settings["libraries"],
        recording=settings["recording"],
        without_compiler=settings["without_compiler"],
    )
    words = sys.argv[2:]
    if words[0] != "-m":
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))  # in place of the current folder
    from precast.build.child.stand_in.tensor_values import UnknownValue

    try:
        with without_gpu(failed=operator_failed if settings.get("engine", False) else None):
            run_program(words)
    except UnknownValue as error:
        frame = author_frames(error)[-1]
        sys.exit(
            f"{frame.filename}:{frame.lineno}: {error}; "
            "leave it out of the warm-up, or record on a machine with a GPU, without --target"
        )


def record_without_gpu(
    profile: Mapping[str, Any],
    *,
    libraries: Sequence[str] | None,
    without_compiler: bool,
    recording: str | None = None,
) -> Attachment:
    """Attach libraries to this process, which has no GPU, so that their compile requests are recorded."""
    install_fake_gpu(FactRecorder(**profile))
    attachment = attach(
        libraries, mode="record", missing="skip", recording=recording, without_compiler=without_compiler
    )
    from precast.attach.builder.child.fake_modules import install_fake_modules
    from precast.build.child.stand_in.fake_cuda import install_fake_cuda

    install_fake_cuda()
    install_fake_modules(module for library in attachment.libraries.values() for module in library.native_modules)
    for library in attachment.libraries.values():
        if library.without_gpu is not None:
            library.without_gpu()
    return attachment


def run_program(words: list[str]) -> None:
    """Run ``SCRIPT ...`` or ``-m MODULE ...`` with its arguments."""
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
