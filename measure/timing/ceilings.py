"""Ceilings: what this GPU moves and multiplies at most, measured in the process that times the kernels."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from precast.kernels.authoring.dtypes import to_torch
from precast.loader.contract.format import fields
from precast.loader.errors import FormatError
from precast.measure.timing.timer import Run, captured

_COPIED = 2 << 30  # bytes: far more than any L2 cache
_SIDES = (4096, 8192)
_REPEATS = 5
_MOST = 64
_RATED = ("float64", "float32", "tfloat32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8")
_ASKED = ("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "power.limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """The most bytes a second (``bandwidth``, in GB/s), and operations a second by dtype (``rates``, in TFLOP/s).

    ``copy`` is the bandwidth of a copy alone, which reads and writes, by a memcpy or by a kernel, whichever is faster;
    0 where it was not measured. ``l2`` is the size of the L2 cache in bytes. ``notes`` are what was not measured, and
    why; ``clocks`` is what ``nvidia-smi`` said while the GPU multiplied, where there is one.
    """

    bandwidth: float
    copy: float = 0.0
    rates: Mapping[str, float] = field(default_factory=dict)
    l2: int = 0
    clocks: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def higher(self, other: Ceilings) -> Ceilings:
        """The larger of each: a GPU that was slower for a while can still do what it did before.

        >>> Ceilings(bandwidth=4100, rates={"int8": 9}).higher(Ceilings(bandwidth=4000, rates={"int8": 11}))
        Ceilings(bandwidth=4100, copy=0.0, rates={'int8': 11}, l2=0, clocks={}, notes=())
        """
        rates = {name: max(c.rates.get(name, 0.0) for c in (self, other)) for name in {**self.rates, **other.rates}}
        return Ceilings(
            bandwidth=max(self.bandwidth, other.bandwidth),
            copy=max(self.copy, other.copy),
            rates=rates,
            l2=max(self.l2, other.l2),
            clocks={**other.clocks, **self.clocks},
            notes=tuple(dict.fromkeys([*self.notes, *other.notes])),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON has it, to be read by ``parse``."""
        return {
            "bandwidth": round(self.bandwidth, 1),
            "copy": round(self.copy, 1),
            "rates": {name: round(rate, 1) for name, rate in sorted(self.rates.items())},
            "l2": self.l2,
            "clocks": dict(self.clocks),
            "notes": list(self.notes),
        }

    @classmethod
    def parse(cls, value: object) -> Ceilings:
        """Read the JSON of another process or of a file."""
        data = fields.as_object(value)
        return cls(
            bandwidth=fields.parsed(data, "bandwidth", positive),
            copy=fields.parsed(data, "copy", lambda value: positive(value) if value else 0.0, 0.0),
            rates=fields.table(data, "rates", positive, most=_MOST, default={}),
            l2=fields.count(data, "l2", most=1 << 40, default=0),
            clocks=fields.table(data, "clocks", fields.text, most=_MOST, default={}),
            notes=fields.items(data, "notes", fields.text, most=_MOST, default=()),
        )


def positive(value: object) -> float:
    """A number above zero, as a file has it.

    >>> positive(3)
    3.0
    """
    if type(value) not in (int, float) or not 0 < value < 1e15:  # type: ignore[operator]
        raise FormatError("expected a positive number")
    return float(value)  # type: ignore[arg-type]


def measured(dtypes: Sequence[str], device: Any = "cuda") -> Ceilings:
    """Measure the current GPU: its bandwidth, and the rate of matrix products of some dtypes.

    Each is the best of several runs, since a disturbance only slows down. Bandwidth is that of a copy, of a sum or of a
    fill, whichever is the most. Rates are the most of numbers that are random and of zeros: with zeros the GPU draws
    the least power and keeps its clock, so that no kernel is faster than that.
    """
    import torch

    rates, notes = {}, []
    clocks: dict[str, str] = {}
    for dtype in dict.fromkeys(dtypes):
        if dtype not in _RATED:
            notes.append(f"there is no rate of {dtype}: torch has no plain product of it")
            continue
        try:
            rates[dtype] = max(_rate(dtype, side, zero, device) for side in _SIDES for zero in (False, True))
        except Exception as error:  # a torch or a GPU without this product: the other figures stay
            text = str(error).strip().partition("\n")[0]
            notes.append(f"there is no rate of {dtype}: {type(error).__name__}: {text[:200]}")
    with contextlib.suppress(Exception):
        clocks = _clocks(device)
    ways = _bandwidths(device)
    torch.cuda.empty_cache()  # what was made here is not needed again
    return Ceilings(
        bandwidth=max(ways.values()),
        copy=ways["copy"],
        rates=rates,
        l2=int(torch.cuda.get_device_properties(device).L2_cache_size),
        clocks=clocks,
        notes=tuple(notes),
    )


