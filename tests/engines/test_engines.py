"""vLLM and SGLang themselves: their functions and models are recorded, built and served, all without a GPU.

``tests/engines/prepare.sh`` makes the environments that these tests need, one for each engine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.source_tree import ROOT

ENGINES = os.environ.get("PRECAST_ENGINES", "")
HERE = Path(__file__).parent
SERVE = ROOT / "tests" / "helpers" / "attach" / "serve_attached.py"
NO_DEVICE = "NoCudaDevice"
MODEL = """
import json, sys
from transformers import CONFIG_MAPPING
kind, architecture, folder = sys.argv[1:]
config = CONFIG_MAPPING[kind]().to_dict() | {"architectures": [architecture], "torch_dtype": "bfloat16"}
print(json.dumps(config, default=str), file=open(f"{folder}/config.json", "w"))
"""
WARM_UP = """
import sys
from precast.attach.builder.child.engines import vllm_model
from precast.loader.errors import NoCudaDevice
from precast.loader.launch.kernel import Kernel

launch = Kernel.__call__

def up_to_the_launch(self, *args, **named):
    try:
        launch(self, *args, **named)
    except NoCudaDevice:  # what comes after it may ask for more kernels
        pass

def call_model():
    Kernel.__call__ = up_to_the_launch
    sys.argv = ["model", *{words}]
    vllm_model.main()
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not ENGINES,
        reason="PRECAST_ENGINES names no folder with environments of vLLM and SGLang (tests/engines/prepare.sh)",
    ),
]


def python(engine: str) -> str:
    return str(Path(ENGINES, engine, "bin", "python"))


