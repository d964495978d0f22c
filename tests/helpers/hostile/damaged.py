"""Good JSON files with a few damages, for tests of readers."""

from __future__ import annotations

import copy
import json
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("PRECAST_FUZZ_EXAMPLES", "400"))
bounded = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn, good: Any) -> bytes:
    """A good file with a few values replaced, removed or added, then perhaps a few bytes changed."""
    data = copy.deepcopy(good)
    for _ in range(draw(st.integers(0, 3))):
        inner = data
        while isinstance(inner, (dict, list)) and inner:
            keys = sorted(inner) if isinstance(inner, dict) else range(len(inner))
            key = draw(st.sampled_from(list(keys)))
            if not isinstance(inner[key], (dict, list)) or not inner[key] or draw(st.booleans()):
                change = draw(st.sampled_from(["replace", "remove", "add"]))
                if change == "remove":
                    del inner[key]
                elif change == "add" and isinstance(inner, dict):
                    inner[draw(st.text(max_size=8))] = draw(json_values)
                else:
                    inner[key] = draw(json_values)
                break
            inner = inner[key]
    text = bytearray(json.dumps(data).encode())
    for _ in range(draw(st.integers(0, 2))):
        text[draw(st.integers(0, len(text) - 1))] = draw(st.integers(0, 255))
    return bytes(text)
