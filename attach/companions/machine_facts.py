"""The facts that companions' files depend on: versions, Python, the GPUs and their driver.

The GPUs are queried through NVML. The CUDA driver would serve, too, but a process that has started it cannot fork
workers, and this runs in an engine's first process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cached_property

from precast.attach.companions.companion import Companion
from precast.loader.fast_start.installed import Installed

_ABSENT = "none"
_ANSWER_SECONDS = 30
_TEXT = 96  # bytes; NVML_DEVICE_NAME_V2_BUFFER_SIZE


class Machine:
    """This machine and what is installed in this Python.

    >>> from precast.attach.companions.companion import TRITON
    >>> sorted(Machine().facts(TRITON))[-2:]
    ['python', 'triton']
    """

    def __init__(self, library: str = "libnvidia-ml.so.1", environment: Mapping[str, str] = os.environ) -> None:
        self._library, self._environment = library, environment
        self._installed = Installed()

    def facts(self, companion: Companion) -> dict[str, str]:
        """The facts that a companion's files depend on, by name."""
        versions = {name: self._installed.version_of(name) or _ABSENT for name in companion.distributions}
        further = {name: self._fact(name) for name in companion.facts}
        return {**versions, **further, **{name: self._environment.get(name, "") for name in companion.options}}

    def _fact(self, name: str) -> str:
        if name == "python":
            return f"{sys.implementation.cache_tag} {os.uname().machine}"
        return self._compilers if name == "compilers" else self._gpus[name]

    @cached_property
    def _compilers(self) -> str:
        """The versions of nvcc and of the C++ compiler that an engine would take."""
        toolkit = self._environment.get("CUDA_HOME") or self._environment.get("CUDA_PATH")
        path = self._environment.get("PATH")
        nvcc = f"{toolkit}/bin/nvcc" if toolkit else shutil.which("nvcc", path=path) or "/usr/local/cuda/bin/nvcc"
        return ", ".join(_version(program, path) for program in (nvcc, self._environment.get("CXX") or "c++"))

    @cached_property
    def _gpus(self) -> dict[str, str]:
        """The names of the GPUs with their capabilities, and the driver's version."""
        try:
            library = ctypes.CDLL(self._library)
            if library.nvmlInit_v2():
                return {"gpu": _ABSENT, "driver": _ABSENT}
        except (OSError, AttributeError):
            return {"gpu": _ABSENT, "driver": _ABSENT}
        try:
            count = ctypes.c_uint()
            library.nvmlDeviceGetCount_v2(ctypes.byref(count))
            names = {_gpu(library, number) for number in range(count.value)}
            driver = _text(lambda text: library.nvmlSystemGetDriverVersion(text, _TEXT))
            return {"gpu": ", ".join(sorted(names)) or _ABSENT, "driver": driver}
        finally:
            library.nvmlShutdown()


def _version(program: str, path: str | None) -> str:
    """The line that names the version of a compiler: the last one that nvcc prints, the first one of others.

    A compiler that is broken, or does not answer, is none: a start must not fail because of it.
    """
    executable, printed = shutil.which(program, path=path), b""
    if executable:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = [executable, "--version"]
            printed = subprocess.run(command, capture_output=True, check=True, timeout=_ANSWER_SECONDS).stdout
    lines = [line.strip() for line in printed.decode("utf-8", "replace").split("\n") if line.strip()]
    if not lines:
        return f"no {os.path.basename(program)}"
    return lines[-1 if lines[0].startswith("nvcc") else 0]


def _gpu(library: ctypes.CDLL, number: int) -> str:
    handle, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle))
    library.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
    name = _text(lambda text: library.nvmlDeviceGetName(handle, text, _TEXT))
    return f"{name} ({major.value}.{minor.value})"


def _text(ask: Callable[[ctypes.Array[ctypes.c_char]], int]) -> str:
    text = ctypes.create_string_buffer(_TEXT)
    return _ABSENT if ask(text) else text.value.decode("utf-8", "replace")


def difference(companion: Companion, recorded: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Why recorded files do not fit here, in words; empty where they fit.

    >>> from precast.attach.companions.companion import TRITON
    >>> difference(TRITON, {"triton": "3.8.0"}, {"triton": "3.9.0"})
    'they are of triton 3.8.0; 3.9.0 is installed'
    """
    if recorded.keys() != here.keys():
        return "they were recorded by another version of precast-attach: record them again"
    for name in here:
        if recorded[name] != here[name]:
            if name in companion.distributions:
                return f"they are of {name} {recorded[name]}; {here[name]} is installed"
            return f"they were recorded with {name} {recorded[name] or 'unset'}; here it is {here[name] or 'unset'}"
    return ""
