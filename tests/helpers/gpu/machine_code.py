"""The instructions of an artifact's device code, as cuobjdump prints them."""

from __future__ import annotations

import re
import struct
import subprocess
import sysconfig
from collections import Counter
from pathlib import Path
from typing import Any

from precast.loader.resolve.cache import Cache

_CUOBJDUMP = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "cuobjdump"
_HEADER = struct.Struct("<IHHQ")  # of a container of device code: magic, version, bytes of the header and of the rest
_MAGIC = _HEADER.pack(0xBA55ED50, 1, 16, 0)[:8]
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?\w+ )?([A-Z][A-Z0-9_.x]*)", re.MULTILINE)


def instructions(cache: Path, artifact: Any, folder: Path) -> Counter[str]:
    """How often each instruction stands in the kernels of an artifact."""
    library = Cache(cache).read(artifact.blob)
    found: Counter[str] = Counter()
    for start in (match.start() for match in re.finditer(re.escape(_MAGIC), library)):
        _, _, head, rest = _HEADER.unpack_from(library, start)
        file = folder / "code.fatbin"
        file.write_bytes(library[start : start + head + rest])
        printed = subprocess.run([_CUOBJDUMP, "-sass", file], check=True, capture_output=True, text=True, timeout=60)
        found.update(_INSTRUCTION.findall(printed.stdout))
    assert found, "the library holds device code"
    return found
