"""What is compiled first, and by whom."""

from __future__ import annotations

from dataclasses import replace

from precast.build.compile.schedule import START, Schedule, Task, ordered
from tests.helpers.variants import variant


def numbers(tasks: list[Task]) -> list[object]:
    return [t.variant.config["n"] for t in tasks]


def test_the_longest_comes_first() -> None:
    variants = [variant(n) for n in range(4)]
    seconds = {v.identity: s for v, s in zip(variants, (1.0, 5.0, 0.5, 2.0), strict=True)}
    assert numbers(ordered(variants, seconds)) == [1, 3, 0, 2]


def test_an_unknown_one_counts_as_its_op_does_or_comes_first() -> None:
    variants = [variant(0), variant(1), variant(2), variant(3, op="other.op")]
    seconds = {variants[0].identity: 4.0, variants[2].identity: 1.0}
    tasks = ordered(variants, seconds)
    assert numbers(tasks) == [3, 0, 1, 2]
    assert tasks[2].seconds == 2.5


def test_without_knowledge_the_order_is_the_plans() -> None:
    assert numbers(ordered([variant(n) for n in (3, 1, 2)], {})) == [3, 1, 2]


def test_kernels_of_different_packages_share_no_worker() -> None:
    sources = ("one.kernels.norms:f", "one.kernels.gemm:f", "other.kernels:f", "alone:f")
    groups = [Task(replace(variant(1), source=source), 1.0).group for source in sources]
    assert groups[0] == groups[1]
    assert len(set(groups)) == 3


def test_our_own_kernels_share_workers_across_their_folders() -> None:
    """They import the compiler and no library, so a build of a hundred small ones starts no worker for each folder."""
    sources = [f"precast.kernels.{name}:f" for name in ("own.norms.rmsnorm", "own.reductions.reduce", "gemm")]
    sources.append("precast.kernels.own_too.norms.rmsnorm:f")
    groups = [Task(replace(variant(1), source=source), 1.0).group for source in sources]
    assert groups[0] == groups[1] and len(set(groups)) == 3


def test_a_worker_is_not_started_for_less_than_its_start_takes() -> None:
    schedule = Schedule([Task(variant(n), START / 4) for n in range(4)])
    assert schedule.first() is not None
    assert schedule.first() is None
    schedule = Schedule([Task(variant(n), START) for n in range(4)])
    assert schedule.first() is not None
    assert schedule.first() is not None


def test_workers_go_where_most_is_left_for_each() -> None:
    schedule = Schedule(
        [Task(variant(n), 10.0) for n in range(9)] + [Task(variant(n, target="sm_100a"), 10.0) for n in range(3)]
    )
    targets = [str(task.variant.target) for _ in range(4) if (task := schedule.first())]
    assert targets == ["sm_90a", "sm_90a", "sm_100a", "sm_90a"]


def test_other_environments_need_other_workers() -> None:
    one, two = Task(variant(1), 1.0), Task(variant(2, env={"A": "1"}), 1.0)
    schedule = Schedule([one, two])
    assert schedule.first() == one
    assert schedule.next(one.group) is None
    assert schedule.first() == two


def test_nobody_is_given_ahead_what_another_could_begin_now() -> None:
    schedule = Schedule([Task(variant(n), 10.0) for n in range(4)])
    first, second = schedule.first(), schedule.first()
    assert first is not None and second is not None
    assert schedule.next(first.group, ahead=True) is not None
    assert schedule.next(first.group, ahead=True) is None
    assert schedule.next(second.group) is not None


def test_a_task_for_a_fresh_worker_is_for_none_that_runs() -> None:
    schedule = Schedule([Task(variant(1), 1.0)])
    task = schedule.first()
    assert task is not None
    schedule.give_back(task.again())
    assert schedule.next(task.group) is None
    schedule.leave(task.group)
    assert schedule.first() == task.again()
