"""The process that runs a program of a manifest without a GPU: calls with sample tensors, or a script.

``precast.attach.builder.program_recorder`` starts it. The compile requests of attached libraries are recorded; nothing
is compiled or launched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from precast.attach.builder.child.record_main import record_without_gpu, run_program
from precast.attach.recordings.key_reader import decode
from precast.build.child.author_traceback import author_frames, author_traceback
from precast.build.child.closed.refusals import explained
from precast.build.child.closed.world import World
from precast.build.child.serve import Answer, failure, serve
from precast.build.child.source_only import SourceOnly
from precast.build.child.stand_in.no_gpu import without_gpu
from precast.build.ipc.message import Message
from precast.kernels.authoring.adapter import read_installed
from precast.kernels.authoring.dtypes import to_torch
from precast.kernels.authoring.registry import FunctionRef, load
from precast.loader.errors import ConfigError, PrecastError


def main() -> None:
    """Serve requests of a plan."""
    serve(start)


def start(settings: Mapping[str, Any]) -> Answer:
    """Attach the libraries, and return the function that runs calls and scripts."""
    os.environ.pop("PRECAST_RECORDING", None)  # this recording is sent only to the plan
    closure = settings["closure"]
    world = World.begin([*settings["search"], settings["folder"]]) if closure is not None else None
    attachment = record_without_gpu(
        settings["profile"], libraries=settings["libraries"], without_compiler=find_spec("cutlass") is None
    )
    read_installed()  # here, since a closed process sees only the distributions of its program
    if world is not None:
        SourceOnly().install()
        world.close(closure)
        os.makedirs(settings["folder"], exist_ok=True)
    os.chdir(settings["folder"])

    def answer(request: Mapping[str, Any]) -> Message:
        for number, run_request in enumerate(request["runs"]):
            try:
                with without_gpu():
                    run(run_request)
            except PrecastError as error:  # its message has advice; the author's frames, if any, the location
                cause = error.__cause__
                frames = author_traceback(cause) if cause is not None and author_frames(cause) else ""
                return Message({"row": number, "refused": str(error), "traceback": frames})
            except (Exception, SystemExit) as error:
                return failure(explained(error), row=number)
        recorder = attachment.recorder
        return Message(
            {
                "recorded": [kernel.to_json() for kernel in recorder.recorded],
                "left_out": list(recorder.left_out),
            }
        )

    return answer


def run(request: Mapping[str, Any]) -> None:
    """Run one call or one script."""
    if "script" in request:
        run_script(request["script"], request["arguments"])
    else:
        run_call(request["call"], request["arguments"], backward=request["backward"])


def run_script(path: str, arguments: list[str]) -> None:
    """Run a script as Python itself would. ``sys.exit`` is an error only with a status other than 0."""
    sys.path.insert(0, str(Path(path).parent))
    try:
        run_program([path, *arguments])
    except SystemExit as end:
        if end.code not in (None, 0):
            raise ConfigError(f"it called sys.exit({end.code!r}): correct the script") from None


def run_call(function_name: str, forms: Mapping[str, Any], *, backward: bool) -> None:
    """Call a function with sample arguments, and run the backward pass of what it returns."""
    import torch

    function = load(FunctionRef.parse(function_name))
    makers = {"values": _tensor_of_values}
    returned = function(**{name: decode(form, tensor=_tensor, makers=makers) for name, form in forms.items()})
    if not backward:
        return
    outputs = [output for output in _tensors(returned) if output.requires_grad]
    if not outputs:
        raise ConfigError(
            "none of its results requires a gradient: write 'requires_grad: true' for a tensor, or remove 'backward'"
        )
    torch.autograd.backward(outputs, [torch.empty_like(output) for output in outputs])


def _tensor(dtype: str, sizes: list[int], strides: list[int], requires_grad: bool) -> Any:
    import torch

    tensor = torch.empty_strided(sizes, strides, dtype=to_torch(dtype), device="cuda")
    return tensor.requires_grad_() if requires_grad else tensor


def _tensor_of_values(dtype: str, values: Any, requires_grad: bool) -> Any:
    import torch

    tensor = torch.tensor(values, dtype=to_torch(dtype), device="cuda")
    return tensor.requires_grad_() if requires_grad else tensor


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


if __name__ == "__main__":
    main()
