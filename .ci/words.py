"""Checks the words of this project: ``python .ci/words.py`` lists each use of a banned word, and exits with status 1.

``WORDS`` is the only list. ``python .ci/words.py --write`` writes it into CONTRIBUTING.md as a table. A line with
the comment ``words: allow`` is skipped; so are code blocks and inline code in pages, and texts without a space in code.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
CODE = ("loader", "fetch", "attach", "build", "cli", "emulator", "kernels", "measure", "native", "publish")
"""The folders whose Python files are checked: docstrings, comments, other texts, and names."""
GENERATED = (*(f"docs/reference/{name}" for name in ("cache-", "cli", "manifest-", "python")), "docs/kernels.md")
"""Pages that are written from code, which is checked itself."""
ALLOW = "words: allow"
BEGIN, END = "<!-- begin words -->\n", "<!-- end words -->\n"
NAMES = ("asked", "found", "heard", "known", "made", "one", "place", "said", "told", "wanted")
"""Names that hide what a variable, a function or a module is."""


@dataclass(frozen=True)
class Word:
    """A banned phrase, what to write instead, and the pattern that finds it."""

    banned: str
    instead: str
    pattern: str

    @property
    def regex(self) -> re.Pattern[str]:
        """The pattern at word boundaries. A space matches a line break, too."""
        return re.compile(rf"(?<![\w.`/-])(?:{self.pattern.replace(' ', chr(92) + 's+')})(?![\w`/-])")


WORDS = (
    Word("is told, is told of", "is reported, is logged", r"told"),
    Word("tells", "shows, returns, reports", r"tells"),
    Word("asks, asked for", "queries, requests, requested", r"asks|asked"),
    Word("heard, hearing", "received, the noun of the thing", r"heard|hearings?"),
    Word(
        "is no file, are no sizes",
        "is not a file, are not sizes",
        r"(?<!here\s)(?:is|are) no (?!longer|more|less|other|such|need|\w+er\b)\w+",
    ),
    Word("has not (nothing after it)", "lacks, does not have", r"(?:has|have) not(?=[.,;:)])"),
    Word("Of X, Y (as in: Of two times, the lesser stays)", "the usual order of words", r"Of(?! course)"),
    Word("whoever", "anyone who", r"[Ww]hoever"),
    Word(
        "1 ops", "1 op", r"1 (?:ops|variants|kernels|artifacts|problems|files|caches|wheels|targets|candidates|times)"
    ),
    Word("for ever", "permanently, always", r"for ever"),
    Word("as ever", "as before", r"as ever"),
    Word("goes on", "continues", r"go(?:es)? on"),
    Word("can be had", "is available", r"(?:can|cannot) be had"),
    Word("held against", "compared with, checked against", r"(?:is|are|be|was|were) held against|holds? \w+ against"),
    Word("the way out", "what to do, the solution", r"way out"),
    Word("costs itself alone", "is reported and skipped", r"costs? (?:itself|themselves) alone"),
    Word("put into place", "installed", r"put into place"),
    Word(
        "stands in, stands beside", "is in, is next to", r"stands (?:in(?! for)|on|at|beside|behind|below|above|where)"
    ),
    Word("as it stands", "unchanged", r"as (?:it|they) stands?"),
    Word("but for (meaning except)", "except", r"but for"),
    Word("knows no", "does not know", r"knows no"),
    Word("to the bit", "bitwise", r"to the bit"),
    Word("beside each other", "side by side, in parallel", r"beside each other"),
    Word("nothing else is said against", "all other rules pass", r"said against"),
)


@dataclass(frozen=True)
class Use:
    """A banned word in a file."""

    path: str
    line: int
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{' '.join(self.text.split())}': write {self.instead}"


def in_text(path: str, text: str, first: int = 1) -> Iterator[Use]:
    """The banned words of a text that begins at a line.

    >>> [str(use) for use in in_text("a.md", "A cache\\nis told of 1 ops.")]
    ["a.md:2: 'told': write is reported, is logged", "a.md:2: '1 ops': write 1 op"]
    """
    lines = text.split("\n")
    for word in WORDS:
        for match in word.regex.finditer(text):
            line = text.count("\n", 0, match.start())
            if ALLOW not in lines[line]:
                yield Use(path, first + line, match[0], word.instead)


def in_page(path: str, text: str) -> Iterator[Use]:
    """The banned words of a page, outside of code and of the table of words."""
    for pattern in (rf"{BEGIN}.*?{END}", r"^```.*?^```$", r"`[^`\n]+`"):
        text = re.sub(pattern, _blank, text, flags=re.DOTALL | re.MULTILINE)
    yield from in_text(path, text)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "#", match[0])


def in_code(path: str, source: str) -> Iterator[Use]:
    """The banned words of the comments and texts of a module, and its banned names."""
    prose = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    lines = source.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in prose and " " in token.string and ALLOW not in lines[token.end[0] - 1]:
            yield from in_text(path, re.sub(r"`[^`\n]+`", _blank, token.string), token.start[0])
    stem = Path(path).stem
    names = [(stem, 1), *((name, line) for node in ast.walk(ast.parse(source)) for name, line in _names(node))]
    for name, line in sorted(set(names), key=lambda item: item[1]):
        if name in NAMES and ALLOW not in lines[line - 1]:
            yield Use(path, line, name, "the noun of the thing")


def _names(node: ast.AST) -> Iterator[tuple[str, int]]:
    """The names that a node gives to something."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name, node.lineno
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id, node.lineno
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr, node.lineno
    elif isinstance(node, ast.arg):
        yield node.arg, node.lineno


def table() -> str:
    """The list as a table of Markdown."""
    names = ", ".join(f"`{name}`" for name in NAMES)
    rows = [(word.banned, word.instead) for word in WORDS]
    rows.append((f"{names} as names", "the noun of the thing: `artifact`, `path`, `entry`, `request`"))
    lines = ["| instead of | write |", "| --- | --- |", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    """A page with the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def uses() -> Iterator[Use]:
    """The banned words of all pages and of the folders in ``CODE``."""
    for path in sorted(ROOT.rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith((".work/", *GENERATED)):
            yield from in_page(name, path.read_text(encoding="utf-8"))
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from in_code(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def main(arguments: list[str]) -> int:
    """Write the table, or list each banned word."""
    page = CONTRIBUTING.read_text(encoding="utf-8")
    if arguments == ["--write"]:
        CONTRIBUTING.write_text(with_table(page), encoding="utf-8")
        return 0
    problems = [str(use) for use in uses()]
    if page != with_table(page):
        problems.append("CONTRIBUTING.md: the table of words is out of date: run 'python .ci/words.py --write'")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
