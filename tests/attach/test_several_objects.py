"""A compile function that compiles several objects: all of them are served in their places, or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from precast.attach.attachment import Attachment, KernelMissing
from precast.attach.compiler.dsl import Answers, answered_by
from precast.attach.seams.cached_compile import cached_compile
from precast.loader import session
from precast.loader.errors import PrecastError
from tests.helpers.attach.mini_library import PACKAGE
from tests.helpers.attached import MINE, key_of, write_cache
from tests.helpers.caches import Native

FUNCTION = f"{PACKAGE}.kernels:compiled"
SECOND_FIRST = [["$made:kernel", 1], ["$list", ["$made:kernel"], 8]]
Cache = Callable[..., None]


@pytest.fixture
def cache(native: Native, installed: Path, tmp_path: Path, use: Callable[..., session.Session]) -> Cache:
    """Puts a cache in use that holds the objects of one key with these numbers."""

    def write(returns: Any, *numbers: int, objects: Any = 2) -> None:
        provenance = {"returns": returns, "objects": objects}
        path = tmp_path / "keys"
        use(write_cache(native, path, FUNCTION, [key_of({"n": 1})], provenance=provenance, numbers=numbers))

    return write


def obtain(attachment: Attachment | None = None, **more: Any) -> Any:
    return (attachment or Attachment("serve", target="sm_90a")).obtain(MINE, FUNCTION, {"n": 1}, **more)


def place_of(kernel: Any) -> str:
    """The op that a kernel is filed under, less the function's own."""
    name: str = kernel.op
    return name.removeprefix(MINE.op(FUNCTION))


def test_each_kernel_stands_where_its_object_stood(cache: Cache) -> None:
    cache(SECOND_FIRST, 0, 1)
    second, (first, width) = obtain()
    assert (place_of(first), place_of(second), width) == ("", ".object1", 8)


@pytest.mark.parametrize(
    ("returns", "numbers", "objects", "reason"),
    [
        (SECOND_FIRST, [0], 2, "no cache holds attach.mine.kernels_compiled_4ea30d5f.object1"),
        (SECOND_FIRST, [1], 2, "no cache holds attach.mine.kernels_compiled_4ea30d5f"),
        (SECOND_FIRST, [0], 1, "there is no kernel 1: the artifact has 1"),
        (SECOND_FIRST, [0, 1], 65, "65 is not a number of objects"),
        (SECOND_FIRST, [0, 1], "2", "'2' is not a number of objects"),
        ([["$made:kernel", 2]], [0, 1], 2, "there is no kernel 2: the artifact has 2"),
    ],
)
def test_a_missing_object_is_a_miss(cache: Cache, returns: Any, numbers: list[int], objects: Any, reason: str) -> None:
    cache(returns, *numbers, objects=objects)
    attachment = Attachment("frozen", target="sm_90a")
    with pytest.raises(KernelMissing):
        obtain(attachment)
    assert reason.replace("4ea30d5f", MINE.op(FUNCTION)[-8:]) in str(attachment)


def test_closures_are_made_again_around_all_kernels_in_their_order(cache: Cache) -> None:
    cache("wrapped", 0, 1)
    first, second = obtain(fallback=lambda answers: [answers.next(), answers.next()])
    assert (place_of(first), place_of(second)) == ("", ".object1")


@pytest.mark.parametrize(("asked", "reason"), [(1, "fewer kernels"), (3, "more kernels")])
def test_a_function_that_asks_for_other_kernels_than_at_its_build_is_a_miss(
    cache: Cache, asked: int, reason: str
) -> None:
    cache("wrapped", 0, 1)
    attachment = Attachment("serve", target="sm_90a")
    assert obtain(attachment, fallback=lambda answers: [answers.next() for _ in range(asked)]) is None
    assert reason in str(attachment)


def test_a_function_whose_kernels_came_through_other_seams_needs_none() -> None:
    Answers([len, abs]).assert_exhausted()
    answers = Answers([len, abs])
    assert answers.next() is len
    with pytest.raises(PrecastError, match="fewer"):
        answers.assert_exhausted()


def test_a_seam_inside_a_function_takes_its_kernel_from_that_functions(cache: Cache) -> None:
    cache("wrapped", 0, 1)
    attachment = Attachment("serve", target="sm_90a")
    answers: list[Answers] = []
    inner: Any = cached_compile(attachment, MINE, lambda n: answers[-1].next(), lambda n: pytest.fail("compiled"))
    attachment.on_change(inner.cache_clear)

    def own(given: Answers) -> Any:
        answers.append(given)
        with answered_by(given):
            return inner(5), given.next()

    for _ in range(2):  # the second time, the inner function's answer was kept
        first, second = obtain(attachment, fallback=own)
        assert (place_of(first), place_of(second)) == ("", ".object1")
