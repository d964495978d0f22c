"""Contraction: products and sums without a rounding modifier, as the assembler fuses them.

PTX lets the assembler fuse ``mul`` and ``add`` without ``.rn`` into ``fma``, and ptxas does: the product is then not
rounded. What it fuses follows from its machine code: a product whose value is only added or subtracted, in one basic
block. A product with one use goes before one with several.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from precast.emulator.ptx.module import Label, Statement

_REGISTER = re.compile(r"%?[A-Za-z_$][\w$]*")
_OPCODE = re.compile(r"(mul|add|sub)((?:\.ftz)?\.(?:f32x2|f32|f64))$")
_SIGNS = {
    "f32": ("xor.b32", "0x80000000"),
    "f64": ("xor.b64", "0x8000000000000000"),
    "f32x2": ("xor.b64", "0x8000000080000000"),
}
_ENDS = ("bra", "brx", "ret", "exit", "call", "trap")


@dataclass(frozen=True, slots=True)
class _Product:
    """A product: its index in the body, and what its value is."""

    index: int
    value: str
    factors: tuple[str, str]
    kind: str


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum or difference of products: its index in the body, and the operand that each of them is."""

    index: int
    products: tuple[tuple[int, _Product], ...]


def contracted(body: Sequence[Statement | Label]) -> Sequence[Statement | Label]:
    """The body with ``fma`` instead of the products and sums that ptxas fuses.

    >>> from precast.emulator.ptx.reader import read_module
    >>> lines = "mul.f32 %f1, %f2, %f3; add.f32 %f4, %f1, %f5; mul.rn.f32 %f6, %f2, %f3; add.f32 %f7, %f6, %f5;"
    >>> text = ".version 8.8\\n.target sm_90a\\n.entry k() { .reg .f32 %f<8>; " + lines + " }"
    >>> print(*contracted(read_module(text).functions["k"].body), sep="\\n")
    fma.rn.f32 %f4, %f2, %f3, %f5;
    mul.rn.f32 %f6, %f2, %f3;
    add.f32 %f7, %f6, %f5;
    """
    sums = list(_sums(body))
    if not sums:
        return body
    fused = _fused(sums, Counter(name for item in body for name in _names(item)))
    removed = {product.index for product, _ in fused.values()}
    changed: list[Statement | Label] = []
    for index, item in enumerate(body):
        if index in fused:
            assert isinstance(item, Statement)
            changed += _as_fma(item, *fused[index])
        elif index not in removed:
            changed.append(item)
    return changed


def _names(item: Statement | Label) -> Iterator[str]:
    if isinstance(item, Statement):
        for operand in (*item.operands, item.guard):
            yield from _REGISTER.findall(operand)


def _sums(body: Sequence[Statement | Label]) -> Iterator[_Sum]:
    """The sums that have a product of their own basic block as an operand, whose factors still hold the same values."""
    products: dict[str, _Product] = {}
    written: dict[str, int] = {}
    for index, item in enumerate(body):
        if isinstance(item, Label) or item.opcode.split(".")[0] in _ENDS:
            products = {}
            continue
        match = None if item.guard else _OPCODE.match(item.opcode)
        if match and match[1] != "mul":
            _, first, second = item.operands
            operands = [
                (operand, product)
                for operand, name in enumerate((first, second), 1)
                if (product := products.get(name)) and product.kind == match[2] and first != second
                if all(written.get(factor, -1) < product.index for factor in product.factors)
            ]
            if operands:
                yield _Sum(index, tuple(operands))
        for name in _REGISTER.findall(item.operands[0] if item.operands else ""):
            written[name] = index
            products.pop(name, None)
        if match and match[1] == "mul" and item.operands[0] not in item.operands[1:]:
            value, first, second = item.operands
            written[value] = index
            products[value] = _Product(index, value, (first, second), match[2])


def _fused(sums: Sequence[_Sum], mentions: Counter[str]) -> dict[int, tuple[_Product, int]]:
    """For each sum that is fused, by its index: the product, and which operand of the sum that is."""
    fused: dict[int, tuple[_Product, int]] = {}
    open_uses: defaultdict[_Product, list[tuple[int, int]]] = defaultdict(list)
    for each in sums:
        single = [(operand, product) for operand, product in each.products if mentions[product.value] == 2]
        if single:
            fused[each.index] = single[0][1], single[0][0]
            continue
        for operand, product in each.products:
            open_uses[product].append((each.index, operand))
    for product, uses in open_uses.items():
        if len(uses) == mentions[product.value] - 1 and not any(index in fused for index, _ in uses):
            fused |= {index: (product, operand) for index, operand in uses}
    return fused


def _as_fma(item: Statement, product: _Product, operand: int) -> Iterator[Statement]:
    """A sum as ``fma``. What is negated is put into the product's own register, which nothing else reads any more."""
    result, first, second = item.operands
    factors, addend = list(product.factors), second if operand == 1 else first
    if item.opcode.startswith("sub"):
        opcode, sign = _SIGNS[product.kind.rpartition(".")[2]]
        negated = addend if operand == 1 else factors[0]
        yield replace(item, opcode=opcode, operands=(product.value, negated, sign))
        if operand == 1:
            addend = product.value
        else:
            factors[0] = product.value
    yield replace(item, opcode=f"fma.rn{product.kind}", operands=(result, *factors, addend))
