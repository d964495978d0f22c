"""Kernels of a cache, emulated in this process: ``emulated_kernel(cache, store, "gemm")(a=a, b=b, out=out)``."""

from __future__ import annotations

import atexit
import functools
import platform
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from precast.build.child.recording_runtime import RecordingRuntime
from precast.build.link.toolchain import find_toolchain
from precast.build.rehearsal.recorder import SOURCE, recorder_library
from precast.build.store.store import Store
from precast.loader.contract.format.artifact import Artifact
from precast.loader.resolve.cache import Cache
from precast.measure.child.emulation.emulated_kernel import EmulatedKernel
from precast.measure.child.emulation.opener import EmulatedOpener
from precast.measure.verification.kept_ptx import KeptPtx


def emulated_kernel(
    cache: Path,
    store: Path,
    op: str,
    select: str | Callable[[Artifact], bool] = "",
    *,
    written: Collection[str] | None = None,
    change: Callable[[str], str] = str,
) -> EmulatedKernel:
    """The first artifact of an op whose key begins with a text, or that a function accepts.

    It is called with torch tensors of the CPU, by position or by the names of its signature. Its ``options`` may be
    replaced: ``kernel.options = replace(kernel.options, seed=1, delay=200)``; ``kernel.spent.counts`` has what was
    executed. ``written`` names what it may write; all tensors without.
    ``change`` makes other PTX of its own. Errors are EmulationFault and Unsupported.
    """
    opened = Cache(cache)
    accepts = select if callable(select) else lambda artifact: artifact.key.startswith(select)
    artifact = next(artifact for artifact in opened.op(op).artifacts if accepts(artifact))
    opener = EmulatedOpener(opened, _runtime(_soname(opened)), _folder())
    text = KeptPtx(opened, Store(store)).text(op, artifact)
    return opener.open(op, artifact, change(text), written=written)


def _soname(cache: Cache) -> str:
    sonames = {runtime.host.arch: runtime.soname for runtime in cache.index.runtimes}
    return sonames.get(platform.machine(), "recorder.so")


@functools.cache
def _runtime(soname: str) -> RecordingRuntime:
    toolchain = find_toolchain()
    path = _folder() / soname
    path.write_bytes(recorder_library(toolchain.gcc, SOURCE, soname))
    return RecordingRuntime(str(toolchain.ffi / "libtvm_ffi.so"), str(path))


@functools.cache
def _folder() -> Path:
    """A folder that is removed when this process ends."""
    made = tempfile.mkdtemp(prefix="precast-emulated-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)
