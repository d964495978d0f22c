"""The badges of README.md, from what pyproject.toml and the table of the compiler's versions say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pictures.svg import FULL, Picture, width_of

HIGH, GAP = 22, 8
TITLE = "Supported versions of Python and of the CuTe DSL, the operating system, the licence"


def facts(project: str, compilers: Sequence[str]) -> list[tuple[str, str]]:
    """What each badge says, of the text of pyproject.toml and the tested versions of the compiler.

    >>> classifiers = '"Programming Language :: Python :: 3.10", "Programming Language :: Python :: 3.14"'
    >>> facts(f'license = "MIT"\\n{classifiers}, "Operating System :: POSIX :: Linux"', ["4.6", "4.7", "4.8"])
    [('Python', '3.10 to 3.14'), ('CuTe DSL', '4.6 to 4.8'), ('runs on', 'Linux'), ('licence', 'MIT')]
    """
    versions = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    (system,) = re.findall(r'"Operating System :: POSIX :: (\w+)"', project)
    (licence,) = re.findall(r'^license = "(.+)"', project, re.MULTILINE)
    spans = [f"{known[0]} to {known[-1]}" for known in (versions, compilers)]
    return [("Python", spans[0]), ("CuTe DSL", spans[1]), ("runs on", system), ("licence", licence)]


def picture(shown: Sequence[tuple[str, str]], width: int = FULL) -> str:
    """The badges in a row, or in as many as they need.

    >>> picture([("Python", "3.10")]).count("<text")
    2
    """
    places, x, y = [], 0.0, 0
    for name, value in shown:
        wide = [width_of(text, "small") + 14 for text in (name, value)]
        if x and x + sum(wide) > width:
            x, y = 0.0, y + HIGH + GAP
        places.append((name, value, x, y, wide))
        x += sum(wide) + GAP
    drawn = Picture(width, y + HIGH, TITLE)
    for name, value, left, top, (first, second) in places:
        drawn.box(left, top, first + second, HIGH, "ours", round=4)
        drawn.box(left, top, first, HIGH, "pale", round=4)
        drawn.text(left + first / 2, top + 15, name, "small", at="middle")
        drawn.text(left + first + second / 2, top + 15, value, "small", fill="paper", at="middle", more="bold")
    return drawn.to_svg()
