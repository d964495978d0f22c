"""What an emulation refuses, and what it finds wrong."""

from __future__ import annotations

from typing import NamedTuple

LIMIT = "limit"
"""The kind of the fault of a launch that takes more warp instructions than it may: the kernel need not be wrong."""


class SourceLine(NamedTuple):
    """A line of a file, counted from 1.

    >>> str(SourceLine("norm.py", 12))
    'norm.py:12'
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class EmulatorError(Exception):
    """The base of the emulator's errors. ``code`` is permanent: precast's page of errors explains it."""

    code: str


class Unsupported(EmulatorError):
    """PTX that is not emulated: an opcode, a modifier, an operand or a directive, with its line.

    >>> str(Unsupported("cp.async.bulk is not emulated", line=12, statement="cp.async.bulk [%r1], [%rd2];"))
    "line 12 of the PTX: cp.async.bulk is not emulated, in 'cp.async.bulk [%r1], [%rd2];'; verify this kernel on a GPU"
    """

    code = "PCB22"

    def __init__(self, reason: str, *, line: int = 0, statement: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.statement = statement

    @property
    def opcode(self) -> str:
        """The opcode of the statement, without a guard; empty where it is none.

        >>> Unsupported("no", statement="@!%p1 bar.sync 0;").opcode
        'bar.sync'
        """
        words = [word for word in self.statement.split() if not word.startswith("@")]
        return words[0].rstrip(";") if words else ""

    def __str__(self) -> str:
        where = f"line {self.line} of the PTX: " if self.line else ""
        statement = f", in {self.statement!r}" if self.statement else ""
        return f"{where}{self.reason}{statement}; verify this kernel on a GPU"


class EmulationFault(EmulatorError):
    """What an emulated kernel does wrong: its kind, and where.

    Parameters
    ----------
    kind, text
        What is wrong, such as ``out of bounds``, and its details.
    launch, block, warp, lane
        Which launch of the call, block of the grid, warp of the block and lane; a warp or lane of -1 is none in
        particular.
    line, other_line
        Lines of the PTX: of the instruction, and of the other access of a race.
    source
        The author's line, if the PTX has line information.
    """

    code = "PCB23"

    def __init__(
        self,
        kind: str,
        text: str,
        *,
        launch: int = 0,
        block: tuple[int, int, int] = (0, 0, 0),
        warp: int = -1,
        lane: int = -1,
        line: int = 0,
        other_line: int = 0,
        source: SourceLine | None = None,
    ) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.launch = launch
        self.block = block
        self.warp = warp
        self.lane = lane
        self.line = line
        self.other_line = other_line
        self.source = source

    def __str__(self) -> str:
        where = [f"launch {self.launch}", f"block {self.block}"]
        where += [f"warp {self.warp}"] if self.warp >= 0 else []
        where += [f"lane {self.lane}"] if self.lane >= 0 else []
        where += [f"line {self.line} of the PTX"] if self.line else []
        where += [f"the other access at line {self.other_line}"] if self.other_line else []
        where += [str(self.source)] if self.source else []
        return f"{self.kind}: {self.text} ({', '.join(where)}); correct the kernel"


class InterpreterError(EmulatorError):
    """The interpreter cannot be compiled or loaded here."""

    code = "PCB24"
