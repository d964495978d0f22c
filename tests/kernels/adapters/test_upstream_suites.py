"""What runs other libraries' tests: what it asks for in their stead, and what it counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from precast.kernels.authoring.declare import declaration_of
from precast.kernels.authoring.registry import find, load
from precast.loader.format.config import complete
from tests.gpu.upstream import quack
from tests.gpu.upstream.asked import Asked, NotApplicable
from tests.gpu.upstream.collect import manifest
from tests.gpu.upstream.table import read, render

ROOT = Path(__file__).resolve().parents[3]
HALF, WHOLE = type("BFloat16", (), {}), type("Float32", (), {})
FORWARD: dict[str, Any] = {
    "dtype": HALF, "out_dtype": HALF, "res_dtype": None, "weight_dtype": WHOLE, "bias_dtype": None,
    "res_out_dtype": None, "N": 4096, "has_rstd": True, "has_mean": False, "is_layernorm": False, "per_head": False,
    "weight_offset": 0.0, "config": None,
}  # fmt: skip
BACKWARD: dict[str, Any] = {
    "N": 4096, "dtype": HALF, "dout_dtype": HALF, "dx_dtype": HALF, "weight_dtype": HALF, "has_db_partial": False,
    "dres_dtype": None, "dres_out_dtype": None, "has_dw_partial": True, "per_head": False, "T_hint": 1024,
    "is_layernorm": False, "weight_offset": 0.0, "config": None,
}  # fmt: skip
LAUNCH = SimpleNamespace(num_threads=128, threads_per_row=32, cluster_n=2, reload_from=None, delay_w_load=False)
GRADIENT_LAUNCH = SimpleNamespace(
    num_threads=256, threads_per_row=128, cluster_n=2, reload_wdy="smem", reload_x=None, use_tma=True, smem_stages=3
)


def asked(key: dict[str, Any], **changes: Any) -> Asked:
    translate = quack.norm if "has_rstd" in key else quack.norm_gradient
    return translate(SimpleNamespace(**{**key, **changes}))


def test_a_compile_call_becomes_a_config_of_the_adapter_and_pins_every_tuned_key() -> None:
    for request, op, some in (
        (asked(FORWARD), "quack.rmsnorm", {"weight_dtype": "float32", "statistics": True, "residual": False}),
        (asked(FORWARD, weight_dtype=HALF, res_dtype=HALF, res_out_dtype=HALF), "quack.rmsnorm", {"residual": True}),
        (asked(FORWARD, config=LAUNCH), "quack.rmsnorm", {"hidden": 4096}),
        (asked(FORWARD, is_layernorm=True, has_mean=True), "quack.layernorm", {"bias": False}),
        (asked(BACKWARD), "quack.rmsnorm_bwd", {"weight_dtype": None, "residual": False}),
        (asked(BACKWARD, dres_out_dtype=HALF), "quack.rmsnorm_bwd", {"residual": True}),
        (asked(BACKWARD, config=GRADIENT_LAUNCH), "quack.rmsnorm_bwd", {"hidden": 4096}),
        (asked(BACKWARD, is_layernorm=True, has_db_partial=True), "quack.layernorm_bwd", {"bias": True}),
    ):
        assert request.op == op
        assert some.items() <= dict(request.config).items()
        keys = declaration_of(load(find(op))).keys
        complete(keys, {**request.config, **request.tuned}, op=op)
        assert {*request.config, *request.tuned} == {key.name for key in keys}
    assert asked(FORWARD, config=LAUNCH).tuned == {"threads": 128, "row_threads": 32, "cluster": 2, "reload": "no"}
    for wdy, x, reload in ((None, None, "no"), ("smem", None, "wdy"), (None, "smem", "x"), ("smem", "smem", "both")):
        launch = SimpleNamespace(**{**vars(GRADIENT_LAUNCH), "reload_wdy": wdy, "reload_x": x})
        for layernorm in (False, True):
            tuned = asked(BACKWARD, config=launch, is_layernorm=layernorm).tuned
            assert list(tuned.values()) == [256, 128, 2, reload, True, 3]


@pytest.mark.parametrize(
    ("key", "changes", "reason"),
    [
        (FORWARD, {"per_head": True}, "a weight for each head"),
        (FORWARD, {"weight_dtype": None}, "a norm without a weight"),
        (FORWARD, {"out_dtype": WHOLE}, "another dtype than its input"),
        (FORWARD, {"res_dtype": WHOLE, "res_out_dtype": WHOLE}, "a residual of another dtype"),
        (FORWARD, {"res_dtype": HALF, "res_out_dtype": WHOLE}, "a residual result of another dtype"),
        (FORWARD, {"bias_dtype": WHOLE}, "a bias in an RMS norm"),
        (FORWARD, {"config": SimpleNamespace(**{**vars(LAUNCH), "delay_w_load": True})}, "loaded late"),
        (BACKWARD, {"dout_dtype": WHOLE}, "several dtypes"),
        (BACKWARD, {"has_dw_partial": False}, "a norm without a weight"),
    ],
)
def test_what_no_op_is_for_is_said(key: dict[str, Any], changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        asked(key, **changes)


LIBRARY = """
from tests.gpu.upstream import plugin
from tests.gpu.upstream.asked import Asked, refuse

