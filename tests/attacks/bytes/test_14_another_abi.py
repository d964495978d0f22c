"""A cache made with another minor version of TVM-FFI, whose structures may lie otherwise in memory; or none at all.

The version it was made with stands in the index, and must agree with the installed one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from precast.loader.machine.machine import Machines
from tests.helpers.attacks import Refused, edit


@pytest.mark.parametrize("version", ["0.2.0", "1.0", "0.1x"])
def test_made_with_another(path: Path, refused: Refused, version: str) -> None:
    edit(path / "index.json", lambda index: index["toolchain"].update({"apache-tvm-ffi": version}))
    refused(path, f"made with apache-tvm-ffi {version}")


@pytest.mark.parametrize(("installed", "words"), [("0.3.1", "0.3.1 is installed"), (None, "which is not installed")])
def test_another_is_installed(path: Path, refused: Refused, installed: str | None, words: str) -> None:
    refused(path, words, host=replace(Machines().host, tvm_ffi=installed))
