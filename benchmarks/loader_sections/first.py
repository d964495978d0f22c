"""From a process with torch and CUDA ready to the first result: ours beside the DSL, each in processes of its own.

Two kernels: the quickest to compile that there is, and FlashAttention, which is what a start waits for. Needs a GPU and
a cache that holds them; the DSL, and flash-attn-4, for what they are compared with.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loader_benchmark import Result

from loader_sections._child import child
from loader_sections._table import Table

TIMES = 5
GPU = True


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel's scripts. All use what ``tensors`` makes; ``export`` and ``load`` have ``{path!r}`` for a file."""

    name: str
    needs: str
    tensors: str
    use: str
    compile: str
    export: str
    load: str
    check: str


SCALE = Kernel(
    name="scale",
    needs="cutlass",
    tensors="""
x = torch.randn(1024, device="cuda"); y = torch.empty_like(x)
""",
    use="""
from precast import loader
loader.get("scale", {"dtype": "float32"})(x, y, 2.0)
""",
    compile="""
from precast.kernels.own.elementwise.scale import scale
scale("float32")(x, y, 2.0)
""",
    export="""
from precast.kernels.own.elementwise.scale import scale
scale("float32").export_to_c({path!r}, function_name="scale")
""",
    load="""
import cutlass.cute as cute
cute.runtime.load_module({path!r}, enable_tvm_ffi=True).scale(x, y, 2.0)
""",
    check="assert torch.equal(y, x * 2.0)",
)
ATTENTION = Kernel(
    name="attention",
    needs="flash_attn",
    tensors="""
q, out = (torch.randn(2, 512, 16, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
k, v = (torch.randn(2, 512, 4, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
lse, scale = torch.empty(2, 16, 512, device="cuda"), 128**-0.5
attend = torch.nn.functional.scaled_dot_product_attention
expected = attend(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True, enable_gqa=True).transpose(1, 2)
""",
    use="""
from precast import loader
config = {"dtype": "bfloat16", "head_dim": 128, "heads_per_kv": 4, "causal": True, "lse": True}
loader.get("attention", config)(q=q, k=k, v=v, out=out, lse=lse, softmax_scale=scale)
""",
    compile="""
from flash_attn.cute import flash_attn_func
out = flash_attn_func(q, k, v, causal=True, return_lse=True)[0]
""",
    export="""
from precast.kernels.adapters.attention.forward import attention
made = attention("bfloat16", 128, heads_per_kv=4, causal=True, lse=True)
made.export_to_c({path!r}, function_name="attention")
""",
    load="""
import cutlass.cute as cute
run = cute.runtime.load_module({path!r}, enable_tvm_ffi=True).attention
run(q, k, v, out, lse, scale, *[None] * 9, (None, None), None, None)
""",
    check="torch.testing.assert_close(out, expected, rtol=2e-2, atol=2e-2)",
)
READY = """
import sys, time, torch
{tensors}
torch.cuda.synchronize()
torch.Tensor.__dlpack_c_exchange_api__
"""
# What is left where everything was imported, found and decided before: to check, open and launch native code.
NATIVE = """
from precast.loader.resolve.candidate import Request
from precast.loader import session
from precast.loader.fast_start.zstandard_backend import zstandard_backend
chosen = session.default.explain(Request(op="scale", config={"dtype": "float32"})).chosen
cache = session.default.caches()[chosen.source.precedence].cache
zstandard_backend()
"""
OPEN = """
session.default.opener.open(cache, "scale", chosen.artifact)(x, y, 2.0)
"""
DONE = """
torch.cuda.synchronize()
taken = time.perf_counter() - start
{check}
print(taken * 1e3)
"""


def run() -> Iterator[Result]:
    """The figures, then the bounds."""
    yield from _measured().results()


def _measured() -> Table:
    """The best of several processes each: what a process that others do not disturb takes."""
    table = Table("ms")
    for kernel in (SCALE, ATTENTION):
        ours, jit, disk = (
            f"{kernel.name}: {what}" for what in ("precast", "just-in-time", "the DSL loading a ready .o")
        )
        try:
            table.figures[ours] = _best(kernel, kernel.use)
        except RuntimeError as error:
            if "NotFound" not in str(error):
                raise
            table.notes.append(f"{kernel.name} is left out: no cache has it")
            continue
        missing = [name for name in ("cutlass", kernel.needs) if importlib.util.find_spec(name) is None]
        if missing:
            table.notes.append(f"{kernel.name}: {missing[0]} is not installed, so there is nothing to compare with")
            continue
        table.figures[jit] = _best(kernel, kernel.compile)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "kernel.o"))
            child(READY.format(tensors=kernel.tensors) + kernel.export.format(path=path) + "print()")
            table.figures[disk] = _best(kernel, kernel.load.format(path=path))
        table.bound(ours, 1 / 200, jit)
        table.bound(ours, 1 / 150, disk)
    if "scale: precast" in table.figures:
        table.figures["scale: precast, through tvm_ffi"] = _best(SCALE, SCALE.use, PRECAST_FASTCALL="0")
        table.figures["scale: precast, of that native code alone"] = _best(SCALE, OPEN, NATIVE)
    return table


def _best(kernel: Kernel, script: str, before: str = "", **environment: str) -> float:
    head = READY.format(tensors=kernel.tensors) + before + "\nstart = time.perf_counter()\n"
    whole = head + script + DONE.format(check=kernel.check)
    child(whole, **environment)
    return min(float(child(whole, **environment)) for _ in range(TIMES))
