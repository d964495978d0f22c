"""The log of a store's usage: sums by op, kept by builds at the same time, and no error whatever is in it."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from precast.build.store.store import Store
from precast.build.store.usage_log import Usage, note_usage, totals


def note(folder: Path, times: int) -> None:
    for _ in range(times):
        note_usage(Store(folder), {f"op{n}": Usage(hits=1, misses=2, saved=0.5, spent=1.0) for n in range(20)})


def test_builds_at_the_same_time_lose_no_line(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=note, args=(tmp_path, 50)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    read = totals(Store(tmp_path))
    assert read.builds == 200 and len(read.ops) == 20
    assert read.all == Usage(hits=4000, misses=8000, saved=2000.0, spent=4000.0)


@pytest.mark.parametrize(
    "damage",
    [
        b"\xff\xfe", b"{", b"[]", b"3", b'{"op": 3}', b'{"op": {"hits": -1, "misses": 0, "saved": 0.0, "spent": 0.0}}',
        b'{"op": {"hits": 1, "misses": 0, "saved": NaN, "spent": 0.0}}', b'{"op": {"hits": true}}', b"[" * 9999,
        b'{"op": {"hits": 1, "misses": 0, "saved": 1e300, "spent": 0.0}}', b"\0" * 99,
    ],
)  # fmt: skip
def test_a_damaged_line_is_skipped(damage: bytes, tmp_path: Path) -> None:
    note(tmp_path, 1)
    (file,) = (tmp_path / "notes" / "usage").iterdir()
    file.write_bytes(file.read_bytes() + damage + b"\n")
    note(tmp_path, 1)
    assert totals(Store(tmp_path)).builds == 2


def test_a_log_that_cannot_be_written_or_read_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a file in its place")
    note(tmp_path, 1)
    assert totals(Store(tmp_path)).builds == 0
