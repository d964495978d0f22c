"""The process that names the files in which attached libraries keep kernels on disk, without a GPU.

``precast.build.harvest.file_names`` starts it, with empty folders for the caches of the libraries. A request has keys;
the reply has the files of each. Nothing is compiled, and no file of a cache is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precast.build.child.serve import Answer, serve
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.ipc.message import Message
from precast.loader.contract.recordings.recording import Recorded
from precast.loader.errors import PrecastError


def main() -> None:
    """Serve requests of a harvest."""
    serve(start)


def start(settings: Mapping[str, Any]) -> Answer:
    """Install the GPU of a profile, and return the function that names files."""
    from precast.build.child.stand_in.fake_gpu import install_fake_gpu

    install_fake_gpu(FactRecorder(**settings["profile"]))
    root = Path(settings["root"])
    return lambda request: Message({"rows": [row(Recorded.parse(key), root) for key in request["keys"]]})


def row(recorded: Recorded, root: Path) -> dict[str, Any]:
    """The files of one key, or the reason why they have no names."""
    from precast.kernels.adapters.disk_caches import files_of

    try:
        return {"files": [file.to_json() for file in files_of(recorded, root)]}
    except PrecastError as error:
        return {"error": str(error)}
    except (Exception, SystemExit) as error:
        return {"error": f"naming its file failed with {type(error).__name__}: {str(error)[:300]}"}


if __name__ == "__main__":
    main()
