"""Information about a Python: its version, and the folders that it imports from."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from precast.build.errors import ToolchainError
from precast.build.interpreter import Interpreter
from precast.loader.contract.format import fields
from precast.loader.errors import FormatError

_SECONDS = 120
_SCRIPT = """
import json, os, platform, sys
version = f"{platform.python_implementation()} {'.'.join(map(str, sys.version_info[:3]))}"
folder = os.path.dirname(os.path.abspath(os.__file__))
print("\\n" + json.dumps({"version": version, "standard": folder, "path": [one for one in sys.path if one]}))
"""


@dataclass(frozen=True, slots=True)
class InterpreterInfo:
    """A Python's version, the folder of its standard library, and its path."""

    version: str
    standard: str
    path: tuple[str, ...]

    @property
    def number(self) -> str:
        """The version alone.

        >>> InterpreterInfo("CPython 3.12.1", "", ()).number
        '3.12.1'
        """
        return self.version.rpartition(" ")[2]


@functools.lru_cache(maxsize=64)
def inspect_interpreter(program: str, own_code: Path | None = None) -> InterpreterInfo:
    """Run a Python to inspect it. It is isolated like a toolchain's processes, except for precast in ``own_code``.

    >>> import sys
    >>> inspect_interpreter(sys.executable).number == ".".join(map(str, sys.version_info[:3]))
    True
    """
    alone = Interpreter(executable=program, version="", standard="", path=(), precast=str(own_code or ""))
    environment = {**alone.environment(os.environ), "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(
            [program, "-c", _SCRIPT], env=environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=_SECONDS, check=True,
        )  # fmt: skip
        data = fields.as_object(json.loads(done.stdout.splitlines()[-1]))
        return InterpreterInfo(
            fields.get(data, "version", str),
            fields.get(data, "standard", str),
            fields.items(data, "path", fields.text, most=1000),
        )
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, FormatError) as error:
        detail = getattr(error, "stderr", "") or error
        raise ToolchainError(f"{program} does not run: {str(detail).strip()[-500:]}") from None
