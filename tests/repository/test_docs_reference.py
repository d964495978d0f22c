"""The reference pages are complete: every field of a manifest, every environment variable."""

from __future__ import annotations

import ast
import importlib
import re

from precast.build.schemas.documents import schema_of
from tests.helpers.pages import quoted, text_of
from tests.helpers.source_tree import ROOT, Module, modules


def variables(module: Module) -> set[str]:
    """The environment variables that a module reads, or that a worker gets from it."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        name: ast.expr | None = None
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("environ.get", "environ.pop", "getenv")):
            name = node.args[0]
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
            name = node.slice
        elif isinstance(node, ast.keyword) and node.arg == "envvar":
            name = node.value
        elif isinstance(node, ast.Dict):
            keys = [k.value for k in node.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
            found |= {k for k in keys if re.fullmatch(r"(?:CUTE_DSL|CUDA|PYTHON|PRECAST)_?[A-Z_]+", k)}
        if isinstance(name, ast.Constant):
            found.add(str(name.value))
        elif isinstance(name, ast.Name):
            constant = getattr(importlib.import_module(module.name), name.id, None)
            found |= {constant} if isinstance(constant, str) else set()  # else a variable of a loop
    return found


def test_every_variable_that_the_code_reads_is_described() -> None:
    read = set().union(*(variables(m) for m in modules().values() if m.name.startswith("precast.")))
    sources = "".join(path.read_text() for path in (ROOT / "build").rglob("*.c"))
    read |= set(re.findall(r'getenv\("([A-Z_]+)"\)', sources))
    assert {"PRECAST_CACHE_PATH", "PRECAST_PIN", "PRECAST_STORE", "PRECAST_REMOTE_CACHE", "CUTE_DSL_ARCH"} <= read
    assert read - quoted("docs/environment.md") == set()


def test_every_variable_that_is_described_is_read() -> None:
    described = set(re.findall(r"PRECAST_[A-Z_]+", text_of("docs/environment.md")))
    sources = "".join(m.path.read_text() for m in modules().values())
    sources += "".join(path.read_text() for path in (ROOT / "build").rglob("*.c"))
    assert {name for name in described if f'"{name}"' not in sources} == set()


def test_no_other_page_names_a_variable_that_is_not_described() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"PRECAST_[A-Z_]+", page.read_text())}
    header = (ROOT / "native/include/precast.h").read_text()
    constants = set(re.findall(r"^ +(PRECAST_[A-Z_]+) = ", header, re.M))
    assert named - constants - set(re.findall(r"PRECAST_[A-Z_]+", text_of("docs/environment.md"))) == set()


def test_every_field_of_a_manifest_is_described() -> None:
    schema = schema_of("manifest")
    fields = {*schema["properties"], *schema["$defs"]["entry"]["properties"]}
    words = {word for text in quoted("docs/manifest.md#Fields") for word in re.findall(r"\w+", text)}
    assert fields - words == set()


def test_every_field_of_the_format_is_described() -> None:
    text = text_of("docs/format.md")
    fields = {
        *schema_of("index")["properties"],
        *schema_of("op")["properties"],
        *schema_of("op")["$defs"]["artifact"]["properties"],
        *schema_of("op")["$defs"]["argument"]["properties"],
        *schema_of("op")["$defs"]["blob"]["properties"],
    }
    assert {field for field in fields if f"`{field}`" not in text} == {"sha256"}, "that one is named in words"
