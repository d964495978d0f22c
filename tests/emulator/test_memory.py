"""Loads, stores and atomic operations, and what is wrong with them."""

import numpy as np
import pytest

from precast.emulator import EmulationFault
from tests.helpers.emulator import aligned, kernel, run_ptx

LANE = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, {size}; add.u64 %rd2, in, %rd1; add.u64 %rd3, out, %rd1;"


def copied(statements: str, data: np.ndarray, size: int, threads: int = 32) -> np.ndarray:
    """Run statements with an address of input %rd2 and of output %rd3 for each thread."""
    data, out = aligned(data), aligned(np.zeros_like(data))
    run_ptx(kernel(LANE.format(size=size) + statements, "u64 in, u64 out"), [data, out], block=threads, read_only=[0])
    return out


def test_vectors_of_all_sizes() -> None:
    """One to eight values of 8 to 64 bits."""
    data = np.random.default_rng(0).integers(0, 2**32, 1024, np.uint32)
    for statements, size in (
        ("ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd2]; st.global.v4.b32 [%rd3], {%r2, %r3, %r4, %r5};", 16),
        ("ld.global.v2.b64 {%rd4, %rd5}, [%rd2]; st.v2.b64 [%rd3], {%rd4, %rd5};", 16),
        ("ld.global.nc.L1::no_allocate.L2::256B.v4.b64 {%rd4, %rd5, %rd6, %rd7}, [%rd2]; "
         "st.global.v4.b64 [%rd3], {%rd4, %rd5, %rd6, %rd7};", 32),
        ("ld.global.v8.b32 {%r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9}, [%rd2]; "
         "st.global.v8.b32 [%rd3], {%r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9};", 32),
        ("ld.global.b128 %q1, [%rd2]; st.global.b128 [%rd3], %q1;", 16),
        ("ld.global.v4.u16 {%rs1, %rs2, %rs3, %rs4}, [%rd2]; st.global.v4.u16 [%rd3], {%rs1, %rs2, %rs3, %rs4};", 8),
        ("ld.volatile.global.v4.u8 {%r1, %r2, %r3, %r4}, [%rd2]; st.global.v4.u8 [%rd3], {%r1, %r2, %r3, %r4};", 4),
    ):  # fmt: skip
        out = copied(statements, data, size)
        words = 32 * size // 4
        assert (out[:words] == data[:words]).all() and (out[words:] == 0).all(), statements


def test_short_loads_are_extended_by_their_sign() -> None:
    """To the register, of 16, 32 or 64 bits."""
    data = np.array([0x80, 0x7F, 0xFF, 1] * 64, np.uint8)
    body = LANE.format(size=1) + (
        "ld.global.s8 %r2, [%rd2]; ld.global.u8 %r3, [%rd2]; ld.global.s8 %rd5, [%rd2]; ld.global.s8 %rs1, [%rd2];"
        "mul.wide.u32 %rd1, %r1, 32; add.u64 %rd3, out, %rd1; cvt.s64.s32 %rd6, %r2; "
        "cvt.u64.u32 %rd7, %r3; cvt.s64.s16 %rd8, %rs1;"
        "st.global.v4.b64 [%rd3], {%rd6, %rd7, %rd5, %rd8};"
    )
    out = aligned(np.zeros((32, 4), np.int64))
    run_ptx(kernel(body, "u64 in, u64 out"), [data, out])
    signed, unsigned = data[:32].astype(np.int8).astype(np.int64), data[:32].astype(np.int64)
    assert (out == np.stack([signed, unsigned, signed, signed], 1)).all()


def fault(
    body: str, parameters: str = "u64 out", arguments: tuple[object, ...] = (), **options: object
) -> EmulationFault:
    """What is wrong with a kernel."""
    out = np.zeros(32, np.uint32)
    with pytest.raises(EmulationFault) as caught:
        run_ptx(kernel(body, parameters), [out, *arguments], **options)  # type: ignore[arg-type]
    return caught.value


def test_a_store_after_the_end_has_its_block_warp_lane_and_line() -> None:
    """The message says how far."""
    body = (
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmad.lo.u32 %r1, %r2, 64, %r1;\nmul.wide.u32 %rd1, %r1, 4;\n"
        "add.u64 %rd1, out, %rd1;\nsetp.ne.u32 %p1, %r1, 101;\n@!%p1 add.u64 %rd1, %rd1, 4000;\nrem.u32 %r3, %r1, 32;\n"
        "@%p1 mad.wide.u32 %rd1, %r3, 4, out;\nst.global.u32 [%rd1], %r1;"
    )
    error = fault(body, grid=3, block=64)
    assert error.kind == "out of bounds" and error.block == (1, 0, 0) and (error.warp, error.lane) == (1, 5)
    assert "a write of 4 bytes" in error.text and "after the end of argument 0 (128 bytes)" in error.text
    assert kernel(body, "u64 out").splitlines()[error.line - 1] == "st.global.u32 [%rd1], %r1;"


