"""Changes of one statement of PTX: it is dropped, its address is shifted, or its predicate is inverted."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_STATEMENT = re.compile(r"^(\s*)((?:[\w$]+:\s*)?\{?\s*)(@!?%?\w+\s+)?([a-z][\w.:]*)([^;]*;)(.*)$")
_OFFSET = re.compile(r"\[(%?\w+)(?:\+(\d+))?\]")
_DROPPED = {
    "barrier": ("bar.", "barrier."),
    "wait": (
        "cp.async.wait", "cp.async.bulk.wait", "wgmma.wait", "tcgen05.wait::st", "griddepcontrol.wait",
        "mbarrier.try_wait", "mbarrier.test_wait",
    ),
    "fence": ("fence", "membar", "wgmma.fence"),
    "commit": ("cp.async.commit", "cp.async.bulk.commit", "wgmma.commit", "tcgen05.commit", "cp.async.mbarrier"),
    "arrival": ("mbarrier.arrive",),
    "release of tensor memory": ("tcgen05.dealloc",),
    "store": ("st.global", "st.shared", "st.async", "cp.async.bulk.tensor", "tcgen05.st", "stmatrix"),
    "product": ("tcgen05.mma", "wgmma.mma", "mma.sync"),
}  # fmt: skip
_SHIFTED = (
    "st.",
    "ld.shared",
    "ld.global",
    "cp.async.c",
    "stmatrix",
    "ldmatrix",
    "mbarrier.",
    "st.async",
    "atom.",
    "red.",
)
_HINTS = ("prefetch", "ld.param")


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of the line ``line`` (from 1) of a text: ``family`` is what is changed, and how."""

    line: int
    family: str
    before: str
    after: str

    def apply(self, text: str) -> str:
        """The text with the change.

        >>> Mutation(2, "barrier dropped", "bar.sync 0;", "").apply("a;\\nbar.sync 0;\\nret;")
        'a;\\n\\nret;'
        """
        lines = text.split("\n")
        assert lines[self.line - 1] == self.before
        lines[self.line - 1] = self.after
        return "\n".join(lines)

    @property
    def probe(self) -> Mutation:
        """The same place with a trap, which shows whether it is executed."""
        match = _STATEMENT.match(self.before)
        assert match
        indent, label, guard, _, _, rest = match.groups()
        return Mutation(self.line, "probe", self.before, f"{indent}{label}{guard or ''}trap;{rest}")


def mutations(text: str) -> list[Mutation]:
    """All changes of a kernel's text.

    >>> [m.family for m in mutations("bar.sync 0;\\n@%p1 st.global.b32 [%rd1+16], %r2;")]
    ['barrier dropped', 'store dropped', 'address shifted', 'predicate inverted']
    """
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        match = _STATEMENT.match(line)
        if match and not match[4].startswith(_HINTS):
            found += [Mutation(number, family, line, after) for family, after in _changes(match)]
    return found


def _changes(match: re.Match[str]) -> Iterator[tuple[str, str]]:
    indent, label, guard, opcode, operands, rest = match.groups()
    guard = guard or ""
    for family, starts in _DROPPED.items():
        if opcode.startswith(starts):
            yield f"{family} dropped", f"{indent}{label}{_without(opcode, operands)}{rest}"
    if "expect_tx" in opcode and (bytes_register := operands.rstrip("; ").rpartition(",")[2].strip()).startswith("%"):
        changed = operands.rpartition(",")[0] + ", planted;"
        more = f"{{ .reg .b32 planted; add.s32 planted, {bytes_register}, 16; {guard}{opcode}{changed} }}"
        yield "expected bytes shifted", f"{indent}{label}{more}{rest}"
    if opcode.startswith(_SHIFTED) and (address := _OFFSET.search(operands)):
        shifted = f"[{address[1]}+{int(address[2] or 0) + 16}]"
        yield (
            "address shifted",
            f"{indent}{label}{guard}{opcode}{operands[: address.start()]}{shifted}{operands[address.end() :]}{rest}",
        )
    if guard:
        inverse = guard.replace("@!", "@") if guard.startswith("@!") else guard.replace("@", "@!")
        yield "predicate inverted", f"{indent}{label}{inverse}{opcode}{operands}{rest}"


def _without(opcode: str, operands: str) -> str:
    """What is in the place of a dropped statement: a wait that is over at once, or nothing."""
    if opcode.startswith(("mbarrier.try_wait", "mbarrier.test_wait")):
        return f"setp.eq.u32 {operands.strip().partition(',')[0]}, 0, 0;"
    return ""


def one_of(choices: Sequence[Mutation], chance: random.Random) -> Mutation:
    """A change at random: each kind of change as often as the others."""
    family = chance.choice(sorted({mutation.family for mutation in choices}))
    return chance.choice([mutation for mutation in choices if mutation.family == family])
