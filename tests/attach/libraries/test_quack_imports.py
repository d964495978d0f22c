"""quack, attached, is imported without the compilers of torch and Triton, which its autotuner uses only to compile."""

from __future__ import annotations

import pytest

from tests.helpers.attached import passes

pytest.importorskip("quack")


@pytest.mark.slow
def test_importing_quack_and_flash_attention_executes_no_compiler_of_torch_and_no_triton() -> None:
    pytest.importorskip("triton")
    pytest.importorskip("flash_attn.cute")
    passes("""
import os, sys, tempfile
from precast.attach import attach
attach(["quack", "flash_attention"], mode="serve")
import quack.gemm_interface, quack.linear, quack.autotuner, flash_attn.cute.interface
assert "torch._dynamo" in sys.modules and "torch._dynamo.eval_frame" not in sys.modules
assert quack.autotuner.Autotuner.check_disk_cache.__name__ == "check_disk_cache"
assert "triton.runtime" not in sys.modules
os.environ["QUACK_CACHE_DIR"] = tempfile.mkdtemp()
manager = quack.autotuner.FileCacheManager("00")
from triton.runtime.cache import FileCacheManager
assert isinstance(manager, FileCacheManager) and manager.put("text", "name", binary=False)
""")
