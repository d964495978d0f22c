"""Launches in a process of their own. The GPU and its timer are stand-ins; the process is real."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.values import replace
from precast.loader.errors import FormatError
from precast.measure.on_gpu import launches as module
from precast.measure.on_gpu.launches import Launched, Launches, Lost, Trial
from tests.helpers.caches import Native, artifact, demo

# What an author declares: what makes the inputs does what a kernel of this config would do to the process.
AUTHOR = """
import os, time
from precast.kernels import DType, kernel
from precast.measure.timing import timer
from precast.loader.machine.driver import CurrentDriver

timer.cold = lambda runs, device, launches: [[2.0, 3.0, 4.0] for _ in runs]


def inputs(config, problem, *, device, seed):
    if config["threads"] == 32:
        os.kill(os.getpid(), 11)
    if config["threads"] == 64:
        print("waiting for a block that never comes", flush=True)
        time.sleep(600)
    if problem["n"] % 8:
        raise ValueError("n must be divisible by 8")
    return {"x": 1}


@kernel(
    op="scale", problems=lambda config: [{"n": 8}, {"n": 9}, {"n": 16}], inputs=inputs, outputs=["x"],
    reference=lambda config, values: {"x": values["x"]},
)
def scale(dtype: DType, layout: str = "row", threads: int = 128): ...
"""
MADE = {"function": "acme_launched:scale", "registered": False}
THREADS = (32, 64, 128)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Native:
    """One driver for all tests, so that all processes that search its folder may be forked."""
    made = Native(tmp_path_factory.mktemp("native"))
    (made.folder / "libcuda.so.1").symlink_to(made.driver())
    return made


@pytest.fixture
def keys(tmp_path: Path, native: Native, monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """A cache of three variants, by their threads, on a machine whose driver knows one GPU."""
    writer = demo(native)
    listed = writer.ops["scale"]
    first = listed.artifacts[0]
    rows = [
        replace(artifact(first.blob, {"dtype": "float32", "layout": "row", "threads": threads}), provenance=MADE)
        for threads in THREADS
    ]
    writer.ops["scale"] = OpIndex.of(op="scale", keys=listed.keys, doc="", artifacts=tuple(rows))
    writer.write(tmp_path / "cache")
    (tmp_path / "acme_launched.py").write_text(AUTHOR)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(native.folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))
    return {int(str(row.config["threads"])): row.key for row in rows}


@pytest.mark.slow
def test_what_faults_or_hangs_or_refuses_costs_itself_alone(tmp_path: Path, keys: dict[int, str]) -> None:
    with Launches(tmp_path / "cache", 20.0) as launches:
        right = launches.timed("scale", keys[128], None)
        (faulty,) = launches.timed("scale", keys[32], None)
        again = launches.timed("scale", keys[128], [{"n": 32}])
    assert [one.problem for one in right] == [{"n": 8}, {"n": 9}, {"n": 16}]
    assert [one.microseconds for one in right] == [3.0, 0.0, 3.0]
    assert str(right[1]) == "left out at n=9: ValueError: n must be divisible by 8"
    assert "SIGSEGV" in faulty.refused and faulty.problem == {}
    assert [(one.problem, one.microseconds) for one in again] == [({"n": 32}, 3.0)]


@pytest.mark.slow
def test_one_that_hangs_is_ended_with_what_it_printed(tmp_path: Path, keys: dict[int, str]) -> None:
    with Launches(tmp_path / "cache", 20.0) as launches:
        launches.timed("scale", keys[128], None)  # the process has started
        launches._seconds = 1.0
        (hanging,) = launches.timed("scale", keys[64], None)
        launches._seconds = 20.0
        assert len(launches.timed("scale", keys[128], None)) == 3
    assert "no answer in 1 s" in hanging.refused
    assert "waiting for a block that never comes" in hanging.refused


@pytest.mark.slow
def test_problems_of_other_sizes_are_refused_before_a_launch(tmp_path: Path, keys: dict[int, str]) -> None:
    with Launches(tmp_path / "cache", 20.0) as launches:
        (one,) = launches.timed("scale", keys[128], [{"m": 8}])
    assert one.refused == "its problems have the sizes n, not m"


@pytest.mark.slow
def test_a_problem_may_leave_out_how_tensors_lie_in_memory(tmp_path: Path, keys: dict[int, str]) -> None:
    """It is launched with what is left out, and told as it was asked for; verify is given the whole of it."""
    (tmp_path / "acme_launched.py").write_text(
        AUTHOR.replace('{"n": 9}', '{"n": 9, "padding": 4}')
        .replace('{"n": 8}', '{"n": 8, "padding": 0}')
        .replace('{"n": 16}', '{"n": 16, "padding": 0}')
        .replace('problem["n"] % 8', 'problem["n"] % 8 or problem["padding"]')
    )
    with Launches(tmp_path / "cache", 20.0) as launches:
        found = launches.timed("scale", keys[128], [{"n": 32}, {"n": 32, "padding": 4}])
        (check,) = launches.checks("scale", keys[128], seed=3, problem={"n": 9}, most=None)
    assert [(one.problem, one.microseconds) for one in found] == [({"n": 32}, 3.0), ({"n": 32, "padding": 4}, 0.0)]
    assert found[0].timing is not None and found[0].timing.problem == {"n": 32}
    assert check.problem == {"n": 9, "padding": 0}


@pytest.mark.slow
def test_what_compiles_nothing_that_can_be_called_is_noted(tmp_path: Path, keys: dict[int, str]) -> None:
    with Launches(tmp_path / "cache", 20.0) as launches:
        (one,) = launches.timed("scale", keys[128], [{"n": 8}], launches=4, extras=["just_in_time"])
    assert one.microseconds == 3.0 and one.timing is not None
    (note,) = one.timing.notes
    assert note.startswith("not compiled just in time: PrecastError: scale returns a NoneType")


@pytest.mark.slow
def test_the_gpu_that_cannot_be_measured_is_lost_with_the_reason(tmp_path: Path, keys: dict[int, str]) -> None:
    with Launches(tmp_path / "cache", 20.0) as launches:
        with pytest.raises(Lost, match=r"AssertionError|RuntimeError|CUDA"):
            launches.ceilings(["bfloat16"])
        assert len(launches.timed("scale", keys[128], None)) == 3  # and the process goes on


@pytest.mark.slow
def test_a_kernel_that_names_no_problems_and_one_that_is_gone_are_told(tmp_path: Path, keys: dict[int, str]) -> None:
    (tmp_path / "acme_launched.py").write_text(
        AUTHOR.replace('problems=lambda config: [{"n": 8}, {"n": 9}, {"n": 16}],', "")
    )
    with Launches(tmp_path / "cache", 20.0) as launches:
        (one,) = launches.timed("scale", keys[128], None)
        (given,) = launches.timed("scale", keys[128], [{"n": 8}])
        (gone,) = launches.timed("scale", "0" * 64, None)
    assert "give its @kernel problems, or name some" in one.refused
    assert given.microseconds == 3.0
    assert "was replaced while this ran" in gone.refused


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"problem": {"n": -1}},
        {"problem": 3},
        {"refused": 1},
        {"problem": {"n": 1}},
        {"problem": {"n": 1}, "timing": {"problem": {}, "microseconds": "fast", "spread": 0}},
        {"problem": {"n": 1}, "refused": "no", "timing": {"problem": {}, "microseconds": 1, "spread": 0}},
    ],
)
def test_an_answer_is_checked(value: object) -> None:
    with pytest.raises(FormatError):
        Launched.parse(value)


@pytest.mark.slow
def test_what_no_longer_works_is_started_again(
    tmp_path: Path, keys: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a fault of the GPU nothing works in that process, though it lives."""
    started: list[object] = []
    start: Callable[[Launches], object] = module.Launches._start

    def counted(launches: Launches) -> object:
        started.append(launches)
        return start(launches)

    monkeypatch.setattr(module.Launches, "_start", counted)
    (tmp_path / "acme_launched.py").write_text(
        AUTHOR + "\nimport sys\nfrom precast.measure.child.on_gpu import launch_main\n"
        "launch_main.healthy = sys.modules['__main__'].healthy = lambda: False\n"
    )
    with Launches(tmp_path / "cache", 20.0) as launches:
        first = launches.timed("scale", keys[128], None)
        launches.timed("scale", keys[128], [{"n": 8}])
    assert [one.healthy for one in first] == [True, False]  # the third problem was not tried
    assert len(started) == 2


