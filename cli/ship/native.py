"""Compile libprecast, which loads kernels in programs without Python.

DIR gets include/precast.h, lib/libprecast.so and a file for pkg-config. This host's gcc compiles the library, for
this host; it needs libc alone. docs/native.md describes its use.
"""

from __future__ import annotations

from precast.cli.shared import options
from precast.cli.shared.output import print_result


def command(output: options.OutputFolder, as_json: options.Json = False) -> None:
    from precast.build.native.libprecast import write_library

    files = write_library(output)
    print_result({"files": [str(path) for path in files]}, "\n".join(map(str, files)), as_json)
