"""What a kernel's module imports before anything else, of installed packages alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.build.child.leading_imports import Step, leading_imports, of_function, of_module

YAML, NUMPY = Step("yaml"), Step("numpy", ("linalg",))
TEXTS = {
    "imports": ("import yaml\nfrom numpy import linalg\n", [YAML, NUMPY]),
    "what follows code": ("import yaml\nSIZE = 1\nfrom numpy import linalg\n", [YAML]),
    "what follows a module of the author": ("import yaml\nimport mine\nfrom numpy import linalg\n", [YAML]),
    "what follows a module of Python": ("import json\nimport yaml\n", [YAML]),
    "what only some import": ("try:\n    import yaml\nexcept ImportError: pass\n", []),
    "a relative import": ("from . import x\nimport yaml\n", []),
    "a docstring": ('"""Kernels."""\nfrom __future__ import annotations\nimport yaml\n', [YAML]),
    "no Python": ("import yaml\n)", []),
}


@pytest.mark.parametrize("name", TEXTS)
def test_leading_imports(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, expected = TEXTS[name]
    (tmp_path / "leading_here.py").write_text(text)
    (tmp_path / "mine.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(of_module("leading_here")) == expected


def test_a_module_of_a_package_begins_with_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "leading_package"
    package.mkdir()
    (package / "k.py").write_text("import numpy\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for text, expected in (("import yaml\n", [YAML, Step("numpy")]), ("import yaml\nx = 1\n", [YAML])):
        (package / "__init__.py").write_text(text)
        assert list(of_module("leading_package.k")) == expected


def test_those_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'def made(n):\n    """Make it."""\n    import yaml\n    n += 1\n    import numpy\n'
    (tmp_path / "leading_function.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert of_function("leading_function", "made") == (YAML,)
    assert of_function("leading_function", "other") == of_function("no_such_module", "made") == ()
    assert leading_imports(text).steps == ()
