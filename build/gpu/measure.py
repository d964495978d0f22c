"""Measuring: the profile of this machine's GPU, read in a child process so that this one never starts CUDA."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from precast.build.errors import ToolError
from precast.build.gpu.profile import Profile, parse_facts
from precast.build.ipc.child_process import ChildLost, ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message
from precast.loader.contract.format import fields
from precast.loader.contract.format.target import Capability
from precast.loader.errors import FormatError

_SECONDS = 300.0
_ADVICE = "run on a machine with a GPU of the target, or name its profile with --profile"


def measure() -> Profile:
    """The profile of this machine's first GPU; raises ToolError with the reason if there is none."""
    environment = child_environment(os.environ, gpu=True)
    try:
        with ChildProcess(
            "precast.build.child.measure_main", name="measuring process", settings={}, environment=environment
        ) as child:
            child.send(Message({}))
            return profile_from(child.receive(_SECONDS).header)
    except ChildLost as lost:
        printed = f"; it last printed: {lost.output.strip()[-1000:]}" if lost.output.strip() else ""
        raise ToolError(f"reading the GPU's properties failed: {lost}{printed}: {_ADVICE}") from None


def profile_from(reply: Mapping[str, Any]) -> Profile:
    """The profile that a child's reply describes.

    >>> facts = {"name": "GPU", "compute_capability_major": 9, "compute_capability_minor": 0}
    >>> str(profile_from({"facts": facts}))
    'GPU, read from a device'
    """
    try:
        if "error" in reply:
            raise ToolError(f"--profile-from-device: {fields.get(reply, 'error', str)}: {_ADVICE}")
        facts = parse_facts(reply.get("facts"), "read from a device")
        capability = Capability(
            fields.count(reply["facts"], "compute_capability_major", most=99),
            fields.count(reply["facts"], "compute_capability_minor", most=9),
        )
        name = fields.get(reply["facts"], "name", str)
    except (FormatError, KeyError) as error:
        raise ToolError(f"reading the GPU's properties failed: {error}: {_ADVICE}") from None
    return Profile(name=name, capability=capability, facts=facts, measured=True)