def test_the_authors_line_is_given_where_there_is_line_information() -> None:
    """Of ``.file`` and ``.loc``."""
    text = kernel(".loc 1 42 7\nst.global.u32 [out+1000], 0;", "u64 out", outside='.file 1 "/home/author/kernel.py"')
    with pytest.raises(EmulationFault) as caught:
        run_ptx(text, [np.zeros(4, np.uint32)])
    assert str(caught.value.source) == "/home/author/kernel.py:42" and "kernel.py:42" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("st.global.u32 [out+2], 1;", "misaligned", "4 bytes at"),
        ("mov.u32 %r1, 0; st.shared.u32 [%r1], 1;", "out of bounds", "4 bytes of shared memory at 0x0"),
        ("mov.u32 %r1, 1024; st.shared.u32 [%r1+64], 1;", "out of bounds", "0x440: the block has 0x400 to 0x440"),
        ("mov.u32 %r1, 0x5000400; ld.shared.u32 %r2, [%r1];", "out of bounds", "the cluster has no block 5"),
        ("ld.global.u32 %r2, [out+-4];", "out of bounds", "begins 4 bytes before argument 0"),
        ("ld.global.u32 %r2, [64];", "out of bounds", "a read of 4 bytes at 0x40"),
        ("trap;", "trap", "executes trap"),
    ],
)
def test_wrong_accesses(body: str, kind: str, text: str) -> None:
    """Each is a fault of its kind."""
    error = fault(body, shared=64)
    assert error.kind == kind and text in error.text


def test_inputs_may_not_be_written() -> None:
    """A store to one is a fault of its own kind."""
    error = fault("st.global.u32 [out+8], 1;", read_only=[0])
    assert error.kind == "write to an input" and "byte 8 of argument 0" in error.text


def test_shared_memory_begins_as_nan_and_blocks_have_their_own() -> None:
    """What is read before it is written is a NaN in all float formats; so is a register."""
    body = (
        ".shared .align 4 .b8 mine[256]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, mine; "
        "add.u32 %r2, %r2, %r3;"
        "ld.shared.u32 %r4, [%r2]; st.shared.u32 [%r2], 7; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, out, %rd1;"
        "setp.eq.u32 %p1, %r1, 0; @%p1 add.u32 %r4, %r5, 0; st.global.u32 [%rd1], %r4;"
    )
    out = np.zeros(64, np.uint32)
    run_ptx(kernel(body, "u64 out"), [out], grid=3, block=64)
    assert (out == 0x7FFF7FFF).all()


def test_parameters_at_any_address_and_constants_of_the_module() -> None:
    """A parameter's address may be computed; ``.global`` and ``.const`` variables hold what the module says."""
    outside = ".const .align 4 .b32 table[4] = {10, 20, 30, 40}; .global .align 4 .u32 counter = 5;"
    body = (
        "mov.u32 %r1, %laneid; and.b32 %r2, %r1, 3; mov.u64 %rd1, param_data; cvta.param.u64 %rd2, %rd1;"
        "mad.wide.u32 %rd2, %r2, 4, %rd2; ld.param.u32 %r3, [%rd2]; mov.u64 %rd3, table; "
        "mad.wide.u32 %rd3, %r2, 4, %rd3;"
        "ld.const.u32 %r4, [%rd3]; ld.global.u32 %r5, [counter]; add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5;"
        "mad.wide.u32 %rd1, %r1, 4, out; st.global.u32 [%rd1], %r3;"
    )
    text = kernel(body, "u64 out", outside=outside).replace(
        ".param .u64 param_out", ".param .u64 param_out, .param .align 16 .b8 param_data[16]"
    )
    out = np.zeros(32, np.uint32)
    run_ptx(text, [out, np.arange(1, 5, dtype=np.uint32).tobytes()])
    assert out[:4].tolist() == [16, 27, 38, 49] and (out.reshape(-1, 4) == out[:4]).all()


