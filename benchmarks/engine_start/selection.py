"""Which files of an engine's environment travel to a Hopper GPU, whose own torch has most of NVIDIA's libraries."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fatbin import blank

ARCH = 90
NCCL = "nvidia/nccl/lib/libnccl.so.2"
"""torch 2.14 calls functions of NCCL that torch 2.11's copy, which is on the GPU machine, lacks."""


def any_of(patterns: str) -> re.Pattern[str]:
    """What one of these matches; spaces are between them."""
    return re.compile("|".join(patterns.split()))


# Distributions that a start of these models does not import, and what is not Python's at the top of the environment.
UNUSED = any_of(r"""
    nvidia cudnn nccl nccl4py[\w.-]* nccl_extensions[\w.-]*
    tilelang tilelang-[\w.-]+ tokenspeed[\w.-]* z3 z3_solver[\w.-]* fastsafetensors[\w.-]* instanttensor[\w.-]*
    cv2 opencv[\w.-]* PyNvVideoCodec pynvvideocodec[\w.-]* torchcodec[\w.-]*
    grpc grpcio[\w.-]* hf_xet[\w.-]* supervisor[\w.-]* sentry_sdk[\w.-]* rignore[\w.-]*
    pyarrow[\w.-]* datasets[\w.-]* pandas[\w.-]* modelscope[\w.-]* timm[\w.-]* lxml[\w.-]*
    deepseek_recipe[\w.-]* tml_renderers[\w.-]* flash_mla[\w.-]* nvshmem[\w.-]*
    fastapi_cloud_cli pip bin include samples benchmarks build_backend\.py build_utils\.py example\.py _virtualenv\..*
""")

# What no program reads at run time (tests, headers, static libraries), and parts for other hardware.
LEFT = any_of(r"""
    (^|/)(__pycache__|tests?|testing/_internal/opinfo)/
    \.(pyi|pyx|pxd|a|h|hpp|hxx|cuh|cpp|inl|cmake|c|cc|lib|pdb)$
    ^torch/(include|share|bin)/ ^torch/lib/lib(gtest|gmock)
    ^triton/(_C/libproton|instrumentation|profiler|backends/amd/(lib|include))
    ^triton/backends/nvidia/(lib/cupti|bin/(ptxas-blackwell|nvdisasm|cuobjdump)|include/)
    ^vllm/(vllm-rs|_deepselect_C|_qutlass_C|third_party/(fmha_sm100/cutlass|deep_gemm/include))
    ^cuda/tile/ ^numba/cuda/tests/ ^mistral_common/data/(?!.*\.py$)
    ^sgl_kernel/sm100 ^sglang/multimodal_gen/
    ^nvidia_cutlass_dsl/(cu12/|dsl_packages/cutlass/_mlir/_mlir_libs/_cutlass_ir\.cu12)
""")

# Exceptions from LEFT: imported in spite of their names, or read by Triton's and inductor's compilers.
READ = any_of(r"""
    ^torch/((testing|utils|_inductor/codegen)/|bin/torch_shm_manager$)
    ^triton/.*\.c$ ^triton/backends/nvidia/(include/cuda\.h$|lib/(?!cupti))
    ^(flashinfer/data|vllm/benchmarks|tvm_ffi|nvtx|torchgen|sglang/kernels)/ /libcuda_dialect_runtime_static\.a$
""")

COMPILER = "nvidia_cutlass_dsl"
"""The DSL's files lie in a folder of their own there, which only some starts have on their path."""


def travels(name: str) -> bool:
    """Whether a file of site-packages is taken, by its name.

    >>> [travels(name) for name in ("torch/nn/functional.py", "torch/include/ATen/ATen.h", "nvidia/cudnn/lib/x.so")]
    [True, False, False]
    >>> travels("triton/backends/nvidia/include/cuda.h"), travels("tilelang/engine.py"), travels(NCCL)
    (True, False, True)
    """
    if name == NCCL:
        return True
    top = name.partition("/")[0]
    if UNUSED.fullmatch(top) or "/__pycache__/" in name:
        return False
    return not LEFT.search(name) or bool(READ.search(name))


def files(site: Path) -> Iterator[tuple[str, Path]]:
    """Each file that travels, as its name there and its path here."""
    for folder, folders, names in os.walk(site):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            inside = path.relative_to(site).as_posix()
            if travels(inside):
                where = "dsl" if inside.startswith(COMPILER) else "site"
                yield f"{where}/{inside}", path


def content(path: Path) -> bytes | bytearray:
    """A file's bytes; a large native library without debugging symbols and without code for other GPUs."""
    if ".so" not in path.name or path.stat().st_size < 400_000:
        return path.read_bytes()
    if path.name.startswith(("libtriton", "_cutlass_ir", "libcute_dsl")):
        with tempfile.NamedTemporaryFile() as stripped:
            subprocess.run(["strip", "--strip-debug", "-o", stripped.name, path], check=True)
            data = bytearray(Path(stripped.name).read_bytes())
    else:
        data = bytearray(path.read_bytes())
    # vLLM imports FlashAttention-2's module and launches nothing of it on Hopper, where it takes 3 or 4. SGLang imports
    # FlashAttention-3's, and here is told to take 4.
    blank(data, ARCH, everything=path.name.startswith(("_vllm_fa2_C", "flash_ops")))
    return data
