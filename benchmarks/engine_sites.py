"""Count the places where an engine's own sources compile CuTe DSL kernels, and which of them attach reaches.

``python benchmarks/engine_sites.py [--list] SITE_PACKAGES [vllm] [sglang] [flashinfer]``. The folder has the engines'
packages, installed or unpacked; nothing of them is imported. Each call of ``cute.compile`` or ``cute_ext.compile`` is a
site. A site is reached by a seam of the library's own file; the seam's rules are applied to the source:

- plain: a function of a module whose parameters are plain values
- passed: the same, with a stream or pointers that it passes on to the kernel
- class: a static method or a class method
- keyed: a method that files what it compiles for its arguments
- vendored: a function of a copy of FlashAttention-4, which keeps kernels in an attribute
- live: a function of tensors or of objects of this process, which have no key
- other: scripts and tests of the copies, and what compiles for other functions, each of which is counted by itself
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.attach import CacheAttribute, ClassMethods, CompileFunctions, KeyedMethods, Library, library_named

_TENSORS = ("Tensor", "Pointer", "list", "Callable", "CUstream")  # in an annotation
_OF_TENSORS = ("shape", "stride", "data_ptr", "device", "is_contiguous", "numel", "view", "dim", "element_size")
_VIEWS = ("from_dlpack",)
_SCRIPTS = ("testing", "test_", "benchmark_", "aot_export", "cpp_backend")
_COPIES = ("flash_attn.cute", "tml_fa4")
_GROUPS = ("plain", "passed", "class", "keyed", "vendored", "live", "other")
_WITH_KEYS = ("plain", "passed", "class", "keyed")


@dataclass(frozen=True, slots=True)
class Site:
    """A call of the compiler: its module, the names around it, and the outermost function."""

    module: str
    line: int
    names: tuple[str, ...]
    function: Any
    in_class: bool
    forwards: bool
    """Whether it compiles what its caller gives it, whatever that is."""

    @property
    def place(self) -> str:
        return f"{self.module}:{'.'.join(self.names)}"


def sites_of(root: Path, package: str) -> Iterator[Site]:
    """The sites in the sources of a package."""
    for path in sorted((root / package).rglob("*.py")):
        text = path.read_text(errors="replace")
        if "cute" in text and ".compile" in text:
            module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            yield from _within(ast.parse(text), module, ())


def _within(node: ast.AST, module: str, around: tuple[Any, ...]) -> Iterator[Site]:
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))
        inner = (*around, child) if named else around
        if isinstance(child, ast.Call) and _compiles(child):
            function = next((one for one in inner if isinstance(one, ast.FunctionDef)), None)
            names = tuple(getattr(one, "name", "<lambda>") for one in inner)
            in_class = bool(inner) and isinstance(inner[0], ast.ClassDef)
            yield Site(module, child.lineno, names, function, in_class, _forwards(child, function))
        yield from _within(child, module, inner)


def _compiles(call: ast.Call) -> bool:
    target = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    if not isinstance(target, ast.Attribute) or target.attr != "compile":
        return False
    owner = target.value.attr if isinstance(target.value, ast.Attribute) else getattr(target.value, "id", "")
    return owner in ("cute", "cute_ext")


def group_of(site: Site, library: Library) -> str:
    """The group of a site."""
    last = site.names[-1] if site.names else ""
    script = any(word in part for word in _SCRIPTS for part in (site.module.rpartition(".")[2], last))
    if script or site.forwards:
        return "other"
    if any(copy in site.module for copy in _COPIES):
        return "vendored"
    if site.function is None:
        return "live"
    if site.in_class:
        decorators = {ast.unparse(one).rpartition(".")[2] for one in site.function.decorator_list}
        if decorators & {"staticmethod", "classmethod"}:
            return "class"
        return "keyed" if any(site.place in s.methods for s in library.seams if isinstance(s, KeyedMethods)) else "live"
    live = live_parameters(site.function)
    passed = {name for s in library.seams if isinstance(s, CompileFunctions) for name in s.passed.get(site.place, ())}
    if live - passed or len(site.names) > 1:
        return "live"
    return "passed" if passed else "plain"


def _forwards(call: ast.Call, function: ast.FunctionDef | None) -> bool:
    if function is None or function.args.vararg is None or not call.args:
        return False
    first = call.args[0].value if isinstance(call.args[0], ast.Starred) else call.args[0]
    given = {function.args.vararg.arg, *(one.arg for one in function.args.args)}
    return isinstance(first, ast.Name) and first.id in given


def live_parameters(function: ast.FunctionDef) -> set[str]:
    """The parameters of a function that are tensors or other objects of the process, by how it uses them.

    >>> code = ast.parse("def f(n: int, x, stream): return x.shape, n, from_dlpack(x)").body[0]
    >>> sorted(live_parameters(code))
    ['stream', 'x']
    """
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    live = {
        one.arg for one in given if one.arg == "stream" or one.arg.endswith(("_ptr", "_fake", "_desc", "templates"))
    }
    live |= {one.arg for one in given if one.annotation and any(t in ast.unparse(one.annotation) for t in _TENSORS)}
    names = {one.arg for one in given}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr in _OF_TENSORS and isinstance(node.value, ast.Name):
            live |= {node.value.id} & names
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in _VIEWS:
            live |= {one.id for one in node.args if isinstance(one, ast.Name)} & names
    return live


def is_reached(site: Site, group: str, library: Library) -> bool:
    """Whether a seam of the library's file looks the kernels of a site up."""
    below = [
        seam
        for seam in library.seams
        if isinstance(seam, (CompileFunctions, ClassMethods))
        and _below(site.module, seam.package)
        and not any(_below(site.module, other) for other in seam.without)
    ]
    if group in ("plain", "passed"):
        return any(isinstance(seam, CompileFunctions) for seam in below)
    if group == "class":
        return any(isinstance(seam, ClassMethods) for seam in below)
    if group == "vendored":
        return any(isinstance(seam, CacheAttribute) and seam.module == site.module for seam in library.seams)
    return group == "keyed"


def _below(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def main(argv: list[str] | None = None) -> int:
    """Print the table, and with --list each site."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="each site, with its group")
    parser.add_argument("folder", type=Path, metavar="SITE_PACKAGES")
    parser.add_argument("engine", nargs="*", default=["vllm", "sglang"])
    options = parser.parse_args(argv)
    for engine in options.engine:
        library = library_named(engine)
        if not (options.folder / library.package).is_dir():
            print(f"{options.folder} has no {library.package}: pip install --no-deps {library.distribution}")
            return 1
        found, reached = Counter[str](), Counter[str]()
        for site in sites_of(options.folder, library.package):
            group = group_of(site, library)
            hit = is_reached(site, group, library)
            found[group] += 1
            reached[group] += hit
            if options.list:
                print(f"{'reached' if hit else '-':8} {group:9} {site.place}:{site.line}")
        for group in _GROUPS:
            print(f"{engine:10} {group:9} {found[group]:4} sites {reached[group]:4} reached")
        keyed, hits = sum(found[g] for g in _WITH_KEYS), sum(reached[g] for g in _WITH_KEYS)
        share = f"{100 * hits / keyed:.0f}%" if keyed else "none"
        print(f"{engine:10} of {keyed} sites with plain or keyed arguments {hits} are reached: {share}")
        print(f"{engine:10} of all {found.total()} sites {reached.total()} are reached")
    return 0


if __name__ == "__main__":
    sys.exit(main())
