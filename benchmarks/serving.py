"""What a start of ``examples/serving`` costs: ``python benchmarks/serving.py --cache CACHE --dsl DSL --json FILE``.

A process of the same code is started again and again, in turns: attached, with the kernels of CACHE; just-in-time; and
just-in-time with the disk caches of the libraries warm. Each with byte code at hand, and the first two without any.
Taken are the seconds from the start of the process until it listens, and until it has answered its first request, and
its memory then. The first round is not counted. DSL is a folder with the DSL unpacked, which this process must not
find. Rounds follow one another for ``--seconds``; the file is written after each run. Each round also has a process
that only imports torch, starts CUDA and makes the weights, which no service can do without: the floor.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
PORT = 8765
PROMPT = {"prompt": list(range(1, 201)), "tokens": 8}
_PATIENCE = 180.0
Run = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """How the service is started."""

    name: str
    kernels: str
    byte_code: bool = True
    disk_caches: bool = False


CASES = (
    Case("attached", "cache"),
    Case("just-in-time", "compile"),
    Case("libraries' disk caches", "compile", disk_caches=True),
    Case("attached, no byte code", "cache", byte_code=False),
    Case("just-in-time, no byte code", "compile", byte_code=False),
)
WARM = (CASES[0], CASES[2])  # what the first round needs
FLOOR = """
import torch
from serving.model import Weights
from serving.shape import LLAMA
Weights.random(LLAMA, "cuda", torch.bfloat16)
torch.cuda.synchronize()
print("ready", flush=True)
input()
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--dsl", type=Path, help="without it, only the attached cases are run")
    parser.add_argument("--seconds", type=float, default=150.0, help="no run begins later")
    parser.add_argument("--json", type=Path, required=True, help="all runs, after each")
    options = parser.parse_args(argv)
    if find_spec("cutlass") is not None:
        parser.error("the DSL is importable here: take it off PYTHONPATH, since attached runs go without it")
    cases = [case for case in CASES if options.dsl or case.kernels == "cache"]
    runs: list[Run] = []
    floor: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for turn, case in _turns(cases, time.monotonic() + options.seconds):
            variables = environment(case, options.cache, options.dsl, Path(folder))
            if case == CASES[0]:
                floor.append(run_floor(variables))
            found = run_once(case, variables)
            print(turn, floor[-1:], json.dumps(found), flush=True)
            if turn:  # the first one fills the disk caches, and writes byte code
                runs.append(found)
                text = json.dumps({"machine": machine(), "runs": runs, "floor": floor[1:]}, sort_keys=True, indent=1)
                options.json.write_text(text + "\n")
    print(table(runs))
    print(f"torch, CUDA and the weights alone: {len(floor) - 1} runs, {_cell(floor[1:])} s" if floor[1:] else "")
    return 1 if any("failed" in run for run in runs) else 0


def _turns(cases: Sequence[Case], end: float) -> Iterator[tuple[int, Case]]:
    """First what makes disk caches, and byte code of all; then rounds, of which every second one has the cases without
    byte code, which take the longest."""
    yield from ((0, case) for case in sorted(cases, key=lambda case: not case.disk_caches) if case in WARM)
    for turn in itertools.count(1):
        for case in cases:
            if time.monotonic() > end:
                return
            if case.byte_code or turn % 2 == 0:
                yield turn, case


def environment(case: Case, cache: Path, dsl: Path | None, folder: Path) -> dict[str, str]:
    """The variables of a process."""
    path = [str(EXAMPLES)]
    if case.kernels == "compile":
        path = [str(dsl / "nvidia_cutlass_dsl" / "dsl_packages"), str(dsl), *path] if dsl else path
    found = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    found["PYTHONPATH"] = os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])
    found["PYTHONPYCACHEPREFIX"] = str(folder / ("byte_code" if case.byte_code else "none"))
    if not case.byte_code:
        found["PYTHONDONTWRITEBYTECODE"] = "1"
    enabled = "1" if case.disk_caches else "0"
    return {
        **found,
        "PRECAST_CACHE_PATH": str(cache.resolve()),
        "QUACK_CACHE_ENABLED": enabled,
        "QUACK_CACHE_DIR": str(folder / "quack"),
        "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": enabled,
        "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": str(folder / "flash_attention"),
    }


def run_once(case: Case, environment: Mapping[str, str]) -> Run:
    """Start, ask, stop."""
    command = [sys.executable, "-m", "serving", "--kernels", case.kernels, "--port", str(PORT), "--drain", "0"]
    began = time.monotonic()
    process = subprocess.Popen(command, env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        while _ask("GET", "/healthz") is None:
            if process.poll() is not None or time.monotonic() - began > _PATIENCE:
                process.kill()
                return {"case": case.name, "failed": process.communicate()[1].decode()[-2000:]}
            time.sleep(0.005)
        listens = time.monotonic() - began
        first = _ask("POST", "/generate", PROMPT)
        answered = time.monotonic() - began
        again = time.monotonic()
        second = _ask("POST", "/generate", PROMPT)
        seconds = time.monotonic() - again
        memory = _memory(process.pid)
        phases = _phases((_ask("GET", "/metrics") or b"").decode())
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    found: Run = {
        "case": case.name, "listens": listens, "answered": answered, "second answer": seconds, "phases": phases,
        "memory": memory, "mark": json.loads(first or b"{}").get("mark"), "exit": status,
    }  # fmt: skip
    if first is None or first != second or status:
        found["failed"] = f"answers {first!r}, {second!r}, exit status {status}"
    return found


def run_floor(environment: Mapping[str, str]) -> float:
    """Seconds from the start of a process until the weights are made."""
    began = time.monotonic()
    command = [sys.executable, "-c", FLOOR]
    with subprocess.Popen(command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        seconds = time.monotonic() - began
        process.communicate(b"\n")
    if ready != b"ready\n":
        raise RuntimeError("torch, CUDA or the weights failed: see above")
    return seconds


def _ask(method: str, path: str, body: object = None) -> bytes | None:
    """The answer with status 200, or None."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=_PATIENCE)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
        return text if answer.status == 200 else None
    except OSError:
        return None
    finally:
        connection.close()


def _memory(pid: int) -> dict[str, float]:
    """Megabytes: resident now, of these not from files, and resident at most."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    names = {"resident": "VmRSS", "anonymous": "RssAnon", "most": "VmHWM"}
    return {name: int(lines[key].split()[0]) / 1024 for name, key in names.items()}


def _phases(metrics: str) -> dict[str, float]:
    lines = [line for line in metrics.splitlines() if line.startswith("service_start_seconds{")]
    return {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in lines}


def machine() -> dict[str, str]:
    """What it was measured on."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {"gpu": gpu, "torch": torch.__version__, "python": sys.version.split()[0]}


def table(runs: Sequence[Run]) -> str:
    """A line for each case: medians, and the least."""
    lines = [f"{'':<28}{'runs':>5}{'listens s':>18}{'first answer s':>18}{'resident MB':>13}{'anonymous MB':>14}"]
    for case in CASES:
        mine = [run for run in runs if run["case"] == case.name and "failed" not in run]
        if mine:
            cells = [_cell([run[name] for run in mine]) for name in ("listens", "answered")]
            megabytes = [median(run["memory"][name] for run in mine) for name in ("resident", "anonymous")]
            lines.append(
                f"{case.name:<28}{len(mine):>5}{cells[0]:>18}{cells[1]:>18}{megabytes[0]:>13.0f}{megabytes[1]:>14.0f}"
            )
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
