"""The table ``site | right, wrong or refused | error | reason`` of the cases that the command line names, or of all.

``python -m tests.gpu.engines.warm_engines [--without-natives] [vllm] [sglang] [PART OF A SITE...]``. Recorded without a
GPU, and run attached where there is one: ``run`` does that with a kit. ``--without-natives``: the engines' native
modules are not here, and empty ones take their places, as where they are recorded.
"""

from __future__ import annotations

import os
import platform
import sys
from collections import Counter

ENGINES = ("vllm", "sglang")
NATIVES = "--without-natives"


def main(words: list[str]) -> int:
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if NATIVES in words:
        from precast.loader.attach import library_named

        for prepare in (library_named(name).without_gpu for name in ENGINES):
            if prepare is not None:
                prepare()
    from tests.gpu.engines import warm_sglang, warm_vllm

    engines = [name for name in ENGINES if name in words] or list(ENGINES)
    parts = [word for word in words if word not in (*ENGINES, NATIVES)]
    cases = {"vllm": warm_vllm.CASES, "sglang": warm_sglang.CASES}
    ends: Counter[str] = Counter()
    print(about_this_machine(), flush=True)
    for case in [case for name in engines for case in cases[name]]:
        if not parts or any(part in case.site for part in parts):
            row = case.row()
            ends[row.end] += 1
            print(row, flush=True)
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())))
    return int(set(ends) - {"right", "recorded"} != set())


def about_this_machine() -> str:
    import torch

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    return f"{gpu}, Python {platform.python_version()}, torch {torch.__version__}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
