"""Reading PTX: scopes, labels, declarations, and errors with their lines."""

import numpy as np
import pytest

from precast.emulator import Emulator, Unsupported
from precast.emulator.ptx.module import Statement
from precast.emulator.ptx.reader import read_module
from tests.helpers.emulator import kernel, run_ptx

STORE = "mov.u32 %r1, %laneid; mad.wide.u32 %rd1, %r1, 4, out; st.global.u32 [%rd1], %r9;"


def test_scopes_have_registers_and_labels_of_their_own() -> None:
    """Two blocks of inline assembly declare the same names; outside the braces they mean something else."""
    body = """
    .reg .b32 value; mov.u32 value, 1; mov.u32 %r9, 0;
    { .reg .b32 value; .reg .pred P1; mov.u32 value, 10;
      AGAIN: sub.u32 value, value, 1; add.u32 %r9, %r9, 100; setp.ne.u32 P1, value, 7; @P1 bra AGAIN; }
    { .reg .b32 value; .reg .pred P1; mov.u32 value, 5;
      AGAIN: sub.u32 value, value, 1; add.u32 %r9, %r9, 10; setp.ne.u32 P1, value, 0; @P1 bra.uni DONE; bra AGAIN;
      DONE: }
    add.u32 %r9, %r9, value;
    """
    out = np.zeros(32, np.uint32)
    run_ptx(kernel(body + STORE, "u64 out"), [out])
    assert (out == 311).all()


def test_registers_declared_in_a_block_without_braces_are_seen_later() -> None:
    """As FlashAttention-4 has them; a comment does not end a scope."""
    body = """
    // begin inline asm
    .reg .b32 kept; mov.u32 kept, 3;
    // end inline asm
    /* begin
       inline asm */
    add.u32 %r9, kept, 4;
    """
    out = np.zeros(32, np.uint32)
    run_ptx(kernel(body + STORE, "u64 out"), [out])
    assert (out == 7).all()


def test_vectors_declared_as_registers() -> None:
    """``.reg .v4`` and its parts, also as a whole."""
    body = (
        ".reg .v4 .b32 abcd; mov.u32 abcd.x, 1; mov.u32 abcd.y, 2; mov.u32 abcd.z, 3; mov.u32 abcd.w, 4;"
        "st.global.v4.b32 [out], abcd;"
    )
    out = np.zeros(4, np.uint32)
    run_ptx(kernel(body, "u64 out"), [out])
    assert out.tolist() == [1, 2, 3, 4]


def test_lines_and_the_authors_lines() -> None:
    """A statement knows the line where it begins, and the last ``.loc`` before it."""
    text = '.version 8.8\n.file 1 "a.py"\n.entry k()\n{\n.loc 1 30 5\n  mov.b32\n %r1, 2;\n ret; }'
    module = read_module(text)
    statements = [item for item in module.functions["k"].body if isinstance(item, Statement)]
    assert [(s.line, s.source) for s in statements] == [(6, (1, 30)), (8, (1, 30))]
    assert str(statements[0]) == "mov.b32 %r1, 2;" and module.files == {1: "a.py"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("vadd.u32.u32.u32 %r1, %r2, %r3;", "vadd is not emulated"),
        ("add.wrong.s32 %r1, %r2, %r3;", "the modifier .wrong is not emulated here"),
        ("add.s32 %r1, %rd2, %r3;", "%rd2 has 64 bits, not 32"),
        ("add.s32 %r1, nothing, %r3;", "nothing is not declared"),
        ("add.s32 %r1, %r2;", "it has 2 operands, not 3"),
        ("bra NOWHERE;", "the label NOWHERE is not declared"),
        ("mov.u64 %rd1, %clock64;", "is a clock"),
        ("ld.global.u32.v2 %r1, [%rd1];", "its type is not one of"),
        ("shl.b32 %r1, %r2, %r3, %r4;", "it has 4 operands, not 3"),
        ("set.lt.f16x2.f16x2 %r1, %r2, %r3;", "set of two halves"),
        ("@%r1 add.s32 %r1, %r2, %r3;", "%r1 has 32 bits, not 1"),
    ],
)
def test_what_is_not_known_is_refused_with_its_line(body: str, reason: str) -> None:
    """Never guessed."""
    text = kernel(f"mov.u32 %r1, 1;\n{body}")
    with pytest.raises(Unsupported) as caught:
        Emulator([text]).program("k")
    assert reason in str(caught.value) and f"line {text.splitlines().index(body) + 1} of the PTX" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (".version 8.8\n.address_size 32\n.entry k() { ret; }", "addresses of 32 bits"),
        (".version 8.8\n.entry k() { .reg .e4m3 %r<4>; ret; }", "registers of this type"),
        (".version 8.8\n.entry k() { ret; ", "a function does not end"),
        (".version 8.8\n.tex .u32 image;", "this directive is not emulated"),
        (".version 8.8\n.extern .global .b32 other;", "variables of another module"),
    ],
)
def test_texts_that_are_refused(text: str, reason: str) -> None:
    """When they are read."""
    with pytest.raises(Unsupported, match=reason):
        read_module(text)


def test_a_guard_that_is_written_by_its_own_statement() -> None:
    """All instructions of the statement see the value from before."""
    body = (
        "mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 4; mov.u32 %r2, 0x3C003C00; mov.u32 %r3, 0; mov.u32 %r9, 5;"
        "@%p1 setp.eq.f16x2 %p1|%p2, %r2, %r3; setp.lt.u32 %p3, %r1, 4; @!%p3 mov.pred %p2, 1;"
        "selp.b32 %r9, 1, 0, %p1; selp.b32 %r4, 2, 0, %p2; or.b32 %r9, %r9, %r4;"
    )
    out = np.zeros(32, np.uint32)
    run_ptx(kernel(body + STORE, "u64 out"), [out])
    assert out.tolist() == [0] * 4 + [2] * 28