def run(folder: Path, *words: object, engine: str = "vllm", **more: str) -> str:
    """Run an engine's Python. Two of the copies of FlashAttention-4 are built for CUDA 13 only."""
    environment = {
        **os.environ, "PRECAST_CUDA": "13", "XDG_CACHE_HOME": str(folder / "store"), "PYTHONPATH": str(ROOT), **more
    }  # fmt: skip
    done = subprocess.run(
        [python(engine), *map(str, words)], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def precast(folder: Path, *words: object, engine: str = "vllm") -> str:
    return run(folder, "-m", "precast.cli.main", *words, engine=engine)


def served(folder: Path, engine: str, dsl: str, program: Path) -> dict[str, Any]:
    words = (SERVE, "sm_100a", engine, dsl, program)
    answer: dict[str, Any] = json.loads(run(folder, *words, engine=engine, PRECAST_CACHE_PATH="cache").splitlines()[-1])
    return answer


def served_in_a_worker(folder: Path, program: Path) -> dict[str, Any]:
    """The same for vLLM without the DSL, in a process that it spawns: only the environment attaches it."""
    attach = {"PRECAST_ATTACH": "vllm,quack,flashinfer", "PRECAST_ATTACH_MODE": "frozen", "PRECAST_CACHE_PATH": "cache"}
    words = (HERE / "spawned.py", "sm_100a", "hidden", program)
    lines = run(folder, *words, VLLM_WORKER_MULTIPROC_METHOD="spawn", **attach).splitlines()
    answer: dict[str, Any] = json.loads(lines[-1])
    assert answer["method"] == "spawn"
    assert {"quack", "vllm"} <= {*answer["libraries"]} <= {"flashinfer", "quack", "vllm"}  # what it imported of them
    return answer


@pytest.mark.parametrize(("engine", "calls"), [("vllm", 9), ("sglang", 5)])
def test_its_own_functions(engine: str, calls: int, tmp_path: Path) -> None:
    program = HERE / f"calls_{engine}.py"
    precast(
        tmp_path,
        "record",
        "-t",
        "sm_100a",
        "--library",
        engine,
        "-o",
        "all.yaml",
        "--",
        python(engine),
        program,
        engine=engine,
    )
    precast(tmp_path, "build", "all.yaml", "-o", "cache", engine=engine)
    for dsl in ("forbidden", "hidden"):
        answer = served(tmp_path, engine, dsl, program)
        ended = {name: end for name, end in answer["ended"].items() if not end.startswith(NO_DEVICE)}
        assert ended == ({"call_function_of_a_device": "returned"} if engine == "vllm" else {})
        assert len(answer["ended"]) == calls and not any(misses for _, misses in answer["counts"].values())
    if engine == "vllm":
        worker = served_in_a_worker(tmp_path, program)
        assert worker["counts"] == answer["counts"] and worker["ended"] == answer["ended"]


@pytest.mark.parametrize(
    ("kind", "architecture", "options", "kernels"),
    [
        ("deepseek_v4", "DeepseekV4ForCausalLM", ("--tensor-parallel", "8"), 14),
        ("qwen3_next", "Qwen3NextForCausalLM", ("--engine-option", "gdn_prefill_backend=cutedsl"), 9),
        (
            "gemma4",
            "Gemma4ForCausalLM",
            ("--engine-option", "attention_backend=FLASH_ATTN", "--engine-option", "block_size=128"),
            4,
        ),
    ],
)
def test_what_a_model_warms_up(
    kind: str, architecture: str, options: tuple[str, ...], kernels: int, tmp_path: Path
) -> None:
    run(tmp_path, "-c", MODEL, kind, architecture, tmp_path)
    model = ("--engine", "vllm", "--model", tmp_path / "config.json", *options)
    said = precast(tmp_path, "record", "-t", "sm_100a", *model, "-o", "model.yaml")
    requested = int(said.rpartition("(vllm ")[2].partition(")")[0])
    assert requested >= kernels and "not enumerated" not in said  # the batches may request more than the start
    precast(tmp_path, "build", "model.yaml", "-o", "cache")
    assert f"{requested} of {requested} artifacts present" in precast(tmp_path, "check", "model.yaml", "cache")
    program = tmp_path / "model.py"
    program.write_text(WARM_UP.format(words=[str(tmp_path), *_as_words(options)]))
    answer = served_in_a_worker(tmp_path, program)
    assert answer["ended"] == {"call_model": "returned"}
    hits, misses = (sum(counts) for counts in zip(*answer["counts"].values(), strict=True))
    assert (hits, misses) == (requested, 0)


def _as_words(options: tuple[str, ...]) -> list[str]:
    """The options of ``record --engine`` as the engine's program has them."""
    return [word for word in options if word != "--engine-option"]


def test_what_a_model_of_sglang_compiles_after_it_is_loaded(tmp_path: Path) -> None:
    sizes = {"hidden_size": 2560, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 2}
    config = {"architectures": ["Qwen4ExpForConditionalGeneration"], "model_type": "qwen3", "head_dim": 128, **sizes}
    more = {"vocab_size": 1024, "intermediate_size": 1024, "torch_dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(config | more))
    model = ("--engine", "sglang", "--model", tmp_path / "config.json")
    said = precast(tmp_path, "record", "-t", "sm_100a", *model, "-o", "model.yaml", engine="sglang")
    assert "32 kernels (flashinfer 32)" in said and "not enumerated" not in said


@pytest.mark.parametrize(("engine", "sites"), [("vllm", 53), ("sglang", 21)])
def test_the_sites_that_attach_reaches(engine: str, sites: int) -> None:
    code = (
        f"import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('{engine}').origin).parents[1])"
    )
    folder = run(ROOT, "-c", code, engine=engine).strip()
    counted = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "engine_sites.py", folder, engine],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"of {sites} sites with plain or keyed arguments {sites} are reached" in counted


def test_a_model_that_warms_up_nothing_says_so(tmp_path: Path) -> None:
    run(tmp_path, "-c", MODEL, "qwen3", "Qwen3ForCausalLM", tmp_path)
    words = ("record", "-t", "sm_100a", "--engine", "vllm", "--model", tmp_path, "-o", tmp_path / "model.yaml")
    done = subprocess.run(
        [python("vllm"), "-m", "precast.cli.main", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "vllm requests no kernel of an attached library for this model" in done.stderr
