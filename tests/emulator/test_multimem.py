"""Multicast memory: what is stored there arrives in each copy, and what is loaded is a sum of the copies."""

import pytest

from precast.emulator import EmulationFault, Unsupported
from tests.helpers.emulator import kernel, multicast, run_ptx

torch = pytest.importorskip("torch")

LANE = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 16; add.u64 %rd2, in, %rd1; add.u64 %rd3, out, %rd1;"
VECTOR = "{%r2, %r3, %r4, %r5}"


def run(statements: str, source: object, target: object, **options: object) -> None:
    """Run statements with an address of each for each lane, 16 bytes apart."""
    run_ptx(kernel(LANE + statements, "u64 in, u64 out"), [source, target], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["weak.global.v4.f32", "relaxed.sys.global.v4.bf16x2", "release.gpu.v4.b32"])
def test_a_store_arrives_in_every_copy(how: str) -> None:
    """And between the copies nothing is written."""
    data = torch.randn(128)
    memory = torch.zeros(3, 160)
    run(f"ld.global.v4.b32 {VECTOR}, [%rd2]; multimem.st.{how} [%rd3], {VECTOR};", data, multicast(memory[:, :128]))
    assert (memory[:, :128] == data).all() and (memory[:, 128:] == 0).all()


def test_a_sum_of_bfloat16_is_rounded_once() -> None:
    """Eight copies are added in float32, in their order."""
    copies = torch.randn(8, 256).bfloat16()
    out = torch.zeros(256, dtype=torch.bfloat16)
    statements = f"multimem.ld_reduce.weak.global.add.acc::f32.v4.bf16x2 {VECTOR}, [%rd2]; st.v4.b32 [%rd3], {VECTOR};"
    run(statements, multicast(copies), out)
    first, *others = copies.float()
    assert (out == sum(others, first).bfloat16()).all()


def test_sums_and_additions_of_words() -> None:
    """Integers, and float32."""
    numbers, floats = torch.arange(256, dtype=torch.int32).view(2, 128), torch.randn(2, 128)
    total, sums = torch.zeros(128, dtype=torch.int32), torch.zeros(128)
    run("multimem.ld_reduce.relaxed.sys.global.add.s32 %r2, [%rd2+4]; st.b32 [%rd3], %r2;", multicast(numbers), total)
    run("multimem.ld_reduce.relaxed.gpu.add.f32 %f2, [%rd2]; st.f32 [%rd3], %f2;", multicast(floats), sums)
    assert (total[::4] == numbers.sum(0)[1::4]).all() and (sums[::4] == floats.sum(0)[::4]).all()
    run("multimem.red.release.sys.global.add.s32 [%rd3], 5;", torch.zeros(1), multicast(numbers))
    assert numbers.view(-1)[:8].tolist() == [5, 1, 2, 3, 9, 5, 6, 7] and numbers[1, 0] == 128 + 5


def test_other_memory_and_other_accesses_are_refused() -> None:
    """multimem where no multicast memory is, a plain access where it is, and bytes behind its end."""
    memory, data = torch.zeros(2, 128), torch.zeros(128)
    for statements, word in (
        (f"multimem.st.weak.v4.f32 [%rd2], {VECTOR};", "no multicast memory"),
        (f"multimem.st.weak.v4.f32 [%rd3+16], {VECTOR};", "no multicast memory"),
        ("ld.global.f32 %f1, [%rd3];", "use multimem"),
    ):
        with pytest.raises(EmulationFault, match=word):
            run("mov.b32 %r2, 0; mov.b32 %r3, 0; mov.b32 %r4, 0; mov.b32 %r5, 0;" + statements, data, multicast(memory))
    with pytest.raises(Unsupported, match="acc::f32"):
        run("multimem.ld_reduce.weak.add.bf16x2 %r2, [%rd3];", data, multicast(memory))


def test_an_unordered_sum_is_a_race() -> None:
    """Two warps: one stores to all copies, the other reads them at the same time."""
    memory, out = torch.zeros(2, 128), torch.zeros(128)
    body = (
        "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; and.b32 %r1, %r1, 31; mul.wide.u32 %rd1, %r1, 4; "
        "add.u64 %rd2, in, %rd1; add.u64 %rd3, out, %rd1; @%p1 bra LOAD; multimem.st.weak.f32 [%rd2], 0f3F800000; {}"
        "bra END; LOAD: {} multimem.ld_reduce.weak.add.f32 %f1, [%rd2]; st.f32 [%rd3], %f1; END:"
    )
    text = kernel(body.format("", ""), "u64 in, u64 out")
    with pytest.raises(EmulationFault) as caught:
        run_ptx(text, [multicast(memory), out], block=64, check_races=True)
    assert caught.value.kind == "race" and "memory" in caught.value.text
    ordered = kernel(body.format("bar.sync 1, 64;", "bar.sync 1, 64;"), "u64 in, u64 out")
    run_ptx(ordered, [multicast(memory), out], block=64, check_races=True)
    assert (out[:32] == 2).all()
