"""Missing keys: what a cache or a recording holds for one target, as the loader would serve it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from precast.attach.attachment import Attachment, KernelMissing
from precast.attach.builder.missing_keys import held_as, kernels_of, missing_of
from precast.attach.builder.recorded_manifest import manifest_of
from precast.attach.library import declare
from precast.attach.recordings.keys import canonical
from precast.attach.recordings.provenance import FACTS
from precast.attach.recordings.recording import Recorded
from precast.build.plan.manifest import parse_manifest
from precast.loader.contract.format.target import Target
from tests.helpers.attach.mini_library import PACKAGE
from tests.helpers.attached import MINE, key_of, write_cache
from tests.helpers.caches import Native

FUNCTION = f"{PACKAGE}.kernels:compiled"
HERE, OTHER = Target.parse("sm_90a"), Target.parse("sm_100a")


def facts(source: str) -> dict[str, object]:
    digest = hashlib.sha256(source.encode()).hexdigest()
    return {FACTS: {"variables": {"OF_THE_SERVER": "1"}, "packages": {}, "modules": {f"{PACKAGE}.kernels": digest}}}


@pytest.fixture
def requested(installed: Path) -> Recorded:
    """A key of the installed library."""
    declare(MINE)
    config = {name: value for name, value in key_of({"n": 1}).items() if name != "dsl_version"}
    return Recorded(library="mine", compile=FUNCTION, config=config)


def test_a_kernel_for_another_target_is_not_held(native: Native, tmp_path: Path, requested: Recorded) -> None:
    path = write_cache(native, tmp_path / "cache", FUNCTION, [key_of({"n": 1})])
    assert missing_of([requested], [*kernels_of(path, HERE)]) == []
    assert missing_of([requested], [*kernels_of(path, OTHER)]) == [requested]
    manifest = tmp_path / "recorded.yaml"
    manifest.write_text(manifest_of([requested], name="mine", targets=["sm_90a"]))
    assert [*kernels_of(manifest, HERE)] == [held_as(requested)]
    assert [*kernels_of(manifest, OTHER)] == []


def test_a_kernel_of_other_sources_is_not_held(
    native: Native, installed: Path, tmp_path: Path, requested: Recorded
) -> None:
    source = (installed / PACKAGE / "kernels.py").read_text()
    for text, missing in ((source, []), (f"{source}# patched", [requested])):
        path = write_cache(native, tmp_path / str(len(text)), FUNCTION, [key_of({"n": 1})], provenance=facts(text))
        assert missing_of([requested], [*kernels_of(path, HERE)]) == missing


def test_the_error_of_a_frozen_attachment_has_an_entry_that_asks_for_the_key(installed: Path) -> None:
    missing: dict[str, Any] = {"n": 2, "eps": 1e-6, "zero": 0.0, "tile": ["on", "", None, 1.5], "mode": True}
    with pytest.raises(KernelMissing) as raised:
        Attachment("frozen", target="sm_90a").obtain(MINE, FUNCTION, missing)
    text = str(raised.value)
    lines = text.partition("\nkernels:\n")[2]
    head = f"version: 1\nname: mine\ntargets: [sm_90a]\nkernels:\n{lines}"
    (entry,) = parse_manifest(head.encode(), Path("mine.yaml")).entries
    assert (entry.source, entry.op) == (f"{FUNCTION}@mine", MINE.op(FUNCTION))
    wanted = {name: [one] if isinstance(one, list) else one for name, one in key_of(missing).items()}
    del wanted["dsl_version"]  # the builder's own
    assert canonical({name: node.plain() for name, node in entry.config.items()}) == canonical(wanted)
