"""Whatever a manifest holds, its reader returns or raises an error that names the file."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from precast.build.plan.manifest import parse_manifest
from precast.loader import PrecastError
from tests.helpers.hostile.damaged import bounded, damaged

MANIFEST = {
    "version": 1,
    "name": "fuzzed",
    "targets": ["sm_90a"],
    "kernels": [{"kernel": "rmsnorm", "config": {"dtype": ["bf16"], "hidden": [1, 2]}, "tuned": {"threads": [128]}}],
}


@bounded
@given(damaged(MANIFEST) | st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")))
def test_the_reader_of_manifests(data: bytes) -> None:
    try:
        parse_manifest(data, Path("m.yaml"))
    except PrecastError as error:
        assert "m.yaml" in str(error)


def test_the_good_manifest_is_good() -> None:
    assert parse_manifest(json.dumps(MANIFEST).encode(), Path("m.yaml"))
