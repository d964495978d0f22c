"""The fake GPU: code that queries the GPU in a worker gets the facts of the GPU that the worker compiles for.

The compiler's ``HardwareInfo``, ``torch.cuda`` and CUDA's bindings are patched when they are imported. There are always
eight devices, all alike, since code of any rank of a server is compiled here. Every other value is a fact of the
profile. Nothing can be launched or allocated on the fake GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.loader.contract.import_hook import after_import
from precast.loader.machine.facts import attribute_name

DEVICES = 8
_CONTEXT = 1  # any number but 0, which means that no context is current

# The names of facts in torch and in the CUDA runtime, where they differ from the driver's.
_TORCH = {
    "name": "name",
    "major": "compute_capability_major",
    "minor": "compute_capability_minor",
    "total_memory": "total_memory",
    "multi_processor_count": "multiprocessor_count",
    "max_threads_per_multi_processor": "max_threads_per_multiprocessor",
    "max_threads_per_block": "max_threads_per_block",
    "regs_per_multiprocessor": "max_registers_per_multiprocessor",
    "shared_memory_per_block": "max_shared_memory_per_block",
    "shared_memory_per_block_optin": "max_shared_memory_per_block_optin",
    "shared_memory_per_multiprocessor": "max_shared_memory_per_multiprocessor",
    "warp_size": "warp_size",
    "L2_cache_size": "l2_cache_size",
    "clock_rate": "clock_rate",
    "memory_clock_rate": "memory_clock_rate",
    "memory_bus_width": "global_memory_bus_width",
    "is_integrated": "integrated",
    "is_multi_gpu_board": "multi_gpu_board",
}
_RUNTIME = {
    "name": "name",
    "major": "compute_capability_major",
    "minor": "compute_capability_minor",
    "totalGlobalMem": "total_memory",
    "totalConstMem": "total_constant_memory",
    "multiProcessorCount": "multiprocessor_count",
    "maxThreadsPerMultiProcessor": "max_threads_per_multiprocessor",
    "maxBlocksPerMultiProcessor": "max_blocks_per_multiprocessor",
    "maxThreadsPerBlock": "max_threads_per_block",
    "regsPerBlock": "max_registers_per_block",
    "regsPerMultiprocessor": "max_registers_per_multiprocessor",
    "sharedMemPerBlock": "max_shared_memory_per_block",
    "sharedMemPerBlockOptin": "max_shared_memory_per_block_optin",
    "sharedMemPerMultiprocessor": "max_shared_memory_per_multiprocessor",
    "reservedSharedMemPerBlock": "reserved_shared_memory_per_block",
    "l2CacheSize": "l2_cache_size",
    "persistingL2CacheMaxSize": "max_persisting_l2_cache_size",
    "warpSize": "warp_size",
    "clusterLaunch": "cluster_launch",
    "cooperativeLaunch": "cooperative_launch",
    "memoryBusWidth": "global_memory_bus_width",
    "integrated": "integrated",
    "isMultiGpuBoard": "multi_gpu_board",
}


def install_fake_gpu(answers: FactRecorder) -> None:
    """Replace the GPU in this process, in modules that are imported already and in later ones."""
    changes = {
        "cutlass.utils.hardware_info": _hardware_info,
        "torch.cuda": _torch,
        "cuda.bindings.driver": _driver,
        "cuda.bindings.runtime": _runtime,
    }
    device = _Current()
    after_import({name: functools.partial(change, answers, device) for name, change in changes.items()})


class _Current:
    """Which device is current, to all of the modules."""

    def __init__(self) -> None:
        self.ordinal = 0

    def set(self, ordinal: int) -> int:
        """Make a device current; the one that was. A negative number changes nothing, as in torch."""
        before = self.ordinal
        if ordinal >= 0:
            self.ordinal = _in_range(ordinal)
        return before


def _in_range(ordinal: int) -> int:
    if not 0 <= ordinal < DEVICES:
        raise ValueError(f"device {ordinal} is out of range: a worker has devices 0 to {DEVICES - 1}")
    return ordinal


@contextlib.contextmanager
def toolkit(version: int) -> Iterator[None]:
    """While the block runs, report a driver that supports this CUDA toolkit, such as 12090, and none newer.

    If its libraries for several toolkits are installed, the compiler takes the newest that the machine's driver
    supports, or the newest of all without a driver. Its output would then depend on the machine, and be linked with the
    runtime of another toolkit.
    """
    real = ctypes.CDLL

    def load(name: Any, *args: Any, **kwargs: Any) -> Any:
        return _Driver(version) if name == "libcuda.so.1" else real(name, *args, **kwargs)

    ctypes.CDLL = load  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        ctypes.CDLL = real  # type: ignore[misc]


class _Driver:
    """The driver's library, reduced to its version."""

    def __init__(self, version: int) -> None:
        self._version = version

    def cuDriverGetVersion(self, result: Any) -> int:
        result._obj.value = self._version
        return 0


class Properties:
    """A device's properties. Each is recorded only when it is read."""

    def __init__(self, answers: FactRecorder, names: Mapping[str, str], *, binary: bool = False) -> None:
        self._answers, self._names, self._binary = answers, names, binary

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._names:
            raise AttributeError(f"a device has no property {name!r}")
        value = self._answers.need(self._names[name])
        return value.encode() if self._binary and isinstance(value, str) else value

    def __dir__(self) -> list[str]:
        return sorted(self._names)


