"""The child processes of builds, forked from processes that have imported the DSL or torch."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import BinaryIO

from precast.build.ipc import child_process
from precast.loader.contract.import_hook import after_import
from tests.helpers.forks.forked_process import ForkedProcess, NotServed
from tests.helpers.forks.server import COMPILER, ONCE, Request

_FORKED = {  # what is imported before each of them is forked
    **dict.fromkeys(
        ("precast.build.child.worker_main", "precast.build.child.describer_main", "precast.build.child.rehearser_main"),
        (COMPILER,),
    ),
    "precast.attach.builder.child.program_main": (COMPILER, "torch"),
    "precast.attach.builder.child.record_main": (COMPILER, "torch"),
    "precast.measure.child.emulation.emulator_main": ("torch", "precast.measure.child.emulation.emulator_main"),
    "precast.measure.child.on_gpu.launch_main": ("torch", "precast.measure.child.on_gpu.launch_main"),
}
_start_process = child_process.start_process


def fork_children() -> None:
    """From now on, this process forks the child processes of a build and the programs that it records, and compiles
    each variant once if that is set."""
    child_process.start_process = start_child  # type: ignore[assignment]
    if ONCE in os.environ:
        from precast.build import build_run

        vars(build_run)["sampled"] = lambda variants: frozenset()
    after_import({"precast.attach.builder.recorded_run": _fork_programs})


def _fork_programs(recorded_run: ModuleType) -> None:
    run_to_end = recorded_run.run_to_end

    def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
        module, *arguments = command[2:]
        if module not in _FORKED:
            return int(run_to_end(command, environment))
        request = Request(
            call=f"{module}:main",
            arguments=tuple(arguments),
            environment=dict(os.environ if environment is None else environment),
            folder=os.getcwd(),
            descriptors=(0, 1, 2),
            new_session=False,
        )
        try:
            return ForkedProcess(request, (0, 1, 2), _FORKED[module]).wait()
        except NotServed:
            return int(run_to_end(command, environment))

    vars(recorded_run)["run_to_end"] = run


def start_child(
    module: str, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes] | ForkedProcess, BinaryIO]:
    """What ``precast.build.ipc.child_process`` starts, forked if it imports the DSL or torch."""
    if module not in _FORKED:
        return _start_process(module, environment)
    with contextlib.ExitStack() as theirs:
        ends = [os.pipe() for _ in range(3)]
        (requests, stdin), (stdout, output), (replies, reply) = ends
        for descriptor in (requests, output, reply):
            theirs.callback(os.close, descriptor)
        wanted = max(3, reply)
        request = Request(
            call=f"{module}:main",
            arguments=("--reply-fd", str(wanted)),
            environment=dict(environment),
            folder=os.getcwd(),
            descriptors=(0, 1, 2, wanted),
            new_session=True,
        )
        try:
            process = ForkedProcess(request, (requests, output, output, reply), _FORKED[module])
        except NotServed:
            for descriptor in (stdin, stdout, replies):
                os.close(descriptor)
            return _start_process(module, environment)
    process.stdin, process.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
    return process, os.fdopen(replies, "rb", buffering=0)
