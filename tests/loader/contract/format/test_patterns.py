"""The quick tests of words accept nothing that their pattern does not, and neither do the readers of targets."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.loader.contract.format import patterns
from precast.loader.contract.format.patterns import Pattern
from precast.loader.contract.format.target import Target, parse_capability
from precast.loader.contract.format.tuning import measured
from precast.loader.errors import TargetError

ALL = {name: one for name, one in vars(patterns).items() if isinstance(one, Pattern)}
EDGES = st.text(st.sampled_from("abfsmz_09.-[]?é٣ \n") | st.characters(), max_size=70)
TARGET = re.compile(r"sm_([1-9][0-9]{1,2})([af]?)", re.ASCII)
CAPABILITY = re.compile(r"([1-9][0-9]?)\.([0-9])", re.ASCII)


@pytest.mark.slow
@pytest.mark.parametrize("one", [*ALL.values(), measured._GPU], ids=[*ALL, "GPU"])
@given(data=st.data())
def test_what_is_quickly_accepted_matches(one: Pattern, data: st.DataObject) -> None:
    near = st.from_regex(re.compile(one.pattern, re.ASCII)).map(lambda t: t[:1100])
    text = data.draw(near | EDGES)
    matches = re.fullmatch(one.pattern, text, re.ASCII) is not None
    assert one.admits(text) == matches
    assert matches or not one.quick(text)


@pytest.mark.parametrize("one", [*ALL.values(), measured._GPU], ids=[*ALL, "GPU"])
def test_all_short_texts(one: Pattern) -> None:
    for length in range(4):
        for letters in itertools.product("aZ_0.-é٣ \n?", repeat=length):
            text = "".join(letters)
            assert one.admits(text) == (re.fullmatch(one.pattern, text, re.ASCII) is not None), text


@given(EDGES | st.from_regex(TARGET) | st.from_regex(r"sm_[0-9]{1,4}[a-z]?"))
def test_a_target_is_what_the_pattern_says(text: str) -> None:
    match = TARGET.fullmatch(text)
    if match is None:
        with pytest.raises(TargetError):
            Target.parse(text)
    else:
        assert str(Target.parse(text)) == text


@given(EDGES | st.from_regex(CAPABILITY) | st.from_regex(r"[0-9]{1,3}\.[0-9]{1,2}"))
def test_a_capability_is_what_the_pattern_says(text: str) -> None:
    match = CAPABILITY.fullmatch(text)
    if match is None:
        with pytest.raises(TargetError):
            parse_capability(text)
    else:
        assert str(parse_capability(text)) == text
