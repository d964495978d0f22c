"""Declarations: registers, variables and parameters."""

from __future__ import annotations

import re

from precast.emulator.errors import Unsupported
from precast.emulator.ptx.literals import literal_bits
from precast.emulator.ptx.module import SIZES, Scope, Variable

_RANGE = re.compile(r"([\w$%]+)<(\d+)>$")
_VARIABLE = re.compile(
    r"((?:\.(?:visible|extern|weak|common)\s+)*)\.(shared|global|const|local|param)\b(::\w+)?\s+(.*)", re.DOTALL
)
_DECLARED = re.compile(r"([\w$%]+)\s*((?:\[[^\]]*\]\s*)*)(?:=\s*(.*))?$", re.DOTALL)
_QUALIFIER = re.compile(r"\.(align)\s+(\d+)\s*|\.(v[248])\s+|\.(attribute)\([^)]*\)\s*")
_TYPE = re.compile(r"\.(\w+)\s*")
_POINTER = re.compile(r"\.ptr\b\s*(?:\.(?:global|shared|const|local|param)\b\s*)?(?:\.align\s+\d+\s*)?")


def read_registers(statement: str, scope: Scope, line: int) -> None:
    """Declare the registers of a ``.reg`` in a scope.

    >>> scope = Scope(None, 1)
    >>> read_registers(".reg .b32 %r<3>", scope, 1)
    >>> scope.register("%r2")[1], scope.register("%r3")
    (32, None)
    """
    words = statement.split(None, 2)
    parts = [""]
    if len(words) == 3 and words[1] in (".v2", ".v4"):
        parts = [".x", ".y", ".z", ".w"][: int(words[1][2:])]
        words = [words[0], *words[2].split(None, 1)]
    if len(words) != 3 or words[1][1:] not in SIZES:
        raise Unsupported("registers of this type are not emulated", line=line, statement=statement)
    bits = SIZES[words[1][1:]]
    for name in words[2].split(","):
        name = name.strip()
        if match := _RANGE.match(name):
            scope.ranges[match[1]] = int(match[2]), bits
        else:
            scope.registers.update((f"{name}{part}", bits) for part in parts)


def read_variable(statement: str, line: int) -> Variable:
    """A variable's declaration.

    >>> read_variable(".shared .align 16 .b8 a[64]", 1)
    Variable(name='a', space='shared', size=64, align=16, initial=b'', dynamic=False)
    """
    match = _VARIABLE.match(statement)
    if match is None:
        raise Unsupported("this directive is not emulated", line=line, statement=statement)
    if match[2] in ("global", "const") and "extern" in match[1]:
        raise Unsupported("variables of another module are not emulated", line=line, statement=statement)
    return _declared(match[4], match[2], line)


def read_parameters(text: str, line: int) -> tuple[Variable, ...]:
    """The parameters of a function.

    >>> [(p.name, p.size, p.align) for p in read_parameters(".param .align 8 .b8 a[24], .param .f32 b", 1)]
    [('a', 24, 8), ('b', 4, 4)]
    """
    parameters = []
    for part in text.split(","):
        words = part.strip()
        if not words:
            continue
        if not words.startswith(".param"):
            raise Unsupported("parameters in registers are not emulated", line=line, statement=words)
        parameters.append(_declared(words.removeprefix(".param").strip(), "param", line))
    return tuple(parameters)


def _declared(text: str, space: str, line: int) -> Variable:
    align = elements = 0
    while match := _QUALIFIER.match(text):
        align = int(match[2]) if match[1] else align
        elements = int(match[3][1:]) if match[3] else elements
        text = text[match.end() :]
    match = _TYPE.match(text)
    if match is None or SIZES.get(match[1], 0) < 8:
        raise Unsupported("variables of this type are not emulated", line=line, statement=text)
    size = SIZES[match[1]] // 8
    text = _POINTER.sub("", text[match.end() :])
    match = _DECLARED.match(text.strip())
    if match is None:
        raise Unsupported("this declaration is not emulated", line=line, statement=text)
    lengths = re.findall(r"\[\s*(\d*)\s*\]", match[2])
    count = max(1, elements)
    for length in lengths:
        count *= int(length or 0)
    initial = _initial(match[3], size, line) if match[3] else b""
    align = align or size * max(1, elements)
    whole = max(count * size, len(initial))
    return Variable(match[1], space, whole, align, initial.ljust(whole, b"\0") if initial else b"", "[]" in match[2])


def _initial(text: str, size: int, line: int) -> bytes:
    data = b""
    for item in text.replace("{", " ").replace("}", " ").split(","):
        bits = literal_bits(item.strip(), 8 * size)
        if bits is None:
            raise Unsupported("addresses as initial values are not emulated", line=line, statement=text[:80])
        data += bits.to_bytes(size, "little")
    return data
