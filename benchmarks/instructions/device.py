"""Loads modules and launches kernels through the driver; memory is torch's."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray


class Device:
    """The current GPU."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        self.driver = ctypes.CDLL("libcuda.so.1")

    def check(self, status: int, what: str) -> None:
        if status:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"{what}: {(text.value or b'?').decode()} ({status})")

    def module(self, image: Path) -> ctypes.c_void_p:
        """A module from a cubin, or from PTX."""
        module = ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(module), image.read_bytes() + b"\0"), f"load {image.name}")
        return module

    def launch(
        self, module: ctypes.c_void_p, entry: str, blocks: int, threads: int, parameters: list[int | torch.Tensor]
    ) -> None:
        """One launch on the default stream; all parameters have 64 bits."""
        function = ctypes.c_void_p()
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(function), module, entry.encode()), f"find {entry}")
        words = [ctypes.c_uint64(p if isinstance(p, int) else p.data_ptr()) for p in parameters]
        pointers = (ctypes.c_void_p * len(words))(*[ctypes.addressof(w) for w in words])
        status = self.driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)
        self.check(status, f"launch {entry}")

    def synchronize(self, what: str) -> None:
        self.check(self.driver.cuCtxSynchronize(), what)


def to_device(array: NDArray[np.generic]) -> torch.Tensor:
    """A copy of an array's bytes on the GPU."""
    return torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).reshape(-1).copy()).cuda()


def to_host(tensor: torch.Tensor, kind: str) -> NDArray[np.generic]:
    """A tensor's bytes as an array of a kind."""
    return tensor.cpu().numpy().view(kind)
