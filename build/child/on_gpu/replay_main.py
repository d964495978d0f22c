"""The replaying process: it makes one dumped call, which may crash it.

``precast replay`` starts it, and reports how it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precast.build.child.serve import serve
from precast.build.ipc.message import Message
from precast.kernels.authoring.declare import Declaration
from precast.kernels.authoring.launching.cases import declaration_for
from precast.kernels.authoring.replay import replay
from precast.loader import KernelOpener
from precast.loader.contract.diagnostics.dump_folder import read_dump
from precast.loader.contract.format.artifact import Artifact
from precast.loader.errors import PrecastError
from precast.loader.machine.machine import Machines
from precast.loader.resolve.cache import Cache


def main() -> None:
    """Serve requests to replay a call."""
    serve(lambda settings: answer)


def answer(request: Mapping[str, Any]) -> Message:
    """Make the call of the folder ``call`` with its kernel in the cache ``cache``, and compare its outputs."""
    folder = Path(request["call"])
    dump, cache, machines = read_dump(folder), Cache(Path(request["cache"])), Machines()
    artifact = next(artifact for artifact in cache.op(dump.op).artifacts if artifact.key == dump.key)
    # A call whose tensors are all in host memory needs no device: the target replaces it.
    target = str(artifact.target) if dump.on_host else None
    opener = KernelOpener(lambda device: machines.on(device) if target is None else machines.for_target(target))
    kernel = opener.open(cache, dump.op, artifact)
    declaration, unknown = _declaration(dump.op, artifact)
    outputs = replay(kernel, dump, folder, declaration)
    return Message({"outputs": [output.to_json() for output in outputs], "unknown": unknown})


def _declaration(op: str, artifact: Artifact) -> tuple[Declaration | None, str]:
    """The declaration of the function that an artifact was built from, or the reason why it cannot be read."""
    try:
        return declaration_for(op, artifact), ""
    except (PrecastError, ImportError) as error:
        return None, f"its author's declaration cannot be read ({error})"


if __name__ == "__main__":
    main()
