"""What older versions of the compiler take another way without a word: device code must not leave it to a default."""

from __future__ import annotations

import ast
from pathlib import Path

import precast.kernels.own

# Of a function of ``cute.arch``, the argument whose default is not the same, or wrong, in a version that is built with.
STATED = {"shuffle_sync_up": "mask_and_clamp"}


def test_an_argument_with_another_default_is_stated() -> None:
    folder, seen = Path(precast.kernels.own.__path__[0]), []
    for file in sorted(folder.rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            name = getattr(getattr(call, "func", None), "attr", "")
            if isinstance(call, ast.Call) and name in STATED:
                seen.append(name)
                assert STATED[name] in {word.arg for word in call.keywords}, f"{file.name}:{call.lineno}: {name}"
    assert set(seen) == set(STATED), "a name that nothing calls has no place here"
