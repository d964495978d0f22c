# ruff: noqa: E501 - opcodes and their operands stay on one line
"""Products of tensor cores: shapes, kinds, and where each thread has its elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .case import HEADER

Matrix = NDArray[np.uint64]
WIDTHS = {"f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}


@dataclass(frozen=True, slots=True)
class Product:
    """`mma.sync` (one step) or `wgmma` (several steps, 64 rows) of given kinds."""

    unit: str
    k: int
    a: str
    b: str
    c: str
    steps: int = 1
    rows: int = 16
    option: str = ""

    @property
    def name(self) -> str:
        return f"{self.unit}.m{self.rows}n8k{self.k}.{self.c}.{self.a}.{self.b}{self.option}.x{self.steps}"

    @property
    def words(self) -> tuple[int, int, int]:
        """Registers of 32 bits of a thread for A, B and C (of `mma.sync`)."""
        return tuple(
            n * WIDTHS[t] // 1024
            for n, t in ((self.rows * self.k, self.a), (8 * self.k, self.b), (self.rows * 8, self.c))
        )  # type: ignore[return-value]


def products() -> tuple[Product, ...]:
    """Every product that is measured."""
    mma = [(16, "bf16", "bf16", "f32"), (8, "bf16", "bf16", "f32"), (16, "f16", "f16", "f32"), (8, "f16", "f16", "f32")]
    mma += [(16, "f16", "f16", "f16"), (8, "f16", "f16", "f16"), (8, "tf32", "tf32", "f32"), (4, "tf32", "tf32", "f32")]
    mma += [
        (32, "e4m3", "e4m3", "f32"),
        (32, "e5m2", "e4m3", "f32"),
        (32, "e5m2", "e5m2", "f32"),
        (16, "e4m3", "e4m3", "f32"),
    ]
    mma += [(32, "e4m3", "e4m3", "f16"), (32, "s8", "s8", "s32"), (32, "u8", "s8", "s32"), (16, "s8", "s8", "s32")]
    some = [Product("mma", *m) for m in mma]
    some += [Product("mma", 32, "s8", "u8", "s32", option=".satfinite"), Product("mma", 4, "f64", "f64", "f64", rows=8)]
    some += [Product("mma", k, "f64", "f64", "f64") for k in (4, 8, 16)]
    for k, kind, c in (
        (16, "bf16", "f32"),
        (16, "f16", "f32"),
        (16, "f16", "f16"),
        (8, "tf32", "f32"),
        (32, "e4m3", "f32"),
    ):
        some += [Product("wgmma", k, kind, kind, c, steps=steps, rows=64) for steps in (1, 4)]
    some += [Product("wgmma", 32, "e5m2", "e4m3", "f32", rows=64), Product("wgmma", 32, "e4m3", "e4m3", "f16", rows=64)]
    some += [
        Product("wgmma", 32, "e4m3", "e4m3", "f32", steps=16, rows=64),
        Product("wgmma", 16, "bf16", "bf16", "f32", steps=16, rows=64),
    ]
    some += [
        Product("wgmma", 32, "s8", "s8", "s32", steps=4, rows=64),
        Product("wgmma", 32, "u8", "s8", "s32", option=".satfinite", rows=64),
    ]
    return tuple(some)


def elements(product: Product, operand: str) -> NDArray[np.int64]:
    """For each lane and element of `mma.sync`: row and column in A, B or C. The shape is (32, elements, 2)."""
    lane = np.arange(32)
    group, four = lane >> 2, lane & 3
    if operand == "c":
        columns = [four * 2 + (i & 1) for i in range(product.rows // 4)]
        rows = [group + 8 * (i >> 1) for i in range(product.rows // 4)]
        return np.stack([np.stack(rows, 1), np.stack(columns, 1)], 2)
    kind = product.a if operand == "a" else product.b
    run = max(1, 32 // WIDTHS[kind])  # elements of a register
    rows = product.rows // 8 if operand == "a" else 1
    places = []
    for chunk in range(product.k // (4 * run)):
        for row in range(rows):
            for i in range(run):
                along = four * run + i + 4 * run * chunk
                across = group + 8 * row
                places.append(np.stack([across, along] if operand == "a" else [along, across], 1))
    return np.stack(places, 1)


def fragments(product: Product, operand: str, matrices: Matrix) -> NDArray[np.uint32]:
    """Registers (tile, register, lane) of `mma.sync` for matrices (tile, row, column)."""
    kind = {"a": product.a, "b": product.b, "c": product.c}[operand]
    where = elements(product, operand)
    each = matrices[:, where[:, :, 0], where[:, :, 1]]  # tile, lane, element
    raw = each.astype({64: "<u8", 32: "<u4", 16: "<u2", 8: "u1"}[WIDTHS[kind]])
    return np.ascontiguousarray(np.ascontiguousarray(raw).view("<u4").transpose(0, 2, 1))


def matrices(product: Product, registers: NDArray[np.uint32]) -> Matrix:
    """Results (tile, row, column) from registers (tile, register, lane), of `mma.sync` or of the four warps of `wgmma`."""
    small = product if product.unit == "mma" else Product("mma", product.k, product.a, product.b, product.c)
    where = elements(small, "c")
    kind = {64: "<u8", 32: "<u4", 16: "<u2"}[WIDTHS[product.c]]
    each = np.ascontiguousarray(registers.transpose(0, 2, 1)).view(kind).astype(np.uint64)
    out = np.zeros((len(registers), small.rows, 8), np.uint64)
    out[:, where[:, :, 0], where[:, :, 1]] = each
    return out


def core_matrices(matrices: Matrix, kind: str) -> NDArray[np.uint8]:
    """Shared memory of one step of `wgmma` without a swizzle: 8 rows of 16 bytes, two along K, for rows (tile, row, k)."""
    raw = np.ascontiguousarray(matrices.astype({32: "<u4", 16: "<u2", 8: "u1"}[WIDTHS[kind]])).view("u1")
    tiles, rows, width = raw.shape  # width: 32 bytes for each step
    split = raw.reshape(tiles, rows // 8, 8, width // 32, 2, 16)
    return np.ascontiguousarray(split.transpose(0, 3, 1, 4, 2, 5)).reshape(tiles, -1)


MMA = """
.visible .entry {entry}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
{{
.reg .b32 %a<16>, %b<16>, %c<16>, %n;
.reg .b64 %fa<8>, %fb<8>, %fc<8>, %pa, %pb, %pc, %pd, %i;
mov.u32 %n, %ctaid.x;
ld.param.u64 %pa, [pa];
ld.param.u64 %pb, [pb];
ld.param.u64 %pc, [pc];
ld.param.u64 %pd, [pd];
mul.wide.u32 %i, %n, {na};
add.s64 %pa, %pa, %i;
mul.wide.u32 %i, %n, {nb};
add.s64 %pb, %pb, %i;
mul.wide.u32 %i, %n, {nc};
add.s64 %pc, %pc, %i;
add.s64 %pd, %pd, %i;
mov.u32 %n, %tid.x;
mul.wide.u32 %i, %n, 4;
add.s64 %pa, %pa, %i;
add.s64 %pb, %pb, %i;
add.s64 %pc, %pc, %i;
add.s64 %pd, %pd, %i;
{body}
ret;
}}
"""


def mma_ptx(product: Product) -> str:
    """A kernel of one warp for each tile: registers come from and go to global memory, one after the other."""
    a, b, c = product.words
    lines = [
        f"ld.global.b32 %{x}{i}, [%p{x}+{128 * i}];" for x, n in zip("abc", (a, b, c), strict=True) for i in range(n)
    ]
    wide = product.c == "f64"
    registers = {}
    for x, n in zip("abc", (a, b, c), strict=True):
        if wide:
            lines += [f"mov.b64 %f{x}{i}, {{%{x}{2 * i}, %{x}{2 * i + 1}}};" for i in range(n // 2)]
        registers[x] = ", ".join(f"%f{x}{i}" if wide else f"%{x}{i}" for i in range(n // 2 if wide else n))
        registers[x] = "{" + registers[x] + "}"
    opcode = f"mma.sync.aligned.m{product.rows}n8k{product.k}.row.col{product.option}.{product.c}.{product.a}.{product.b}.{product.c}"
    lines.append(f"{opcode} {registers['c']}, {registers['a']}, {registers['b']}, {registers['c']};")
    if wide:
        lines += [f"mov.b64 {{%c{2 * i}, %c{2 * i + 1}}}, %fc{i};" for i in range(c // 2)]
    lines += [f"st.global.b32 [%pd+{128 * i}], %c{i};" for i in range(c)]
    return MMA.format(entry=entry(product), na=128 * a, nb=128 * b, nc=128 * c, body="\n".join(lines))


WGMMA = """
.visible .entry {entry}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
.maxntid 128
{{
.reg .pred %q, %one;
.reg .b32 %c<8>, %n, %m, %r, %w;
.reg .b64 %pa, %pb, %pc, %pd, %i, %da, %db;
.shared .align 128 .b8 sa[{bytes_a}];
.shared .align 128 .b8 sb[{bytes_b}];
mov.u32 %n, %ctaid.x;
mov.u32 %m, %tid.x;
ld.param.u64 %pa, [pa];
ld.param.u64 %pb, [pb];
ld.param.u64 %pc, [pc];
ld.param.u64 %pd, [pd];
mul.wide.u32 %i, %n, {bytes_a};
add.s64 %pa, %pa, %i;
mul.wide.u32 %i, %n, {bytes_b};
add.s64 %pb, %pb, %i;
mul.wide.u32 %i, %n, {bytes_c};
add.s64 %pc, %pc, %i;
add.s64 %pd, %pd, %i;
{copies}
shr.u32 %w, %m, 5;
mul.wide.u32 %i, %w, {warp_c};
add.s64 %pc, %pc, %i;
add.s64 %pd, %pd, %i;
and.b32 %w, %m, 31;
mul.wide.u32 %i, %w, 4;
add.s64 %pc, %pc, %i;
add.s64 %pd, %pd, %i;
{body}
ret;
}}
"""
COPY = """
mov.u32 %r, {shared};
mul.lo.u32 %w, %m, 4;
add.u32 %r, %r, %w;
cvt.u64.u32 %i, %w;
add.s64 %{pointer}, %{pointer}, %i;
mov.u32 %n, %m;
COPY_{shared}_{entry}:
setp.lt.u32 %q, %n, {words};
@%q ld.global.b32 %w, [%{pointer}];
@%q st.shared.b32 [%r], %w;
add.s64 %{pointer}, %{pointer}, 512;
add.u32 %r, %r, 512;
add.u32 %n, %n, 128;
setp.lt.u32 %q, %n, {words};
@%q bra.uni COPY_{shared}_{entry};
"""


def wgmma_ptx(product: Product) -> str:
    """A kernel of four warps for each tile: A and B come through shared memory, all steps are one group."""
    count = 2 if product.c == "f16" else 4
    bytes_a, bytes_b = 2048 * product.steps, 256 * product.steps
    copies = COPY.format(shared="sa", pointer="pa", words=bytes_a // 4, entry=entry(product))
    copies += COPY.format(shared="sb", pointer="pb", words=bytes_b // 4, entry=entry(product))
    copies += "fence.proxy.async;\nbar.sync 0;\n"
    lines = [f"ld.global.b32 %c{i}, [%pc+{128 * i}];" for i in range(count)]
    # Descriptors: address / 16, 128 bytes along K, 256 bytes along rows, no swizzle.
    fixed = (128 >> 4) << 16 | (256 >> 4) << 32
    for x in "ab":
        lines += [f"mov.u32 %r, s{x};", "and.b32 %r, %r, 0x3ffff;", "shr.u32 %r, %r, 4;", f"cvt.u64.u32 %d{x}, %r;"]
        lines += [f"or.b64 %d{x}, %d{x}, {fixed};"]
    lines += ["setp.eq.u32 %one, 0, 0;", "wgmma.fence.sync.aligned;"]
    scales = "" if product.c == "s32" else ", 1, 1" + (", 0, 0" if WIDTHS[product.a] == 16 else "")
    opcode = f"wgmma.mma_async.sync.aligned.m64n8k{product.k}{product.option}.{product.c}.{product.a}.{product.b}"
    if product.option:
        opcode = f"wgmma.mma_async.sync.aligned.m64n8k{product.k}.{product.c}.{product.a}.{product.b}{product.option}"
    registers = "{" + ", ".join(f"%c{i}" for i in range(count)) + "}"
    for _ in range(product.steps):
        lines += [f"{opcode} {registers}, %da, %db, %one{scales};", "add.s64 %da, %da, 128;", "add.s64 %db, %db, 16;"]
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    lines += [f"st.global.b32 [%pd+{128 * i}], %c{i};" for i in range(count)]
    return WGMMA.format(
        entry=entry(product),
        bytes_a=bytes_a,
        bytes_b=bytes_b,
        bytes_c=512 * count,
        warp_c=128 * count,
        copies=copies,
        body="\n".join(lines),
    )


def entry(product: Product) -> str:
    """The name of a product's kernel."""
    return "t_" + product.name.replace(".", "_")


def ptx() -> str:
    """One module with a kernel for each product."""
    return HEADER + "".join(mma_ptx(p) if p.unit == "mma" else wgmma_ptx(p) for p in products())