def test_atomic_operations_of_all_types() -> None:
    """All lanes add to one place; each gets what was there before."""

    def run(operation: str, first: object, kind: str, value: str) -> tuple[object, np.ndarray]:
        bits = 64 if kind.endswith("64") else 32
        register = {32: "%r9", 64: "%rd9"}[bits]
        body = f"{value} atom.global.{operation}.{kind} {register}, [out], {register};"
        target = np.array([first])
        run_ptx(kernel("mov.u32 %r1, %laneid;" + body, "u64 out"), [target])
        return target[0], target

    assert run("add", np.uint32(5), "u32", "mov.u32 %r9, %r1;")[0] == 5 + 31 * 16
    assert run("add", np.uint64(2**40), "u64", "cvt.u64.u32 %rd9, %r1;")[0] == 2**40 + 31 * 16
    assert run("max", np.int32(-5), "s32", "sub.s32 %r9, %r1, 40;")[0] == -5
    assert run("min", np.int64(-5), "s64", "cvt.s64.s32 %rd9, %r1; sub.s64 %rd9, %rd9, 40;")[0] == -40
    assert run("add", np.float32(0.5), "f32", "cvt.rn.f32.u32 %r9, %r1;")[0] == 496.5
    assert run("add", np.float64(0.5), "f64", "cvt.rn.f64.u32 %rd9, %r1;")[0] == 496.5
    assert run("xor", np.uint32(0), "b32", "mov.u32 %r9, %r1;")[0] == 0
    assert run("inc", np.uint32(0), "u32", "mov.u32 %r9, 9;")[0] == 2
    assert run("dec", np.uint32(0), "u32", "mov.u32 %r9, 9;")[0] == 8
    assert run("exch", np.uint32(77), "b32", "mov.u32 %r9, %r1;")[0] == 31
    one = "mov.b32 %r9, 0x3C003C00;"
    assert run("add.noftz", np.array([0, 1], np.float16).view(np.uint32)[0], "f16x2", one)[0] == 0x50205000


def test_a_lock_by_compare_and_swap_between_blocks() -> None:
    """Each thread in turn holds the lock; lanes of a warp wait for each other, and do not wait permanently."""
    body = """
    LOOP:
    atom.global.acquire.gpu.cas.b32 %r1, [out], 0, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra LOOP;
    ld.relaxed.gpu.global.u32 %r2, [out+4];
    add.u32 %r2, %r2, 1;
    st.relaxed.gpu.global.u32 [out+4], %r2;
    atom.global.release.gpu.exch.b32 %r3, [out], 0;
    """
    for seed in range(4):
        out = np.zeros(2, np.uint32)
        run_ptx(kernel(body, "u64 out"), [out], grid=3, block=64, seed=seed)
        assert out.tolist() == [0, 192]


def test_compare_and_swap_of_128_bits_and_vectors() -> None:
    """``atom.cas.b128``, and ``red.v4.f32``."""
    body = """
    mov.b64 %rd1, 1; mov.b64 %rd2, 2; mov.b64 %rd3, 3;
    mov.b128 %q1, {%rd1, %rd2}; mov.b128 %q2, {%rd3, %rd3};
    atom.global.cas.b128 %q3, [out], %q1, %q2;
    mov.u32 %r1, 0f3F800000; mov.u32 %r2, 0f40000000;
    red.global.v4.f32.add [out+16], {%r1, %r2, %r1, %r2};
    """
    body = body.replace("red.global.v4.f32.add", "red.global.add.v4.f32")
    out = np.array([1, 2, 0, 0], np.uint64)
    run_ptx(kernel(body, "u64 out"), [out])
    assert out[:2].tolist() == [3, 3] and out[2:].view(np.float32).tolist() == [32, 64, 32, 64]


def test_float_sums_in_global_memory_flush_subnormal_numbers() -> None:
    """Those in shared memory do not."""
    body = (
        ".shared .align 4 .b32 mine; mov.u32 %r1, %laneid; setp.ne.u32 %p1, %r1, 0; @%p1 exit; st.shared.u32 [mine], 0;"
    )
    body += (
        "mov.u32 %r2, 5; atom.shared.add.f32 %r3, [mine], %r2; red.global.add.f32 [out], %r2; "
        "ld.shared.u32 %r4, [mine]; st.global.u32 [out+4], %r4;"
    )
    out = np.zeros(2, np.uint32)
    run_ptx(kernel(body, "u64 out"), [out])
    assert out.tolist() == [0, 5]


def test_zeros_in_bulk() -> None:
    """``st.bulk`` writes what it says and no more."""
    body = (
        ".shared .align 16 .b8 mine[64]; mov.u32 %r1, %laneid; setp.ne.u32 %p1, %r1, 0; @%p1 exit; mov.u32 %r2, mine;"
        "st.bulk.weak.shared::cta [%r2+8], 16, 0; ld.shared.v2.u32 {%r3, %r4}, [%r2]; "
        "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r2+8];"
        "ld.shared.u32 %r9, [%r2+24]; or.b32 %r5, %r5, %r6; or.b32 %r5, %r5, %r7; or.b32 %r5, %r5, %r8;"
        "st.global.v4.u32 [out], {%r3, %r4, %r5, %r9};"
    ).replace(
        "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r2+8];",
        "ld.shared.v2.u32 {%r5, %r6}, [%r2+8]; ld.shared.v2.u32 {%r7, %r8}, [%r2+16];",
    )
    out = aligned(np.ones(4, np.uint32))
    run_ptx(kernel(body, "u64 out"), [out])
    assert out.tolist() == [0x7FFF7FFF, 0x7FFF7FFF, 0, 0x7FFF7FFF]
