"""GPUs: the numbers behind the profiles, each with its source.

The limits of a block and of an SM depend on the capability. SM counts and caches depend on the product. A number
without a source is left out: a kernel that requests it gets an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

KB = 1024
MB = 1024 * KB

_GUIDE = "CUDA C++ Programming Guide, technical specifications per compute capability"
_RUBIN = (
    "CCCL 3.5 of CUDA 13.3, arch_traits<sm_107>; shared memory: CuTe DSL 4.8.1, SMEM_CAPACITY_MAP, where CCCL has the "
    "227 KB of sm_100"
)
_CLUSTERS = "CUDA C++ Programming Guide, thread block clusters: 8 blocks are portable"
_DRIVER = "the first driver of CUDA 13, the oldest that cuda-bindings 13 accepts"


@dataclass(frozen=True, slots=True)
class Fact:
    """A number or a text, and its source."""

    value: int | str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A product: its capability, and its own facts."""

    name: str
    capability: tuple[int, int]
    facts: Mapping[str, Fact]


def _limits(
    capability: tuple[int, int], block: int, sm: int, threads: int, blocks: int, source: str = _GUIDE
) -> Mapping[str, Fact]:
    """The facts of a capability: kilobytes of shared memory a block and an SM, threads and blocks an SM."""
    values = {
        "compute_capability_major": capability[0],
        "compute_capability_minor": capability[1],
        "max_shared_memory_per_block": 48 * KB,
        "max_shared_memory_per_block_optin": block * KB,
        "max_shared_memory_per_multiprocessor": sm * KB,
        "reserved_shared_memory_per_block": KB,
        "total_constant_memory": 64 * KB,
        "max_threads_per_multiprocessor": threads,
        "max_blocks_per_multiprocessor": blocks,
        "max_registers_per_block": 64 * KB,
        "max_registers_per_multiprocessor": 64 * KB,
        "max_threads_per_block": 1024,
        "max_block_dim_x": 1024,
        "max_block_dim_y": 1024,
        "max_block_dim_z": 64,
        "max_grid_dim_x": 2**31 - 1,
        "max_grid_dim_y": 2**16 - 1,
        "max_grid_dim_z": 2**16 - 1,
        "warp_size": 32,
        "cooperative_launch": 1,
    }
    clusters = capability >= (9, 0)
    facts = {name: Fact(value, source) for name, value in values.items()}
    facts["max_portable_cluster_size"] = Fact(8 if clusters else 1, _CLUSTERS)
    if clusters:
        facts["cluster_launch"] = Fact(1, source)
    facts["driver_version"] = Fact(13000, _DRIVER)
    return MappingProxyType(facts)


TABLE: Mapping[tuple[int, int], Mapping[str, Fact]] = {
    (8, 0): _limits((8, 0), 163, 164, 2048, 32),
    (8, 6): _limits((8, 6), 99, 100, 1536, 16),
    (8, 7): _limits((8, 7), 163, 164, 1536, 16),
    (8, 9): _limits((8, 9), 99, 100, 1536, 24),
    (9, 0): _limits((9, 0), 227, 228, 2048, 32),
    (10, 0): _limits((10, 0), 227, 228, 2048, 32),
    (10, 3): _limits((10, 3), 227, 228, 2048, 32),
    (10, 7): _limits((10, 7), 327, 328, 1024, 16, _RUBIN),
    (11, 0): _limits((11, 0), 227, 228, 1536, 24),
    (12, 0): _limits((12, 0), 99, 100, 1536, 24),
    (12, 1): _limits((12, 1), 99, 100, 1536, 24),
}


def _gpu(name: str, capability: tuple[int, int], sms: int, source: str, **more: tuple[int | str, str]) -> Gpu:
    facts = {"name": Fact(f"NVIDIA {name}", "the product's name"), "multiprocessor_count": Fact(sms, source)}
    facts.update({key: Fact(value, origin) for key, (value, origin) in more.items()})
    return Gpu(name=name, capability=capability, facts=MappingProxyType(facts))


_HOPPER = "NVIDIA H100 Tensor Core GPU Architecture, 2022"
_AMPERE = "NVIDIA A100 Tensor Core GPU Architecture, 2020"


