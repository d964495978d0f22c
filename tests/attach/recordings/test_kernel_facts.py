"""The facts of a kernel: read back as written, and refused where malformed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.attach.recordings.kernel_facts import Globals, KernelFacts, Package, parse_facts
from precast.loader.errors import FormatError

TEXTS = st.text(max_size=20)
FACTS = st.builds(
    KernelFacts,
    variables=st.dictionaries(TEXTS, st.none() | TEXTS, max_size=4),
    packages=st.dictionaries(TEXTS, st.builds(Package, distribution=TEXTS, version=TEXTS), max_size=3),
    modules=st.dictionaries(TEXTS, TEXTS, max_size=3),
    files=st.dictionaries(TEXTS, TEXTS, max_size=3),
    globals=st.dictionaries(
        TEXTS, st.builds(Globals, names=st.lists(st.sampled_from("abc")).map(tuple), digest=TEXTS), max_size=3
    ),
)


@given(FACTS)
def test_what_is_written_is_read(facts: KernelFacts) -> None:
    assert parse_facts(json.loads(json.dumps(facts.to_json()))) == facts


@given(FACTS, st.dictionaries(TEXTS, TEXTS, max_size=4))
def test_a_variable_holds_if_it_has_the_value(facts: KernelFacts, environment: dict[str, str]) -> None:
    changed = set(facts.changed_variables(environment))
    assert changed == {n for n, value in facts.variables.items() if environment.get(n) != value}
    held = {n: value for n, value in facts.variables.items() if value is not None}
    assert not list(facts.changed_variables(held))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "expected an object"),
        ({}, "missing in 'variables'"),
        ({"variables": {"A": 1}, "packages": {}, "modules": {}}, r"expected str, got int in 'variables\.A'"),
        ({"variables": {"A": "x" * 5000}, "packages": {}, "modules": {}}, "5000 characters"),
        ({"variables": {}, "packages": {"q": {"version": "1"}}, "modules": {}}, "missing in 'packages.q.distribution'"),
        ({"variables": {}, "packages": {}, "modules": {}, "tensors": {}}, "unknown key"),
        (
            {"variables": {}, "packages": {}, "modules": {}, "files": {"q/a": 1}},
            r"expected str, got int in 'files\.q/a'",
        ),
        ({"variables": {}, "packages": {}, "modules": {}, "globals": {"q": {"names": 1}}}, "expected str, got int"),
    ],
)
def test_malformed_facts_are_refused(value: Any, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        parse_facts(value)
