"""The table ``site | right, wrong or refused | error | reason`` of the cases that the command line names, or of all.

``python -m tests.gpu.engines.warm_engines [--without-natives] [vllm] [sglang] [PART OF A SITE... | --only=SITE]``.
Recorded without a GPU, and run attached where there is one: ``run`` does that with a kit, each case in a process of its
own (``alone``). ``--without-natives``: the engines' native modules are not here, and empty ones take their places, as
where they are recorded.
"""

from __future__ import annotations

import os
import platform
import sys
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.gpu.engines.site import Case

ENGINES = ("vllm", "sglang")
NATIVES = "--without-natives"
ONLY = "--only="


def main(words: list[str]) -> int:
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if NATIVES in words:
        from precast.attach import library_named

        for prepare in (library_named(name).without_gpu for name in ENGINES):
            if prepare is not None:
                prepare()
    ends: Counter[str] = Counter()
    print(about_this_machine(), flush=True)
    for case in selected([word for word in words if word != NATIVES]):
        row = case.row()
        ends[row.end] += 1
        print(row, flush=True)
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())))
    return int(set(ends) - {"right", "recorded"} != set())


def selected(words: list[str]) -> list[Case]:
    """The cases that the words of a command line name, or all."""
    from tests.gpu.engines import warm_sglang, warm_vllm

    cases = {"vllm": warm_vllm.CASES, "sglang": warm_sglang.CASES}
    every = [case for name in ENGINES if name in words or not {*ENGINES} & {*words} for case in cases[name]]
    exact = {word.removeprefix(ONLY) for word in words if word.startswith(ONLY)}
    parts = [word for word in words if word not in ENGINES and not word.startswith(ONLY)]
    if exact:
        return [case for case in every if case.site in exact]
    return [case for case in every if not parts or any(part in case.site for part in parts)]


def about_this_machine() -> str:
    import torch

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    return f"{gpu}, Python {platform.python_version()}, torch {torch.__version__}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
