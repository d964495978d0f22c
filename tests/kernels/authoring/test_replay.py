"""Replaying a dumped call: the same memory, strides and alignment; the results against the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from precast.kernels.authoring.declare import Declaration
from precast.kernels.authoring.replay import Output, ReplayError, replay, replay_refusal
from precast.loader.contract.diagnostics.dump import Dump, DumpedArgument
from precast.loader.contract.diagnostics.dump_folder import HEADER, block_name, call_name
from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.contract.format.target import Target
from precast.loader.contract.values import replace
from precast.loader.watch.memory import bytes_of, describe_arguments

DOUBLE = Declaration(
    op="double",
    keys=(),
    outputs=("out",),
    reference=lambda config, inputs: {"out": inputs["x"].double() * 2},
)


def dumped(folder: Path, *values: Any, number: int = 0, limit: int = 1 << 20, kinds: tuple[str, ...] = ()) -> Dump:
    """A call with these arguments, on disk as a dumper writes it."""
    names = ("x", "out", "more")[: len(values)]
    kinds = kinds or tuple("tensor" if isinstance(v, torch.Tensor) else "const" for v in values)
    arguments = tuple(
        Argument(name=n, kind=k, dtype="float32" if k == "tensor" else "") for n, k in zip(names, kinds, strict=True)
    )
    found = describe_arguments(arguments, values)
    blocks, data = bytes_of(found.blocks, limit, lambda: pytest.fail("no driver is needed"))
    dump = Dump(
        op="double", config={}, target=Target.parse("sm_90a"), key="ab" * 32, cache="demo", digest="cd" * 32,
        signature=Signature(arguments=arguments), process=1, number=number, stream=False,
        arguments=found.arguments, blocks=blocks,
    )  # fmt: skip
    call = folder / call_name(number)
    call.mkdir(parents=True)
    (call / HEADER).write_bytes(dump.encode())
    for place, one in enumerate(data):
        if one is not None:
            (call / block_name(place)).write_bytes(one)
    return dump


def double(x: Any, out: Any, *_: Any) -> None:
    out.copy_(x * 2)


def replayed(
    folder: Path, dump: Dump, launch: Callable[..., Any] = double, declaration: Declaration | None = DOUBLE
) -> list[Output]:
    return replay(launch, Dump.decode(dump.encode()), folder / call_name(dump.number), declaration)


def test_the_arguments_are_as_they_were(tmp_path: Path) -> None:
    whole = torch.arange(64, dtype=torch.float32).reshape(8, 8)
    x, out = whole[1:5, ::2], whole[3:7, 1::2]  # in one block, interleaved
    dump = dumped(tmp_path, x, out, (None, 3, (0.5, torch.ones(2, dtype=torch.bfloat16))))
    seen: list[Any] = []
    replayed(tmp_path, dump, lambda *args: seen.extend(args), None)
    again, written, rest = seen
    assert torch.equal(again, x) and torch.equal(written, out)
    assert again.stride() == x.stride() and again.data_ptr() % 256 == x.data_ptr() % 256
    assert written.data_ptr() - again.data_ptr() == out.data_ptr() - x.data_ptr(), "they overlap as they did"
    assert rest[:2] == (None, 3) and rest[2][0] == 0.5 and rest[2][1].dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.bool, torch.float8_e4m3fn, torch.float64])
def test_dtypes(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.arange(6).reshape(2, 3).to(dtype)
    seen: list[Any] = []
    replayed(tmp_path, dumped(tmp_path, x, torch.empty(0, 4)), lambda *args: seen.extend(args), None)
    assert seen[0].dtype == dtype and torch.equal(seen[0].view(torch.uint8), x.view(torch.uint8))
    assert seen[1].shape == (0, 4)


def test_a_right_result(tmp_path: Path) -> None:
    dump = dumped(tmp_path, torch.tensor([1.0, float("nan")]), torch.zeros(2))
    (output,) = replayed(tmp_path, dump)
    assert output == Output(name="out", wrong=False, reference="0.00 of the tolerance", later="no next call was kept")


def test_a_wrong_result(tmp_path: Path) -> None:
    dump = dumped(tmp_path, torch.ones(2), torch.zeros(2))
    (output,) = replayed(tmp_path, dump, lambda x, out: out.fill_(3))
    assert output.wrong and "2 of 2 values differ" in output.reference


def test_an_output_that_was_an_input_is_compared_with_what_it_was(tmp_path: Path) -> None:
    x = torch.ones(4)
    dump = dumped(tmp_path, x, x)
    (output,) = replayed(tmp_path, dump)
    assert not output.wrong


def test_a_reference_that_fails_or_is_missing_is_told(tmp_path: Path) -> None:
    dump = dumped(tmp_path, torch.ones(2), torch.zeros(2))

    def failing(config: Any, inputs: Any) -> Any:
        raise KeyError("y")

    (output,) = replayed(tmp_path, dump, declaration=replace_declaration(reference=failing))
    assert (output.wrong, output.reference) == (False, "not compared: the reference failed (KeyError: 'y')")
    (output,) = replayed(tmp_path, dump, declaration=replace_declaration(reference=None))
    assert output.reference == "not compared: the op has no reference"
    assert replayed(tmp_path, dump, declaration=None) == [], "nobody says what it writes"


def replace_declaration(**changes: Any) -> Declaration:
    import dataclasses

    return dataclasses.replace(DOUBLE, **changes)


def test_the_signature_says_what_it_writes_too(tmp_path: Path) -> None:
    dump = dumped(tmp_path, torch.ones(2), torch.zeros(2))
    written = tuple(replace(one, written=one.name == "out") for one in dump.signature.arguments)
    dump = replace(dump, signature=replace(dump.signature, arguments=written))
    (output,) = replayed(tmp_path, dump, declaration=None)
    assert output.name == "out"


def test_the_next_call_shows_what_the_program_had(tmp_path: Path) -> None:
    x, out = torch.ones(4), torch.zeros(8)[2:6]
    first = dumped(tmp_path, x, out)
    out.copy_(x * 2)
    dumped(tmp_path, out, torch.zeros(4), number=1)
    (output,) = replayed(tmp_path, first)
    assert output.later == "as before the next call"
    (output,) = replayed(tmp_path, first, lambda x, out: out.fill_(9))
    assert output.later == "differs from the memory before the next call"


def test_a_next_call_without_it(tmp_path: Path) -> None:
    out = torch.zeros(4)
    first = dumped(tmp_path, torch.ones(4), out)
    dumped(tmp_path, torch.ones(2), torch.ones(2), number=1)
    assert replayed(tmp_path, first)[0].later == "the next call did not use it"


def test_memory_that_was_left_out_is_zeros(tmp_path: Path) -> None:
    dump = dumped(tmp_path, torch.ones(4), torch.ones(4), limit=0)
    seen: list[Any] = []
    replayed(tmp_path, dump, lambda *args: seen.extend(args), None)
    assert [one.sum() for one in seen] == [0, 0]


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (4096, "pointer", "more is a pointer to memory of unknown size"),
        (object(), "const", "more was object that a dump cannot hold"),
        ((1, (object(),)), "const", "more was object that a dump cannot hold"),
    ],
)
def test_what_cannot_be_made_again(tmp_path: Path, value: Any, kind: str, reason: str) -> None:
    dump = dumped(tmp_path, torch.ones(1), torch.ones(1), value, kinds=("tensor", "tensor", kind))
    assert replay_refusal(dump) == reason
    with pytest.raises(ReplayError, match=reason):
        replayed(tmp_path, dump)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dtype": "float4_e2m1fn", "shape": (2,)}, "torch has no dtype float4_e2m1fn"),
        ({"strides": (-1,), "shape": (2,)}, "no negative strides"),
        ({"offset": 1, "shape": (1,)}, "not aligned to its elements"),
    ],
)
def test_layouts_that_torch_cannot_have(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    dump = dumped(tmp_path, torch.ones(4), torch.ones(4))
    layout = dump.arguments[0].layout
    assert layout is not None
    wrong = DumpedArgument(kind="tensor", layout=replace(layout, **changes))
    with pytest.raises(ReplayError, match=reason):
        replayed(tmp_path, replace(dump, arguments=(wrong, dump.arguments[1])))