def _hardware_info(answers: FactRecorder, current: _Current, module: ModuleType) -> None:
    def begin(self: Any, device_id: int = 0) -> None:
        self.device_id = self.device = _in_range(device_id)
        self.context = None

    def max_active_clusters(self: Any, cluster_size: int, stream: Any = None) -> int:
        if not 0 < cluster_size <= 32:
            raise ValueError(f"a cluster has 1 to 32 blocks, not {cluster_size}")
        return int(answers.need(f"max_active_clusters_{cluster_size}"))

    info: Any = module.HardwareInfo
    info.__init__ = begin
    info.driver_version = property(lambda self: answers.need("driver_version"))
    info.get_max_active_clusters = max_active_clusters
    info.get_l2_cache_size_in_bytes = lambda self: answers.need("l2_cache_size")
    info.get_device_multiprocessor_count = lambda self: answers.need("multiprocessor_count")


def _torch(answers: FactRecorder, current: _Current, module: ModuleType) -> None:
    def capability(device: Any = None) -> tuple[int, int]:
        return answers.need("compute_capability_major"), answers.need("compute_capability_minor")

    def ordinal(device: Any = None) -> int:
        text = str(device)
        number = text.removeprefix("cuda").removeprefix(":") if device is not None else ""
        return _in_range(int(number)) if number else current.ordinal

    def set_device(device: Any) -> None:
        current.set(ordinal(device))

    def properties(device: Any = None) -> Properties:
        ordinal(device)
        return Properties(answers, _TORCH)

    def stream(device: Any = None) -> Any:
        return SimpleNamespace(cuda_stream=0, stream_id=0, device_index=ordinal(device), priority=0)

    cuda: Any = module
    cuda.is_available = lambda: True
    cuda.device_count = lambda: DEVICES
    cuda.current_device = lambda: current.ordinal
    cuda.set_device = set_device
    cuda.get_device_capability = capability
    cuda.get_device_properties = properties
    cuda.get_device_name = lambda device=None: answers.need("name")
    cuda.current_stream = cuda.default_stream = stream
    cuda.is_current_stream_capturing = lambda: False
    cuda._exchange_device = cuda._maybe_exchange_device = current.set  # what ``with torch.cuda.device(..)`` calls


def _driver(answers: FactRecorder, current: _Current, module: ModuleType) -> None:
    driver: Any = module
    done, no_device, no_value = (
        driver.CUresult.CUDA_SUCCESS,
        driver.CUresult.CUDA_ERROR_INVALID_DEVICE,
        driver.CUresult.CUDA_ERROR_INVALID_VALUE,
    )

    def get(ordinal: int) -> tuple[Any, Any]:
        return (done, driver.CUdevice(ordinal)) if 0 <= ordinal < DEVICES else (no_device, None)

    def attribute(attrib: Any, dev: Any) -> tuple[Any, Any]:
        try:
            return done, answers.need(attribute_name(int(attrib)))
        except ValueError:
            return no_value, None

    driver.cuInit = lambda flags: (done,)
    driver.cuDriverGetVersion = lambda: (done, answers.need("driver_version"))
    driver.cuDeviceGetCount = lambda: (done, DEVICES)
    driver.cuDeviceGet = get
    driver.cuDeviceGetName = lambda length, dev: (done, answers.need("name").encode()[: length - 1])
    driver.cuDeviceTotalMem = lambda dev: (done, answers.need("total_memory"))
    driver.cuDeviceGetAttribute = attribute
    driver.cuCtxGetCurrent = lambda: (done, driver.CUcontext(_CONTEXT))
    driver.cuCtxSetCurrent = lambda ctx: (done,)
    driver.cuCtxGetDevice = lambda *ctx: (done, driver.CUdevice(current.ordinal))
    driver.cuDevicePrimaryCtxRetain = lambda dev: (done, driver.CUcontext(_CONTEXT))


def _runtime(answers: FactRecorder, current: _Current, module: ModuleType) -> None:
    runtime: Any = module
    done, no_value = runtime.cudaError_t.cudaSuccess, runtime.cudaError_t.cudaErrorInvalidValue

    def attribute(attr: Any, device: int) -> tuple[Any, Any]:
        try:  # the two count attributes alike
            return done, answers.need(attribute_name(int(attr)))
        except ValueError:
            return no_value, None

    def set_device(device: int) -> tuple[Any]:
        if not 0 <= device < DEVICES:
            return (runtime.cudaError_t.cudaErrorInvalidDevice,)
        current.set(device)
        return (done,)

    runtime.cudaGetDeviceCount = lambda: (done, DEVICES)
    runtime.cudaGetDevice = lambda: (done, current.ordinal)
    runtime.cudaSetDevice = set_device
    runtime.cudaDriverGetVersion = lambda: (done, answers.need("driver_version"))
    runtime.cudaDeviceGetAttribute = attribute
    runtime.cudaGetDeviceProperties = lambda device: (done, Properties(answers, _RUNTIME, binary=True))
