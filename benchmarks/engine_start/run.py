"""All starts of ``cells.py`` on a machine with a Hopper GPU: ``python run.py TOP`` sets up once and runs what is left.

TOP has the folders ``site`` and ``dsl``, which ``pieces.py`` unpacked. The Python that runs this is 3.12 with torch,
whose copies of NVIDIA's libraries are used. Each cell leaves a file in TOP/results as soon as it ends, and ``--out``
gets an archive of all; a run that is cut off is continued by the same command. With ``--gpus 0 1`` cells that share no
caches run side by side, each on a GPU of its own: they share the processors, so compare times of one run only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from threading import Lock
from typing import Any

from cells import CELLS, Cell, begins_empty, left

HERE = Path(__file__).resolve().parent
URL = "http://127.0.0.1:8123"
KEPT = ("machine.json", "results", "logs")
QUIET = {
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0", "PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK": "1", "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false", "VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_IFNAME": "lo", "VLLM_WORKER_MULTIPROC_METHOD": "spawn", "USER": "someone",
}  # fmt: skip
FACTS = {
    "vllm": """
import vllm, vllm._custom_ops, vllm.v1.engine.llm_engine, vllm.v1.worker.gpu_worker, vllm.model_executor.models.gemma4
import vllm.entrypoints.openai.api_server, vllm.model_executor.warmup.kernel_warmup, torch._inductor.compile_fx
""",
    "sglang": """
