"""Problems of an entry: how lists multiply, and that the names are checked against the kernel's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.errors import ManifestError
from precast.build.plan.manifest import parse_manifest
from precast.build.plan.planner import plan_of_files
from precast.build.plan.problems import parse_problems
from precast.build.plan.yaml.reader import read_yaml
from precast.build.store.store import Store

sizes = st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=3, unique=True)
pairs = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=3, unique=True)


def problems(text: str) -> list[dict[str, int]]:
    return [dict(problem) for problem in parse_problems(read_yaml(text.encode(), "m.yaml"))]


@given(sizes, pairs)
def test_lists_multiply_and_what_goes_together_stays_together(m: list[int], nk: list[tuple[int, int]]) -> None:
    found = problems(f'[{{m: {m}, "n, k": {[list(pair) for pair in nk]}}}]')
    assert len(found) == len(m) * len(nk)
    assert found == [{"m": one, "n": n, "k": k} for one in m for n, k in nk]


def test_a_problem_of_several_grids_is_there_once() -> None:
    assert problems("[{m: [1, 2], n: 8}, {n: [8, 9], m: 2}]") == [
        {"m": 1, "n": 8},
        {"m": 2, "n": 8},
        {"m": 2, "n": 9},
    ]
    assert problems("[{m: [1, 1]}]") == [{"m": 1}]


def manifest(tmp_path: Path, entry: str, *, op: str = "rmsnorm") -> Path:
    path = tmp_path / "m.yaml"
    kernel = f"{{kernel: {op}, config: {{dtype: half, hidden: 64}}{entry}}}"
    path.write_text(f"{{version: 1, name: x, targets: sm_90a, kernels: [{kernel}]}}")
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.mark.slow
def test_a_size_that_the_kernel_does_not_know_is_told_at_its_place(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel says it once: the answer is noted."""
    good = manifest(tmp_path, ", problems: [{rows: [1, 16]}]")
    assert len(plan_of_files([good], notes=store.notes).variants) == 1
    asked: list[Any] = []
    from precast.build.plan.describer import Describer

    names = Describer.size_names

    def noted(self: Describer, variants: Any) -> Any:
        asked.append(variants)
        return names(self, variants)

    monkeypatch.setattr(Describer, "size_names", noted)
    plan_of_files([good], notes=store.notes)
    assert asked == []
    with pytest.raises(
        ManifestError, match=r"m\.yaml:1:\d+: the problems of 'rmsnorm' have no size 'row'; did you mean"
    ):
        plan_of_files([manifest(tmp_path, ", problems: [{row: 1}]")], notes=store.notes)


@pytest.mark.slow
def test_problems_are_part_of_no_variant(tmp_path: Path, store: Store) -> None:
    plans = [plan_of_files([manifest(tmp_path, text)], notes=store.notes) for text in ("", ", problems: [{rows: 7}]")]
    keep: list[Sequence[Any]] = [[(v.identity, v.rank, v.env, v.source) for v in plan.variants] for plan in plans]
    assert keep[0] == keep[1]


def test_a_problem_cannot_be_changed() -> None:
    text = b"{version: 1, name: x, targets: sm_90a, kernels: [{kernel: a, problems: [{n: 8}]}]}"
    (entry,) = parse_manifest(text, Path("m.yaml")).entries
    assert isinstance(entry.problems[0], MappingProxyType) and entry.problems_at is not None
