"""quack, attached, is imported without torch's compiler, which its autotuner and a quantizer use only to compile."""

from __future__ import annotations

import pytest

from tests.helpers.attached import passes

pytest.importorskip("quack")


@pytest.mark.slow
def test_importing_quack_executes_no_compiler_of_torch() -> None:
    passes("""
import sys
from precast.loader.attach import attach
attach(["quack"], mode="serve")
import quack.gemm_interface, quack.linear, quack.autotuner
assert "torch._dynamo" in sys.modules and "torch._dynamo.eval_frame" not in sys.modules
assert quack.autotuner.Autotuner.check_disk_cache.__name__ == "check_disk_cache"
""")
