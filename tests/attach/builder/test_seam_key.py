"""The key of a kernel of an attached library: it changes with the code that runs the library's compile function."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from precast.attach.builder.seam_digests import seam_digests
from precast.attach.recordings import keys
from precast.attach.seams import hooks
from precast.build.compile.outcome import Failed, outcome_of
from precast.build.ipc.message import Message
from precast.build.link.toolchain import find_toolchain
from precast.build.store.key import variant_key
from precast.build.store.record import Record
from tests.helpers.attach.toy_library import write_toy_library
from tests.helpers.variants import variant

KEY = "0" * 64


def test_the_code_that_runs_a_compile_function_counts() -> None:
    digests = seam_digests("quack")
    for module in (hooks, keys):
        assert digests[module.__name__] == hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()
    assert {"precast.attach.builder.child.seam", "precast.attach.libraries.quack"} <= digests.keys()
    assert "precast.attach.libraries.flashinfer" not in digests


def test_the_file_that_declares_a_library_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "toy_seams", raising=False)  # another test's
    monkeypatch.syspath_prepend(str(write_toy_library(tmp_path, compiler=False)))
    seam, other = (replace(variant(1), source=f"toy_attached.kernels:compiled_alone{at}") for at in ("@toy", ""))

    def keys() -> list[str]:
        seam_digests.cache_clear()
        return [variant_key(one, find_toolchain(), "0" * 64) for one in (seam, other)]

    before = keys()
    with (tmp_path / "toy_seams.py").open("a") as file:
        file.write("# changed\n")
    after = keys()
    assert (before[0] == after[0], before[1] == after[1]) == (False, True)


@pytest.mark.parametrize("provenance", [{}, {"returns": [["$made:kernel"], 8], "facts": {"variables": {}}}])
def test_a_record_keeps_what_a_seam_adds_to_the_provenance(provenance: dict[str, object]) -> None:
    record = Record(key=KEY, products=(), seconds=1.0, provenance=provenance)
    data = record.encode()
    assert Record.decode(data, key=KEY) == record
    assert (b'"provenance"' in data) == bool(provenance)  # a record of any other kernel has the bytes it had


def test_what_a_worker_adds_to_the_provenance_is_an_object() -> None:
    header = {
        "signatures": [],
        "seconds": 1.0,
        "assumed": {},
        "provenance": 8,
        "inputs": {},
        "closed": "none",
    }
    outcome = outcome_of(variant(1), Message({**header, "signatures": [{"arguments": [], "symbols": {}}]}, (b"",)), "")
    assert isinstance(outcome, Failed)
    assert "in 'provenance'" in outcome.reason
