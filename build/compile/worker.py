"""A worker: the child process that compiles variants, one after the other, for one target and one environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from precast.build.gpu.profile import Profile
from precast.build.ipc.child_process import ChildProcess
from precast.build.ipc.environment import child_environment
from precast.loader.format.target import Target


class Worker(ChildProcess):
    """A process that compiles for one target under one environment, as if the profile's GPU were present.

    Modules are imported from the folders of ``search`` first. ``memory`` is what the process may take in bytes; 0 is
    no bound. Requests are made by ``precast.build.compile.outcome.request_for``.
    """

    def __init__(
        self, target: Target, env: Mapping[str, str], search: Sequence[Path], profile: Profile, *, memory: int = 0
    ) -> None:
        super().__init__(
            "worker_main",
            name="worker",
            settings={"search": [str(path) for path in search], "profile": profile.to_json()},
            environment=child_environment(os.environ, target=target, env=env),
            memory=memory,
        )
