"""A library for another processor, or for a newer glibc, that says so, or that lies about it.

What says so is refused with the reason. What lies reaches the dynamic linker, which refuses the machine code of
another processor by its header: a typed error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader.contract.format.artifact import Host
from tests.helpers.attacks import Fails, Refused, edit, forge_op
from tests.helpers.caches import HOST, CacheWriter, Native, artifact

OTHER = "aarch64" if HOST.arch == "x86_64" else "x86_64"


def rehost(path: Path, host: dict[str, str]) -> None:
    def change(op: Any) -> None:
        for row in op["artifacts"]:
            row["host"] = host

    forge_op(path, "scale", change)


def test_another_processor(path: Path, refused: Refused) -> None:
    rehost(path, {"arch": OTHER, "glibc": "2.17"})
    error = refused(path, f"built for {OTHER} hosts, this one is {HOST.arch}", "no runtime library for its host")
    assert isinstance(error, loader.VariantNotFound)


def test_another_glibc(path: Path, refused: Refused) -> None:
    rehost(path, {"arch": HOST.arch, "glibc": "2.999"})
    refused(path, "needs glibc 2.999")


def test_another_glibc_of_the_runtime(path: Path, refused: Refused) -> None:
    edit(path / "index.json", lambda i: i["runtimes"][0].update(host={"arch": HOST.arch, "glibc": "2.999"}))
    refused(path, "needs glibc 2.999")


@pytest.mark.parametrize("glibc", ["3.0", "2", "2.x", "2.1000"])
def test_no_glibc(path: Path, refused: Refused, glibc: str) -> None:
    rehost(path, {"arch": HOST.arch, "glibc": glibc})
    refused(path, "is not a glibc version")


def test_a_lie_about_the_processor(native: Native, tmp_path: Path, fails: Fails) -> None:
    writer = CacheWriter(name="liar")
    writer.runtime(*native.runtime())
    code = bytearray(native.entry())
    code[18:20] = (183 if HOST.arch == "x86_64" else 62).to_bytes(2, "little")  # e_machine
    blob = writer.keep(bytes(code))
    config = {"dtype": "bfloat16", "layout": "row", "threads": 1}
    writer.op("scale", [artifact(blob, config, host=Host(arch=HOST.arch, glibc="2.17"))])
    error = fails(writer.write(tmp_path / "liar"), "dynamic linker refused precast:scale-", "Check 'precast doctor'")
    assert isinstance(error, loader.LoadError)
