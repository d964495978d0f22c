"""Cubins: device code without host code, launched through cuda-python by its launch plan."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from precast.loader.errors import FormatError, LaunchError, LoadError
from precast.loader.fast_start.values import Immutable
from precast.loader.fork_safe import ForkSafeLock
from precast.loader.format.artifact import Artifact
from precast.loader.format.launch_plan import ONE, Launch
from precast.loader.import_lock import IMPORT_LOCK
from precast.loader.launch.arguments import Packing, View, bind, form_of, lengths, packable
from precast.loader.launch.call_errors import naming
from precast.loader.launch.ffi import import_tvm_ffi
from precast.loader.resolve.cache import Cache

_REMEMBERED = 1000  # forms of calls, a kernel
_SMALL = 48 << 10  # as much shared memory as a kernel may have without being asked


class Cuda:
    """What a launch needs of the CUDA driver, by way of ``cuda.bindings``."""

    def __init__(self, bindings: Any) -> None:
        self._cuda = bindings

    def load(self, code: bytes, kernel: str) -> Any:
        """Load device code, for every device, and return its kernel."""
        library = self._ask("cuLibraryLoadData", code, [], [], 0, [], [], 0)
        return self._ask("cuLibraryGetKernel", library, kernel.encode())

    def parameters(self, kernel: Any, count: int) -> tuple[int, ...]:
        """The sizes of a kernel's parameters, as the driver knows them; one fewer where it has no more."""
        sizes = []
        for place in range(count + 1):
            status, _, size = self._cuda.cuKernelGetParamInfo(kernel, place)
            if int(status):
                break
            sizes.append(int(size))
        return tuple(sizes)

    def prepare(self, kernel: Any, device: int, shared: int) -> None:
        """Let a kernel use so much shared memory on a device, and clusters of any size."""
        attribute, number = self._cuda.CUfunction_attribute, self._cuda.CUdevice(device)
        if shared > _SMALL:
            which = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._ask("cuKernelSetAttribute", which, shared, kernel, number)
        which = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        self._ask("cuKernelSetAttribute", which, 1, kernel, number)

    def enter(self, device: int) -> bool:
        """Make a device's primary context current where another is; whether it did."""
        context = self._ask("cuCtxGetCurrent")
        if int(context) and int(self._ask("cuCtxGetDevice")) == int(self._ask("cuDeviceGet", device)):
            return False
        self._ask("cuCtxPushCurrent", self._ask("cuDevicePrimaryCtxRetain", self._ask("cuDeviceGet", device)))
        return True

    def leave(self) -> None:
        """Undo ``enter``."""
        self._ask("cuCtxPopCurrent")

    def launch(self, kernel: Any, launch: Launch, stream: int, parameters: int) -> None:
        """Launch; ``parameters`` is the address of an array of their addresses."""
        function = self._cuda.CUfunction(int(kernel))
        if launch.cluster == ONE:
            self._ask("cuLaunchKernel", function, *launch.grid, *launch.block, launch.shared, stream, parameters, 0)
            return
        config = self._cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
        config.sharedMemBytes, config.hStream = launch.shared, self._cuda.CUstream(stream)
        attribute = self._cuda.CUlaunchAttribute()
        attribute.id = self._cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        extent = attribute.value.clusterDim
        extent.x, extent.y, extent.z = launch.cluster
        config.attrs, config.numAttrs = [attribute], 1
        self._ask("cuLaunchKernelEx", config, function, parameters, 0)

    def _ask(self, name: str, *arguments: Any) -> Any:
        status, *results = getattr(self._cuda, name)(*arguments)
        if int(status):
            raise LaunchError(f"{name}: {status.name}: see the CUDA driver's documentation of that error")
        return results[0] if results else None


def open_cubin(cache: Cache, op: str, artifact: Artifact, cuda: Cuda | None = None) -> Launcher:
    """A function that launches a cubin of a cache.

    Parameters
    ----------
    cache, op, artifact
        What to launch; an artifact with a launch plan.
    cuda
        The driver; ``cuda.bindings`` if None.
    """
    if artifact.plan is None:
        raise LoadError(
            f"{artifact.key[:12]} is a cubin without a launch plan, for tools to read: declare launch= in @kernel"
        )
    try:
        packable(artifact.signature, artifact.plan.parameters)
    except FormatError as error:
        raise LoadError(f"{artifact.key[:12]} cannot be launched: {error}; rebuild the cache") from None
    return Launcher(cuda or Cuda(_bindings()), cache.read(artifact.blob), op, artifact)


class PlannedLaunch(Immutable):
    """How calls of one form are launched."""

    device: int
    launch: Launch
    packing: Packing


