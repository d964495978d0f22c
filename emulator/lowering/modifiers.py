"""The words of an opcode after the first. What nobody takes is an error."""

from __future__ import annotations

from precast.emulator.errors import Unsupported


class Modifiers:
    """The words that are left.

    >>> words = Modifiers("relaxed.gpu.global.add.f32".split("."))
    >>> words.take("relaxed"), words.option("cta", "gpu", "sys"), words.type("f32", "f64"), words.next(), words.left
    (True, 'gpu', 'f32', 'global', ['add'])
    """

    def __init__(self, words: list[str]) -> None:
        self.left = words

    def take(self, word: str) -> bool:
        """Whether a word is there."""
        if word not in self.left:
            return False
        self.left.remove(word)
        return True

    def option(self, *words: str) -> str:
        """The one of these that is there, or nothing."""
        for word in words:
            if word in self.left:
                self.left.remove(word)
                return word
        return ""

    def choose(self, *words: str) -> str:
        """The one of these that is there; there must be one."""
        word = self.option(*words)
        if not word:
            raise Unsupported(f"none of .{', .'.join(words)} is there")
        return word

    def next(self) -> str:
        """The first word that is left."""
        if not self.left:
            raise Unsupported("a modifier is missing")
        return self.left.pop(0)

    def type(self, *types: str) -> str:
        """The last word, which must be one of these."""
        if not self.left or self.left[-1] not in types:
            raise Unsupported(f"its type is not one of .{', .'.join(types)}")
        return self.left.pop()

    def finish(self) -> None:
        """Refuse what is left."""
        if self.left:
            raise Unsupported(f"the modifier .{self.left[0]} is not emulated here")
