"""The companions: for each compiler with a cache of its own, what precast has to know of its folder.

Each declaration was read off the compiler's own key function, in the versions that its comment names. A key that does
not match costs a compilation, and never a wrong result: the owner compares its key before it uses a file. So a
declaration lists what decides whether the files can serve at all, for a reason before the start instead of a slow one.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from precast.loader.contract.values import Immutable


class Companion(Immutable, kw_only=True):
    """The cache of one compiler.

    Parameters
    ----------
    name, title
        The name in a cache, and for people.
    variable
        The environment variable that names its folder.
    distributions
        Those whose versions its keys or its files depend on.
    facts
        Further facts that they depend on, by their names in ``machine_facts``.
    options
        Environment variables that its keys have.
    ignored
        Patterns of files that are not results: locks, logs, temporary files. A ``*`` matches ``/``, too.
    relocated
        Patterns of files that hold the path of the folder. All others can be moved unchanged.
    refusal
        Why its files cannot serve elsewhere; empty where they can.

    >>> TRITON.is_result("ABC/kernel.cubin"), TRITON.is_result("ABC/tmp.pid_7_x/kernel.cubin")
    (True, False)
    """

    name: str
    title: str
    variable: str
    distributions: tuple[str, ...]
    facts: tuple[str, ...] = ("python", "gpu")
    options: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    relocated: tuple[str, ...] = ()
    refusal: str = ""

    def is_result(self, path: str) -> bool:
        """Whether a file in the folder is a result, by its path below the folder."""
        return not any(fnmatchcase(path, pattern) for pattern in self.ignored)

    def is_relocated(self, path: str) -> bool:
        """Whether a file holds the path of the folder."""
        return any(fnmatchcase(path, pattern) for pattern in self.relocated)


# Triton 3.7 and 3.8. A key has the digests of Triton's own files, the source of the kernel, the target, the version of
# ptxas and the options; no path. A group file names the files of its kernel by absolute paths. The one library that gcc
# builds (the driver's) has the folders of Triton and of libcuda in its key: elsewhere it alone is built again.
TRITON = Companion(
    name="triton",
    title="Triton",
    variable="TRITON_CACHE_DIR",
    distributions=("triton",),
    options=("TRITON_PTXAS_PATH", "TRITON_DEFAULT_FP_FUSION", "TRITON_DEBUG", "TRITON_DISABLE_LINE_INFO"),
    ignored=("*/tmp.pid_*", "*.lock", "*/lock"),
    relocated=("*/__grp__*.json",),
)
# torch 2.13 and 2.14. Keys have the digest of torch's Python files, the GPU's name, CUDA's and Triton's versions and
# inductor's options. Compiled graphs, pickled, hold paths of the folder, and are written out again below the current
# one. Beside its source lies which configuration of a kernel was the fastest (.best_config): with another path in the
# graph it is not found, and torch measures anew, so that each start may choose another and give other digits. The key
# of C++ code has the compiler's command, and so torch's folder.
INDUCTOR = Companion(
    name="inductor",
    title="torch.compile",
    variable="TORCHINDUCTOR_CACHE_DIR",
    distributions=("torch", "triton"),
    ignored=("locks/*", "*.lock", "*.tmp", "*.gch", "*/__pycache__/*", "triton/*/tmp.pid_*"),
    relocated=("*/__grp__*.json", "*.py", "fxgraph/*", "aotautograd/*"),
)
# vLLM 0.33 with torch 2.14. Keys have its variables without those that name folders, the configuration with the path or
# name of the model, and what inductor's keys have; sources are compared by their contents. The list of compiled graphs
# that older versions wrote names files by absolute paths, and the compiled model does, as inductor's graphs do. Graphs
# and factors as text are for people.
VLLM = Companion(
    name="vllm",
    title="vLLM",
    variable="VLLM_CACHE_ROOT",
    distributions=("vllm", "torch", "triton", "transformers"),
    ignored=(
        "assets/*", "*.lock", "*/locks/*", "*.tmp", "*/tmp.pid_*", "*/__pycache__/*", "*/computation_graph*.py",
        "*/transformed_code*.py", "*/cache_key_factors.json", "startup_plan/*",
        "gpu_p2p_access_cache*",
    ),
    relocated=("*/__grp__*.json", "*.py", "*/fxgraph/*", "*/aotautograd/*", "*/model"),
)  # fmt: skip
# FlashInfer 0.7: measurements of its tuner, under a digest of the GPU and of all versions. What it compiles is not
# taken: ninja compares times of files there, with absolute paths.
FLASHINFER = Companion(
    name="flashinfer_tuning",
    title="FlashInfer's tuner",
    variable="FLASHINFER_AUTOTUNE_CACHE_DIR",
    distributions=("flashinfer-python", "torch"),
    facts=("python", "gpu", "driver"),
    ignored=("*.tmp", "*.lock", "*/.*"),
)
# The driver's: what it compiled of PTX, under keys of its own.
CUDA = Companion(
    name="cuda",
    title="the CUDA driver",
    variable="CUDA_CACHE_PATH",
    distributions=(),
    facts=("gpu", "driver"),
    ignored=("*.lock",),
)
# humming 0.1.19: a key has the paths and the modification times of the headers that pip installed.
HUMMING = Companion(
    name="humming",
    title="humming",
    variable="HUMMING_CACHE_DIR",
    distributions=("humming-kernels",),
    ignored=("*.log", "*.lock", "*_tmp.cubin"),
    refusal="its keys hold the times at which its headers were installed, which differ from image to image",
)
# SGLang 0.5.23: libraries that nvcc built, under the digest of the sources, of the commands without the folders of the
# packages, and of what both compilers print as their version; beside each lies the list of all headers with their
# digests, which is compared before the library is used. So both compilers and CUDA's headers must be there.
SGLANG = Companion(
    name="sglang",
    title="SGLang",
    variable="SGLANG_JIT_CACHE_DIR",
    distributions=("sglang", "apache-tvm-ffi", "flashinfer-python", "torch"),
    facts=("gpu", "compilers"),
    ignored=("*/.staging-*", "*.o", "*.o.d", "*/build.ninja", "*/.ninja_log", "*/.ninja_deps", "*.cu", "*.cpp"),
)
# DeepGEMM 2.8, alone and in vLLM, which otherwise keeps it in its own folder: machine code that nvcc or NVRTC made,
# under the digest of the name, its headers, the compiler's version, the flags and the source. Which compiler it takes,
# and whether the flags have the folder of the headers, differs by version: neither is a fact here, since a key that
# does not match costs a compilation, and a fact that does not decide would refuse a frozen start for nothing.
DEEP_GEMM = Companion(
    name="deep_gemm",
    title="DeepGEMM",
    variable="DG_JIT_CACHE_DIR",
    distributions=("deep-gemm", "vllm"),
    facts=("gpu",),
    options=("DG_JIT_USE_NVRTC",),
    ignored=("tmp/*", "*/tmp/*", "*.lock"),
)
# TileLang 0.1.12: libraries under the digest of the kernel's script, its arguments, the target, the options and
# TileLang's version; no path. Parameters are pickled.
TILELANG = Companion(
    name="tilelang",
    title="TileLang",
    variable="TILELANG_CACHE_DIR",
    distributions=("tilelang",),
    ignored=("tmp/*", ".staging/*", "*/.staging/*", "*.lock"),
)

COMPANIONS = {
    each.name: each for each in (TRITON, INDUCTOR, VLLM, FLASHINFER, CUDA, SGLANG, DEEP_GEMM, TILELANG, HUMMING)
}
