"""Replaying: a dumped call made again with the same memory, and what it wrote compared with the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.kernels.authoring.declare import Declaration
from precast.kernels.authoring.verification.compare import compare
from precast.loader.contract.diagnostics.dump import Dump, DumpedArgument, Layout
from precast.loader.contract.diagnostics.dump_folder import next_call, read_block, read_dump
from precast.loader.contract.values import replace
from precast.loader.errors import PrecastError

_ALIGNMENT = 256  # what CUDA aligns memory to: addresses keep their remainder, which kernels check
_HOST = 1
_ADVICE = "make the call from the program itself, or leave the dump out"


class ReplayError(PrecastError):
    """A dumped call cannot be made again; the message is the reason."""

    code = "PCK04"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One output of a replayed call. ``reference`` and ``later`` say what it was compared with, and how that ended.

    ``later`` is what the program's memory held there before its next call: other work may have written to it since.
    """

    name: str
    wrong: bool
    reference: str
    later: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "wrong": self.wrong, "reference": self.reference, "later": self.later}


def replay_refusal(dump: Dump) -> str | None:
    """Why a dumped call cannot be made again, or None.

    A call with memory that was left out can: with zeros in its place.
    """
    for name, argument in zip(dump.names, dump.arguments, strict=True):
        for part in argument.parts():
            if part.kind == "pointer":
                return f"{name} is a pointer to memory of unknown size"
            if part.kind == "other":
                return f"{name} was {part.value or 'of a type'} that a dump cannot hold"
    return None


def replay(launch: Callable[..., Any], dump: Dump, folder: Path, declaration: Declaration | None) -> list[Output]:
    """Make a dumped call, wait for it, and compare what it wrote.

    Parameters
    ----------
    launch
        The kernel.
    dump, folder
        The call, and where its memory is.
    declaration
        What the author declared: the reference and its tolerance. None where nothing is known.
    """
    reason = replay_refusal(dump)
    if reason:
        raise ReplayError(f"{reason}: {_ADVICE}")
    memory = [_memory(dump, folder, number) for number in range(len(dump.blocks))]
    values = [_value(argument, memory) for argument in dump.arguments]
    named = dict(zip(dump.names, values, strict=True))
    outputs = _outputs(dump, declaration)
    expected, why_not = _expected(dump, declaration, named)
    launch(*values)
    if not dump.on_host:
        import torch

        torch.cuda.synchronize()
    differences = []
    for name, layout in outputs.items():
        wrong, reference = _compared(dump, declaration, named[name], expected.get(name), why_not)
        later = _later(dump, folder, layout, named[name])
        differences.append(Output(name=name, wrong=wrong, reference=reference, later=later))
    return differences


@dataclass(frozen=True, slots=True)
class _Memory:
    """A block again: the storage that it is in, and where it begins there."""

    storage: Any
    start: int
    device: Any


def _memory(dump: Dump, folder: Path, number: int) -> _Memory:
    import torch

    block = dump.blocks[number]
    device = torch.device("cpu") if block.device[0] == _HOST else torch.device("cuda", torch.cuda.current_device())
    whole = torch.zeros(block.size + _ALIGNMENT, dtype=torch.uint8, device=device)
    start = (block.address - whole.data_ptr()) % _ALIGNMENT
    data = read_block(folder, dump, number)
    if data:
        whole[start : start + block.size].copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    return _Memory(whole.untyped_storage(), start, device)


def _value(argument: DumpedArgument, memory: list[_Memory]) -> Any:
    if argument.layout is not None:
        return _tensor(argument.layout, memory[argument.layout.block])
    if argument.kind == "tuple":
        return tuple([_value(item, memory) for item in argument.items])
    if argument.kind == "stream":
        import torch

        return int(torch.cuda.current_stream().cuda_stream) if torch.cuda.is_available() else 0
    return argument.value


def _tensor(layout: Layout, memory: _Memory) -> Any:
    import torch

    dtype = getattr(torch, layout.dtype.replace("fnx2", "fn_x2"), None)
    if not isinstance(dtype, torch.dtype):
        raise ReplayError(f"torch has no dtype {layout.dtype}: {_ADVICE}")
    if any(stride < 0 for stride in layout.strides):
        raise ReplayError(f"torch has no negative strides: {_ADVICE}")
    offset, rest = divmod(memory.start + layout.offset, dtype.itemsize)
    if rest:
        raise ReplayError(f"a tensor of {layout.dtype} was not aligned to its elements: {_ADVICE}")
    empty = torch.empty(0, dtype=dtype, device=memory.device)
    return empty.set_(memory.storage, offset, layout.shape, layout.strides)


def _outputs(dump: Dump, declaration: Declaration | None) -> dict[str, Layout]:
    """The tensors that the kernel writes, by the signature and the declaration."""
    written = {argument.name for argument in dump.signature.passed if argument.written}
    written |= set(declaration.outputs) if declaration else set()
    pairs = zip(dump.names, dump.arguments, strict=True)
    return {name: passed.layout for name, passed in pairs if name in written and passed.layout is not None}


def _expected(dump: Dump, declaration: Declaration | None, named: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """What the reference gives, before the launch since a kernel may change its inputs; or why there is nothing."""
    if declaration is None or declaration.reference is None:
        return {}, "the op has no reference"
    try:
        return declaration.reference(dump.config, named), "the reference does not give it"
    except Exception as error:  # of the author's code, for arguments that it may not know
        return {}, f"the reference failed ({type(error).__name__}: {error})"


def _compared(
    dump: Dump, declaration: Declaration | None, result: Any, expected: Any, why_not: str
) -> tuple[bool, str]:
    if expected is None or declaration is None:
        return False, f"not compared: {why_not}"
    difference = compare(result, expected, declaration.tolerance(dump.config) if declaration.tolerance else None)
    return bool(difference.fault), difference.fault or f"{difference.error:.2f} of the tolerance"


def _later(dump: Dump, folder: Path, layout: Layout, result: Any) -> str:
    """Whether the program's memory held the same before its next call."""
    after = next_call(folder)
    if after is None:
        return "no next call was kept"
    import torch

    block = dump.blocks[layout.block]
    begin, following = block.address + layout.offset, read_dump(after)
    for number, other in enumerate(following.blocks):
        inside = other.address <= begin and begin + layout.size <= other.address + other.size
        data = read_block(after, following, number) if inside and other.device == block.device else None
        if data is not None:
            at = begin - other.address
            held = torch.frombuffer(bytearray(data[at : at + layout.size] or b"\0"), dtype=torch.uint8)
            then = _tensor(_at_start(layout), _Memory(held.untyped_storage(), 0, torch.device("cpu")))
            now = result.cpu().contiguous().flatten().view(torch.uint8)
            same = torch.equal(now, then.contiguous().flatten().view(torch.uint8))
            return "as before the next call" if same else "differs from the memory before the next call"
    return "the next call did not use it"


def _at_start(layout: Layout) -> Layout:
    return replace(layout, offset=0)
