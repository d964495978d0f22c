"""Fake Triton, for programs that run without a GPU: its driver needs no library, and its kernels launch nothing."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from precast.loader.contract.import_hook import after_import


def install_fake_triton() -> None:
    """Replace Triton's driver and its launches in this process, as soon as Triton is imported."""
    after_import({"triton.backends.nvidia.driver": _driver, "triton.runtime.jit": _launches})


def _driver(module: ModuleType) -> None:
    """The driver's C code is compiled and linked with libcuda when it is first used."""
    utilities: Any = vars(module)["CudaUtils"]
    utilities.__init__ = lambda self: None
    for name in ("load_binary", "cuOccupancyMaxActiveClusters", "set_printf_fifo_size", "launch"):
        setattr(utilities, name, staticmethod(_nothing))
    utilities.get_device_properties = staticmethod(_properties)


def _properties(device: int) -> dict[str, int]:
    import torch

    properties: Any = torch.cuda.get_device_properties(device)
    return {
        "max_shared_mem": properties.shared_memory_per_block_optin,
        "max_num_regs": properties.regs_per_multiprocessor,
        "multiprocessor_count": properties.multi_processor_count,
        "warpSize": properties.warp_size,
    }


def _launches(module: ModuleType) -> None:
    vars(module)["JITFunction"].run = _nothing


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass
