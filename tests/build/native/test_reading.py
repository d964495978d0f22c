"""libprecast reads a config as the Python loader does: the same texts are JSON, and the same values are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast import loader
from precast.loader.contract.format.config import Key, to_value
from precast.loader.contract.format.fields import parse_json
from tests.helpers.caches import CacheWriter, artifact
from tests.helpers.native.libprecast import LibprecastReader

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(text=st.text(alphabet='{}[]",:0123456789.eE+-truefalsn\\ud8 \n\x01\u20ac', max_size=40))
def test_what_is_json(text: str, libprecast: LibprecastReader, path: Path) -> None:
    """What one reader takes for an object, the other does."""
    if "\n" in text or "\x1f" in text or not text:
        return
    try:
        parsed = parse_json(text)
    except loader.FormatError:
        parsed = None
    answer = libprecast.ask(path, "scale", text)
    is_object = isinstance(parsed, dict)
    assert ("the config:" in answer.text or "the config is" in answer.text) != is_object, (text, answer)


@SETTINGS
@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=6,
    )
)
def test_any_value_that_a_config_may_have(value: Any, libprecast: LibprecastReader, tmp_path: Path) -> None:
    """A cache that holds a value serves a request for it, written in any way that JSON has."""
    try:
        kept = to_value(value)
    except loader.ConfigError as error:
        kept, refusal = None, str(error)
    else:
        refusal = ""
    writer = CacheWriter()
    writer.runtime("libprecast-rt-0000000000000001.so", b"not code")
    config = {"value": None if refusal else kept}
    writer.op("scale", [artifact(writer.keep(b"not code", "raw"), config)], keys=(Key(name="value", type="any"),))
    root = writer.write(tmp_path / "cache")
    answer = libprecast.ask(root, "scale", json.dumps({"value": value}), command="explain")
    if refusal:
        assert answer.status == 1 and refusal.partition(":")[0] in answer.text
    else:
        assert "  taken " in answer.text, answer.text
