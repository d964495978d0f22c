"""The starts that are measured, in the order in which they run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One start: with or without the DSL installed, attached to precast's cache or not."""

    name: str
    caches: str
    """The folder of vLLM's, Triton's and torch's caches. The first cell that names it finds it empty."""
    seconds: int
    """How long it takes, about: it is not begun where less is left, and stopped after twice that and a minute."""
    compiler: bool = True
    attached: bool = False
    graph: bool = False
    model: str = "gemma4moe"
    option: str = ""
    """A further option of the engine: a name, ``=`` and JSON."""
    process: str = "one"
    """``one``: the engine runs in the program's process. ``spawned``: in one of its own. ``server``: ``vllm serve``."""
    engine: str = "vllm"
    wheel: str = "kernels"
    """The folder in which the cache's wheel is installed."""
    makes: str = ""
    """What the start makes, in the folder of this name: a wheel of its kernels, or one with its companions, too."""
    bare: bool = False
    """No variable names a cache: precast places the companions of ``wheel``. vLLM finds no compiler on PATH; SGLang
    asks nvcc and gcc for their versions."""
    user: int = 0
    fails: bool = False

    @property
    def chain(self) -> str:
        """Cells of a chain run one after another, since they share caches or a wheel that one of them makes."""
        return self.makes or (self.caches if self.wheel == "kernels" else self.wheel)


SERVED: dict[str, Any] = {"attached": True, "compiler": False}


def pairs(mode: str, seconds: tuple[int, ...], *, graph: bool) -> Iterator[Cell]:
    """Without precast, and served without a compiler, each with empty caches and with those of the start before."""
    cold, warm, served_cold, served_warm = seconds
    off, served = {"caches": f"{mode}-off", "graph": graph}, {"caches": f"{mode}-served", "graph": graph, **SERVED}
    yield Cell(name=f"{mode}, cold", seconds=cold, **off)
    yield Cell(name=f"{mode}, warm", seconds=warm, **off)
    yield Cell(name=f"{mode}, cold, served, no compiler", seconds=served_cold, **served)
    yield Cell(name=f"{mode}, warm, served, no compiler", seconds=served_warm, **served)


def beside(mode: str, seconds: tuple[int, int], *, graph: bool) -> Iterator[Cell]:
    """Served with the compiler installed."""
    both = {"caches": f"{mode}-beside", "graph": graph, "attached": True}
    yield Cell(name=f"{mode}, cold, served, compiler installed", seconds=seconds[0], **both)
    yield Cell(name=f"{mode}, warm, served, compiler installed", seconds=seconds[1], **both)


def server() -> Iterator[Cell]:
    """``vllm serve``, started once before its pair is timed: both find what it kept of its look at the model."""
    both = {"caches": "graph-off", "graph": True, "process": "server"}
    yield Cell(name="server, first start", seconds=80, **both)
    yield Cell(name="server, warm", seconds=70, **both)
    yield Cell(name="server, warm, served, no compiler", seconds=40, **both, **SERVED)


def controls() -> Iterator[Cell]:
    """torch.compile with empty caches again, since it chooses by time; and served with what vLLM alone has compiled."""
    yield Cell(name="graph, cold again", caches="graph-again", seconds=130, graph=True)
    name = "graph, caches of vLLM alone, served, no compiler"
    yield Cell(name=name, caches="graph-off", seconds=30, graph=True, **SERVED)


def models() -> Iterator[Cell]:
    """Models for which vLLM takes kernels of the DSL where an option asks for them, and in its warm-up alone."""
    asked = 'attention_config={"flash_attn_version": 4}'
    for title, model, option in (
        ("Llama with FlashAttention-4", "llama", asked),
        ("Qwen3 with experts", "qwen3moe", ""),
        ("gpt-oss", "gptoss", ""),
        ("Qwen3-Next", "qwen3next", ""),
        ("DeepSeek V3", "deepseekv3", ""),
    ):
        yield from three(title, caches=title, model=model, option=option)


def three(title: str, **start: Any) -> Iterator[Cell]:
    """Cold, warm, and served."""
    yield Cell(name=f"{title}, cold", seconds=80, **start)
    yield Cell(name=f"{title}, warm", seconds=50, **start)
    yield Cell(name=f"{title}, warm, served, no compiler", seconds=30, **start, **SERVED)


