"""Locks: what is read of a file, and what of it identifies an environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.errors import ToolchainError
from precast.build.toolchains.lock import Lock, Locked

DIGEST = f"sha256:{'0' * 64}"
OTHER = f"sha256:{'1' * 64}"


def test_reads_what_uv_writes() -> None:
    text = f"""
# written by uv
Acme_Norms==1.2 \\
    --hash={OTHER} \\
    --hash={DIGEST}  # via mine
tomli==2.0 ; python_full_version < '3.11' \\
    --hash={DIGEST}
"""
    lock = Lock.parse(text, "a.lock")
    assert lock.distributions[0] == Locked("acme-norms", "1.2", "", (DIGEST, OTHER))
    assert lock.distributions[1].marker == 'python_full_version < "3.11"'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--index-url https://evil.example/", "is not NAME==VERSION"),
        ("-r other.txt", "is not NAME==VERSION"),
        (f"acme @ https://evil.example/a.whl --hash={DIGEST}", "is not NAME==VERSION"),
        (f"./acme.whl --hash={DIGEST}", "is not NAME==VERSION"),
        ("acme>=1.0", "is not NAME==VERSION"),
        ("acme==1.0", "no SHA-256 digests"),
        ("acme==1.0 --hash=md5:00", "no SHA-256 digests"),
        (f"acme==1.0 --hash={DIGEST} --index-url=x", "no SHA-256 digests"),
        (f"acme==1.0 ; nonsense --hash={DIGEST}", "not a marker"),
        (f"Acme==1.0 --hash={DIGEST}\nacme==1.1 --hash={DIGEST}", "twice"),
        ("# nothing", "the lock is empty"),
    ],
)
def test_refuses_what_is_more_than_versions_and_digests(line: str, reason: str) -> None:
    with pytest.raises(ToolchainError, match=reason) as caught:
        Lock.parse(line + "\n", "a.lock")
    assert str(caught.value).startswith("a.lock:")


def test_its_digest_is_of_what_is_installed_alone() -> None:
    one = Lock.parse(f"a==1 --hash={DIGEST}\nb==2 --hash={OTHER} --hash={DIGEST}\n", "one")
    same = Lock.parse(f"# other words\nB==2 --hash={DIGEST} \\\n  --hash={OTHER}\nA==1 --hash={DIGEST}\n", "two")
    assert one.digest("CPython 3.12.1") == same.digest("CPython 3.12.1")
    others = [
        one.digest("CPython 3.12.2"),
        Lock.parse(f"a==1 --hash={DIGEST}\nb==2 --hash={OTHER}\n", "three").digest("CPython 3.12.1"),
        Lock.parse(f"a==1 --hash={DIGEST}\nb==3 --hash={OTHER} --hash={DIGEST}\n", "four").digest("CPython 3.12.1"),
    ]
    assert len({one.digest("CPython 3.12.1"), *others}) == 4


names = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,4})?", fullmatch=True)
rows = st.builds(
    Locked,
    names,
    st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}", fullmatch=True),
    st.sampled_from(["", 'python_version < "3.11"', 'sys_platform == "linux"']),
    st.lists(st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True), min_size=1, max_size=3, unique=True).map(
        lambda digests: tuple(sorted(digests))
    ),
)


@given(st.lists(rows, min_size=1, max_size=8, unique_by=lambda one: (one.name, one.marker)))
def test_what_is_written_is_read_back(distributions: list[Locked]) -> None:
    lock = Lock(tuple(sorted(distributions)))
    assert Lock.parse(str(lock), "x") == lock


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        Lock.parse(text, "x")
    except ToolchainError as error:
        assert str(error).startswith("x:")