@pytest.mark.slow
def test_a_kernel_that_ends_its_process_or_hangs_is_wrong_and_ends_no_other(
    tmp_path: Path, keys: dict[int, str]
) -> None:
    with Launches(tmp_path / "cache", 20.0) as launches:
        (failed,) = launches.checks("scale", keys[128], seed=3, problem={"n": 9}, most=None)
        (ended,) = launches.checks("scale", keys[32], seed=3, problem={"n": 8}, most=None)
        launches._seconds = 1.0
        (hung,) = launches.checks("scale", keys[64], seed=3, problem=None, most=None)
        launches._seconds = 20.0
        assert len(launches.timed("scale", keys[128], None)) == 3
    assert failed.problem == {"n": 9}
    said = "it raised ValueError: n must be divisible by 8 (acme_launched.py:17: "
    assert (failed.fault or "").startswith(said) and failed.broke
    assert "SIGSEGV" in ended.fault and ended.problem == {"n": 8}
    assert "no answer in 1 s" in hung.fault
    assert not any(one.passed for one in (failed, ended, hung))


def trial(launches: Launches, key: str, n: int) -> Trial:
    return launches.trial("scale", key, group="all", problem={"n": n}, launches=3, check=False)


@pytest.mark.slow
def test_candidates_are_timed_on_the_same_inputs_and_each_costs_itself_alone(
    tmp_path: Path, keys: dict[int, str]
) -> None:
    """What makes the inputs ends the process, or hangs, by the candidate that they are made for."""
    with Launches(tmp_path / "cache", 20.0) as launches:
        assert trial(launches, keys[128], 8).microseconds == 3.0
        assert trial(launches, keys[32], 8).microseconds == 3.0, "its inputs are those of the first"
        refused = trial(launches, keys[128], 9)
        with pytest.raises(Lost, match="SIGSEGV"):
            trial(launches, keys[32], 16)
        assert trial(launches, keys[128], 16).microseconds == 3.0
        launches._seconds = 1.0
        with pytest.raises(Lost, match=r"no answer in 1 s.*waiting for a block that never comes"):
            trial(launches, keys[64], 24)
        launches._seconds = 20.0
        assert trial(launches, keys[128], 24).microseconds == 3.0
        assert trial(launches, keys[64], 24).microseconds == 3.0, "it hangs where inputs are made for it"
    assert refused.refused == "ValueError: n must be divisible by 8" and refused.healthy


@pytest.mark.slow
def test_without_a_gpu_no_clocks_are_known(tmp_path: Path, keys: dict[int, str]) -> None:
    with Launches(tmp_path / "cache", 20.0) as launches:
        trial(launches, keys[128], 8)
        assert launches.clocks() == {}
