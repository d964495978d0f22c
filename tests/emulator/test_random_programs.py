"""Random programs of many registers, jumps and loops, compared with an evaluation lane by lane.

Lanes take different ways, so that registers which share a place are needed by lanes that are apart.
"""

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.helpers.emulator import aligned, kernel, run_ptx

MASK = {32: 0xFFFFFFFF, 64: 0xFFFFFFFFFFFFFFFF}
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add.u": lambda a, b: a + b,
    "sub.u": lambda a, b: a - b,
    "mul.lo.u": lambda a, b: a * b,
    "xor.b": lambda a, b: a ^ b,
    "or.b": lambda a, b: a | b,
}


class Program:
    """A random program: its text, and what a lane computes."""

    def __init__(self, seed: int, registers: int = 6) -> None:
        self.random = random.Random(seed)
        self.words = [f"%r{i}" for i in range(10, 10 + registers)]
        self.doubles = [f"%rd{i}" for i in range(10, 10 + registers)]
        self.names = self.words + self.doubles
        self.text: list[str] = []
        self.labels = 0
        self.body = self.block(3)

    def bits(self, name: str) -> int:
        return 64 if "d" in name else 32

    def block(self, depth: int) -> list[tuple[object, ...]]:
        """A list of steps: assignments, choices and loops. It has some registers of its own."""
        steps: list[tuple[object, ...]] = []
        kept = self.words, self.doubles
        for bits in self.random.sample([32, 32, 64, 64], 3):
            self.labels += 1
            name = f"t{'d' if bits == 64 else ''}{self.labels}"
            self.text.append(f".reg .b{bits} {name};")
            steps.append(self.assignment(name, plain=True))
            self.words, self.doubles = (
                (self.words, [*self.doubles, name]) if bits == 64 else ([*self.words, name], self.doubles)
            )
        for _ in range(self.random.randint(2, 8)):
            kind = self.random.random()
            if depth and kind < 0.25:
                self.labels += 1
                label = f"L{self.labels}"
                test = self.random.choice(self.words)
                self.text.append(f"and.b32 %r1, {test}, 3; setp.eq.u32 %p1, %r1, 1; @!%p1 bra {label}_ELSE;")
                then = self.block(depth - 1)
                self.text.append(f"bra {label}_END; {label}_ELSE:")
                other = self.block(depth - 1)
                self.text.append(f"{label}_END:")
                steps.append(("if", test, then, other))
            elif depth and kind < 0.4:
                self.labels += 1
                label, counter = f"L{self.labels}", f"count{self.labels}"
                test = self.random.choice(self.words)
                self.text.append(f".reg .b32 {counter}; and.b32 {counter}, {test}, 3; {label}:")
                self.text.append(f"setp.eq.u32 %p1, {counter}, 0; @%p1 bra {label}_OUT;")
                inside = self.block(depth - 1)
                self.text.append(f"sub.u32 {counter}, {counter}, 1; bra {label}; {label}_OUT:")
                steps.append(("loop", test, inside))
            else:
                steps.append(self.assignment(self.random.choice(self.words + self.doubles)))
        self.words, self.doubles = kept
        return steps

    def assignment(self, target: str, plain: bool = False) -> tuple[object, ...]:
        """A register gets a value of one or two others, for some lanes unless it is plain."""
        bits = self.bits(target)
        same, others = (self.doubles, self.words) if bits == 64 else (self.words, self.doubles)
        guard = not plain and self.random.random() < 0.3
        tested = self.random.choice(self.words)
        if guard:
            self.text.append(f"setp.lt.u32 %p2, {tested}, 0x80000000;")
        prefix = "@%p2 " if guard else ""
        if self.random.random() < 0.3:
            source = self.random.choice(others)
            self.text.append(f"{prefix}cvt.u{bits}.u{96 - bits} {target}, {source};")
            return ("cvt", target, source, tested if guard else None)
        a, b = self.random.choice(same), self.random.choice(same)
        name = self.random.choice(list(OPERATIONS))
        self.text.append(f"{prefix}{name}{bits} {target}, {a}, {b};")
        return ("op", target, name, a, b, tested if guard else None)

    def run(self, steps: list[tuple[object, ...]], values: dict[str, int]) -> None:
        """What one lane does."""
        for step in steps:
            if step[0] == "if":
                self.run(step[2] if values[step[1]] & 3 == 1 else step[3], values)  # type: ignore[index, arg-type]
            elif step[0] == "loop":
                for _ in range(values[step[1]] & 3):  # type: ignore[index]
                    self.run(step[2], values)  # type: ignore[arg-type]
            elif step[-1] is None or values[step[-1]] < 0x80000000:  # type: ignore[index]
                target = str(step[1])
                if step[0] == "cvt":
                    values[target] = values[str(step[2])] & MASK[self.bits(target)]
                else:
                    result = OPERATIONS[str(step[2])](values[str(step[3])], values[str(step[4])])
                    values[target] = result & MASK[self.bits(target)]


@pytest.mark.parametrize("number", range(30))
def test_places_that_registers_share_keep_what_is_needed(number: int) -> None:
    """The same values with and without random schedules."""
    program = Program(number)
    lanes = 64
    first = [random.Random(1000 + lane).getrandbits(64) for lane in range(lanes)]
    begin = "mov.u32 %r1, %tid.x; mad.wide.u32 %rd1, %r1, 8, in; ld.global.u64 %rd2, [%rd1]; cvt.u32.u64 %r2, %rd2;"
    starts = {}
    for i, name in enumerate(program.names):
        bits = program.bits(name)
        begin += f"mul.lo.u{bits} {name}, {'%r2' if bits == 32 else '%rd2'}, {2 * i + 1};"
        starts[name] = 2 * i + 1
    size = 8 * len(program.names)
    end = f"mov.u32 %r1, %tid.x; mad.wide.u32 %rd1, %r1, {size}, out;"
    for i, name in enumerate(program.names):
        end += f"st.global.u{program.bits(name)} [%rd1+{8 * i}], {name};"
    expected = np.zeros((lanes, len(program.names)), np.uint64)
    for lane in range(lanes):
        values = {name: first[lane] * factor & MASK[program.bits(name)] for name, factor in starts.items()}
        program.run(program.body, values)
        expected[lane] = [values[name] for name in program.names]
    text = kernel(begin + "\n".join(program.text) + end, "u64 in, u64 out")
    for seed in (0, number + 1):
        out = aligned(np.zeros_like(expected))
        run_ptx(text, [np.array(first, np.uint64), out], block=lanes, seed=seed)
        assert (out == expected).all()
