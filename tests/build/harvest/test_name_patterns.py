"""The names of files have arguments only where each follows from the name without a guess."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.harvest.name_patterns import NamePattern, name_patterns, patterns_of

COMPLETE = """
MODULE = "topk"
def compile_topk(k: int, dtype: str, pdl: bool = False, *, arch: str):
    kernel = make(k)
    name = (
        f"k{k}_d{dtype}_"
        f"pdl{int(pdl)}_{arch}"
    )
    return keep(MODULE, name, lambda: cute.compile(kernel))
"""


def patterns(source: str) -> list[NamePattern]:
    return list(patterns_of(source.encode(), "lib.topk", "keep"))


def test_a_name_of_every_argument_is_read() -> None:
    (pattern,) = patterns(COMPLETE)
    assert (pattern.function, pattern.module) == ("lib.topk:compile_topk", "topk")
    assert pattern.values("k8_dbfloat16_pdl0_sm_90a") == {"k": 8, "dtype": "bfloat16", "pdl": False, "arch": "sm_90a"}


@pytest.mark.parametrize(
    "name",
    ["k08_df_pdl0_x", "k-8_df_pdl0_x", "k8_df_pdl2_x", "k8_d_pdl0_x", "k8_df_pdl0_x_y", "k8_da_b_pdl0_x",
     "k8_df_pdl0_x\n", f"k{'9' * 19}_df_pdl0_x", "k٣_df_pdl0_x", "k8_d$x_pdl0_x", ""],
)  # fmt: skip
def test_a_name_that_the_function_does_not_give_is_not_read(name: str) -> None:
    (pattern,) = patterns(COMPLETE)
    assert pattern.values(name) is None


CALL = "    return keep('topk', {}, None)\n"


@pytest.mark.parametrize(
    "source",
    [
        "def f(k: int, m: int):\n" + CALL.format("f'k{k}'"),
        "def f(k):\n" + CALL.format("f'k{k}'"),
        "def f(k: bool):\n" + CALL.format("f'k{k}'"),
        "def f(k: int):\n" + CALL.format("f'k{int(k)}'"),
        "def f(k: int, m: int):\n" + CALL.format("f'k{k}{m}'"),
        "def f(k: int, m: int):\n" + CALL.format("f'k{k}0{m}'"),
        "def f(k: str, m: str):\n" + CALL.format("f'{k}x{m}'"),
        "def f(k: int):\n" + CALL.format("f'k{k or 0}'"),
        "def f(k: int):\n" + CALL.format("f'k{k:02}'"),
        "def f(k: str):\n" + CALL.format("f'k{k!r}'"),
        "def f(k: int):\n    k = k // 2\n" + CALL.format("f'k{k}'"),
        "def f(k: int, *more):\n" + CALL.format("f'k{k}'"),
        "def f(k: int):\n" + CALL.format("f'k{k}_{k}'"),
        "def f(k: int):\n" + CALL.format("name_of(k)"),
        "def f(k: int):\n    name = f'k{k}'\n    name = f'm{k}'\n" + CALL.format("name"),
        "def f(k: int):\n    keep('a', f'k{k}')\n" + CALL.format("f'k{k}'"),
        "def f(k: int):\n    return keep(module_of(k), f'k{k}')\n",
        "def f(k: int):\n    return other('topk', f'k{k}')\n",
        "def f(k: int:\n",
    ],
)
def test_a_function_whose_name_leaves_a_doubt_has_no_pattern(source: str) -> None:
    assert patterns(source) == []


@given(k=st.integers(0, 10**17), dtype=st.from_regex(r"[0-9A-Za-z]{1,64}", fullmatch=True), pdl=st.booleans())
def test_the_values_are_those_that_the_name_was_made_from(k: int, dtype: str, pdl: bool) -> None:
    (pattern,) = patterns(COMPLETE)
    values = {"k": k, "dtype": dtype, "pdl": pdl, "arch": "sm_100f"}
    assert pattern.values(f"k{k}_d{dtype}_pdl{int(pdl)}_sm_100f") == values


@given(st.text(max_size=60) | st.from_regex(r"k[0-9]+_d\w*_pdl[01]_\w*", fullmatch=True))
def test_any_name_is_read_exactly_or_not_at_all(name: str) -> None:
    (pattern,) = patterns(COMPLETE)
    values = pattern.values(name)
    if values is not None:
        again = "k{k}_d{dtype}_pdl{pdl:d}_{arch}".format_map(values)
        assert again == name


@given(st.binary(max_size=100))
def test_any_source_has_patterns_or_none(source: bytes) -> None:
    assert not list(patterns_of(source, "lib", "keep"))


def test_the_modules_of_a_package_are_read(tmp_path: Path) -> None:
    for name in ("__init__.py", "norm/rms.py", "data/copy.py", "plain.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(COMPLETE if name != "plain.py" else "")
    found = name_patterns(tmp_path, "lib", "keep", without=("lib.data",))
    assert [pattern.function for pattern in found] == ["lib:compile_topk", "lib.norm.rms:compile_topk"]


def test_flashinfer_has_such_functions() -> None:
    """If an upgrade renames or rewrites them, the page that lists them is wrong."""
    from importlib.util import find_spec

    spec = find_spec("flashinfer")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("FlashInfer is not installed")
    folder = Path(spec.submodule_search_locations[0])
    found = name_patterns(folder, "flashinfer", "build_and_load_cute_dsl_kernel", without=("flashinfer.experimental",))
    page = (Path(__file__).parents[3] / "docs" / "harvest.md").read_text()
    assert {pattern.function for pattern in found} == set(re.findall(r"`(flashinfer[\w.]+:\w+)`", page))
