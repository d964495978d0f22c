"""What workers print: kept apart by variant, and bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from precast.build.ipc.output_tail import OutputTail

MARK = b"\0mark\0"


@given(st.lists(st.binary(max_size=40).filter(lambda b: MARK not in b), min_size=1, max_size=6), st.data())
def test_the_cuts_of_a_stream_do_not_matter(sections: list[bytes], data: st.DataObject) -> None:
    stream = MARK.join(sections)
    if stream.split(MARK) != sections:  # the pieces formed a mark of their own
        return
    whole, cut = OutputTail(MARK), OutputTail(MARK)
    whole.feed(stream)
    left = stream
    while left:
        size = data.draw(st.integers(1, len(left)))
        cut.feed(left[:size])
        left = left[size:]
    for request in range(3):
        assert cut.text(request) == whole.text(request)
    last = len(sections) - 1
    if last % 2:
        assert cut.text(last // 2) == sections[last].decode(errors="replace")


def test_megabytes_cost_nothing_and_the_end_is_kept() -> None:
    tail = OutputTail(MARK, kept=1000)
    tail.feed(b"before" + MARK)
    for number in range(300):
        tail.feed(str(number % 10).encode() * (1 << 16))
    tail.feed(b"the last words")
    assert tail.text(0).endswith("99the last words")
    assert len(tail.text(0)) == 1000
    assert sum(map(len, tail._sections.values())) < 4000


def test_many_requests_leave_nothing_behind() -> None:
    tail = OutputTail(MARK)
    for number in range(1000):
        tail.feed(MARK + f"request {number}".encode() + MARK)
    assert tail.text(999) == "request 999"
    assert len(tail._sections) <= 4


def test_the_last_words_are_of_who_had_any() -> None:
    tail = OutputTail(MARK)
    tail.feed(MARK + b"terminate called" + MARK + b"\n")
    assert tail.last() == "terminate called"