def _bandwidths(device: Any) -> dict[str, float]:
    """GB/s by what is done; a copy reads and writes each byte. In a graph a memcpy is slower than a kernel may be."""
    import torch

    size = min(_COPIED, int(torch.cuda.get_device_properties(device).total_memory) // 8)
    source = torch.zeros(size // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    total = torch.empty((), dtype=torch.float32, device=device)
    ways: dict[str, tuple[Run, int]] = {
        "memcpy": (lambda: target.copy_(source), 2 * size),
        "negation": (lambda: torch.neg(source, out=target), 2 * size),
        "sum": (lambda: torch.sum(source, dim=0, out=total), size),
        "fill": (lambda: target.zero_(), size),
    }
    rates = {name: moved / _least(run, device) / 1e3 for name, (run, moved) in ways.items()}
    return {"copy": max(rates.pop("memcpy"), rates.pop("negation")), **rates}


def _rate(dtype: str, side: int, zero: bool, device: Any) -> float:
    """TFLOP/s of a square product."""
    import torch

    def operand(seed: int) -> Any:
        if zero:
            return torch.zeros(side, side, dtype=_stored(dtype), device=device)
        generator = torch.Generator(device=device).manual_seed(seed)
        numbers = torch.randn(side, side, generator=generator, device=device)
        return (numbers.mul_(16) if dtype == "int8" else numbers).to(_stored(dtype))

    with _tf32(dtype == "tfloat32"):
        return 2 * side**3 / _least(product(dtype, operand(0), operand(1)), device) / 1e6


def product(dtype: str, a: Any, b: Any) -> Run:
    """torch's own product of ``a`` (m, k) and the transpose of ``b`` (n, k), of numbers of a dtype."""
    import torch

    if dtype.startswith("float8"):
        unit = torch.ones((), dtype=torch.float32, device=a.device)
        return lambda: torch._scaled_mm(
            a, b.T, scale_a=unit, scale_b=unit, out_dtype=torch.bfloat16, use_fast_accum=True
        )
    if dtype == "int8":
        return lambda: torch._int_mm(a, b.T)
    out = torch.empty(a.shape[0], b.shape[0], dtype=a.dtype, device=a.device)
    return lambda: torch.mm(a, b.T, out=out)


def _stored(dtype: str) -> Any:
    """The dtype of the numbers in torch. cuBLAS has no product of two float8_e5m2, which is as fast as of the other."""
    return to_torch({"tfloat32": "float32", "float8_e5m2": "float8_e4m3fn"}.get(dtype, dtype))


@contextlib.contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    import torch

    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _least(run: Run, device: Any) -> float:
    import torch

    graph = captured(run, device)
    marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(_REPEATS)]
    for before, after in marks:
        before.record()
        graph.replay()
        after.record()
    torch.cuda.synchronize(device)
    return min(float(before.elapsed_time(after)) * 1e3 for before, after in marks)


def _clocks(device: Any) -> dict[str, str]:
    """The report of nvidia-smi for the device while it multiplies."""
    import torch

    a = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    for _ in range(300):  # some tenths of a second, which nvidia-smi needs to answer
        a @ a
    identity = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    command = ["nvidia-smi", f"--id={identity}", f"--query-gpu={','.join(_ASKED)}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    values = [value.strip() for value in done.stdout.strip().splitlines()[0].split(",")]
    torch.cuda.synchronize(device)
    return dict(zip(_ASKED, values, strict=True))
