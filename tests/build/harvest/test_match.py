"""A file has a key only where the library would keep the key's kernel in that very file, and would load it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from precast.build.harvest import harvest
from precast.build.harvest.file_names import FileName, NoFileName
from precast.build.harvest.found_files import FoundFile, NoMeta
from precast.loader.contract.format.target import Target
from precast.loader.contract.recordings.recording import Recorded

TARGET = Target.parse("sm_90a")
SOURCES, OTHER_SOURCES, DIGEST = "a" * 64, "b" * 64, "c" * 64
KEY = Recorded(library="quack", compile="quack.softmax:compile", config={"N": 8})
NEXT = Recorded(library="quack", compile="quack.softmax:compile", config={"N": 16})
META = {"arch": "sm90a", "cute_dsl_version": "4", "source_sha256": "0"}
NAMED = FileName(folders=("topk_sm90a_cute_dsl",), name="k8", meta=META)
DIGESTED = FileName(folders=(SOURCES, "fwd"), name=DIGEST, meta=None)


def keys_of(
    path: str,
    *names: tuple[Recorded, tuple[FileName, ...] | NoFileName],
    meta: Mapping[str, str] | NoMeta = META,
    is_link: bool = False,
) -> tuple[tuple[Recorded, ...], str]:
    """The keys of one file, and the reason why it has none."""
    file = FoundFile(path=Path("/cache") / path, is_link=is_link)
    (harvested,) = harvest.match([file], names, metas={file.path.parent: meta}, target=TARGET).files
    return harvested.keys, harvested.reason


def test_a_digest_has_the_key_whose_file_it_is() -> None:
    assert keys_of(f"{SOURCES}/fwd/{DIGEST}.o", (NEXT, ()), (KEY, (DIGESTED,))) == ((KEY,), "")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (f"{OTHER_SOURCES}/fwd/{DIGEST}.o", harvest.OTHER_VERSION),
        (f"{SOURCES}/bwd/{DIGEST}.o", harvest.OTHER_VERSION),
        (f"{DIGEST}.o", harvest.OTHER_VERSION),
        (f"{SOURCES}/fwd/{OTHER_SOURCES}.o", harvest.DIGEST),
        ("norm/norm.so", harvest.FOREIGN),
    ],
)
def test_other_files_have_a_reason(path: str, reason: str) -> None:
    assert keys_of(path, (KEY, (DIGESTED,))) == ((), reason)


def test_a_named_file_has_the_key_whose_name_it_is() -> None:
    assert keys_of("topk_sm90a_cute_dsl/k8.o", (KEY, (NAMED,))) == ((KEY,), "")
    assert keys_of("topk_sm90a_cute_dsl/k9.o", (KEY, (NAMED,))) == ((), harvest.UNREAD)


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        (NoMeta("meta.json is malformed"), "the library would not load it: meta.json is malformed"),
        ({**META, "cute_dsl_version": "3"}, "meta.json has another cute_dsl_version than"),
        ({"arch": "sm90a"}, "meta.json has another cute_dsl_version than"),
        ({**META, "\x1b[2J": ""}, "meta.json has another field than"),
    ],
)
def test_a_named_file_that_the_library_would_not_load_has_no_key(meta: Mapping[str, str] | NoMeta, reason: str) -> None:
    keys, given = keys_of("topk_sm90a_cute_dsl/k8.o", (KEY, (NAMED,)), meta=meta)
    assert keys == ()
    assert given.startswith(reason)
    assert "\x1b" not in given


def test_a_file_of_another_target_names_it() -> None:
    assert keys_of("topk_sm100a_cute_dsl/k8.o", (KEY, (NAMED,))) == (
        (),
        "compiled for sm_100a: harvest it with --target sm_100a",
    )


def test_a_link_has_no_key() -> None:
    assert keys_of(f"{SOURCES}/fwd/{DIGEST}.o", (KEY, (DIGESTED,)), is_link=True) == ((), harvest.LINK)


def test_keys_without_files_are_reported_once() -> None:
    missing = NoFileName("it keeps no file on disk")
    result = harvest.match([], [(KEY, missing), (NEXT, missing)], metas={}, target=TARGET)
    assert result.unnamed == ("quack.softmax:compile: it keeps no file on disk",)


def test_a_key_of_several_files_is_recorded_once() -> None:
    files = [FoundFile(path=Path(f"/{folder}/topk_sm90a_cute_dsl/k8.o")) for folder in ("a", "b", "c")]
    metas: dict[Path, Mapping[str, str] | NoMeta] = {file.path.parent: META for file in files}
    metas[files[2].path.parent] = NoMeta("")
    result = harvest.match(files, [(KEY, (NAMED,))], metas=metas, target=TARGET)
    assert result.recorded == (KEY,)
    assert result.counts() == {"named": (3, 2)}
