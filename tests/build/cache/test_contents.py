"""Reading a whole cache: every artifact of it, and every byte as the index has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.build.cache.contents import ArtifactId, CacheContents
from precast.build.cache.pack import UncompressedOp, pack_ops, uncompressed
from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.values import replace
from precast.loader.errors import IntegrityError
from tests.helpers.caches import SCALE_KEYS, artifact
from tests.helpers.packed_caches import RUNTIMES, TOOLS, X86, Built

CONFIG = {"dtype": "bfloat16", "layout": "row", "threads": 128}


def test_each_cubin_of_a_function_is_an_artifact(tmp_path: Path) -> None:
    codes = [f"cubin {number}".encode() for number in range(3)]
    made = tuple(artifact(uncompressed(code), CONFIG, kind="cubin", host=None) for code in codes)
    op = UncompressedOp(keys=SCALE_KEYS, doc="", artifacts=made)
    contents = {uncompressed(code).sha256: code for code in codes}
    for name, data in pack_ops("demo", TOOLS, [RUNTIMES[X86]], {"scale": op}, contents, threads=1).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    found = CacheContents.open(tmp_path).artifacts
    assert sorted(name.part for name in found) == [0, 1, 2]
    assert len({one.key for one in found.values()}) == 3


def test_files_of_a_cache_that_is_replaced_meanwhile_are_not_taken(tmp_path: Path) -> None:
    cache = CacheContents.open(Built().write(tmp_path / "cache"))
    assert cache.files().keys() > {"index.json", "ops/scale.json"}
    op = tmp_path / "cache" / "ops" / "scale.json"
    op.write_bytes(op.read_bytes() + b"\n")
    with pytest.raises(IntegrityError):
        cache.files()


@pytest.mark.parametrize("recorded", [{"sms": [1]}, [[]], "132", {"sms": True}])
def test_recorded_facts_that_are_none_are_no_part_of_an_identity(recorded: object) -> None:
    """A cache may hold anything there, nested as deep as its reader takes."""
    plain = artifact(Blob(sha256="0" * 64, size=1, stored=1, encoding="none"), {"dtype": "bfloat16"})
    named = replace(plain, provenance={**plain.provenance, "assumed": recorded})
    assert ArtifactId.of("scale", named) == ArtifactId.of("scale", plain)
    facts = replace(plain, provenance={**plain.provenance, "assumed": {"sms": 132}})
    assert ArtifactId.of("scale", facts).assumed == '{"sms":132}'
