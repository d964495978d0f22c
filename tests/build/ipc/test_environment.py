"""The environment of child processes: what is inherited, what is set, and who may change it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

from precast.build.ipc.environment import DEFAULTS, FIXED, child_environment, passed_variables
from precast.loader.contract.diagnostics.variables import VARIABLES
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError

SM90A = Target.parse("sm_90a")


def test_the_callers_compiler_variables_are_not_inherited() -> None:
    base = {"CUTE_DSL_LINEINFO": "1", "CUTE_EXPERIMENTAL_DSL_KEEP": "ptx", "CUTE_DSL_ARCH": "sm_80"}
    made = child_environment(base, target=SM90A)
    assert "CUTE_DSL_LINEINFO" not in made and "CUTE_EXPERIMENTAL_DSL_KEEP" not in made
    assert made["CUTE_DSL_ARCH"] == "sm_90a"


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_a_default_yields_to_the_manifest_and_not_to_the_caller(name: str) -> None:
    assert child_environment({name: "caller"})[name] == DEFAULTS[name]
    assert child_environment({name: "caller"}, env={name: "manifest"})[name] == "manifest"


@pytest.mark.parametrize(
    "name",
    [
        "ACME_TILE",
        "TORCH_LOGS",
        "LD_PRELOAD",
        "PYTHONOPTIMIZE",
        "COVERAGE_PROCESS_START",
        "LANG",
        "LC_CTYPE",
        "XDG_CACHE_HOME",
        "CUDA_HOME",
        "VIRTUAL_ENV",
        "OMP_NUM_THREADS",
        "PRECAST_CACHE_PATH",
    ],
)
def test_what_could_change_a_kernel_is_not_inherited(name: str) -> None:
    assert name not in child_environment({name: "1"}, target=SM90A)
    assert child_environment({}, target=SM90A, env=passed_variables([name], {name: "1"}))[name] == "1"


@pytest.mark.parametrize("name", VARIABLES)
def test_what_watches_a_service_is_not_for_a_build(name: str) -> None:
    """Where an author's code uses the loader, a log would be an input of each variant."""
    assert name not in child_environment({name: "1"}, target=SM90A)


@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_LIBRARY_PATH"])
def test_where_modules_and_libraries_are_is_inherited(name: str) -> None:
    assert child_environment({name: "1"}, target=SM90A)[name] == "1"


@pytest.mark.parametrize("name", ["PATH", "HOME", "USER", "LOGNAME"])
def test_the_user_is_the_same_everywhere(name: str) -> None:
    assert child_environment({name: "1"}, target=SM90A) == child_environment({name: "2"}, target=SM90A)


@pytest.mark.parametrize("name", ["PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "PYTHONPATH", "CUDA_HOME"])
def test_other_children_inherit_where_things_are(name: str) -> None:
    assert child_environment({name: "1"})[name] == "1"
    assert child_environment({name: "1"}, target=SM90A, closed=False)[name] == "1"


def test_what_cannot_be_passed() -> None:
    for name in (*FIXED, "CUTE_DSL_ARCH", "CUTE_DSL_ENABLE_TVM_FFI", "CUDA_VISIBLE_DEVICES"):
        with pytest.raises(FormatError, match=f"--pass-env: {name} cannot be passed: .*(remove it|under)"):
            passed_variables([name], {})
    with pytest.raises(FormatError, match="is not the name of a variable"):
        passed_variables(["A=B"], {})
    with pytest.raises(FormatError, match="set it by env: in the manifest"):
        passed_variables(["A"], {"A": "${target.name}"})


def test_a_manifest_cannot_change_the_target_or_show_the_gpu() -> None:
    env = {"CUTE_DSL_ARCH": "sm_80", "CUDA_VISIBLE_DEVICES": "0", "PYTHONHASHSEED": "7", "CUTE_DSL_ENABLE_TVM_FFI": "0"}
    made = child_environment({}, target=SM90A, env=env)
    assert (made["CUTE_DSL_ARCH"], made["CUTE_DSL_ENABLE_TVM_FFI"]) == ("sm_90a", "1")
    assert (made["CUDA_VISIBLE_DEVICES"], made["PYTHONHASHSEED"]) == ("-1", "0")


def test_only_the_measuring_process_sees_the_gpu() -> None:
    assert child_environment({"CUDA_VISIBLE_DEVICES": "1"}, gpu=True)["CUDA_VISIBLE_DEVICES"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in child_environment({}, gpu=True)


@pytest.mark.parametrize(
    ("distribution", "file", "text"),
    [
        ("quack-kernels", "quack/cache/__init__.py", "QUACK_CACHE_ENABLED"),
        ("flash-attn-4", "flash_attn/cute/cache_utils.py", "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED"),
        ("flashinfer-python", "flashinfer/autotuner/autotuner.py", "FLASHINFER_AUTOTUNER_LOAD_FROM_FILE"),
        ("nvidia-cutlass-dsl-libs-core", "cutlass/base_dsl/env_manager.py", "_DISABLE_FILE_CACHING"),
        ("nvidia-cutlass-dsl-libs-core", "cutlass/base_dsl/env_manager.py", "_ENABLE_TVM_FFI"),
        ("nvidia-cutlass-dsl-libs-core", "cutlass/cutlass_dsl/cutlass.py", '"CUTE_EXPERIMENTAL_DSL"'),
    ],
)
def test_the_installed_libraries_still_read_these_variables(distribution: str, file: str, text: str) -> None:
    try:
        listed = files(distribution) or ()
    except PackageNotFoundError:
        pytest.skip(f"{distribution} is not installed")
    (found,) = (path for path in listed if str(path).endswith(file))
    assert text in Path(str(found.locate())).read_text()
