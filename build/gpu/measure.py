"""Measuring: the profile of a GPU that is there, read in a child process, so that this one never starts CUDA.

The child is this module: ``python -m precast.build.gpu.measure REPLY_FD``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from precast.build.errors import ToolError
from precast.build.gpu.profile import Profile, parse_facts
from precast.loader.errors import FormatError
from precast.loader.format import fields
from precast.loader.format.target import Capability

_SECONDS = 300.0
_LIMIT = 1 << 20
_CLUSTERS = 16
_ADVICE = "run on a machine with a GPU of the target, or name its profile with --profile"


def measure() -> Profile:
    """The profile of this machine's first GPU, or a ToolError that says why there is none."""
    read, write = os.pipe()
    command = [sys.executable, "-m", "precast.build.gpu.measure", str(write)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUTE_DSL_")}
    with os.fdopen(read, "rb") as replies:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(write,),
                env=environment,
            )
        finally:
            os.close(write)
        try:
            _, printed = child.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise ToolError(f"the GPU gave no answer in {_SECONDS:g} s: {_ADVICE}") from None
        return profile_from(replies.read(_LIMIT), printed.decode(errors="replace"))


def profile_from(reply: bytes, printed: str = "") -> Profile:
    """The profile that a child's reply is."""
    try:
        data = fields.as_object(fields.read_json(reply, limit=_LIMIT))
        if "error" in data:
            raise ToolError(f"--profile-from-device: {fields.get(data, 'error', str)}: {_ADVICE}")
        facts = parse_facts(data.get("facts"), "read from a device")
        capability = Capability(
            fields.count(data["facts"], "compute_capability_major", most=99),
            fields.count(data["facts"], "compute_capability_minor", most=9),
        )
        name = fields.get(data["facts"], "name", str)
    except (FormatError, KeyError):
        said = printed.strip()[-1000:]
        raise ToolError(
            f"reading the GPU's properties failed{f'; the last that was printed: {said}' if said else ''}: {_ADVICE}"
        ) from None
    return Profile(name=name, capability=capability, facts=facts, measured=True)


def _read_device() -> dict[str, Any]:
    """In the child: everything that the driver says of device 0."""
    from cuda.bindings import driver

    def ask(name: str, *arguments: Any) -> Any:
        result, *values = getattr(driver, name)(*arguments)
        if result != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"{name} says {result.name}")
        return values[0] if values else None

    try:
        ask("cuInit", 0)
        if not ask("cuDeviceGetCount"):
            return {"error": "there is no CUDA device here"}
        device = ask("cuDeviceGet", 0)
    except RuntimeError as error:
        return {"error": f"there is no usable CUDA device here ({error})"}
    facts: dict[str, Any] = {
        "name": ask("cuDeviceGetName", 256, device).split(b"\0")[0].decode(),
        "total_memory": ask("cuDeviceTotalMem", device),
        "driver_version": ask("cuDriverGetVersion"),
    }
    for attribute in driver.CUdevice_attribute:
        result, value = driver.cuDeviceGetAttribute(attribute, device)
        if result == driver.CUresult.CUDA_SUCCESS:  # a driver older than the bindings does not know them all
            facts[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_").lower()] = value
    facts["max_portable_cluster_size"] = 8 if facts.get("cluster_launch") else 1
    ask("cuCtxSetCurrent", ask("cuDevicePrimaryCtxRetain", device))
    return {"facts": {**facts, **_clusters()}}


def _clusters() -> dict[str, int]:
    """How many clusters of each size run at once, as the driver counts them for a block with all shared memory."""
    from cutlass.utils import HardwareInfo

    info, found = HardwareInfo(), {}
    for size in range(1, _CLUSTERS + 1):
        try:
            found[f"max_active_clusters_{size}"] = int(info.get_max_active_clusters(size))
        except RuntimeError:  # a size that this GPU cannot run
            break
    return found


def main() -> None:
    """Read the device, reply, and end."""
    with os.fdopen(int(sys.argv[1]), "wb") as reply:
        try:
            answer = _read_device()
        except Exception as error:
            answer = {"error": f"the CUDA driver cannot be asked ({type(error).__name__}: {error})"}
        reply.write(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
