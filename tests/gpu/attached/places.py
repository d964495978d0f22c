"""Counts the places where installed libraries call ``cute.compile``: those that a seam reaches, and why it does not
reach the others.

``python tests/gpu/attached/places.py`` reads the sources and imports nothing of them. ``--list`` prints each place.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from precast.attach.libraries import flashinfer

PACKAGES = {"quack": "quack", "flash_attn": "flash_attn", "flashinfer": "flashinfer", "operators": "cutlass.operators"}
REACHED = "reached by a seam"
_TENSOR_CALLS = ("from_dlpack", "dyn")
_TENSOR_ATTRIBUTES = ("data_ptr", "stride", "shape", "is_contiguous")
_TRIALS = ("test", "tester", "benchmark", "runner", "reference", "cute_ref_ops", "trace")
_CACHE_MODULES = ("interface", "compute_block_sparsity")  # of FlashAttention-4's seams

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Place:
    """One call of ``cute.compile``: where it stands, whether it asks for TVM-FFI, and what a seam makes of it."""

    library: str
    file: str
    line: int
    function: str
    tvm_ffi: str
    verdict: str


def places(library: str, package: str) -> Iterator[Place]:
    """Every place of a library, in the order of its files."""
    spec = find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        root = Path(folder)
        for file in sorted(root.rglob("*.py")):
            text = file.read_text(errors="replace")
            if "compile" not in text:
                continue
            try:
                tree = ast.parse(text)
            except SyntaxError:
                continue
            name = file.relative_to(root.parent).as_posix()
            for call, path in _compile_calls(tree, ()):
                function = ".".join(getattr(node, "name", "") for node in path)
                verdict = _verdict(library, name, tree, path)
                yield Place(library, name, call.lineno, function, _option(call, path), verdict)


def _compile_calls(node: ast.AST, path: tuple[ast.AST, ...]) -> Iterator[tuple[ast.Call, tuple[ast.AST, ...]]]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        path = (*path, node)
    if isinstance(node, ast.Call):
        called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        named = isinstance(called, ast.Attribute) and called.attr == "compile"
        if named and ast.unparse(called).endswith("cute.compile"):
            yield node, path
    for child in ast.iter_child_nodes(node):
        yield from _compile_calls(child, path)


def _option(call: ast.Call, path: tuple[ast.AST, ...]) -> str:
    """Whether a call asks for TVM-FFI: yes, no, or unknown where its options are made elsewhere."""
    options = [keyword.value for keyword in call.keywords if keyword.arg == "options"]
    options += [call.func.slice] if isinstance(call.func, ast.Subscript) else []
    if not options:
        return "no"
    said = " ".join(map(ast.unparse, options)).lower().replace("_", "-")
    inside = "".join(map(ast.unparse, path[:1])).lower().replace("_", "-")
    if "tvm-ffi" in said or "tvmffi" in said:
        return "yes"
    if all(isinstance(option, ast.Constant) for option in options):
        return "no"
    return "yes" if "tvm-ffi" in inside or "tvmffi" in inside else "unknown"


def _verdict(library: str, file: str, tree: ast.Module, path: tuple[ast.AST, ...]) -> str:
    if "/experimental/" in file:
        return "experimental"
    if "/data/" in file:
        return "a source that is shipped as data"
    if library == "operators":  # all but fused epilogues compile through one method, which is the seam
        names = [getattr(node, "name", "") for node in path]
        return REACHED if "cute_compile" in names else "fused epilogues, which are compiled as before"
    outer = path[0] if path else None
    words = f"{file}.{'.'.join(getattr(node, 'name', '') for node in path)}".lower()
    if any(word in words for word in _TRIALS) or "/testing/" in file:
        return "a test or a benchmark of the library"
    if outer is None:
        return "at the import of its module"
    if library == "quack":
        return REACHED if _under_decorator(path, "jit_cache", tree) else "not under the library's decorator"
    if library == "flash_attn":
        return REACHED if Path(file).stem in _CACHE_MODULES else "not in a mapping of a seam"
    if isinstance(outer, ast.ClassDef):
        return "a method, whose object keeps the kernel"
    assert isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef))
    module = file.removesuffix(".py").replace("/", ".")
    if module == flashinfer.SHARED_CACHE:
        return REACHED
    return _plain_arguments(outer, flashinfer.PASSED.get(f"{module}:{outer.name}", ()), len(path) > 1)


def _under_decorator(path: tuple[ast.AST, ...], decorator: str, tree: ast.Module) -> bool:
    decorated = [d for node in path for d in getattr(node, "decorator_list", ())]
    if any(decorator in ast.unparse(one) for one in decorated):
        return True
    name = getattr(path[0], "name", "")  # or it is called only by such a function of its module
    callers = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and name and node is not path[0]]
    return (
        any(
            any(decorator in ast.unparse(one) for one in caller.decorator_list) and f"{name}(" in ast.unparse(caller)
            for caller in callers
        )
        or name == "compile_gemm_kernel"
    )  # which quack's decorated functions of other modules call


def _plain_arguments(function: Function, passed: tuple[str, ...], inside: bool) -> str:
    """Whether the arguments of a compile function are a key, or are known to be handed on."""
    arguments = function.args
    if arguments.vararg or arguments.kwarg:
        return "compiles whatever it is given"
    if inside and "build_and_load_cute_dsl_kernel" not in ast.unparse(function):
        return "compiles in a function that it makes or calls inside"
    tensors = set(_used_as_tensors(function))
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if one.arg in passed:
            continue
        annotation = ast.unparse(one.annotation) if one.annotation else ""
        if "Tensor" in annotation or one.arg in tensors:
            return "compiles inside a function of tensors"
        if one.arg.endswith(("_ptr", "_fake")) or one.arg in ("stream", "self"):
            return "takes pointers or a stream, which are not declared as handed on"
    return REACHED


def _used_as_tensors(function: Function) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr in _TENSOR_ATTRIBUTES and isinstance(node.value, ast.Name):
            yield node.value.id
        if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name)):
            continue
        if ast.unparse(node.func).rpartition(".")[2] in _TENSOR_CALLS:
            yield node.args[0].id


def main() -> None:
    """Print the counts, and each place where asked."""
    found = [place for library, package in PACKAGES.items() for place in places(library, package)]
    if "--list" in sys.argv[1:]:
        for place in found:
            print(f"{place.file}:{place.line} {place.function}: TVM-FFI {place.tvm_ffi}; {place.verdict}")
    for library in PACKAGES:
        mine = [place for place in found if place.library == library]
        print(f"{library}: {len(mine)} places")
        for (verdict, tvm_ffi), count in sorted(Counter((p.verdict, p.tvm_ffi) for p in mine).items()):
            print(f"  {count:4} {verdict} (TVM-FFI asked for: {tvm_ffi})")


if __name__ == "__main__":
    main()
