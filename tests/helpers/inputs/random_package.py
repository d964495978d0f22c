"""A package whose modules import each other and read something in many ways, and random edits of it."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.helpers.builds import HEAD
from tests.helpers.inputs.ways import HEAD as WAY_HEAD
from tests.helpers.inputs.ways import VALUES, WAYS

READ = "    from pathlib import Path\n    extra = int((Path(__file__).parent / 'data.txt').read_text())\n"
LAZY = "    import importlib\n    extra = importlib.import_module('pk.' + 'c').value()\n"
TRIED = "    try:\n        from pk.shadow import extra\n    except ImportError:\n        extra = 0\n"
IMPORTING = (("a", READ), ("b", LAZY), ("c", TRIED))


class RandomPackage:
    """``pk`` has three kernels that import each other's helpers; ``ways`` has a kernel for each way of reading.

    The seed chooses the ways, at ``most`` so many.
    """

    def __init__(self, folder: Path, seed: int, most: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.ways = {name: WAYS[name] for name in self.random.sample(sorted(WAYS), min(most, len(WAYS)))}
        self.constants = dict.fromkeys(("a", "b", "c"), 1)
        self.uses: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["a"]}
        self.data, self.shadow = 1, False
        for name in ("pk", "ways"):
            (folder / name).mkdir(parents=True)
            (folder / name / "__init__.py").write_text("")
        (folder / "adding.py").write_text(HEAD)
        for name, way in self.ways.items():
            (folder / "ways" / f"{name}.py").write_text(WAY_HEAD + way.code)
            way.edit(folder / "ways", self.random)
        self.manifest = self._manifest()
        self.write()

    def write(self) -> None:
        """Write the modules of ``pk``, and the data that one of them reads."""
        for name, constant in self.constants.items():
            imports = "".join(f"    from pk.{other} import value as {other}\n" for other in self.uses[name])
            total = " + ".join([str(constant), *(f"{other}()" for other in self.uses[name])])
            (self.folder / "pk" / f"{name}.py").write_text(f"def value():\n{imports}    return {total}\n")
        (self.folder / "pk" / "data.txt").write_text(str(self.data))
        for number, (user, code) in enumerate(IMPORTING):
            text = f"from adding import compile_add\nfrom pk.{user} import value\n\n\ndef make{number}(n: int):\n{code}"
            text += "    return compile_add(value() + extra + n)\n"
            (self.folder / "pk" / f"k{number}.py").write_text(text)
        shadow = self.folder / "pk" / "shadow.py"
        shadow.write_text("extra = 100\n") if self.shadow else shadow.unlink(missing_ok=True)

    @property
    def kinds(self) -> list[str]:
        """The kinds of edits."""
        return ["constant", "data", "use", "shadow", "touch", "restore", *self.ways]

    def edit(self, kind: str) -> None:
        """Make a random edit of a kind. All but two kinds change what some kernels read; a way may stay as it is."""
        if kind in self.ways:
            self.ways[kind].edit(self.folder / "ways", self.random)
        elif kind == "constant":
            self.constants[self.random.choice("abc")] += 1
        elif kind == "data":
            self.data += 1
        elif kind == "use":
            uses: list[list[str]] = [[], ["a"], ["b"], ["a", "b"]]
            self.uses["c"] = self.random.choice([use for use in uses if use != self.uses["c"]])
        elif kind == "shadow":
            self.shadow = not self.shadow
        self.write()
        if kind == "restore":
            for path in (self.folder / "pk").glob("*.py"):
                os.utime(path, (1, 1))

    def _manifest(self) -> Path:
        declared = ("files: pk/data.txt", "files: pk/c.py", "")
        sources = {f"pk.k{n}:make{n}": ([1], inputs) for n, inputs in enumerate(declared)}
        sources |= {f"ways.{name}:make_{name}": (VALUES[name], way.declared) for name, way in self.ways.items()}
        entries = "".join(
            f"  - {{compile: '{source}', op: user.{source.partition(':')[2]}, config: {{n: {values}}},"
            f" inputs: {{{declared}}}, skip_unsupported: true}}\n"
            for source, (values, declared) in sources.items()
        )
        path = self.folder / "mine.yaml"
        path.write_text(f"version: 1\nname: mine\ntargets: [sm_90a]\npath: .\nkernels:\n{entries}")
        return path