import sglang.srt.entrypoints.engine, sglang.srt.managers.scheduler, sglang.srt.models.llama, torch._inductor.compile_fx
""",
}
VERSIONS = """
import importlib.metadata, json, platform, sys, torch, transformers, triton, tvm_ffi
names = (sys.argv[1], "torch", "triton", "apache-tvm-ffi", "precast-loader")
versions = {name: importlib.metadata.version(name) for name in names}
gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"
print(json.dumps({"gpu": gpu, "python": platform.python_version(), **versions}))
"""
COMPILER = "import cutlass, cutlass.cute; print(json.dumps({'nvidia-cutlass-dsl': cutlass.__version__}))"


class Machine:
    """The folders below TOP."""

    def __init__(self, top: Path) -> None:
        self.top = top.resolve()
        self.python = self.top / "venv" / "bin" / "python"
        self.site = self.top / "venv" / "lib" / "python3.12" / "site-packages"
        self.results, self.logs = self.top / "results", self.top / "logs"

    @property
    def engine(self) -> str:
        """The engine whose environment it is."""
        return "vllm" if (self.site / "vllm").exists() else "sglang"

    def environment(self, cell: Cell, gpu: int = 0) -> dict[str, str]:
        """The variables of a cell."""
        home = self.home(cell)
        taken = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "LANG")
        variables = {name: os.environ[name] for name in taken if name in os.environ} | QUIET
        variables |= {name: str(home) for name in ("HOME", "XDG_CACHE_HOME", "FLASHINFER_WORKSPACE_BASE", "TMPDIR")}
        if cell.bare:
            if cell.engine == "vllm":
                variables["PATH"] = str(self.top / "without_compilers")
        else:
            variables |= {f"{name}_DIR": str(home / name) for name in ("TRITON_CACHE", "TORCHINDUCTOR_CACHE")}
            variables["VLLM_CACHE_ROOT"] = str(home / "vllm")
        variables |= {
            "EVENTS": str(self.events(cell)),
            "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(cell.process != "one")),
        }
        variables |= {"START": str(time.time()), "CUDA_VISIBLE_DEVICES": str(gpu), "PRECAST_CUDA": "13"}
        path = [self.top / "tools"] if cell.makes else []
        if cell.compiler:
            path += [self.top / "dsl", self.top / "dsl" / "nvidia_cutlass_dsl" / "dsl_packages"]
        if cell.attached:
            variables |= {"PRECAST_ATTACH": f"{cell.engine},quack,flashinfer", "PRECAST_ATTACH_MODE": "frozen"}
            path.append(self.top / cell.wheel)
        return variables | {"PYTHONPATH": ":".join(map(str, path))}

    def home(self, cell: Cell) -> Path:
        """The folder of a cell's caches: nvcc, which SGLang starts, takes no comma in TMPDIR."""
        return self.top / "caches" / re.sub(r"[^a-zA-Z0-9]+", "-", cell.caches)

    def events(self, cell: Cell) -> Path:
        """The file to which the processes of a cell append what happens."""
        return self.logs / f"{cell.name}.events"

    def set_up(self) -> None:
        """Make the environment of what was unpacked, and import it once: the first import reads files from the disk."""
        began = time.time()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.top / "venv"], check=True)
        if (self.top / "site").exists():
            self.site.rmdir()
            (self.top / "site").rename(self.site)
        libraries = Path(sysconfig.get_paths()["purelib"], "nvidia")
        for folder in libraries.iterdir():
            if folder.is_dir() and not (self.site / "nvidia" / folder.name).exists():
                (self.site / "nvidia" / folder.name).symlink_to(folder)
        for model in (HERE / "models").iterdir():
            write_tokenizer(shutil.copytree(model, self.top / "models" / model.name, dirs_exist_ok=True))
        compile_all = [self.python, "-m", "compileall", "-q", "-j", "0", self.site, self.top / "dsl"]
        subprocess.run(compile_all, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        print(f"set up in {time.time() - began:.0f} s", flush=True)
        self.logs.mkdir(exist_ok=True)
        hide_compilers(self.top / "without_compilers")
        facts = self.ask(FACTS[self.engine] + VERSIONS, CELLS[0]) | self.ask(f"import json; {COMPILER}", CELLS[0])
        (self.top / "machine.json").write_text(json.dumps(facts))
        self.results.mkdir()
        print(f"set up and imported in {time.time() - began:.0f} s:", facts, flush=True)

    def ask(self, code: str, cell: Cell) -> dict[str, Any]:
        """What a program in a cell's environment prints."""
        environment = self.environment(cell)
        Path(environment["HOME"]).mkdir(parents=True, exist_ok=True)
        program = [self.python, "-c", code, self.engine]
        done = subprocess.run(program, env=environment, cwd=self.logs, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def start(self, cell: Cell, gpu: int) -> dict[str, Any]:
        """Run a cell and return its result."""
        home = self.home(cell)
        if begins_empty(cell):
            shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True, exist_ok=True)
        events, written = self.events(cell), self.logs / f"{cell.name}.result.json"
        for file in (events, written):
            file.unlink(missing_ok=True)
        environment, model = self.environment(cell, gpu), str(self.top / "models" / cell.model)
        limit = 2 * cell.seconds + 60
        words = ["-m", "vllm.entrypoints.cli.main", "serve", model, *SERVER]
        if cell.process != "server":
            program = "engine.py" if cell.engine == "vllm" else f"engine_{cell.engine}.py"
            words = [str(HERE / program), str(written), model, *(["--graph"] if cell.graph else [])]
            words += ["--option", cell.option] if cell.option else []
        if cell.makes:
            words = [str(HERE / "recorded.py"), str(self.top), cell.makes, *words]
        if cell.user:
            events.touch()
            written.touch()
            for path in (home, events, written):
                os.chown(path, cell.user, cell.user)
        with (self.logs / f"{cell.name}.log").open("w") as log:
            began = time.time()
            program = [self.python, *words]
            # Not in a checkout of precast: transformers would import its folder kernels.
            process = subprocess.Popen(
                program, env=environment, cwd=self.logs, stdout=log, stderr=log, start_new_session=True,
                user=cell.user or None, group=cell.user or None, extra_groups=[] if cell.user else None,
            )  # fmt: skip
            try:
                if cell.process == "server":
                    result = ask_server(process, began, limit, model)
                else:
                    process.wait(limit)
                    text = written.read_text() if written.exists() else ""
                    result = json.loads(text) if text else {"failed": "left no result"}
                    if process.returncode:
                        result.setdefault("failed", f"exit status {process.returncode}")
            except subprocess.TimeoutExpired:
                result = {"failed": f"stopped after {limit} s"}
            finally:
                stop(process)
        lines = events.read_text().splitlines() if events.exists() else []
        result |= {"cell": cell.name, "took": time.time() - began}
        return result | {"events": [json.loads(line) for line in lines]}


SERVER = [
    "--load-format", "dummy", "--dtype", "bfloat16", "--max-model-len", "4096", "--max-num-seqs", "64",
    "--max-num-batched-tokens", "4096", "--gpu-memory-utilization", "0.5", "--port", URL.rpartition(":")[2],
    "--compilation-config", '{"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64]}',
]  # fmt: skip


def ask_server(process: subprocess.Popen[bytes], began: float, limit: float, model: str) -> dict[str, Any]:
    """Seconds until a server is healthy, and until its first and its second answer."""
    marks: dict[str, float] = {}
    while "ready" not in marks:
        if process.poll() is not None or time.time() - began > limit:
            return {"failed": "did not become healthy", "marks": marks}
        try:
            urllib.request.urlopen(f"{URL}/health", timeout=2).close()
            marks["ready"] = round(time.time() - began, 2)
        except OSError:
            time.sleep(0.1)
    texts = []
    for mark, prompt in (("first token", [105, 205, 305]), ("all prompts", list(range(100, 700)))):
        body = {"model": model, "prompt": prompt, "max_tokens": 1 + 15 * (mark != "first token"), "temperature": 0}
        request = urllib.request.Request(f"{URL}/v1/completions", json.dumps(body | {"ignore_eos": True}).encode())
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                texts.append(json.load(answer)["choices"][0]["text"])
        except OSError as error:
            return {"failed": f"no answer: {error}", "marks": marks}
        marks[mark] = round(time.time() - began, 2)
    return {"marks": marks, "texts": texts}


COMPILERS = re.compile(r"((.*-)?(gcc|g\+\+|cc|c\+\+|cpp|ld|as|clang|clang\+\+)(-[\d.]+)?|nvcc|ptxas|cicc|nvlink|ninja)")


def hide_compilers(folder: Path) -> None:
    """Make a folder of links to all programs on PATH but compilers, assemblers and linkers."""
    folder.mkdir()
    for place in os.environ["PATH"].split(":"):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            if not COMPILERS.fullmatch(program.name) and not link.is_symlink():
                link.symlink_to(program)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a start and the processes that it left."""
    for number, patience in ((signal.SIGINT, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of words without meaning, which ``vllm serve`` asks for."""
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, **{f"t{number}": number for number in range(3, 32768)}}
    model = {"type": "WordLevel", "vocab": words, "unk_token": "<pad>"}
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    whole = {"version": "1.0", **empty, "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<pad>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096, **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def tell(cell: Cell, result: dict[str, Any]) -> None:
    """Print what a cell gave, in a few lines."""
    kinds: dict[str, list[float]] = {}
    for event in result["events"]:
        kinds.setdefault(event["kind"], []).append(event["seconds"])
    counts = {kind: f"{len(seconds)} in {sum(seconds):.1f} s" for kind, seconds in kinds.items()}
    ends = f"failed, as it must: {result['failed']}" if cell.fails and "failed" in result else result.get("failed", "")
    print(f"{cell.name}: {result.get('marks')} took {result['took']:.0f} s {ends}", flush=True)
    print(f"    {counts} served {result.get('served')} memory {result.get('memory')}", flush=True)


def main() -> int:
    """Run the cells; status 1 where one failed that must not, or the other way round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("top", type=Path)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no cell that would end later")
    parser.add_argument("--out", type=Path, help="a folder that gets the archive of results and logs")
    parser.add_argument("--gpus", type=int, nargs="+", default=[0], help="one cell runs on each of these")
    parser.add_argument("--cells", nargs="*", default=[], help="only those whose names one of these patterns finds")
    given = parser.parse_args()
    machine = Machine(given.top)
    if not machine.results.exists():
        machine.set_up()
    run = Run(machine, time.time() + given.seconds, given.out)
    done = [json.loads(path.read_text())["cell"] for path in machine.results.iterdir()]
    chains: dict[str, list[Cell]] = {}
    for cell in left(done, given.cells, machine.engine):
        chains.setdefault(cell.chain, []).append(cell)
    for number in given.gpus:
        run.free.put(number)
    longest = sorted(chains.values(), key=lambda chain: -sum(cell.seconds for cell in chain))
    with ThreadPoolExecutor(len(given.gpus)) as threads:
        wrong = sum(threads.map(run.chain, longest))
    return int(wrong > 0)


class Run:
    """A run of cells: those of a chain follow one another on one of the free GPUs."""

    def __init__(self, machine: Machine, until: float, out: Path | None) -> None:
        self.machine, self.until, self.out = machine, until, out
        self.free: Queue[int] = Queue()
        self._one = Lock()

    def chain(self, cells: Sequence[Cell]) -> int:
        """Run cells, and return how many failed that must not, or the other way round."""
        gpu, wrong = self.free.get(), 0
        try:
            for cell in cells:
                if time.time() + cell.seconds > self.until:
                    print(f"left for the next run: {cell.name}", flush=True)
                    break
                result = self.machine.start(cell, gpu)
                wrong += ("failed" in result) != cell.fails
                self._keep(cell, result)
        finally:
            self.free.put(gpu)  # also after an error, which ``main`` raises at the end: other chains wait for it
        return wrong

    def _keep(self, cell: Cell, result: dict[str, Any]) -> None:
        with self._one:
            machine = self.machine
            (machine.results / f"{cell.name}.json").write_text(json.dumps(result))
            tell(cell, result)
            if self.out:
                with tarfile.open(self.out / "results.tgz", "w:gz") as archive:
                    for path in (*machine.top.glob("made/*.yaml"), *map(machine.top.joinpath, KEPT)):
                        archive.add(path, path.relative_to(machine.top))


if __name__ == "__main__":
    sys.exit(main())
