"""Cubins: device code without host code, launched through cuda-python as its host program says.

This is the way where a cache has no native code for this host: ``native_program.py`` is quicker.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

from precast.loader.errors import LaunchError, LoadError
from precast.loader.fast_start.values import Immutable
from precast.loader.fork_safe import ForkSafeLock
from precast.loader.format.artifact import Artifact
from precast.loader.format.program.host_program import ONE, HostProgram, Launch, Step
from precast.loader.import_lock import IMPORT_LOCK
from precast.loader.launch.arguments import (
    View,
    bind,
    changing_leaves,
    form_of,
    leaves_of_call,
    within,
)
from precast.loader.launch.call_errors import naming
from precast.loader.launch.ffi import import_tvm_ffi
from precast.loader.launch.programs.packing import Packing
from precast.loader.resolve.cache import Cache

_REMEMBERED = 1000  # forms of calls, a kernel
_SMALL = 48 << 10  # as much shared memory as a kernel may have without being asked


class Cuda:
    """What a launch needs of the CUDA driver, by way of ``cuda.bindings``."""

    def __init__(self, bindings: Any) -> None:
        self._cuda = bindings

    def load(self, code: bytes) -> Any:
        """Load device code, for every device."""
        return self._ask("cuLibraryLoadData", code, [], [], 0, [], [], 0)

    def kernel(self, library: Any, name: str) -> Any:
        """A kernel of loaded device code."""
        return self._ask("cuLibraryGetKernel", library, name.encode())

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
        function, names = self._cuda.CUfunction(int(kernel)), self._cuda.CUlaunchAttributeID
        if launch.cluster == ONE and not launch.overlap:
            self._ask("cuLaunchKernel", function, *launch.grid, *launch.block, launch.shared, stream, parameters, 0)
            return
        config, attributes = self._cuda.CUlaunchConfig(), []
        config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
        config.sharedMemBytes, config.hStream = launch.shared, self._cuda.CUstream(stream)
        if launch.cluster != ONE:
            cluster = self._cuda.CUlaunchAttribute()
            cluster.id = names.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            extent = cluster.value.clusterDim
            extent.x, extent.y, extent.z = launch.cluster
            attributes.append(cluster)
        if launch.overlap:
            overlap = self._cuda.CUlaunchAttribute()
            overlap.id = names.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            overlap.value.programmaticStreamSerializationAllowed = 1
            attributes.append(overlap)
        config.attrs, config.numAttrs = attributes, len(attributes)
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
        What to launch; an artifact with a host program.
    cuda
        The driver; ``cuda.bindings`` if None.
    """
    if artifact.program is None:
        raise LoadError(
            f"{artifact.key[:12]} is a cubin without a host program, for tools to read: declare launch= in @kernel"
        )
    return Launcher(cuda or Cuda(_bindings()), cache.read(artifact.blob), op, artifact, artifact.program)


class PlannedLaunch(Immutable):
    """One launch of a form of calls: which step of the program, how, and its parameters as far as the form says."""

    step: int
    launch: Launch
    packing: Packing


class PlannedCall(Immutable):
    """How calls of one form are launched. ``aligned`` are the arguments whose addresses must be multiples, and of what;
    with ``leaves`` the parameters are filled in."""

    device: int
    launches: tuple[PlannedLaunch, ...]
    aligned: tuple[tuple[int, int], ...]

    def is_aligned(self, values: Sequence[Any]) -> bool:
        """Whether the addresses of a call are aligned as required."""
        return not any(values[place].data % alignment for place, alignment in self.aligned)


class Launcher:
    """Launches the kernels of one cubin. Its code is handed to the driver at the first launch."""

    def __init__(self, cuda: Cuda, code: bytes, op: str, artifact: Artifact, program: HostProgram) -> None:
        self._cuda, self._code = cuda, code
        self._op, self._signature, self._program = op, artifact.signature, program
        self._names = tuple(argument.name for argument in artifact.signature.passed)
        self._known: dict[tuple[Any, ...], PlannedCall] = {}
        self._kernels: tuple[Any, ...] = ()
        self._prepared: dict[tuple[int, int], int] = {}  # the shared memory that a step may use on a device
        self._loading = ForkSafeLock()

    def __call__(self, *args: Any) -> None:
        kept = [plain_value(value) for value in args]  # the tensors of the views live until the launch is queued
        values = [value for value, _ in kept]
        planned = self._planned(values)
        if not planned.launches:
            return
        leaves = changing_leaves(self._signature, values)
        entered = self._cuda.enter(planned.device)
        try:
            stream = current_stream(planned.device)
            for one in planned.launches:
                data, offsets = one.packing.filled(leaves), one.packing.offsets
                start = ctypes.addressof(ctypes.c_char.from_buffer(data))
                addresses = (ctypes.c_void_p * max(1, len(offsets)))(*[start + offset for offset in offsets])
                kernel = self._ready(planned.device, one.step, one.launch.shared)
                self._cuda.launch(kernel, one.launch, stream, ctypes.addressof(addresses))
        finally:
            if entered:
                self._cuda.leave()

    def _planned(self, values: list[Any]) -> PlannedCall:
        """The launches of such a call. It is checked when its form is new, or an address is not aligned."""
        form = form_of(values)
        known = self._known.get(form)
        if known is None or not known.is_aligned(values):
            try:
                bound = bind(self._op, self._signature, values)
            except (TypeError, ValueError) as error:
                raise type(error)(naming(str(error), self._names)) from None
            within(self._program.limit, self._signature, values)
            leaves = leaves_of_call(self._signature, bound)
            launches = (
                PlannedLaunch(number, launch, Packing.of(step.parameters, leaves))
                for number, step in enumerate(self._program.steps)
                if (launch := step.launch(leaves)) is not None
            )
            passed = enumerate(self._signature.passed)
            aligned = tuple((i, a.alignment) for i, a in passed if a.kind == "tensor" and a.alignment > 1)
            known = PlannedCall(bound.device, tuple(launches), aligned)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[form] = known
        return known

    def ready(self, device: int) -> None:
        """Do now what the first launch on a device would do."""
        entered = self._cuda.enter(device)
        try:
            for step in range(len(self._program.steps)):
                self._ready(device, step, 0)
        finally:
            if entered:
                self._cuda.leave()

    def _ready(self, device: int, step: int, shared: int) -> Any:
        if shared > self._prepared.get((device, step), -1):
            with self._loading:
                if not self._kernels:
                    library = self._cuda.load(self._code)
                    kernels = tuple(self._cuda.kernel(library, one.kernel) for one in self._program.steps)
                    for kernel, one in zip(kernels, self._program.steps, strict=True):
                        self._check(kernel, one)
                    self._kernels = kernels
                if shared > self._prepared.get((device, step), -1):
                    self._cuda.prepare(self._kernels[step], device, shared)
                    self._prepared[device, step] = shared
        return self._kernels[step]

    def _check(self, kernel: Any, step: Step) -> None:
        """Compare with the driver's parameter sizes: wrongly packed parameters would be read as addresses."""
        planned = tuple(parameter.size for parameter in step.parameters)
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
