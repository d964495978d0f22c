"""Caches as a builder packs them, without a compiler: for one host or another, with what a test changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from precast.build.cache.pack import UncompressedOp, pack_ops, uncompressed
from precast.build.errors import Location
from precast.build.link.runtime import RuntimeLibrary
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.loader.contract.format.artifact import Artifact, Host
from precast.loader.contract.format.config import Key, to_value
from precast.loader.contract.format.index import digest
from precast.loader.contract.format.target import Target
from tests.helpers.caches import SCALE_KEYS, artifact

AARCH64 = Path(__file__).parents[1] / "build" / "cache" / "aarch64"
X86, ARM = Host(arch="x86_64", glibc="2.28"), Host(arch="aarch64", glibc="2.17")
RUNTIMES = {
    X86: RuntimeLibrary(soname=f"libprecast-rt-{86:016x}.so", code=b"\x7fELF x86-64 runtime" * 99, host=X86),
    ARM: RuntimeLibrary(
        soname="libprecast-rt-00000000aa64aa64.so", code=(AARCH64 / "runtime.so").read_bytes(), host=ARM
    ),
}
TOOLS = {"apache-tvm-ffi": "0.1.15", "nvidia-cutlass-dsl": "4.8.1", "gcc": "12.2.0", "ld": "GNU ld 2.40"}


@dataclass
class Built:
    """A cache as a build of a few variants would write it, and what each test changes of it."""

    name: str = "demo"
    host: Host = X86
    tools: dict[str, str] = field(default_factory=lambda: dict(TOOLS))
    runtime: RuntimeLibrary | None = None
    keys: tuple[Key, ...] = SCALE_KEYS
    doc: str = ""
    dtypes: tuple[str, ...] = ("bfloat16", "float16")
    change: Callable[[Artifact], Artifact] = lambda a: a
    content: Callable[[str], bytes] = lambda dtype: f"library for {dtype}".encode() * 50
    kind: str = "object"
    texts: tuple[bytes, ...] = ()

    def write(self, path: Path) -> Path:
        contents, artifacts = {}, []
        for dtype in self.dtypes:
            code = self.content(dtype)
            more: dict[str, Any] = {"kind": self.kind, "host": self.host if self.kind == "object" else None}
            one = artifact(uncompressed(code), {"dtype": dtype, "layout": "row", "threads": 128}, **more)
            artifacts.append(self.change(one))
            contents[uncompressed(code).sha256] = code
        op = UncompressedOp(keys=self.keys, doc=self.doc, artifacts=tuple(artifacts))
        runtimes = [self.runtime or RUNTIMES[self.host]] if self.kind == "object" else []
        texts = {uncompressed(text).sha256: text for text in self.texts}
        files = pack_ops(self.name, self.tools, runtimes, {"scale": op}, contents, threads=1, texts=texts)
        for name, data in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return path


def code_of(dtype: str) -> bytes:
    """The content of a library of ``Built``."""
    return f"library for {dtype}".encode() * 50


def scale_plan(*dtypes: str, emit: tuple[str, ...] = ("object",)) -> Plan:
    """A plan that asks for what ``Built`` packs."""
    variants = [
        Variant(
            op="scale",
            source="mine:scale",
            config={name: to_value(value) for name, value in {"dtype": d, "layout": "row", "threads": 128}.items()},
            target=Target.parse("sm_90a"),
            location=Location("m.yaml", 1, 1),
            emit=emit,
        )
        for d in dtypes
    ]
    return Plan(name="demo", variants=tuple(variants), ops={})


def damage(path: Path, content: bytes) -> Path:
    """Flip a byte in the file of the blob with this content; returns the file."""
    blob = path / "blobs" / digest(content)
    stored = bytearray(blob.read_bytes())
    stored[len(stored) // 2] ^= 1
    blob.write_bytes(stored)
    return blob


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
