"""Caches of hostile sizes, each made in a second or two: what a reader must refuse at once, or serve as it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import zstandard

from precast.loader.contract.format.artifact import Artifact, Blob, Host
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.index import Index, OpEntry, OpIndex, Runtime, digest
from tests.helpers.caches import HOST, Native, artifact

KEYS = (
    Key(name="dtype", type="dtype"),
    Key(name="hidden", type="int"),
    Key(name="threads", type="int", tuned=True, has_default=True, default=128),
)
OP = "op"
COUNT = 100_000
SIZE = 180 << 20
GIBIBYTE = 1 << 30
_FAR = Host(arch="aarch64" if HOST.arch == "x86_64" else "x86_64", glibc="2.17")


@dataclass(frozen=True, kw_only=True)
class HostileCache:
    """A cache and what is requested of it. ``make`` writes the cache into a folder."""

    name: str
    make: Callable[[Native, Path], Path]
    op: str = OP
    config: dict[str, Any] = field(default_factory=lambda: {"dtype": "bf16", "hidden": 64})
    problem: dict[str, int] | None = None
    honest: bool = False


def _template(native: Native, **more: Any) -> Artifact:
    _, blob, _ = _stored(native.entry())
    one = artifact(blob, {"dtype": "bfloat16", "hidden": 64, "threads": 128}, **more)
    return replace(one, provenance={"function": "library.kernels.op:compile_it", "env": {}, "seconds": 0.5})


def _stored(data: bytes) -> tuple[str, Blob, bytes]:
    packed = zstandard.ZstdCompressor(level=3).compress(data)
    sha256 = digest(data)
    return sha256, Blob(sha256=sha256, size=len(data), stored=len(packed), encoding="zstd"), packed


def _rows(one: Artifact, configs: Iterable[dict[str, Any]]) -> bytes:
    """The file of an op with a copy of an artifact for each config, as ``encode`` writes it."""
    text = OpIndex.of(op=OP, keys=KEYS, doc="", artifacts=(one,)).encode().decode()
    head, row, tail = _around(text)
    before, _, rest = row.partition(f'"hidden": {one.config["hidden"]},\n    "threads": {one.config["threads"]}')
    middle, _, after = rest.partition(one.key)
    rows = [
        f'{before}"hidden": {c["hidden"]},\n    "threads": {c["threads"]}{middle}{_key(n)}{after}'
        for n, c in enumerate(configs)
    ]
    return f"{head}{','.join(rows)}{tail}".encode()


def _around(text: str) -> tuple[str, str, str]:
    begin, end = text.index('"artifacts": [\n') + len('"artifacts": ['), text.index('\n ],\n "doc"')
    return text[:begin], text[begin:end], text[end:]


def _key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def _write(native: Native, root: Path, ops: dict[str, tuple[bytes, int]], **changes: Any) -> Path:
    """A cache with these files of ops, each with the number of its artifacts."""
    (root / "ops").mkdir(parents=True)
    (root / "blobs").mkdir()
    soname, code = native.runtime()
    blobs = [_stored(code), _stored(native.entry())]
    for sha256, _, packed in blobs:
        (root / "blobs" / sha256).write_bytes(packed)
    entries = {}
    for name, (data, artifacts) in ops.items():
        (root / "ops" / f"{name}.json").write_bytes(data)
        entries[name] = OpEntry(sha256=digest(data), size=len(data), artifacts=artifacts)
    runtime = Runtime(soname=soname, host=HOST, blob=blobs[0][1])
    index = Index(name="large", toolchain={"apache-tvm-ffi": "0.1.15"}, runtimes=(runtime,), ops=entries)
    (root / "index.json").write_bytes(replace(index, **changes).encode())
    return root


def honest_configs(count: int = COUNT) -> list[dict[str, Any]]:
    """Two tunings for each of many sizes."""
    return [{"hidden": 64 * (n // 2 + 1), "threads": 128 * (n % 2 + 1)} for n in range(count)]


def many_artifacts(native: Native, root: Path) -> Path:
    """Of one op, each of another config."""
    return _write(native, root, {OP: (_rows(_template(native), honest_configs()), COUNT)})


def another_layout(native: Native, root: Path) -> Path:
    """The same, on a single line: a reader cannot split it before it is parsed."""
    data = json.dumps(json.loads(_rows(_template(native), honest_configs())), separators=(",", ":")).encode()
    return _write(native, root, {OP: (data, COUNT)})


def one_config(native: Native, root: Path) -> Path:
    """All of one config, and none for this host: a reader that judges each takes half a minute."""
    configs = [{"hidden": 64, "threads": n + 1} for n in range(COUNT)]
    return _write(native, root, {OP: (_rows(_template(native, host=_FAR), configs), COUNT)})


def many_ops(native: Native, root: Path) -> Path:
    """With names like the requested one, which is none of them."""
    _write(native, root, {OP: (_rows(_template(native), honest_configs(2)), 2)})
    data = json.loads((root / "index.json").read_bytes())
    data["ops"] = {f"paged_attention.forward_kernel_{n:05}": data["ops"][OP] for n in range(COUNT)}
    (root / "index.json").write_text(json.dumps(data, separators=(",", ":")))
    return root


def empty_lists(native: Native, root: Path) -> Path:
    """180 MB of them, in an artifact's provenance."""
    row = _rows(_template(native), honest_configs(1)).replace(b'"seconds": 0.5', b'"seconds": [%s[]]' % _lists(SIZE))
    return _write(native, root, {OP: (row, 1)})