class Launcher:
    """Launches one kernel. Its code is handed to the driver at the first launch."""

    def __init__(self, cuda: Cuda, code: bytes, op: str, artifact: Artifact) -> None:
        assert artifact.plan is not None
        self._cuda, self._code = cuda, code
        self._op, self._symbol, self._signature = op, artifact.symbol, artifact.signature
        self._names = tuple(argument.name for argument in artifact.signature.passed)
        self._plan = artifact.plan
        self._known: dict[tuple[Any, ...], PlannedLaunch] = {}
        self._kernel: Any = None
        self._prepared: dict[int, int] = {}  # the shared memory that it may use, by device
        self._loading = ForkSafeLock()

    def __call__(self, *args: Any) -> None:
        kept = [plain_value(value) for value in args]  # the tensors of the views live until the launch is queued
        values = [value for value, _ in kept]
        planned = self._planned(values)
        data = planned.packing.filled(values)
        start = ctypes.addressof(ctypes.c_char.from_buffer(data))
        offsets = planned.packing.offsets
        addresses = (ctypes.c_void_p * max(1, len(offsets)))(*[start + offset for offset in offsets])
        entered = self._cuda.enter(planned.device)
        try:
            kernel = self._ready(planned.device, planned.launch.shared)
            self._cuda.launch(kernel, planned.launch, current_stream(planned.device), ctypes.addressof(addresses))
        finally:
            if entered:
                self._cuda.leave()

    def _planned(self, values: list[Any]) -> PlannedLaunch:
        """The launch of such a call; the arguments are checked when their form is new, or an address is not aligned."""
        form = form_of(values)
        known = self._known.get(form)
        if known is None or not known.packing.is_aligned(values):
            try:
                bound = bind(self._op, self._signature, values)
            except (TypeError, ValueError) as error:
                raise type(error)(naming(str(error), self._names)) from None
            packing = Packing.of(self._signature, self._plan.parameters, bound)
            known = PlannedLaunch(bound.device, self._plan.launch(bound.sizes), packing)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[form] = known
        return known

    def ready(self, device: int) -> None:
        """Do now what the first launch on a device would do."""
        entered = self._cuda.enter(device)
        try:
            self._ready(device, 0)
        finally:
            if entered:
                self._cuda.leave()

    def _ready(self, device: int, shared: int) -> Any:
        if shared > self._prepared.get(device, -1):
            with self._loading:
                if self._kernel is None:
                    kernel = self._cuda.load(self._code, self._symbol)
                    self._check(kernel)
                    self._kernel = kernel
                if shared > self._prepared.get(device, -1):
                    self._cuda.prepare(self._kernel, device, shared)
                    self._prepared[device] = shared
        return self._kernel

    def _check(self, kernel: Any) -> None:
        """Compare with the driver's parameter sizes: wrongly packed parameters would be read as addresses."""
        planned = lengths(self._signature, self._plan.parameters)
        found = self._cuda.parameters(kernel, len(planned))
        if len(found) != len(planned) or any(not 0 <= s - n < 8 for s, n in zip(found, planned, strict=True)):
            raise LoadError(f"{self._op} takes parameters of {found} bytes, not {planned}: rebuild the cache")


def plain_value(value: Any) -> tuple[Any, Any]:
    """A tensor as a View, a number as Python's own; and the object that keeps the view's memory alive."""
    kind = type(value)
    if not hasattr(kind, "__dlpack__") and not hasattr(kind, "__dlpack_c_exchange_api__"):
        if value is None or isinstance(value, (bool, int, float, str, bytes, tuple, list, dict)):
            return value, value
        if isinstance(value, Integral):
            return int(value), value
        return (float(value) if isinstance(value, Real) else value), value
    tensor = _importer()(value)
    device = tensor.device
    view = View(
        data=tensor.data_ptr(),
        shape=tuple(tensor.shape),
        strides=tuple(tensor.strides),
        dtype=str(tensor.dtype),
        device=(device.dlpack_device_type(), device.index),
    )
    return view, tensor


@functools.cache
def _importer() -> Callable[[Any], Any]:
    """The function that imports a tensor by DLPack. Cached here, once the import of its module is complete."""
    found: Callable[[Any], Any] = import_tvm_ffi().from_dlpack
    return found


def current_stream(device: int) -> int:
    """The caller's current stream on a device: torch's, where torch is there; else the default one."""
    torch = sys.modules.get("torch")
    return int(torch.cuda.current_stream(device).cuda_stream) if torch is not None else 0


def _bindings() -> Any:
    try:
        with IMPORT_LOCK:
            from cuda.bindings import driver
    except ImportError as error:
        raise LoadError(
            f"cubins are launched through cuda-python ({error}): pip install 'precast-loader[cubin]'"
        ) from None
    return driver
