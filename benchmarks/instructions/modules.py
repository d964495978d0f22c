"""Assembles the modules of all measured instructions: `python -m instructions.modules FOLDER [PTXAS]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from . import functions, products
from .case import HEADER, cases


def scalar_ptx() -> str:
    """One module with a kernel `probe_N` for each scalar case."""
    kernels = (case.ptx()[len(HEADER) :].replace("entry probe", f"entry probe_{i}") for i, case in enumerate(cases()))
    return HEADER + "".join(kernels)


def main() -> int:
    """Writes PTX and cubins."""
    folder = Path(sys.argv[1])
    ptxas = sys.argv[2] if len(sys.argv) > 2 else "ptxas"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("scalar", scalar_ptx()), ("functions", functions.ptx()), ("products", products.ptx())):
        source = folder / f"{name}.ptx"
        source.write_text(text)
        subprocess.run([ptxas, "-arch=sm_90a", str(source), "-o", str(folder / f"{name}.cubin")], check=True)
        source.unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