def held(asked):
    return lambda number: number + asked.config["added"]

def install(answer):
    global compile
    plugin.held = held
    compile = lambda added: answer(lambda: refuse(a_large_number=added > 9) or Asked("add", {"added": added}, {}))
"""
TESTS = """
import pytest
import toy

def test_right():
    assert toy.compile(2)(1) == 3

def test_wrong():
    assert toy.compile(2)(1) == 4

def test_outside():
    toy.compile(10)

def test_outside_and_wrapped():
    try:
        toy.compile(10)
    except BaseException as error:
        raise RuntimeError("elsewhere") from error

def test_outside_and_passed_over():
    assert toy.compile(2)(1) == 3
    with pytest.raises(BaseException):
        toy.compile(10)

def test_nothing_launched():
    toy.compile(2)

def test_compiled():
    import cutlass.cute
    assert toy.compile(2)(1) == 3
    with pytest.raises(RuntimeError):
        cutlass.cute.compile(test_right)

@pytest.fixture
def broken():
    raise ValueError("no fixture")

def test_broken(broken):
    pass

@pytest.mark.skip(reason="says so itself")
def test_skipped():
    pass

@pytest.mark.parametrize("use_compile", [False, True])
@pytest.mark.parametrize("n", range(5))
def test_traced(n, use_compile):
    assert toy.compile(n)(1) == n + 1
"""
VERDICTS = {
    "right": ("passed", ""),
    "wrong": ("failed", "assert 3 == 4"),
    "outside": ("not applicable", "no op of precast's has a large number"),
    "outside_and_wrapped": ("not applicable", "no op of precast's has a large number"),
    "outside_and_passed_over": ("not applicable", "the test went on without it"),
    "nothing_launched": ("not applicable", "launches no kernel"),
    "compiled": ("failed", "asked the compiler itself, 1 times"),
    "broken": ("failed", "no fixture"),
    "skipped": ("not applicable", "says so itself"),
}


@pytest.mark.slow
def test_a_test_passes_only_by_what_it_launched(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(LIBRARY)
    (tmp_path / "test_toy.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    paths = [tmp_path / f"{part}.jsonl" for part in ("plain", "traced")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.gpu.upstream.plugin"]
    command += ["--import-mode=importlib", f"--rootdir={tmp_path}", "-c", str(tmp_path / "pytest.ini"), "--library=toy"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for path in paths:
        path.write_text("")
        options = [f"--part={path.stem}", "--traced=2", f"--results={path}", str(tmp_path / "test_toy.py")]
        done = subprocess.run([*command, *options], env=environment, capture_output=True, text=True)
        assert done.returncode == (path.stem == "plain"), done.stdout + done.stderr
    tests = {line["test"].rpartition("::test_")[2]: line for line in read(paths)}
    for name, (outcome, reason) in VERDICTS.items():
        assert tests[name]["outcome"] == outcome, name
        assert reason in tests[name]["reason"], name
    assert tests["right"]["launches"] == 1
    assert tests["right"]["asked"] == ['add {"added": 2}']
    traced = [line["outcome"] for name, line in tests.items() if name.endswith("True]")]
    assert sorted(traced) == ["left out"] * 3 + ["passed"] * 2
    assert sum(line["outcome"] == "passed" for line in tests.values()) == 8


def test_the_table_counts_a_test_once_and_keeps_its_failure(tmp_path: Path) -> None:
    line = {"test": "a::test_b", "launches": 2}
    lines = [{**line, "outcome": o, "reason": r} for o, r in (("passed", ""), ("failed", "late"), ("passed", ""))]
    (tmp_path / "results").write_text("".join(json.dumps(one) + "\n" for one in lines))
    text = render({"toy": read([tmp_path / "results"])})
    assert text.splitlines()[1].split() == ["toy", "0", "1", "0", "0", "2"]
    assert "test_b: late" in text


def test_a_manifest_of_requests_pins_what_was_asked_for() -> None:
    text = manifest(
        [Asked("gemm", {"dtype": "float16"}, {"tile": [64, 64], "fallback_cluster": None, "two_cta": False})]
    )
    assert '"tuned": {"tile": [[64, 64]], "two_cta": false}' in text
    assert "fallback_cluster" not in text
