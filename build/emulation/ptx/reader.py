"""From the text of PTX to a module."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

from precast.build.emulation.errors import Unsupported
from precast.build.emulation.ptx.declarations import read_parameters, read_registers, read_variable
from precast.build.emulation.ptx.module import Function, Label, Module, Scope, Statement, Targets

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

    >>> module = read_module(".version 8.8\\n.target sm_90a\\n.address_size 64\\n.visible .entry k(.param .u32 n) { ret; }")
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
    for place, letter in enumerate(text):
        if letter in "{[(":
            depth += 1
        elif letter in "}])":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    parts.append(text[start:].strip())
    return tuple(parts)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
        self.lines = [match.start() for match in re.finditer("\n", self.text)]
        self.place = 0
        self.scopes = 0
        self.top = self.scope(None)
        self.functions: dict[str, Function] = {}
        self.files: dict[int, str] = {}
        self.header = {"version": "", "target": "", "address_size": ""}

    def scope(self, parent: Scope | None) -> Scope:
        self.scopes += 1
        return Scope(parent, self.scopes)

    def line(self, place: int) -> int:
        return bisect.bisect_left(self.lines, place) + 1

    def refuse(self, reason: str, place: int) -> Unsupported:
        statement = self.text[place : place + 200].split("\n", 1)[0]
        return Unsupported(reason, line=self.line(place), statement=statement)

    def skip(self) -> bool:
        match = _SPACE.match(self.text, self.place)
        assert match is not None
        self.place = match.end()
        return self.place < len(self.text)

    def until(self, mark: str) -> str:
        end = self.text.find(mark, self.place)
        if end < 0:
            raise self.refuse(f"{mark!r} is missing", self.place)
        found = self.text[self.place : end]
        self.place = end + 1
        return found

    def module(self) -> Module:
        while self.skip():
            start = self.place
            if match := _HEADER.match(self.text, start):
                self.header[match[1]] = match[2].strip()
                self.place = match.end()
            elif match := _FILE.match(self.text, start):
                self.files[int(match[1])] = match[2]
                self.place = self.text.find("\n", start) % (len(self.text) + 1)
            elif match := _SECTION.match(self.text, start):
                self.place = match.end()
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
        self.place = match.end()
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

    def declare(self, statement: str, scope: Scope, place: int) -> None:
        line = self.line(place)
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
                raise self.refuse("a function does not end", self.place)
            start = self.place
            letter = self.text[start]
            if letter == "{":
                self.place += 1
                scope = self.scope(scope)
                continue
            if letter == "}":
                self.place += 1
                assert scope.parent is not None
                scope = scope.parent
                if scope is outside:
                    return
                continue
            if letter == ".":
                if match := _LINE.match(self.text, start):
                    self.place = match.end()
                    located = _LOC.match(match[0])
                    source = (int(located[1]), int(located[2])) if located else source
                    continue
                statement = self.until(";")
                if not statement.startswith(".pragma"):  # of unrolling: for the compiler
                    self.declare(statement, scope, start)
                continue
            if match := _LABEL.match(self.text, start):
                self.place = match.end()
                if self.text.startswith(".branchtargets", self.place):
                    names = self.until(";").removeprefix(".branchtargets")
                    tables[match[1]] = Targets(match[1], split_operands(names.strip()), scope)
                    continue
                if self.text.startswith((".callprototype", ".calltargets"), self.place):
                    raise self.refuse("indirect calls are not emulated", start)
                scope.labels.add(match[1])
                yield Label(match[1], scope)
                continue
            yield self.statement(self.until(";"), scope, start, source)

    def statement(self, text: str, scope: Scope, place: int, source: tuple[int, int] | None) -> Statement:
        match = _STATEMENT.match(text)
        if match is None:
            raise self.refuse("this is not an instruction", place)
        return Statement(
            self.line(place),
            match[2],
            split_operands(" ".join(match[3].split())),
            scope,
            match[1] or "",
            source,
        )
