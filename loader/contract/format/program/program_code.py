"""Program code: a signature and a host program as the bytes that ``loader/native/host_program`` runs.

Numbers of 64 bits, then texts that end with a zero byte. An expression is a list of operations for a stack.
"""

from __future__ import annotations

import struct

from precast.loader.contract.abi.dlpack import DEVICES, dtype_code
from precast.loader.contract.abi.tvm_ffi_abi import limits
from precast.loader.contract.format.program.expression import Expression
from precast.loader.contract.format.program.host_program import HostProgram, Step
from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.errors import FormatError

_MAGIC, _HEAD = 0x50524731, 8
_END, _CONSTANT, _LEAF = 0, 1, 2
_OPERATIONS = {
    name: number
    for number, name in enumerate(
        (
            "add", "sub", "mul", "floor_div", "ceil_div", "mod", "min", "max", "and", "shift", "at_least", "low",
            "float_mul",
        ),
        start=3,
    )
}  # fmt: skip
_NONE, _TENSOR, _INTEGER, _BOOLEAN, _FLOAT32, _FLOAT64 = range(6)


def program_code(op: str, signature: Signature, program: HostProgram) -> bytes:
    """The code of a host program; a FormatError where it has an argument that native code does not read.

    Parameters
    ----------
    op
        The kernel's name, for the errors of its calls.
    signature, program
        What it takes, and does.
    """
    return _Writer(op, signature, program).code()


class _Writer:
    def __init__(self, op: str, signature: Signature, program: HostProgram) -> None:
        self._op, self._signature, self._program = op, signature, program
        self._words: list[int] = []
        self._texts = bytearray(b"\0")
        self._places: dict[str, int] = {"": 0}
        self._symbols = {name: number for number, name in enumerate(signature.symbols)}
        self._slots: dict[str, int] = {}
        self._later: list[tuple[int, Expression]] = []  # where the offset of an expression is to be written

    def code(self) -> bytes:
        passed, symbols, steps = self._signature.passed, self._signature.symbols, self._program.steps
        self._words += [_MAGIC, 0, 0, self._text(calling(self._op, self._signature)), self._program.limit]
        self._words += [len(passed), len(symbols), len(steps)]
        for symbol in symbols.values():
            self._words += [self._text(symbol.dtype), symbol.divisibility, *limits(symbol.dtype)]
        slot = 0
        for argument in passed:
            slot = self._argument(argument, slot)
        for step in steps:
            self._step(step)
        for position, expression in self._later:
            self._words[position] = len(self._words)
            self._expression(expression)
        self._words[1:3] = len(self._words), len(self._texts)
        return struct.pack(f"<{len(self._words)}q", *self._words) + bytes(self._texts)

    def _text(self, text: str) -> int:
        if text not in self._places:
            self._places[text] = len(self._texts)
            self._texts += text.encode(errors="surrogatepass") + b"\0"
        return self._places[text]

    def _argument(self, argument: Argument, slot: int) -> int:
        """Write an argument whose numbers begin at a slot; where those of the next one begin."""
        name, rank, least, most = argument.name, len(argument.shape), 0, 0
        dtype = dtype_code(argument.dtype) if argument.kind == "tensor" else (0, 0, 0)
        if argument.kind == "tensor" and dtype is not None:
            kind = _TENSOR
            leaves = [f"{name}.data", f"{name}.span"]
            leaves += [f"{name}.{what}[{i}]" for what in ("shape", "strides") for i in range(rank)]
        elif argument.kind == "none":
            kind, leaves = _NONE, [""]
        elif argument.kind == "scalar" and argument.dtype in ("float32", "float64"):
            kind, leaves = (_FLOAT32 if argument.dtype == "float32" else _FLOAT64), [f"{name}.bits"]
        elif argument.kind == "scalar" and (argument.dtype.startswith(("int", "uint")) or argument.dtype == "bool"):
            kind, leaves = (_BOOLEAN if argument.dtype == "bool" else _INTEGER), [name]
            least, most = limits(argument.dtype)
        else:
            raise FormatError(f"{name}: native code reads no {argument.dtype or argument.kind}")
        dims = (*argument.shape, *(argument.strides or ()))
        self._words += [kind, self._text(name), self._text(argument.dtype), self._text(argument.device), rank]
        self._words += [DEVICES.get(argument.device, 0), *(dtype or ()), int(argument.strides is not None)]
        self._words += [argument.alignment, argument.divisibility, least, most]
        for dim in dims:
            self._words += [1, self._symbols[dim]] if isinstance(dim, str) else [0, dim]
        self._slots.update({leaf: slot + i for i, leaf in enumerate(leaves)})
        return slot + len(leaves)

    def _step(self, step: Step) -> None:
        self._words += [self._text(step.kernel), int(step.overlap)]
        for expression in (step.when, *step.grid, *step.block, *step.cluster, step.shared):
            self._expression(expression)
        self._words.append(len(step.parameters))
        for parameter in step.parameters:
            self._words += [parameter.size, len(parameter.words)]
            for offset, width, value in parameter.words:
                self._words += [offset, width, 0]
                self._later.append((len(self._words) - 1, value))

    def _expression(self, expression: Expression) -> None:
        self._operations(expression)
        self._words.append(_END)

    def _operations(self, expression: Expression) -> None:
        if isinstance(expression, int):
            self._words += [_CONSTANT, expression]
        elif isinstance(expression, str):
            self._words.append(_LEAF | self._slots[expression] << 8)
        else:
            function, left, right = expression
            self._operations(left)
            self._operations(right)
            self._words.append(_OPERATIONS[function])


def calling(op: str, signature: Signature) -> str:
    """How an error names the kernel that was called.

    >>> calling("scale", Signature(arguments=(Argument(name="n", kind="scalar", dtype="int32"),)))
    ' when calling: `scale(n: int32)`'
    """
    return f" when calling: `{op}({', '.join(map(_declared, signature.passed))})`"


def _declared(argument: Argument) -> str:
    if argument.kind == "tensor":
        return f"{argument.name}: Tensor([{', '.join(map(str, argument.shape))}], {argument.dtype})"
    return f"{argument.name}: {'None' if argument.kind == 'none' else argument.dtype}"
