"""A worker: the child process that compiles variants, one after the other, for one target and one environment."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from precast.build.errors import UndeclaredInput
from precast.build.gpu.profile import Profile
from precast.build.inputs.closure import Closure, Closures, Reads, named_modules, reads_of
from precast.build.ipc.child_process import ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message
from precast.build.link.toolchain import find_toolkit
from precast.loader.contract.format import fields
from precast.loader.contract.format.target import Target
from precast.loader.errors import PrecastError

_GRACE = 30.0  # seconds


class Worker(ChildProcess):
    """A process that compiles for one target under one environment, as if the profile's GPU were present.

    Modules are imported from the folders of ``search`` first. ``memory`` is the number of bytes that the process may
    take; 0 means no limit. With ``warm_up`` it compiles a small kernel first, which saves time if at least two variants
    follow. ``precast.build.compile.outcome.request_for`` makes the requests, and ``closures`` decide what each of them
    may read.
    """

    def __init__(
        self,
        target: Target,
        env: Mapping[str, str],
        search: Sequence[Path],
        profile: Profile,
        *,
        memory: int = 0,
        closures: Closures | None = None,
        warm_up: bool = False,
    ) -> None:
        self._closures = closures or Closures.here(search)
        self._sent_closures: dict[str, Closure] = {}
        self._waiting: deque[Closure] = deque()  # of the requests without a reply
        super().__init__(
            "precast.build.child.worker_main",
            name="worker",
            settings={
                "search": [str(path) for path in search],
                "profile": profile.to_json(),
                "warm_up": warm_up,
                "toolkit": find_toolkit(),
            },
            environment=child_environment(os.environ, target=target, env=env),
            memory=memory,
        )

    def with_closure(self, request: Message) -> Message:
        """A request with what its compilation may read. One that this process was sent before is only named."""
        closure = self._closures.of([_reads(request.header)])
        settings = {} if closure.digest in self._sent_closures else closure.to_json()
        return Message({**request.header, "closure": {"id": closure.digest, **settings}}, request.parts)

    def send(self, request: Message) -> None:
        """Send a request, with what its compilation may read."""
        if "source" in request.header:
            closure = self._closures.of([_reads(request.header)])
            request = request if "closure" in request.header else self.with_closure(request)
            self._sent_closures[closure.digest] = closure
            self._waiting.append(closure)
            self.read_inputs(request.header)
        super().send(request)

    def read_inputs(self, request: Mapping[str, object]) -> None:
        """Read the inputs of a request, before it compiles: what changes from then on is seen at its end."""
        self._closures.read(self._closures.of([_reads(request)]))

    def receive(self, seconds: float) -> Message:
        """The next reply, or ChildLost. The worker itself ends a variant after so many seconds, and then replies.

        A reply with objects gets the values that the inputs had when it was sent. If one has changed since, the reply
        is an error.
        """
        reply = super().receive(seconds + _GRACE)
        closure = self._waiting.popleft()
        header = dict(reply.header)
        try:
            if "error" not in header:
                copies = fields.get(header, "copies", dict, default={})
                header["inputs"] = self._closures.inputs(closure, copies).to_json()
            elif isinstance(name := header.get("missing"), str):
                for file in self._closures.sources.find(name)[-1:]:
                    owner = self._closures.answers.installation.owner(str(file))
                    raise UndeclaredInput.of_module(name, str(file), owner)
        except PrecastError as error:
            return Message({**header, "error": str(error), "code": error.code})
        return Message(header, reply.parts)


def _reads(request: Mapping[str, object]) -> Reads:
    """What decides what the compilation of a request may read."""
    declared, imports = request.get("inputs", ()), request.get("imports", ())
    assert isinstance(declared, Iterable) and isinstance(imports, Iterable)
    return reads_of(str(request["source"]), declared, (*imports, *named_modules(request["config"])))
