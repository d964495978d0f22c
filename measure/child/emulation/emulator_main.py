"""The emulating process: it verifies artifacts of a cache without a GPU. A crash of host code ends only it.

``precast.measure.verification.emulations`` starts it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from precast.build.child.recording_runtime import RecordingRuntime
from precast.build.child.serve import Answer, serve
from precast.build.ipc.message import Message
from precast.emulator import Unsupported
from precast.kernels.authoring.tensors import emulated_multiprocessors
from precast.loader.contract.format.artifact import Artifact
from precast.loader.errors import IntegrityError
from precast.loader.resolve.cache import Cache
from precast.measure.checks.check import Check
from precast.measure.child.emulation.emulated_kernel import EmulatedKernel
from precast.measure.child.emulation.opener import EmulatedOpener
from precast.measure.child.emulation.problems import Emulated, emulate
from precast.measure.launching.cases import declaration_for


def main() -> None:
    """Serve requests to emulate."""
    serve(start)


def start(settings: Mapping[str, Any]) -> Answer:
    """Open the cache, and return the function that verifies its artifacts."""
    import torch

    torch.set_num_threads(settings["threads"])
    cache = Cache(Path(settings["cache"]))
    runtime = RecordingRuntime(settings["ffi"], settings["recorder"])
    opener = EmulatedOpener(cache, runtime, Path(settings["folder"]))

    def answer(request: Mapping[str, Any]) -> Message:
        op, key = request["op"], request["key"]
        artifact = next((a for a in cache.op(op).artifacts if a.key == key), None)
        if artifact is None:
            raise IntegrityError(f"{cache.path} was replaced while this ran: run it again")
        declaration = declaration_for(op, artifact)
        checks: list[Check] = []
        instructions = 0
        try:
            written = {*declaration.outputs, *declaration.workspace}
            kernel = _opened(opener, cache, op, artifact, request, written)
            with emulated_multiprocessors(kernel.options.multiprocessors):
                for check in emulate(kernel, declaration, artifact.config, Emulated.parse(request)):
                    if kernel.spent.refused:
                        return _refused(kernel.spent.refused)
                    checks.append(check)
            instructions = kernel.spent.counts.instructions
        except Unsupported as error:
            return _refused(error)
        return Message({"checks": [check.to_json() for check in checks], "instructions": instructions})

    return answer


def _opened(
    opener: EmulatedOpener,
    cache: Cache,
    op: str,
    artifact: Artifact,
    request: Mapping[str, Any],
    written: Collection[str],
) -> EmulatedKernel:
    """An artifact as a kernel, or with those of the other ranks that must run with it."""
    if not request["ranks"]:
        return opener.open(op, artifact, request["ptx"], written=written, limit=request["limit"])
    artifacts = {each.key: each for each in cache.op(op).artifacts}
    ranks = [artifacts[key] for key, _ in request["ranks"]]
    return opener.open_ranks(op, ranks, [text for _, text in request["ranks"]], written=written, limit=request["limit"])


def _refused(error: Unsupported) -> Message:
    return Message({"refused": str(error), "opcode": error.opcode})


if __name__ == "__main__":
    main()
