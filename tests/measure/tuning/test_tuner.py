"""The tuner with a stand-in for the timer: what is asked for, what is kept, and what goes on after an end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from precast.build.errors import StoreError
from precast.build.measurements.tuning_file import Gpu, TuningFile, sizes_of
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError
from precast.measure.on_gpu.launches import Lost, Trial
from precast.measure.tuning.contest import Contest, Contestant
from precast.measure.tuning.tuner import CAREFUL, LONG, QUICK, Round, Tuner, read_file
from tests.helpers.caches import SCALE_KEYS
from tests.helpers.tuning.files import DATES, gpu

CODE = "c" * 16


def contest(*threads: int, problems: tuple[int, ...] = (8,), code: str = CODE) -> Contest:
    """Candidates by their threads, which are their keys, too."""
    return Contest(
        op="scale",
        config={"dtype": "bfloat16", "layout": "row"},
        target=Target(9, 0, "a"),
        contestants=tuple(
            Contestant(key=str(n), tuned={"threads": n}, code=code, rank=rank) for rank, n in enumerate(threads)
        ),
        problems=tuple({"n": n} for n in problems),
    )


@dataclass
class Timer:
    """Gives each key its time, by the problem and by whether it is a second timing; what is asked is noted."""

    times: Callable[[str, int, int], float]
    asked: list[tuple[str, int, int, bool]] = field(default_factory=list)
    asked_clocks: int = 0
    limits: list[float] = field(default_factory=list)

    def trial(
        self, op: str, key: str, *, group: str, problem: Mapping[str, int], launches: int, check: bool, enough: float
    ) -> Trial:
        self.asked.append((key, problem["n"], launches, check))
        self.limits.append(enough)
        return Trial(microseconds=self.times(key, problem["n"], launches))

    def clocks(self) -> dict[str, int]:
        self.asked_clocks += 1
        return {"sm_mhz": 1980}


def tuner(path: Path, timer: object, day: Gpu | None = None) -> Tuner:
    return Tuner(path=path, gpu=day or gpu(), timer=timer, keys={"scale": SCALE_KEYS})  # type: ignore[arg-type]


def columns(file: TuningFile) -> dict[object, dict[int, float]]:
    """The times of each candidate by its threads, then by n."""
    (group,) = file.groups
    return {c.tuned["threads"]: {dict(sizes)["n"]: t for sizes, t in c.times.items()} for c in group.candidates}


def test_those_near_the_best_are_timed_again_and_no_other_is_told_faster(tmp_path: Path) -> None:
    first = {"32": 10.0, "64": 13.9, "128": 14.1, "256": 50.0}
    timer = Timer(lambda key, n, launches: first[key] if launches == QUICK else first[key] + 6)
    done = tuner(tmp_path / "t.json", timer).run([contest(32, 64, 128, 256)])
    assert timer.asked == [
        *((key, 8, QUICK, True) for key in ("32", "64", "128", "256")),
        ("32", 8, CAREFUL, False),
        ("64", 8, CAREFUL, False),
    ]
    assert columns(done) == {32: {8: 16.0}, 64: {8: 19.9}, 128: {8: 19.9}, 256: {8: 50.0}}
    assert read_file(tmp_path / "t.json") == done
    assert timer.asked_clocks == 1 and done.gpus[0].sm_mhz == 1980


def test_a_first_launch_ends_where_it_is_hopeless_and_a_careful_one_never(tmp_path: Path) -> None:
    """The limit is three times the best so far, of this run or known before; the host's time alone is below it."""
    first = {"32": 1000.0, "64": 600.0, "128": 800.0}
    timer = Timer(lambda key, n, launches: first[key])
    tuner(tmp_path / "t.json", timer).run([contest(32, 64, 128)])
    assert timer.limits == [0.0, 3000.0, 1800.0, 0.0, 0.0], "64 and 128 are near the best"
    timer = Timer(lambda key, n, launches: 2.0)
    tuner(tmp_path / "t.json", timer).run([contest(32, 64, 128, 256)])
    assert timer.asked[0][0] == "256" and timer.limits == [1800.0, 0.0]
    timer = Timer(lambda key, n, launches: 8.0)
    tuner(tmp_path / "short.json", timer).run([contest(32, 64)])
    assert timer.limits == [0.0, LONG, 0.0, 0.0]