# Chips of one product differ in the parts that are switched off: another H200 may fit a few clusters more.
_COUNTED = "what the driver 580 counts on one H200, by precast build --profile-from-device"
_H200_CLUSTERS = {1: 132, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15, 9: 9, **dict.fromkeys(range(10, 17), 7)}


# The clusters of a slice are upper bounds, as for every GPU here except the H200.
_MIG = "the SMs that nvidia-smi mig -lgip lists for such a slice; not measured"


def _reported(name: str) -> str:
    return f"device properties that the driver reports of an {name}"


# The first of each capability is the default GPU of its targets.
GPUS: Mapping[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        _gpu("A100", (8, 0), 108, _AMPERE, l2_cache_size=(40 * MB, _AMPERE)),
        _gpu("A30", (8, 0), 56, "NVIDIA A30 data sheet: 3,584 CUDA cores, 64 an SM"),
        _gpu("RTX A6000", (8, 6), 84, "NVIDIA Ampere GA102 GPU Architecture, 2021"),
        _gpu("A40", (8, 6), 84, "NVIDIA A40 data sheet: 10,752 CUDA cores, 128 an SM"),
        _gpu("A10", (8, 6), 72, "NVIDIA A10 data sheet: 9,216 CUDA cores, 128 an SM"),
        _gpu("AGX Orin", (8, 7), 16, "NVIDIA Jetson AGX Orin data sheet: 2,048 CUDA cores, 128 an SM"),
        _gpu("L40S", (8, 9), 142, "NVIDIA L40S data sheet: 18,176 CUDA cores, 128 an SM"),
        _gpu("RTX 6000 Ada", (8, 9), 142, "NVIDIA RTX 6000 Ada data sheet: 18,176 CUDA cores, 128 an SM"),
        _gpu("L4", (8, 9), 58, "NVIDIA L4 data sheet: 7,424 CUDA cores, 128 an SM"),
        _gpu("RTX 4090", (8, 9), 128, "NVIDIA Ada GPU Architecture, 2022"),
        _gpu("H100", (9, 0), 132, _HOPPER, l2_cache_size=(50 * MB, _HOPPER)),
        _gpu("H100 PCIe", (9, 0), 114, _HOPPER, l2_cache_size=(50 * MB, _HOPPER)),
        _gpu(
            "H200",
            (9, 0),
            132,
            _reported("H200"),
            l2_cache_size=(60 * MB, _reported("H200")),
            **{f"max_active_clusters_{size}": (most, _COUNTED) for size, most in _H200_CLUSTERS.items()},
        ),
        _gpu("H20", (9, 0), 78, _reported("H20")),
        _gpu("H100 NVL", (9, 0), 132, "NVIDIA H100 NVL product brief: 16,896 CUDA cores, 128 an SM"),
        _gpu("GH200", (9, 0), 132, "NVIDIA GH200 data sheet: 16,896 CUDA cores, 128 an SM"),
        _gpu("H200 MIG 1g.18gb", (9, 0), 16, _MIG),
        _gpu("B200", (10, 0), 148, _reported("B200"), l2_cache_size=(253 * MB // 2, _reported("B200"))),
        _gpu("B300", (10, 3), 148, _reported("B300 SXM6")),
        _gpu("Rubin", (10, 7), 224, "NVIDIA Technical Blog on the Rubin GPU's architecture, 2026: up to 224 SMs"),
        _gpu("AGX Thor", (11, 0), 20, "NVIDIA Jetson T5000 data sheet: 2,560 CUDA cores, 128 an SM"),
        _gpu(
            "RTX 5090",
            (12, 0),
            170,
            "NVIDIA RTX Blackwell GPU Architecture, 2025",
            l2_cache_size=(96 * MB, _reported("RTX 5090")),
        ),
        _gpu("RTX 5080", (12, 0), 84, "NVIDIA RTX Blackwell GPU Architecture, 2025"),
        _gpu("RTX PRO 6000", (12, 0), 188, "NVIDIA RTX PRO 6000 Blackwell data sheet: 24,064 CUDA cores, 128 an SM"),
        _gpu("GB10", (12, 1), 48, "NVIDIA DGX Spark data sheet: 6,144 CUDA cores, 128 an SM"),
    )
}