def lists_in_a_config(native: Native, root: Path) -> Path:
    """In a config, which a reader parses with those of all other artifacts."""
    row = _rows(_template(native), honest_configs(1)).replace(b'"hidden": 64', b'"hidden": [%s[]]' % _lists(SIZE))
    return _write(native, root, {OP: (row, 1)})


def lists_of_measurements(native: Native, root: Path) -> Path:
    """In what a reader parses beside the artifacts."""
    data = _rows(_template(native), honest_configs(1))
    data = data.rstrip()[:-1].rstrip() + b',\n "tuning": [%s[]]\n}\n' % _lists(SIZE)
    return _write(native, root, {OP: (data, 1)})


def many_measurements(native: Native, root: Path) -> Path:
    """Of one artifact, for as many problems: a few bytes each, and each becomes a value that is checked."""
    rows = [f"{n}: 1" for n in range(COUNT)]
    variants = [{"key": _key(0)}]
    table = {"gpu": "NVIDIA H200", "capability": "9.0", "axes": ["m"], "variants": variants, "rows": rows}
    data = _rows(_template(native), honest_configs(1)).rstrip()[:-1].rstrip()
    return _write(native, root, {OP: (data + b',\n "tuning": [%s]\n}\n' % json.dumps(table).encode(), 1)})


def empty_objects(native: Native, root: Path) -> Path:
    """Objects, on a single line, which cost more than lists."""
    one = json.loads(_rows(_template(native), honest_configs(1)))
    data = json.dumps(one, separators=(",", ":")).encode()
    data = data.replace(b'"seconds":0.5', b'"seconds":[%s{}]' % (b"{}," * (SIZE // 3)))
    return _write(native, root, {OP: (data, 1)})


def lists_in_the_index(native: Native, root: Path) -> Path:
    """In ``index.json``, up to the limit of its size."""
    _write(native, root, {OP: (_rows(_template(native), honest_configs(1)), 1)})
    data = (root / "index.json").read_bytes()
    lists = _lists((16 << 20) - len(data) - 16)
    (root / "index.json").write_bytes(data.replace(b'"dictionary": null', b'"dictionary": [%s[]]' % lists))
    return root


def deep_lists(native: Native, root: Path) -> Path:
    """A hundred million brackets, each in the one before."""
    half = b"[" * (SIZE // 2)
    return _write(native, root, {OP: (half + b"]" * len(half), 1)})


def long_text(native: Native, root: Path) -> Path:
    """A text of 180 MB that is not one of a known list, and would be in the error."""
    data = _rows(_template(native), honest_configs(1)).replace(b'"kind": "object"', b'"kind": "%s"' % (b"x" * SIZE))
    return _write(native, root, {OP: (data, 1)})


def huge_blob(native: Native, root: Path) -> Path:
    """A blob of a gibibyte of zeros: a few bytes on the disk."""
    hashed, packer = hashlib.sha256(), zstandard.ZstdCompressor(level=1)
    stream, zeros, parts = packer.compressobj(size=GIBIBYTE), bytes(1 << 24), []
    for _ in range(GIBIBYTE >> 24):
        hashed.update(zeros)
        parts.append(stream.compress(zeros))
    packed = b"".join(parts) + stream.flush()
    blob = Blob(sha256=hashed.hexdigest(), size=GIBIBYTE, stored=len(packed), encoding="zstd")
    one = replace(_template(native), blob=blob)
    _write(native, root, {OP: (_rows(one, honest_configs(1)), 1)})
    (root / "blobs" / blob.sha256).write_bytes(packed)
    return root


def huge_index(native: Native, root: Path) -> Path:
    """An index of 8 GiB: a hole that no disk holds."""
    _write(native, root, {OP: (_rows(_template(native), honest_configs(1)), 1)})
    with (root / "index.json").open("ab") as file:
        file.truncate(8 * GIBIBYTE)
    return root


def _lists(size: int) -> bytes:
    return b"[]," * (size // 3)


_MISS = {"dtype": "bf16", "hidden": 65}
_HIT = {"dtype": "bf16", "hidden": 3200000}
CASES = (
    HostileCache(name="100,000 artifacts of one op", make=many_artifacts, config=_HIT, honest=True),
    HostileCache(name="100,000 artifacts of one op, a config that none has", make=many_artifacts, config=_MISS),
    HostileCache(name="100,000 artifacts of one op on a single line", make=another_layout, config=_HIT),
    HostileCache(name="100,000 artifacts of one config", make=one_config),
    HostileCache(
        name="100,000 ops with names like the requested one", make=many_ops, op="paged_attention.forward_kernel_xyz"
    ),
    HostileCache(name="180 MB of empty lists in an artifact", make=empty_lists),
    HostileCache(name="180 MB of empty lists in a config", make=lists_in_a_config),
    HostileCache(name="180 MB of empty lists as measurements", make=lists_of_measurements, problem={"m": 1}),
    HostileCache(name="100,000 measurements of an op", make=many_measurements, problem={"m": 7}),
    HostileCache(name="180 MB of empty objects on a single line", make=empty_objects),
    HostileCache(name="16 MB of empty lists in the index", make=lists_in_the_index),
    HostileCache(name="94 million nested lists", make=deep_lists),
    HostileCache(name="a text of 180 MB", make=long_text),
    HostileCache(name="a blob of 1 GiB of zeros", make=huge_blob),
    HostileCache(name="an index of 8 GiB", make=huge_index),
)
