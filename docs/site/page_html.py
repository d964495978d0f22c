"""What the site changes in the HTML of a page: groups of the navigation that fold, and a prompt before each command."""

from __future__ import annotations

import html
import re
import shlex

_CAPTION = re.compile(r'<p class="caption" role="heading">(<span class="caption-text">.*?</span>)</p>\n')
_SHELL = re.compile(r'(<div class="highlight-sh notranslate"><div class="highlight"><pre>)(.*?)(</pre>)', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
PROMPT = '<span class="prompt"></span>'
"""Its text is the style's: neither the button that copies nor a selection has it."""


def folding(tree: str) -> str:
    """The navigation with each group as ``details``; the one of the current page is open, or else the first.

    >>> caption = '<p class="caption" role="heading"><span class="caption-text">{}</span></p>\\n<ul>{}</ul>'
    >>> print(folding(caption.format("A", "x") + caption.format("B", '<li class="current">y</li>')))
    <details><summary class="caption"><span class="caption-text">A</span></summary>
    <ul>x</ul></details><details open><summary class="caption"><span class="caption-text">B</span></summary>
    <ul><li class="current">y</li></ul></details>
    """
    before, *rest = _CAPTION.split(tree)
    groups = list(zip(rest[::2], rest[1::2], strict=True))
    current = [pages for _, pages in groups if re.search(r'class="[^"]*\bcurrent\b', pages)]
    shown = current[0] if current else groups[0][1] if groups else ""
    for name, pages in groups:
        opened = " open" if pages is shown else ""
        before += f'<details{opened}><summary class="caption">{name}</summary>\n{pages}</details>'
    return before


def prompted(body: str) -> str:
    """A page with a prompt before each command of a block of the shell: not before its further lines, and comments."""
    return _SHELL.sub(lambda match: f"{match[1]}{_block(match[2])}{match[3]}", body)


def _block(text: str) -> str:
    """The lines of a block, of which those that begin a command have a prompt.

    >>> print(_block("make docs<span> # a</span>\\n# then\\npip <span>a \\\\</span>\\n  b").replace(PROMPT, "$ "))
    $ make docs<span> # a</span>
    # then
    $ pip <span>a \\</span>
      b
    """
    lines, command = [], ""
    for line in text.split("\n"):
        words = html.unescape(_TAG.sub("", line))
        begins = not command and bool(words.strip()) and not words.startswith(("#", " "))
        command = f"{command}\n{words}" if command else words
        if _whole(command):
            command = ""
        lines.append(f"{PROMPT}{line}" if begins else line)
    return "\n".join(lines)


def _whole(command: str) -> bool:
    """Whether a command ends here: not within quotes, nor before the line that its last backslash continues."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True
