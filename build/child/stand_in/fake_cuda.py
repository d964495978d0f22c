"""Fake CUDA: the parts of ``torch.cuda`` beside the GPU's facts, such as streams and events, which do nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from precast.build.child.stand_in.fake_triton import install_fake_triton
from precast.kernels.adapters.scripts.meta_tensors import export_without_memory, without_memory
from precast.loader.contract.import_hook import after_import

_TOOLKIT = "13.0"  # for a torch without CUDA: front ends refuse GPUs that are too new for torch's toolkit


class Event:
    """An event that has always happened. Two are a millisecond apart: programs divide by the time."""

    cuda_event = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        """Do nothing."""

    wait = synchronize = record

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Any) -> float:
        return 1.0


class Stream:
    """A stream on which nothing is launched."""

    cuda_stream = stream_id = device_index = priority = 0
    device_type = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @property
    def device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def synchronize(self, *args: Any) -> None:
        """Do nothing."""

    wait_event = wait_stream = synchronize

    def query(self) -> bool:
        return True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return 0


class Graph:
    """An empty graph."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def replay(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    reset = capture_begin = capture_end = replay

    def pool(self) -> tuple[int, int]:
        return (0, 0)


def install_fake_cuda() -> None:
    """Replace streams, events, graphs and ``torch.compile`` in this process, which has no GPU; once is enough."""
    import torch

    if torch.cuda.Stream is Stream:
        return
    after_import({"cutlass.cute.runtime": export_without_memory})
    install_fake_triton()

    cuda: Any = torch.cuda
    cuda.Event, cuda.CUDAGraph = Event, Graph
    cuda.Stream = cuda.ExternalStream = Stream
    cuda.current_stream = cuda.default_stream = lambda device=None: Stream()
    cuda.stream = cuda.graph = _entered
    cuda.synchronize = cuda.empty_cache = cuda.set_stream = _nothing
    cuda.is_current_stream_capturing = lambda: False
    cuda.graph_pool_handle = lambda: (0, 0)
    cuda.memory_allocated = cuda.max_memory_allocated = cuda.memory_reserved = lambda device=None: 0
    cuda.reset_peak_memory_stats = _nothing
    cuda.mem_get_info = lambda device=None: (1 << 40, 1 << 40)
    accelerator: Any = torch.accelerator
    accelerator.device_index = _entered
    accelerator.current_device_index = lambda: 0
    accelerator.current_stream = lambda device=None: Stream()
    accelerator.synchronize = accelerator.empty_cache = accelerator.set_device_index = _nothing
    accelerator.get_memory_info = cuda.mem_get_info
    accelerator.memory_allocated = accelerator.max_memory_allocated = accelerator.memory_reserved = (
        cuda.memory_allocated
    )
    accelerator.memory_stats = cuda.memory_stats = lambda device=None: {}
    accelerator.reset_peak_memory_stats = _nothing
    bindings: Any = torch._C
    bindings._cuda_getCurrentRawStream = lambda device=None: 0
    tensor: Any = torch.Tensor
    tensor.record_stream = _nothing
    torch.compile = _as_it_is
    version: Any = torch.version
    version.cuda = version.cuda or _TOOLKIT
    _run_backward_without_memory(torch.autograd.function.BackwardCFunction)


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


@contextlib.contextmanager
def _entered(entered: Any = None, *args: Any, **kwargs: Any) -> Iterator[Any]:
    yield entered


def _as_it_is(model: Any = None, **options: Any) -> Any:
    """``torch.compile`` would trace the library's front end, which makes the same requests without tracing."""
    return model if model is not None else lambda function: function


def _run_backward_without_memory(node: Any) -> None:
    """Run backward passes without memory: autograd calls them outside of every mode."""
    apply: Callable[..., Any] = node.apply

    def apply_without_memory(self: Any, *args: Any) -> Any:
        with without_memory():
            return apply(self, *args)

    node.apply = apply_without_memory
