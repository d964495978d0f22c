"""A worker: the child process that compiles variants, one after the other, for one target and one environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from precast.build.disk.memo import Memo
from precast.build.gpu.profile import Profile
from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.input_rules import InputRules
from precast.build.inputs.inputs import MOST_UNSTEADY
from precast.build.inputs.observation import Observation
from precast.build.inputs.roots import Roots
from precast.build.ipc.child_process import ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message
from precast.loader.errors import PrecastError
from precast.loader.format.target import Target

_GRACE = 30.0  # seconds


class Worker(ChildProcess):
    """A process that compiles for one target under one environment, as if the profile's GPU were present.

    Modules are imported from the folders of ``search`` first. ``memory`` is what the process may take in bytes; 0 is
    no bound. Requests are made by ``precast.build.compile.outcome.request_for``. What a compilation read comes as
    inputs, by the ``rules`` of the build, or of this moment.
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
    ) -> None:
        self._given = frozenset(env)
        self._rules = rules or InputRules(answers_here(search))
        super().__init__(
            "worker_main",
            name="worker",
            settings={"search": [str(path) for path in search], "profile": profile.to_json()},
            environment=child_environment(os.environ, target=target, env=env),
            memory=memory,
        )

    def receive(self, seconds: float) -> Message:
        """The next answer, or ChildLost. The worker bounds the seconds itself, and needs some to say so."""
        reply = super().receive(seconds + _GRACE)
        if "observed" not in reply.header:
            return reply
        header = dict(reply.header)
        try:
            inputs, unsteady = self._rules.inputs_of(Observation.parse(header.pop("observed")), self._given)
        except PrecastError as error:
            return Message({"error": str(error), "traceback": "", "request": header.get("request")})
        header |= {"inputs": inputs.to_json(), "unsteady": [str(one) for one in unsteady[:MOST_UNSTEADY]]}
        return Message(header, reply.parts)


def answers_here(search: Sequence[Path], memo: Memo | None = None) -> InputAnswers:
    """What the inputs of compilations on this machine are now."""
    return InputAnswers(Roots.here(search, child_environment(os.environ)), memo)
