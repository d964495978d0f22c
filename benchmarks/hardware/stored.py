"""What a GPU gave for one problem of each variant: digests of the arguments, and the outputs or a sample of them."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

BLOCK, BLOCKS = 1024, 32  # a sample is so many blocks of so many bytes
_LIMIT = 14 << 20  # of a file, of which a machine that is lent returns at most 16 MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An output of a launch: what it is, the digest of its bytes, and the bytes of the sample."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: str
    sample: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One variant: its problem, digests of its inputs, and its outputs, or why there are none."""

    manifest: str
    op: str
    key: str
    config: str
    problem: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()
    failed: str = ""


def sample(data: bytes) -> bytes:
    """All of it where it is short, else blocks at even distances.

    >>> len(sample(bytes(100))), len(sample(bytes(1 << 20)))
    (100, 32768)
    """
    if len(data) <= BLOCK * BLOCKS:
        return data
    return b"".join(data[i : i + BLOCK] for i in offsets(len(data)))


def offsets(size: int) -> list[int]:
    """Where the blocks of a sample begin; one of 0 where it is all."""
    if size <= BLOCK * BLOCKS:
        return [0]
    return [(size - BLOCK) // (BLOCKS - 1) * i // 16 * 16 for i in range(BLOCKS)]


def save(folder: Path, results: Iterable[Result]) -> None:
    """Write `results.json` and the samples, in files below the limit; a sample that finds no room is left out."""
    from concurrent.futures import ThreadPoolExecutor

    lines: list[dict[str, Any]] = []
    parts: list[bytearray] = [bytearray()]
    for result in results:
        line = asdict(result)
        for output in line["outputs"]:
            data = output.pop("sample")
            if len(parts[-1]) + len(data) > _LIMIT and len(parts) < 4:
                parts.append(bytearray())
            fits = len(parts[-1]) + len(data) <= _LIMIT
            output["at"] = [len(parts) - 1, len(parts[-1]), len(data)] if fits else []
            parts[-1] += data if fits else b""
        lines.append(line)
    (folder / "results.json").write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    with ThreadPoolExecutor() as pool:
        packed = pool.map(lambda part: lzma.compress(bytes(part), preset=3), parts)
        for i, data in enumerate(packed):
            (folder / f"samples{i}.xz").write_bytes(data)


def load(folder: Path) -> Iterator[Result]:
    """Read what `save` wrote."""
    parts = [lzma.decompress(path.read_bytes()) for path in sorted(folder.glob("samples*.xz"))]
    for text in (folder / "results.json").read_text().splitlines():
        line = json.loads(text)
        outputs = []
        for output in line.pop("outputs"):
            at = output.pop("at")
            data = parts[at[0]][at[1] : at[1] + at[2]] if at else b""
            outputs.append(Output(**{**output, "shape": tuple(output["shape"])}, sample=data))
        yield Result(**line, outputs=tuple(outputs))
