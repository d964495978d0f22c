"""The memory of a call's tensors: which blocks they are in, and the bytes of these, from the host or from a device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from precast.loader.contract.abi.dlpack import CUDA
from precast.loader.contract.diagnostics.dump import Block, DumpedArgument, Layout, span
from precast.loader.contract.format.signature import Argument
from precast.loader.contract.values import Immutable, replace
from precast.loader.errors import FormatError, PrecastError
from precast.loader.launch.warm_up import device_context
from precast.loader.machine.driver import Driver
from precast.loader.watch.plain_value import View, current_stream, plain_value

_HOST = (1, 3, 13)  # kDLCPU, kDLCUDAHost, kDLCUDAManaged: the host may read it
_NAMED = {bool: "bool", int: "int", float: "float", str: "text"}
_ADDRESSES = ("pointer", "stream")
_CAPTURING = range(900, 909)  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and those after it


class GpuFailed(PrecastError):
    """The GPU reported an error of earlier work, while a dump waited for it."""

    code = "PCL15"


class CallArguments(Immutable):
    """The arguments of a call, the memory that they point to, and what keeps that memory alive."""

    arguments: tuple[DumpedArgument, ...]
    blocks: tuple[Block, ...]
    owners: tuple[object, ...]


def describe_arguments(signature: Sequence[Argument], values: Sequence[Any]) -> CallArguments:
    """Describe the arguments of a call. Tensors that overlap share a block, as an output that is also an input does."""
    views: list[View] = []
    owners: list[object] = []

    def describe(argument: Argument | None, value: Any) -> DumpedArgument:
        if argument is not None and argument.kind in _ADDRESSES and value is not None:
            return DumpedArgument(kind=argument.kind, value=type(value).__name__)
        if value is None:
            return DumpedArgument(kind="none")
        if isinstance(value, (tuple, list)):
            return DumpedArgument(kind="tuple", items=tuple([describe(None, item) for item in value]))
        try:
            plain, owner = plain_value(value.detach() if hasattr(value, "detach") else value)
        except Exception as error:  # of the tensor's own library
            return DumpedArgument(kind="other", value=f"{type(value).__name__}, {type(error).__name__}")
        if type(plain) in _NAMED and not (type(plain) is int and not -(2**63) <= plain < 2**64):
            return DumpedArgument(kind=_NAMED[type(plain)], value=plain)
        if not isinstance(plain, View):
            return DumpedArgument(kind="other", value=type(value).__name__)
        try:
            first, _ = span(plain.shape, plain.strides, plain.dtype)
        except FormatError:
            return DumpedArgument(kind="other", value=f"tensor of {plain.dtype}"[:80])
        views.append(plain)
        owners.append(owner)
        layout = Layout(
            shape=plain.shape, strides=plain.strides, dtype=plain.dtype, block=len(views) - 1, offset=plain.data + first
        )
        return DumpedArgument(kind="tensor", layout=layout)

    arguments = [describe(argument, value) for argument, value in zip(signature, values, strict=True)]
    blocks, block_numbers = merged_blocks(views)
    return CallArguments(
        tuple(_relative_to_blocks(argument, blocks, block_numbers) for argument in arguments), blocks, tuple(owners)
    )


def merged_blocks(views: Sequence[View]) -> tuple[tuple[Block, ...], tuple[int, ...]]:
    """The blocks of memory that tensors use, and the block of each tensor.

    >>> one = View(data=64, shape=(4,), strides=(1,), dtype="int32", device=(1, 0))
    >>> merged_blocks([one, replace(one, data=72)])
    ((Block(address=64, size=24, device=(1, 0), left_out=''),), (0, 0))
    """
    spans = []
    for number, view in enumerate(views):
        first, size = span(view.shape, view.strides, view.dtype)
        spans.append((view.device, view.data + first, size, number))
    blocks: list[Block] = []
    block_numbers = [0] * len(views)
    for device, address, size, number in sorted(spans):
        last = blocks[-1] if blocks else None
        if last is not None and last.device == device and address < last.address + last.size:
            end = max(last.address + last.size, address + size)
            blocks[-1] = replace(last, size=end - last.address)
        else:
            blocks.append(Block(address=address, size=size, device=device))
        block_numbers[number] = len(blocks) - 1
    return tuple(blocks), tuple(block_numbers)


def _relative_to_blocks(
    argument: DumpedArgument, blocks: Sequence[Block], block_numbers: Sequence[int]
) -> DumpedArgument:
    """The argument, with the offsets of its tensors counted from their blocks; up to here they are addresses."""
    if argument.layout is not None:
        block = block_numbers[argument.layout.block]
        layout = replace(argument.layout, block=block, offset=argument.layout.offset - blocks[block].address)
        return replace(argument, layout=layout)
    return replace(argument, items=tuple(_relative_to_blocks(item, blocks, block_numbers) for item in argument.items))


def bytes_of(
    blocks: Sequence[Block], limit: int, driver: Callable[[], Driver]
) -> tuple[tuple[Block, ...], tuple[bytes | None, ...]]:
    """The bytes of some blocks, as far as the limit goes, after all work of their devices is done.

    ``left_out`` of a block is why its bytes cannot be read. Raises GpuFailed where earlier work has failed.
    """
    described: list[Block] = []
    contents: list[bytes | None] = []
    with ExitStack() as contexts:
        devices: dict[int, Any] = {}
        for ordinal in sorted({block.device[1] for block in blocks if block.device[0] == CUDA}):
            devices[ordinal] = _synchronised(contexts, driver(), ordinal)
        for block in blocks:
            kind, ordinal = block.device
            reason = ""
            if block.size > limit:
                reason = f"{block.size} bytes, and PRECAST_DUMP_LIMIT leaves {limit}"
            elif kind == CUDA and devices[ordinal] is None:
                reason = "the stream was capturing a graph"
            elif kind != CUDA and kind not in _HOST:
                reason = f"memory of a device of type {kind}"
            data = None
            if not reason:
                data = _from_device(devices[ordinal], block) if kind == CUDA else _from_host(block)
                if data is None:  # an address without memory may crash the call: the rest is worth dumping
                    reason = "the driver cannot read it"
                else:
                    limit -= block.size
            described.append(replace(block, left_out=reason))
            contents.append(data)
    return tuple(described), tuple(contents)


def _synchronised(contexts: ExitStack, driver: Driver, ordinal: int) -> Any:
    """The function that calls the driver, once all work of a device is done; None where its stream is capturing."""
    try:
        call = contexts.enter_context(device_context(driver, ordinal))
    except PrecastError as error:
        raise GpuFailed(str(error)) from None
    try:
        stream = ctypes.c_void_p(current_stream(ordinal))
    except Exception:  # a torch without CUDA, beside tensors of another library
        stream = ctypes.c_void_p()
    status = ctypes.c_int()
    for name, arguments in (("cuStreamIsCapturing", (stream, ctypes.byref(status))), ("cuCtxSynchronize", ())):
        code = call(name, *arguments, check=False)
        if status.value or code in _CAPTURING:
            return None
        if code:  # each of them may report an error of earlier work
            raise GpuFailed(f"{name} returned error {code}")
    return call


def _from_device(call: Any, block: Block) -> bytes | None:
    buffer = ctypes.create_string_buffer(max(1, block.size))
    address, size = ctypes.c_uint64(block.address), ctypes.c_size_t(block.size)
    if block.size and call("cuMemcpyDtoH_v2", buffer, address, size, check=False):
        return None
    return buffer.raw[: block.size]


def _from_host(block: Block) -> bytes:
    return ctypes.string_at(block.address, block.size) if block.size else b""
