"""A worker: the child process that compiles variants, one after the other, for one target and one environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from precast.build.gpu.profile import Profile
from precast.build.inputs.input_rules import InputRules
from precast.build.inputs.inputs import MOST_UNSTEADY
from precast.build.inputs.observation import Observation
from precast.build.ipc.child_inputs import answers_here
from precast.build.ipc.child_process import ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message
from precast.build.link.observer_library import observed_environment
from precast.build.link.toolchain import find_toolkit
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError, PrecastError

_GRACE = 30.0  # seconds
_MOST_BEFORE = 16  # a worker keeps fewer processes of modules


class Worker(ChildProcess):
    """A process that compiles for one target under one environment, as if the profile's GPU were present.

    Modules are imported from the folders of ``search`` first. ``memory`` is the number of bytes that the process may
    take; 0 means no limit. With ``warm_up`` it compiles a small kernel first, which saves time if at least two variants
    follow. ``precast.build.compile.outcome.request_for`` makes the requests. The
    ``rules`` decide which inputs a compilation has.
    """

    def __init__(
        self,
        target: Target,
        env: Mapping[str, str],
        search: Sequence[Path],
        profile: Profile,
        *,
        memory: int = 0,
        rules: InputRules | None = None,
        warm_up: bool = False,
    ) -> None:
        self._given = frozenset(env)
        self._rules = rules or InputRules(answers_here(search))
        self._before: dict[object, Observation] = {}  # what the process of each module had read before it compiled
        super().__init__(
            "worker_main",
            name="worker",
            settings={
                "search": [str(path) for path in search],
                "profile": profile.to_json(),
                "warm_up": warm_up,
                "toolkit": find_toolkit(),
            },
            environment=observed_environment(child_environment(os.environ, target=target, env=env)),
            memory=memory,
        )

    def receive(self, seconds: float) -> Message:
        """The next reply, or ChildLost. The worker itself ends a variant after so many seconds, and then replies."""
        reply = super().receive(seconds + _GRACE)
        header = dict(reply.header)
        try:
            if "observed_before" in header:
                self._keep(header.get("process"), Observation.parse(header.pop("observed_before")))
            if "observed" in header:
                header |= self._inputs(Observation.parse(header.pop("observed")), header.get("process"))
        except PrecastError as error:
            return Message({"error": str(error), "code": error.code, "request": header.get("request")})
        return Message(header, reply.parts)

    def _keep(self, process: object, observation: Observation) -> None:
        """Add to the observation of a module's process."""
        earlier = self._before.pop(process, None)
        while len(self._before) >= _MOST_BEFORE:
            self._before.pop(next(iter(self._before)))
        self._before[process] = earlier.and_then(observation) if earlier else observation

    def _inputs(self, observation: Observation, process: object) -> dict[str, object]:
        """The inputs of a variant: what its process has read, and what its module's process had read before."""
        if process not in self._before:
            raise FormatError("the worker did not report what it had read before")
        inputs, unsteady = self._rules.inputs_of(observation, self._given, before=self._before[process])
        return {"inputs": inputs.to_json(), "unsteady": [str(item) for item in unsteady[:MOST_UNSTEADY]]}