def test_the_file_is_whole_after_each_problem_and_a_second_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "t.json"

    def interrupted(key: str, n: int, launches: int) -> float:
        if n == 32:
            raise KeyboardInterrupt
        return float(n)

    both = contest(128, 256, problems=(8, 16, 32))
    with pytest.raises(KeyboardInterrupt):
        tuner(path, Timer(interrupted)).run([both])
    assert columns(read_file(path)) == {128: {8: 8.0, 16: 16.0}, 256: {8: 8.0, 16: 16.0}}
    timer = Timer(lambda key, n, launches: float(n))
    again = tuner(path, timer)
    shown: list[Round] = []
    again.show = shown.append
    done = again.run([both])
    assert {n for _, n, _, _ in timer.asked} == {32}
    assert columns(done)[128] == {8: 8.0, 16: 16.0, 32: 32.0}
    assert (again.measured, again.held) == (2, 4)
    assert [str(one) for one in shown] == [
        "8.00 us with {threads: 128}; 0 timed, 2 known",
        "16.00 us with {threads: 128}; 0 timed, 2 known",
        "32.00 us with {threads: 128}; 2 timed",
    ]
    before = path.read_bytes()
    nothing = Timer(lambda key, n, launches: 1.0)
    tuner(path, nothing, gpu(date=DATES[2])).run([both])
    assert nothing.asked == [] and path.read_bytes() == before


def test_other_device_code_is_measured_again_and_drops_what_was_known(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    tuner(path, Timer(lambda key, n, launches: 5.0)).run([contest(128, 256, problems=(8, 16))])
    changed = contest(128, 256, problems=(8,))
    changed = replace(changed, contestants=(replace(changed.contestants[0], code="d" * 16), changed.contestants[1]))
    timer = Timer(lambda key, n, launches: 9.0)
    done = tuner(path, timer, gpu(date=DATES[1])).run([changed])
    assert {key for key, *_ in timer.asked} == {"128"}
    assert columns(done) == {128: {8: 9.0}, 256: {8: 5.0, 16: 5.0}}
    assert [(c.code, c.date) for c in done.groups[0].candidates] == [("d" * 16, DATES[1]), (CODE, DATES[0])]


class Faulty(Timer):
    """Of its candidates 32 ends the process, 64 refuses a problem, 96 breaks the GPU, 112 has no time."""

    def trial(
        self, op: str, key: str, *, group: str, problem: Mapping[str, int], launches: int, check: bool, enough: float
    ) -> Trial:
        super().trial(op, key, group=group, problem=problem, launches=launches, check=check, enough=enough)
        if key == "32":
            raise Lost("ended by SIGSEGV")
        if key == "64" and problem["n"] == 8:
            return Trial(refused="n must be a multiple of 16")
        if key == "96":
            return Trial(refused="an illegal address", healthy=False)
        return Trial(microseconds=0.0 if key == "112" else 4.0)


def test_who_ends_the_process_is_out_of_the_contest_and_who_refuses_is_out_of_the_problem(tmp_path: Path) -> None:
    timer = Faulty(lambda key, n, launches: 4.0)
    one = tuner(tmp_path / "t.json", timer)
    done = one.run([contest(32, 64, 96, 112, 128, problems=(8, 16))])
    assert columns(done) == {64: {16: 4.0}, 128: {8: 4.0, 16: 4.0}}
    assert [(key, n) for key, n, launches, _ in timer.asked if launches == QUICK] == [
        ("32", 8), ("64", 8), ("96", 8), ("112", 8), ("128", 8), ("64", 16), ("112", 16), ("128", 16),
    ]  # fmt: skip
    reasons = [str(out).partition("{threads: ")[2] for out in one.left_out]
    assert reasons == [
        "32}: ended by SIGSEGV",
        "64} at n=8: n must be a multiple of 16",
        "96} at n=8: an illegal address",
        "112} at n=8: it has no time",
        "112} at n=16: it has no time",
    ]


def test_one_that_is_lost_at_its_second_timing_keeps_no_time(tmp_path: Path) -> None:
    def times(key: str, n: int, launches: int) -> float:
        if launches == CAREFUL and key == "128":
            raise Lost("no answer in 60 s")
        return 4.0

    assert columns(tuner(tmp_path / "t.json", Timer(times)).run([contest(128, 256)])) == {256: {8: 4.0}}


def test_what_others_measured_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    tuner(path, Timer(lambda key, n, launches: 5.0), gpu("NVIDIA B200")).run([contest(128, 256)])
    done = tuner(path, Timer(lambda key, n, launches: 6.0)).run([contest(128, 256)])
    assert [(g.gpu, g.candidates[0].times[sizes_of({"n": 8})]) for g in done.groups] == [
        ("NVIDIA B200", 5.0),
        ("NVIDIA H200", 6.0),
    ]


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(FormatError, match=r"t\.json"):
        read_file(tmp_path / "t.json")
    with pytest.raises(FormatError, match=r"cannot be read .*name another file with -o"):
        read_file(tmp_path)
    with pytest.raises(StoreError, match="cannot write"):
        tuner(Path("/proc/precast/t.json"), Timer(lambda key, n, launches: 1.0)).run([contest(128)])
