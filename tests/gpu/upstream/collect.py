"""Write the manifest of what the suites ask for. No GPU is needed.

    python -m tests.gpu.upstream.collect FOLDER --quack CLONE --operators CLONE

CLONE is a clone of the library's repository. Afterwards:

    precast build FOLDER/suites.yaml -o FOLDER/cache
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.gpu.upstream.asked import Asked, unsupported
from tests.gpu.upstream.suites import CLONES, SUITES

TARGET = "sm_90a"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name, clone in CLONES.items():
        parser.add_argument(f"--{name}", type=Path, metavar="CLONE", help=f"of {clone.repository}; else as it was")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    for name, clone in CLONES.items():
        if (git_dir := getattr(options, name)) is not None:
            clone.extract(git_dir, folder / name)
    asked: dict[str, Asked] = {}
    for suite in SUITES:
        path = folder / f"{suite.name.replace(' ', '-')}.json"
        command = [*suite.command(sys.executable, folder, "collecting"), f"--requests={path}"]
        subprocess.run(command, env=suite.environment(folder, CUTE_DSL_ARCH=TARGET), check=False)
        found = json.loads(path.read_text())
        requests = [Asked(**one) for one in found["asked"]]
        asked.update({str(one): one for one in requests})
        print(f"{suite.name}: {len(requests)} variants")
        for reason in found["outside"]:
            print(f"  not applicable: {reason}")
        for test, stopped in found["silent"].items():
            print(f"  asks for nothing: {test}: {stopped}")
    kept = []
    for one in asked.values():
        if reason := unsupported(one, TARGET):
            print(f"refused: {one}: {reason}")
        else:
            kept.append(one)
    (folder / "suites.yaml").write_text(manifest(kept))
    print(f"{len(kept)} variants in {folder / 'suites.yaml'}")


def manifest(asked: Iterable[Asked]) -> str:
    """One entry a variant.

    >>> print(manifest([Asked("scale", {"dtype": "float32"}, {"tile": [8, 8]})]), end="")
    version: 1
    name: suites
    targets: [sm_90a]
    kernels:
    - {"kernel": "scale", "config": {"dtype": "float32"}, "tuned": {"tile": [[8, 8]]}}
    """
    lines = ["version: 1", "name: suites", f"targets: [{TARGET}]", "kernels:"]
    for one in asked:
        entry: dict[str, Any] = {"kernel": one.op, "config": one.config}
        if tuned := _given(one.tuned):
            entry["tuned"] = tuned
        lines.append(f"- {json.dumps(entry)}")
    return "\n".join(lines) + "\n"


def _given(tuned: Mapping[str, Any]) -> dict[str, Any]:
    """Tuned keys as a manifest has them: lists of values, and none where the default, None, is meant."""
    return {name: [value] if isinstance(value, list) else value for name, value in tuned.items() if value is not None}


if __name__ == "__main__":
    main()
