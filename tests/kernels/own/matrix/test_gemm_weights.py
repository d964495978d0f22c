"""``weights`` of this project's ``gemm``: what is loaded before the kernel before has ended, by the machine code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from precast import loader
from tests.helpers.builds import kept_store, succeeded

HALF = {"dtype": "bfloat16", "out_dtype": "bfloat16"}
TUNED = {"library": "precast", "swap": True, "tile": [16, 64, 128], "residents": 2}


@pytest.mark.slow
def test_weights_alone_are_loaded_before_the_wait(tmp_path: Path, build: Callable[..., Path]) -> None:
    entry = {
        "kernel": "gemm",
        "config": {**HALF, "weights": [False, True]},
        "tuned": {k: [v] for k, v in TUNED.items()},
    }
    manifest = {"name": "weights", "targets": ["sm_90a"], "kernels": [entry]}
    cache = build(manifest, torch=True)
    found = {}
    for weights in (False, True):
        kernel = loader.get("gemm", {**HALF, "weights": weights}, target="sm_90a")
        files = tmp_path / str(weights)
        succeeded("export", cache, kernel.artifact.key, "-o", files, "--store", kept_store())
        code = next(files.glob("*.sass")).read_text()
        names = re.findall(r"\b(UTMALDG|ACQBULK)\b", code)
        found[weights] = (kernel.signature, "".join("w" if name == "ACQBULK" else "l" for name in names))
    (without, plain), (promised, early) = found[False], found[True]
    assert without == promised, "the call is the same"
    assert re.fullmatch("w+l+w*", plain), plain  # the warps that store wait as well, somewhere
    loads = re.fullmatch("w?(l+)w((w?l+)*)w?", early)
    assert loads, early
    both, ahead = plain.count("l"), len(loads[1])
    assert 2 * ahead == both, "one side is loaded ahead"
    assert loads[2].count("l") == ahead + both, "then the other side of the same steps, and both sides of the rest"
