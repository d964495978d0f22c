"""What ``precast new`` writes: it builds at once, its reference is right, and nothing that exists is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precast.build.errors import OutputError
from precast.build.plan.planner import plan_of_files
from precast.build.scaffold.scaffold import LIBRARIES, new_attached, new_kernel
from precast.build.store.store import Store
from precast.cli import main
from precast.kernels.authoring.declare import declaration_of
from precast.kernels.authoring.registry import FunctionRef, load
from precast.loader.contract.format.config import Config
from precast.loader.errors import ConfigError
from precast.loader.resolve.cache import Cache
from tests.helpers.builds import kept_store, new_store


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main.run([str(word) for word in words])
    return int(ended.value.code or 0)


def test_a_new_kernel_builds_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_torch: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", no_torch)
    assert run("new", "swish", "-o", tmp_path / "mine") == 0
    told = capsys.readouterr().out
    assert f"cd {tmp_path / 'mine'}\n  precast plan swish.yaml" in told
    manifest, cache = tmp_path / "mine" / "swish.yaml", tmp_path / "cache"
    assert run("build", manifest, "-o", cache, "-t", "sm_90a", "--store", kept_store()) == 0
    found = Cache(cache).op("mine.swish")
    configs = [(a.config["threads"], a.config["dtype"]) for a in found.artifacts]
    assert sorted(configs) == [(threads, dtype) for threads in (128, 256) for dtype in ("bfloat16", "float32")]
    assert [threads for threads, _ in configs] == [256, 256, 128, 128]  # in the author's order
    assert all(used.local == used.stack == 0 for a in found.artifacts for used in a.resources)


@pytest.mark.parametrize("name", ["MyKernel", "my_Kernel2", "GEMM", "x__y", "_hidden"])
def test_any_name_of_a_function_gives_a_manifest_that_plan_takes(name: str, tmp_path: Path) -> None:
    """Names of caches and ops are lower case; a function's name need not be."""
    assert run("new", name, "-o", tmp_path) == 0
    assert run("plan", tmp_path / f"{name}.yaml") == 0


def test_its_reference_is_what_a_right_kernel_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of torch stands for the kernel: it passes, and one that forgets the last element does not."""
    verify = pytest.importorskip("precast.measure.checks.verify").verify
    new_kernel("twice_as_much").write(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    declaration = declaration_of(load(FunctionRef.parse("twice_as_much:twice_as_much")))
    config: Config = {"dtype": "float32", "threads": 256}

    def right(x: Any, out: Any, factor: float) -> None:
        out.copy_(x * factor)

    def short(x: Any, out: Any, factor: float) -> None:
        out[:-1] = x[:-1] * factor

    def check(function: Any) -> list[str]:
        return [str(one) for one in verify(function, declaration, config, device="cpu", most=1 << 20) if not one.passed]

    assert check(right) == []
    assert check(short)


@pytest.mark.slow
@pytest.mark.parametrize("library", sorted({*LIBRARIES} - {"quack"}))  # docs/attach.md, which is run, has quack's
def test_a_warm_up_asks_its_library_for_kernels(library: str, tmp_path: Path) -> None:
    assert run("new", "server", "--attach", library, "-o", tmp_path) == 0
    notes = Store(new_store(tmp_path / "store")).notes
    variants = plan_of_files([tmp_path / "server.yaml"], targets=["sm_90a"], notes=notes).variants
    assert variants and all(one.op.startswith(f"attach.{library}") for one in variants)


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "swish.yaml").write_text("mine")
    with pytest.raises(OutputError, match=r"has swish.yaml already: choose another name"):
        new_kernel("swish").write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["swish.yaml"]


@pytest.mark.parametrize("name", ["", "2d", "a b", "class", "../up", "a-b", "é", "torch", "x" * 300, "a\n"])
def test_a_name_that_python_does_not_take_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"choose another name|use letters, digits"):
        new_kernel(name)
    with pytest.raises(ConfigError):
        new_attached("quack", name)


def test_an_unknown_library_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'quack'"):
        new_attached("quak", "server")


@settings(max_examples=20)
@given(st.from_regex(r"[a-z][a-z0-9_]{0,30}", fullmatch=True))
def test_any_name_gives_python_that_compiles(name: str) -> None:
    try:
        made = new_kernel(name)
    except ConfigError:
        return
    for file, text in made.files.items():
        assert "NAME" not in text and "@DASHED@" not in text
        if file.endswith(".py"):
            compile(text, file, "exec")
