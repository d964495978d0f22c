"""The manifest lines that are offered for a missing variant build it: pasted as they are, by the next command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.builds import precast, succeeded

pytestmark = pytest.mark.slow
HEAD = "version: 1\nname: mine\ntargets: [sm_90a]\n"
SOFTMAX = """kernels:
  - compile: "quack.softmax:Softmax.compile"
    op: quack.softmax
    env: {QUACK_CACHE_ENABLED: "0"}
    config: {dtype: bfloat16, out_dtype: bfloat16, N: 4096}
"""


def test_of_a_function_of_a_library(tmp_path: Path) -> None:
    """As the README writes one: nothing but its own name and plain values."""
    pytest.importorskip("quack")
    manifest, cache, store = tmp_path / "mine.yaml", tmp_path / "cache", tmp_path / "store"
    request = ("explain", cache, "quack.softmax", "dtype=float16", "out_dtype=float16", "N=4096", "-t", "sm_90a")
    manifest.write_text(HEAD + SOFTMAX)
    succeeded("build", manifest, "-o", cache, "--store", store)
    refused = precast(store, *request)
    assert refused.returncode == 1
    _, kernels, offered = refused.stdout.partition("  kernels:\n")
    assert kernels, refused.stdout
    manifest.write_text(HEAD + "kernels:\n" + "".join(line[2:] for line in offered.splitlines(keepends=True)))
    succeeded("build", manifest, "-o", cache, "--store", store)
    assert precast(store, *request).returncode == 0
