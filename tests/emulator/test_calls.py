"""Functions that a kernel calls, and local memory."""

import numpy as np
import pytest

from precast.emulator import EmulationFault, Unsupported
from tests.helpers.emulator import kernel, run_ptx

TWICE = """
.func (.param .b32 result) twice(.param .b32 value) {
    .reg .b32 %r<4>;
    .reg .pred %p<2>;
    ld.param.b32 %r1, [value];
    setp.gt.s32 %p1, %r1, 40;
    @%p1 bra BIG;
    add.s32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
    BIG:
    mov.b32 %r2, 1000;
    st.param.b32 [result], %r2;
    ret;
}
"""
CALL = """
    {{ .param .b32 argument; .param .b32 returned;
    st.param.b32 [argument], {source};
    {guard}call.uni (returned), twice, (argument);
    ld.param.b32 {target}, [returned]; }}
"""
STORE = """
    mul.wide.u32 %rd1, %r1, 4;
    add.u64 %rd1, %rd1, out;
    st.global.u32 [%rd1], %r9;
"""


def test_a_function_is_called_twice_with_registers_of_its_own() -> None:
    """The second call takes what the first returned; both ways through the function are taken."""
    body = "mov.u32 %r1, %laneid;" + CALL.format(source="%r1", target="%r2", guard="")
    body += CALL.format(source="%r2", target="%r9", guard="") + STORE
    out = np.zeros(32, np.uint32)
    run_ptx(kernel(body, "u64 out", outside=TWICE), [out])
    lanes = np.arange(32)
    once = 2 * lanes
    assert (out == np.where(once > 40, 1000, 2 * once)).all()


def test_a_guarded_call_is_for_some_lanes() -> None:
    """Other lanes keep what they have."""
    body = "mov.u32 %r1, %laneid; mov.u32 %r9, 7; setp.lt.u32 %p5, %r1, 4;"
    body += CALL.format(source="%r1", target="%r8", guard="@%p5 ") + "@%p5 mov.b32 %r9, %r8;" + STORE
    out = np.zeros(32, np.uint32)
    run_ptx(kernel(body, "u64 out", outside=TWICE), [out])
    assert out.tolist() == [0, 2, 4, 6] + 28 * [7]


def test_a_function_that_calls_itself_is_refused() -> None:
    """The error has the line."""
    outside = ".func again() { call.uni again; ret; }"
    with pytest.raises(Unsupported, match="again calls itself"):
        run_ptx(kernel("call.uni again;", outside=outside))


def test_local_memory_is_each_threads_own_also_by_generic_addresses() -> None:
    """Two warps write and read through both kinds of addresses."""
    body = """
    .local .align 8 .b8 frame[16];
    mov.u32 %r1, %tid.x;
    mov.u64 %rd2, frame;
    cvta.local.u64 %rd3, %rd2;
    st.local.u32 [frame+4], %r1;
    ld.u32 %r2, [%rd3+4];
    add.u32 %r9, %r2, 1;
    isspacep.local %p1, %rd3;
    @!%p1 trap;
    """
    out = np.zeros(64, np.uint32)
    run_ptx(kernel(body + STORE, "u64 out"), [out], block=64)
    assert (out == np.arange(1, 65)).all()


def test_local_memory_ends() -> None:
    """A store after a thread's own is a fault."""
    body = ".local .align 4 .b8 frame[16]; mov.u32 %r1, 3; st.local.u32 [frame+16], %r1;"
    with pytest.raises(EmulationFault, match="out of bounds: 4 bytes of local memory at 0x10: a thread has 16"):
        run_ptx(kernel(body))
