"""What the first ``get`` of a cache costs: seconds of the processor, and memory, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.helpers.hostile.sizes import HostileCache

LIMIT = 400.0  # seconds
TARGET = "sm_90a"
CHILD = """
import json, resource, sys, time
from precast import loader
from precast.loader.errors import PrecastError
from precast.loader.fast_start.zstandard_backend import zstandard_backend
import precast.loader.resolve.judge, precast.loader.resolve.not_found, hashlib, difflib
zstandard_backend()
path, op, config, problem, target = json.loads(sys.argv[1])
def peak():
    text = open("/proc/self/status").read()
    return int(text.split("VmHWM:")[1].split()[0]) << 10
before, begun = peak(), time.process_time()
session = loader.Session(search=path)
loader.use(session)
def get():
    try:
        return loader.get(op, config, target=target, problem=problem).artifact.key[:12]
    except PrecastError as error:
        return type(error).__name__ + " " + str(error)
answer = get()
seconds, memory = time.process_time() - begun, peak() - before
again = 0.0
if config.get("hidden", 0) > 64 and not answer[0].isupper():
    config = {**config, "hidden": config["hidden"] - 64 * 1000}
    session.sources(op)
    begun = time.process_time()
    get()
    again = time.process_time() - begun
print(json.dumps({"seconds": seconds, "memory": memory, "again": again, "answer": answer[:4000]}))
"""


def in_python(case: HostileCache, root: Path) -> dict[str, Any]:
    """One ``get`` of a fresh process."""
    request = json.dumps([str(root), case.op, case.config, case.problem, TARGET])
    try:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, request], capture_output=True, text=True, check=False, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return {"seconds": LIMIT, "memory": 0, "again": 0.0, "answer": "no answer"}
    if done.returncode:
        return {"seconds": 0.0, "memory": 0, "again": 0.0, "answer": done.stderr[-300:]}
    result: dict[str, Any] = json.loads(done.stdout)
    return result
