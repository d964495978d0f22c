"""A small project whose kernel module is imported under the observer, in a process of its own."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precast.build.disk.memo import Memo
from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.input_rules import InputRules, Unsteady
from precast.build.inputs.inputs import Inputs
from precast.build.inputs.observation import Observation
from precast.build.inputs.roots import Roots
from precast.build.link.observer_library import find_observer, observed_environment

_CHILD = """
import json, site, sys
out, search, installed = sys.argv[1:]
sys.path[:] = [one for one in sys.path if one]
site.addsitedir(installed)
path = list(sys.path)
from precast.build.child.observe.observer import Observer
observer = Observer().install()
sys.path.insert(0, search)
import kernel
observed = observer.observed()
with open(out, "w") as file:
    json.dump({"path": path, "observed": observed, "value": getattr(kernel, "VALUE", None)}, file)
"""


class ObservedProject:
    """Folders of a user: ``search`` with ``kernel.py``, ``site`` with distributions, ``tools`` on ``PYTHONPATH``."""

    def __init__(self, folder: Path, *, native: bool = True) -> None:
        self.folder = folder
        self._native = native  # whether the observer's library is loaded, as in a build
        self.search = self._make("search")
        self.site = self._make("venv/site-packages")
        self.tools = self._make("tools")
        self.home = self._make("home")
        self.temporary = self._make("temporary")
        self.memo = Memo(self._make("memo"))
        self.variables: dict[str, str] = {}
        self.path: list[str] = []
        self.value: Any = None

    def _make(self, name: str) -> Path:
        (self.folder / name).mkdir(parents=True)
        return self.folder / name

    @property
    def environment(self) -> dict[str, str]:
        return {
            **{name: os.environ[name] for name in ("PATH",)},
            "PYTHONPATH": str(self.tools),
            "PYTHONSAFEPATH": "1",
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            **self.variables,
        }

    def write(self, files: Mapping[str, str], folder: Path | None = None) -> None:
        """Write files below a folder; the search folder unless another is named."""
        for name, text in files.items():
            path = (folder or self.search) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def install(self, name: str, version: str, files: Mapping[str, str], *extra: str) -> None:
        """Install a distribution as pip does, with a list of its files."""
        info = f"{name}-{version}.dist-info"
        everything = {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}
        self.write(everything, self.site)
        rows = [f"{file},{_recorded(text)},{len(text)}" for file, text in everything.items()]
        self.write({f"{info}/RECORD": "\n".join([*rows, *extra, f"{info}/RECORD,,", ""])}, self.site)

    def observe(self) -> Observation:
        """Import the kernel in a new process."""
        out = self.folder / "observed.json"
        command = [sys.executable, "-c", _CHILD, str(out), str(self.search), str(self.site)]
        environment = observed_environment(self.environment) if self._native else self.environment
        assert find_observer().path, find_observer().reason
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        data = json.loads(out.read_text())
        self.path, self.value = data["path"], data["value"]
        return Observation.parse(data["observed"])

    def answers(self) -> InputAnswers:
        """What the inputs are now."""
        return InputAnswers(Roots([self.search], self.path, self.environment), self.memo)

    def build(self) -> tuple[Inputs, tuple[Unsteady, ...]]:
        """Observe, and find the inputs."""
        observation = self.observe()
        return InputRules(self.answers()).inputs_of(observation)

    def inputs(self, reported: tuple[str, ...] = ()) -> Inputs:
        """The inputs of a kernel, whose unsteady requests are of these kinds."""
        inputs, unsteady = self.build()
        assert tuple(item.kind for item in unsteady) == reported, unsteady
        return inputs

    def changed(self, inputs: Inputs) -> tuple[str, ...]:
        """The inputs that are others now; nothing runs."""
        return inputs.changed(self.answers().answers(inputs.names))


def _recorded(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
