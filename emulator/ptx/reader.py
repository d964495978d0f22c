"""From the text of PTX to a module."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

from precast.emulator.errors import Unsupported
from precast.emulator.ptx.declarations import read_parameters, read_registers, read_variable
from precast.emulator.ptx.module import Function, Label, Module, Scope, Statement, Targets

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPACE = re.compile(r"\s*")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)\s*")
_LINE = re.compile(r"\.(?:loc|file)\b[^\n]*")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_FUNCTION = re.compile(
    r"(?:\.(?:visible|weak|extern|common)\s+)*\.(entry|func)\b\s*(?:\.attribute\([^)]*\)\s*)?(?:\.noreturn\s+)?"
    r"(\([^)]*\))?\s*([\w$]+)\s*(\([^)]*\))?([^{;]*)([{;])"
)
_STATEMENT = re.compile(r"(?:@\s*(!?[\w$%.]+)\s+)?([\w.:]+)\s*(.*)", re.DOTALL)
_HEADER = re.compile(r"\.(version|target|address_size)\s+([^\n]*)")
_SECTION = re.compile(r"\.section\s+\S+\s*\{[^}]*\}")


def read_module(text: str) -> Module:
    """Read a module, or raise Unsupported with the line of what is not known.

    >>> module = read_module(".version 8.8\\n.target sm_90a\\n.visible .entry k(.param .u32 n) { ret; }")
    >>> module.target, [str(statement) for statement in module.functions["k"].body]
    ('sm_90a', ['ret;'])
    """
    return _Reader(text).module()


def split_operands(text: str) -> tuple[str, ...]:
    """Split at commas that are not in brackets.

    >>> split_operands("{%r1, %r2}, [%rd1+8], 3")
    ('{%r1, %r2}', '[%rd1+8]', '3')
    """
    if not text:
        return ()
    if "{" not in text and "[" not in text and "(" not in text:
        return tuple(part.strip() for part in text.split(","))
    parts, depth, start = [], 0, 0
    for offset, letter in enumerate(text):
        if letter in "{[(":
            depth += 1
        elif letter in "}])":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:offset].strip())
            start = offset + 1
    parts.append(text[start:].strip())
    return tuple(parts)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
        self.lines = [match.start() for match in re.finditer("\n", self.text)]
        self.offset = 0
        self.scopes = 0
        self.top = self.scope(None)
        self.functions: dict[str, Function] = {}
        self.files: dict[int, str] = {}
        self.header = {"version": "", "target": "", "address_size": ""}

    def scope(self, parent: Scope | None) -> Scope:
        self.scopes += 1
        return Scope(parent, self.scopes)

    def line(self, offset: int) -> int:
        return bisect.bisect_left(self.lines, offset) + 1

    def refuse(self, reason: str, offset: int) -> Unsupported:
        statement = self.text[offset : offset + 200].split("\n", 1)[0]
        return Unsupported(reason, line=self.line(offset), statement=statement)

    def skip(self) -> bool:
        match = _SPACE.match(self.text, self.offset)
        assert match is not None
        self.offset = match.end()
        return self.offset < len(self.text)

    def until(self, mark: str) -> str:
        end = self.text.find(mark, self.offset)
        if end < 0:
            raise self.refuse(f"{mark!r} is missing", self.offset)
        passed = self.text[self.offset : end]
        self.offset = end + 1
        return passed

    def module(self) -> Module:
        while self.skip():
            start = self.offset
            if match := _HEADER.match(self.text, start):
                self.header[match[1]] = match[2].strip()
                self.offset = match.end()
            elif match := _FILE.match(self.text, start):
                self.files[int(match[1])] = match[2]
                self.offset = self.text.find("\n", start) % (len(self.text) + 1)
            elif match := _SECTION.match(self.text, start):
                self.offset = match.end()
            elif match := _FUNCTION.match(self.text, start):
                self.function(match)
            elif self.text.startswith((".alias", ".pragma"), start):
                raise self.refuse(f"{self.text[start:].split()[0]} is not emulated here", start)
            else:
                statement = self.until(";")
                self.declare(statement, self.top, start)
        if self.header["address_size"] not in ("64", ""):
            raise self.refuse("addresses of 32 bits are not emulated", 0)
        return Module(
            version=self.header["version"],
            target=self.header["target"],
            functions=self.functions,
            variables=self.top.variables,
            files=self.files,
        )

    def function(self, match: re.Match[str]) -> None:
        kind, results, name, parameters, _, opening = match.groups()
        scope = self.scope(self.top)
        self.offset = match.end()
        line = self.line(match.start())
        body, tables = ((), {}) if opening == ";" else self.body(scope)
        if opening == ";" and name in self.functions:
            return
        self.functions[name] = Function(
            name=name,
            entry=kind == "entry",
            parameters=read_parameters((parameters or "()")[1:-1], line),
            results=read_parameters((results or "()")[1:-1], line),
            body=body,
            tables=tables,
            scope=scope,
        )

    def declare(self, statement: str, scope: Scope, offset: int) -> None:
        line = self.line(offset)
        if statement.startswith(".reg"):
            read_registers(statement, scope, line)
            return
        variable = read_variable(statement, line)
        scope.variables[variable.name] = variable

    def body(self, scope: Scope) -> tuple[tuple[Statement | Label, ...], dict[str, Targets]]:
        tables: dict[str, Targets] = {}
        return tuple(self.statements(scope, tables)), tables

    def statements(self, scope: Scope, tables: dict[str, Targets]) -> Iterator[Statement | Label]:
        outside = scope.parent
        source: tuple[int, int] | None = None
        while True:
            if not self.skip():
                raise self.refuse("a function does not end", self.offset)
            start = self.offset
            letter = self.text[start]
            if letter == "{":
                self.offset += 1
                scope = self.scope(scope)
                continue
            if letter == "}":
                self.offset += 1
                assert scope.parent is not None
                scope = scope.parent
                if scope is outside:
                    return
                continue
            if letter == ".":
                if match := _LINE.match(self.text, start):
                    self.offset = match.end()
                    located = _LOC.match(match[0])
                    source = (int(located[1]), int(located[2])) if located else source
                    continue
                statement = self.until(";")
                if not statement.startswith(".pragma"):  # of unrolling: for the compiler
                    self.declare(statement, scope, start)
                continue
            if match := _LABEL.match(self.text, start):
                self.offset = match.end()
                if self.text.startswith(".branchtargets", self.offset):
                    names = self.until(";").removeprefix(".branchtargets")
                    tables[match[1]] = Targets(match[1], split_operands(names.strip()), scope)
                    continue
                if self.text.startswith((".callprototype", ".calltargets"), self.offset):
                    raise self.refuse("indirect calls are not emulated", start)
                scope.labels.add(match[1])
                yield Label(match[1], scope)
                continue
            yield self.statement(self.until(";"), scope, start, source)

    def statement(self, text: str, scope: Scope, offset: int, source: tuple[int, int] | None) -> Statement:
        match = _STATEMENT.match(text)
        if match is None:
            raise self.refuse("this is not an instruction", offset)
        return Statement(
            self.line(offset),
            match[2],
            split_operands(" ".join(match[3].split())),
            scope,
            match[1] or "",
            source,
        )
