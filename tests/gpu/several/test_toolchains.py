"""Kernels of several compilers in one process, without any: called in turns, in threads, in one graph.

The caches are the folders of ``PRECAST_CACHE_PATH``, made by different compilers from one manifest:
``benchmarks/version_matrix.py`` makes them.
"""

from __future__ import annotations

import importlib.util
import os
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from precast.kernels.authoring.declare import declaration_of
from precast.kernels.authoring.registry import find, load
from precast.loader.resolve.candidate import Candidate, Request
from precast.loader.session import Session
from precast.measure.checks.verify import verify
from precast.measure.launching.cases import bound

pytestmark = pytest.mark.gpu
FOLDERS = [Path(one) for one in os.environ.get("PRECAST_CACHE_PATH", "").split(":") if one]


@dataclass(eq=False)
class Call:
    """A kernel of one compiler with its arguments, and what it wrote when it was launched alone."""

    compiler: str
    op: str
    kernel: Any
    launch: Callable[[], Any]
    outputs: Mapping[str, Any]
    before: Mapping[str, Any]
    alone: dict[str, Any] = field(default_factory=dict)

    def again(self) -> None:
        """Launch over outputs that hold something else."""
        self.reset()
        self.launch()

    def reset(self) -> None:
        """Put into the outputs what they hold before a launch."""
        for name, tensor in self.outputs.items():
            tensor.copy_(self.before[name])

    def differing(self) -> list[str]:
        """The outputs that are not what the kernel wrote alone, bit by bit."""
        import torch

        def bytes_of(tensor: Any) -> Any:
            return tensor.contiguous().view(torch.uint8)

        return [n for n, t in self.outputs.items() if not torch.equal(bytes_of(t), bytes_of(self.alone[n]))]

    def __str__(self) -> str:
        return f"{self.op} of {self.compiler}"


def compiler_of(toolchain: Mapping[str, str]) -> str:
    """The versions of the compiler and of its CUDA, as an index has them."""
    return f"{toolchain.get('nvidia-cutlass-dsl', '?')} with CUDA {toolchain.get('cuda', '?')}"


def prepared(compiler: str, op: str, kernel: Any) -> Call | None:
    """A kernel with the inputs of its first problem that is not small, which are the same for every compiler.

    None for a kernel whose author declares no such problem, or none at all.
    """
    declaration = declaration_of(load(find(op)))
    if not declaration.verifiable or declaration.problems is None or declaration.inputs is None:
        return None
    for problem in declaration.problems(kernel.config):
        values = declaration.inputs(kernel.config, problem, device="cuda", seed=7)
        outputs = {name: values[name] for name in declaration.outputs if values[name] is not None}
        if all(tensor.numel() >= 8 for tensor in outputs.values()) and sum(t.numel() for t in outputs.values()) >= 1000:
            break
    else:
        return None
    before = {n: tensor.clone() if n in declaration.in_place else poisoned(tensor) for n, tensor in outputs.items()}
    return Call(compiler, op, kernel, bound(kernel, values), outputs, before)


def poisoned(tensor: Any) -> Any:
    """A tensor of the same form, of bytes that no kernel writes everywhere."""
    import torch

    made = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    made.view(torch.uint8).fill_(0x5A)
    return made


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    """Every kernel of every compiler, launched once alone, with the same kernels for each compiler."""
    import torch

    sessions = {folder: Session(str(folder)) for folder in FOLDERS}
    indexes = {folder: session.caches()[0].index for folder, session in sessions.items()}
    if len({compiler_of(index.toolchain) for index in indexes.values() if index}) < 2:
        pytest.skip("PRECAST_CACHE_PATH has no caches of several compilers: benchmarks/version_matrix.py makes them")
    found: dict[str, list[Call]] = {}
    for folder, session in sessions.items():
        index = indexes[folder]  # the folders that are asked for come first
        assert index is not None, f"{folder}: {session.caches()[0].error}"
        compiler = f"{compiler_of(index.toolchain)}, {folder.name}"
        found[compiler] = []
        for op in sorted(index.ops):
            source = session.sources(op)[0][0]
            for one in sorted(source.op.artifacts, key=lambda one: str(sorted(one.config.items()))):
                kernel = session.load(Candidate(source, one), Request(op=op)).kernel
                if (call := prepared(compiler, op, kernel)) is not None:
                    found[compiler].append(call)
    assert len({str([(c.op, dict(c.kernel.config)) for c in mine]) for mine in found.values()}) == 1
    made = [call for mine in found.values() for call in mine]
    for call in made:
        call.again()
        torch.cuda.synchronize()
        call.alone = {name: tensor.clone() for name, tensor in call.outputs.items()}
    return made


def test_no_compiler_is_here(calls: list[Call]) -> None:
    assert importlib.util.find_spec("cutlass") is None
    assert {call.kernel.artifact.kind for call in calls} == {"object"}


def test_each_is_right(calls: list[Call]) -> None:
    wrong = []
    for call in calls:
        declaration = declaration_of(load(find(call.op)))
        checks = list(verify(call.kernel, declaration, call.kernel.artifact.config, huge=False, most=1 << 18))
        assert any(not check.left_out for check in checks), call
        wrong += [f"{call}: {check}" for check in checks if not check.passed]
    assert not wrong, "\n".join(wrong)


def test_each_runs_its_own_code(calls: list[Call]) -> None:
    """No two compilers gave the same library, and each kernel is of the cache that it was asked of."""
    digests: dict[str, str] = {}
    for call in calls:
        assert digests.setdefault(call.kernel.artifact.blob.sha256, call.compiler) == call.compiler


def test_in_turns(calls: list[Call]) -> None:
    import torch

    for seed in range(30):
        shuffled = random.Random(seed).sample(calls, len(calls))
        for call in shuffled:
            call.again()
        torch.cuda.synchronize()
        assert not [(str(call), names) for call in shuffled if (names := call.differing())]


def test_in_threads(calls: list[Call]) -> None:
    """Eight threads, each with a stream of its own and a share of the kernels, so that no two write one tensor."""
    import torch

    faults: list[str] = []
    start = threading.Barrier(8)

    def serve(share: list[Call], seed: int) -> None:
        stream = torch.cuda.Stream()
        start.wait()
        try:
            with torch.cuda.stream(stream):
                for turn in range(50):
                    order = random.Random(seed + turn).sample(share, len(share))
                    for call in order:
                        call.again()
                    stream.synchronize()
                    faults.extend(f"{call}: {names}" for call in order if (names := call.differing()))
        except Exception as error:
            faults.append(f"{type(error).__name__}: {error}")

    torch.cuda.synchronize()
    threads = [threading.Thread(target=serve, args=(calls[n::8], n)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[:5]


def test_in_one_graph(calls: list[Call]) -> None:
    import torch

    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call.launch()
    for _ in range(3):
        for call in calls:
            call.reset()
        graph.replay()
        torch.cuda.synchronize()
        assert not [(str(call), names) for call in calls if (names := call.differing())]


def test_errors_are_each_compilers_own(calls: list[Call]) -> None:
    """An argument that does not fit is refused in words, whatever compiled the kernel; the next launch is right."""
    import torch

    for call in calls:
        with pytest.raises(Exception, match=r"\w") as refused:
            call.kernel(*(torch.empty(3, device="cuda", dtype=torch.int8) for _ in call.kernel.names))
        assert isinstance(refused.value, (TypeError, ValueError, RuntimeError)), f"{call}: {refused.value!r}"
        call.again()
        torch.cuda.synchronize()
        assert not call.differing(), call