def companions() -> Iterator[Cell]:
    """One wheel with kernels and companions: recorded and checked, then started with nothing else, thrice."""
    for title, graph, model in (("graph", True, "gemma4moe"), ("Qwen3-Next", False, "qwen3next")):
        yield from one_wheel(title, graph=graph, model=model)


def one_wheel(title: str, **start: Any) -> Iterator[Cell]:
    """What ``companions`` says, of one model."""
    wheel = f"{title}-companions"
    start |= SERVED
    yield Cell(name=f"{title}, cold, served, recorded", caches=f"{wheel}-made", seconds=160, makes=wheel, **start)
    start |= {"caches": wheel, "seconds": 40, "wheel": wheel, "bare": True}
    yield Cell(name=f"{title}, one wheel, served, no compilers", **start)
    yield Cell(name=f"{title}, one wheel, second start, served, no compilers", **start)
    start |= {"caches": f"{wheel}-user", "user": 12345}
    yield Cell(name=f"{title}, one wheel, another user, served, no compilers", **start)


def sglang() -> Iterator[Cell]:
    """SGLang, whose kernels are recorded on the GPU, since it has no registry of them, and then built elsewhere."""
    attention = {"attention_backend": "fa4"}
    delta_rule = {"linear_attn_decode_backend": "cutedsl", "max_mamba_cache_size": 256}
    for title, model, graph, more in (
        ("SGLang, Llama with FlashAttention-4", "llama", False, {}),
        ("SGLang, graph, Llama with FlashAttention-4", "llama", True, {}),
        ("SGLang, Qwen3-Next", "qwen3next", False, delta_rule),
        ("SGLang, Qwen3 with experts", "qwen3moe", False, {}),
        ("SGLang, gpt-oss", "gptoss", False, {}),
    ):
        start = {"engine": "sglang", "model": model, "graph": graph, "option": json.dumps({**attention, **more})}
        yield Cell(name=f"{title}, recorded", caches=f"{title}-made", seconds=100, attached=True, makes=title, **start)
        yield from three(title, caches=title, **start)
        yield from one_wheel(title, **start)


def others() -> Iterator[Cell]:
    """vLLM alone without the compiler; an engine in a process of its own; a model without kernels of the DSL."""
    eager, llama = {"caches": "eager-off"}, {"caches": "llama-off", "model": "llama"}
    yield Cell(name="eager, warm, no compiler, no precast", seconds=40, compiler=False, fails=True, **eager)
    yield Cell(name="spawned, warm", seconds=70, process="spawned", **eager)
    yield Cell(name="spawned, warm, served, no compiler", seconds=35, process="spawned", **eager, **SERVED)
    yield Cell(name="dense Llama, cold", seconds=45, **llama)
    yield Cell(name="dense Llama, warm", seconds=25, **llama)
    yield Cell(name="dense Llama, warm, served, no compiler", seconds=25, **llama, **SERVED)


CELLS = (
    *pairs("eager", (115, 70, 55, 25), graph=False),
    *pairs("graph", (130, 65, 100, 30), graph=True),
    *controls(),
    *server(),
    *others(),
    *models(),
    *companions(),
    *sglang(),
    *beside("eager", (55, 25), graph=False),
    *beside("graph", (100, 30), graph=True),
)


def begins_empty(cell: Cell) -> bool:
    """Whether a cell begins with empty caches.

    >>> [begins_empty(cell) for cell in CELLS[:4]]
    [True, False, True, False]
    """
    return next(other for other in CELLS if other.caches == cell.caches) is cell


def left(done: Iterable[str], parts: Iterable[str] = (), engine: str = "vllm") -> list[Cell]:
    """The cells of an engine that are still to run: all, or those whose names one of the patterns ``parts`` finds.

    >>> [cell.name for cell in left(["eager, cold"], ["eager, cold", "graph, warm$"])]
    ['eager, cold, served, no compiler', 'graph, warm', 'eager, cold, served, compiler installed']
    """
    finished, texts = set(done), tuple(parts)
    chosen = (cell for cell in CELLS if not texts or any(re.search(text, cell.name) for text in texts))
    return [cell for cell in chosen if cell.engine == engine and cell.name not in finished]
