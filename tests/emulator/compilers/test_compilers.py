"""PTX of other compilers than the CuTe DSL: nvcc's and Triton's, as text that is kept here and made anew."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from precast.emulator import Launch, Memory, Options, Result, emulate

HERE = Path(__file__).parent
RANDOM = np.random.default_rng(0)
N = 1000


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def values(memory: Memory, dtype: str = "float32") -> np.ndarray:
    return np.frombuffer(memory.data, dtype)


def saxpy_sums(text: str) -> Result:
    """Run nvcc's kernel and compare what it computes, unless it ends with a fault."""
    x, y = floats(N), floats(N)
    out, sums = Memory.copy_of(y), Memory.copy_of(bytes(16))
    parameters = (out, Memory.copy_of(x, writable=False), sums, struct.pack("<f", 2.5), N)
    launch = Launch(kernel="saxpy_sums", grid=(4, 1, 1), block=(256, 1, 1), parameters=parameters)
    result = emulate(text, launch, Options(check_races=True))
    if result.fault is None:
        np.testing.assert_allclose(values(out), 2.5 * x + y, atol=1e-5)
        np.testing.assert_allclose(values(sums), np.add.reduceat(values(out), range(0, N, 256)), atol=1e-4)
    return result


def triton_add(text: str) -> None:
    x, y, out = floats(N), floats(N), Memory.copy_of(bytes(4 * N))
    parameters = (Memory.copy_of(x), Memory.copy_of(y), out, N, 0, 0)
    launch = Launch(kernel="triton_add", grid=(4, 1, 1), block=(128, 1, 1), parameters=parameters)
    emulate(text, launch, Options(check_races=True)).checked()
    assert (values(out) == x + y).all()


def triton_softmax(text: str) -> None:
    x, out = floats(3, N), Memory.copy_of(bytes(12 * N))
    parameters = (Memory.copy_of(x), out, N, 0, 0)
    launch = Launch(kernel="triton_softmax", grid=(3, 1, 1), block=(128, 1, 1), shared=16, parameters=parameters)
    emulate(text, launch, Options(check_races=True, seed=1, delay=200)).checked()
    powers = np.exp(x)
    np.testing.assert_allclose(values(out).reshape(3, N), powers / powers.sum(1, keepdims=True), rtol=1e-5)


def triton_gemm(text: str, rows: int, shared: int) -> None:
    a, b = floats(128, 192).astype(np.float16), floats(192, 64).astype(np.float16)
    out = Memory.copy_of(bytes(2 * 128 * 64))
    parameters = (Memory.copy_of(a), Memory.copy_of(b), out, 128, 64, 192, 0, 0)
    grid, block = (128 // rows, 1, 1), (int(re.findall(r"\.reqntid (\d+)", text)[0]), 1, 1)
    launch = Launch(kernel="triton_gemm", grid=grid, block=block, shared=shared, parameters=parameters)
    emulate(text, launch, Options(check_races=True, seed=1, delay=200)).checked()
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(values(out, "float16").reshape(128, 64), expected, atol=0.05)


def test_a_kernel_of_nvcc() -> None:
    assert saxpy_sums((HERE / "saxpy_sums.ptx").read_text()).fault is None


def test_a_race_of_a_kernel_of_nvcc() -> None:
    text = (HERE / "saxpy_sums.ptx").read_text().replace("bar.sync", "// bar.sync")
    fault = saxpy_sums(text).fault
    assert fault is not None and fault.kind == "race" and (fault.warp, fault.lane) != (-1, -1)
    lines = text.splitlines()
    assert {lines[n - 1].split()[0] for n in (fault.line, fault.other_line)} == {"ld.shared.f32", "st.shared.f32"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100a"])
def test_nvcc_anew(architecture: str, tmp_path: Path) -> None:
    command = ["nvcc", "-ptx", f"-arch={architecture}", str(HERE / "saxpy_sums.cu"), "-o", str(tmp_path / "k.ptx")]
    subprocess.run(command, check=True)
    assert saxpy_sums((tmp_path / "k.ptx").read_text()).fault is None


def test_kernels_of_triton() -> None:
    triton_add((HERE / "triton_add.ptx").read_text())
    triton_softmax((HERE / "triton_softmax.ptx").read_text())


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_triton_anew(tmp_path: Path) -> None:
    """Products by mma, wgmma and tcgen05, too."""
    command = [sys.executable, str(HERE / "triton_kernels.py"), str(tmp_path)]
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    shared, texts = json.loads(done.stdout), {path.stem: path.read_text() for path in tmp_path.glob("*.ptx")}
    triton_add(texts["triton_add"])
    triton_softmax(texts["triton_softmax"])
    for name, rows in (("gemm_80", 64), ("gemm_90", 64), ("gemm_100", 128)):
        triton_gemm(texts[name], rows, shared[name])
