"""Patterns of names, digests and symbols: regular expressions that are compiled only if needed.

Compiling one takes longer than most reads of a cache, so a quick test without it admits nearly all texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from precast.loader.contract.values import Immutable

_HEX = "0123456789abcdef"


class Pattern(Immutable):
    """The texts that ``pattern`` matches as a whole. ``quick`` accepts some of them without the regular expression, and
    no other text.

    >>> NAME.admits("hidden"), NAME.admits("2nd"), CACHE_NAME.admits("my-kernels")
    (True, False, True)
    """

    pattern: str
    quick: Callable[[str], bool] = lambda text: False

    def admits(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        return self.quick(text) or re.fullmatch(self.pattern, text, re.ASCII) is not None


def _is_hex(text: str, digits: int) -> bool:
    return len(text) == digits and not text.strip(_HEX)


def _is_identifier(text: str, most: int) -> bool:
    return len(text) <= most and text.isascii() and text.isidentifier()


def _is_lower(text: str) -> bool:
    return text.isascii() and text.isalnum() and text.islower() and not text[0].isdigit()


def _is_word(text: str) -> bool:
    return text[:1] != "_" and _is_lower(text.replace("_", "a"))


SCALARS = ("dtype", "str", "int", "float", "bool")
_TYPES = (*SCALARS, "any")

NAME = Pattern(r"[A-Za-z_][A-Za-z0-9_]{0,63}", lambda t: _is_identifier(t, 64))
OP_NAME = Pattern(
    r"[a-z][a-z0-9_]{0,63}(?:\.[a-z][a-z0-9_]{0,63}){0,3}",
    lambda t: len(t) <= 64 and t.count(".") < 4 and all(map(_is_word, t.split("."))),
)
CACHE_NAME = Pattern(
    r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*",
    lambda t: "--" not in t and t[:1] != "-" and t[-1:] != "-" and _is_lower(t.replace("-", "a")),
)
PART = Pattern(r"[a-z][a-z0-9_]{0,63}")
LIBRARY_NAME = Pattern(r"[a-z][a-z0-9_]{0,31}")  # of an attached library
SHA256 = Pattern(r"[0-9a-f]{64}", lambda t: _is_hex(t, 64))
SYMBOL = Pattern(r"[A-Za-z_][A-Za-z0-9_]{0,1023}", lambda t: _is_identifier(t, 1024))
SONAME = Pattern(
    r"libprecast-rt-[0-9a-f]{16}\.so",
    lambda t: t[:14] == "libprecast-rt-" and t[30:] == ".so" and _is_hex(t[14:30], 16),
)
GLIBC = Pattern(r"2\.[0-9]{1,3}", lambda t: t[:2] == "2." and len(t) <= 5 and t.isascii() and t[2:].isdigit())
KEY_TYPE = Pattern(
    r"(?:list\[)*(?:" + "|".join(_TYPES) + r")\??\]*\??",
    lambda t: t.removeprefix("list[").removesuffix("]").removesuffix("?") in _TYPES,
)
