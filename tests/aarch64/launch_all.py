"""Resolve, open and call every variant of the installed caches, where there is no compiler. Started by ``run.py``.

Without a GPU a call must end in NoCudaDevice. The loader must have its native call path, which alone launches cubins.
"""

from __future__ import annotations

import importlib.util
import platform
import sys

from precast import loader
from precast.loader.launch.callpath import missing


def main(target: str) -> None:
    """Open all, call all; any other end than NoCudaDevice is an error."""
    assert importlib.util.find_spec("cutlass") is None, "the compiler is installed"
    assert missing() is None, missing()
    opened = called = 0
    for op in loader.ops():
        for variant in loader.variants(op):
            kernel = loader.get(op, variant.config, target=target)
            opened += 1
            try:
                kernel(*[0] * 3)
            except loader.NoCudaDevice:
                called += 1
    assert opened and called == opened, f"{opened} opened, {called} called up to the launch"
    variants = f"{opened} variant{'' if opened == 1 else 's'}"
    print(f"{platform.machine()}: {variants} resolved, opened and called up to the launch, without the compiler")


if __name__ == "__main__":
    main(sys.argv[1])
