"""What of a tuning file is about the artifacts of a cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from precast.build.measurements.fit import Listed, code_digest, completed, fit
from precast.build.measurements.tuning_file import TuningFile
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.index import digest
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.errors import FormatError
from tests.helpers.caches import SCALE_KEYS, artifact, blob_of
from tests.helpers.tuning.files import CODES, scale_file

ONE, TWO = (("n", 8),), (("n", 16),)


def listed(*threads: int, dtype: str = "bfloat16", target: str = "sm_90a", kind: str = "object") -> Listed:
    more: dict[str, Any] = {} if kind == "object" else {"kind": kind, "host": None}
    rows = [
        artifact(blob_of(b"%d" % n)[0], {"dtype": dtype, "layout": "row", "threads": n}, target, **more)
        for n in threads
    ]
    return Listed(SCALE_KEYS, tuple(rows))


def test_the_times_go_to_the_artifacts_of_their_config() -> None:
    here = listed(128, 256)
    found = fit(scale_file({128: {ONE: 2.5}, 256: {ONE: 1.5, TWO: 3.0}}), {"scale": here})
    one, two = (a.key for a in here.artifacts)
    assert [(row.gpu, row.problem, row.times) for row in found.rows["scale"]] == [
        ("NVIDIA H200", {"n": 16}, {two: 3.0}),
        ("NVIDIA H200", {"n": 8}, {one: 2.5, two: 1.5}),
    ]
    assert (found.times, found.candidates, found.left_out, found.earlier) == (3, 2, 0, 0)


@pytest.mark.parametrize(
    "here",
    [
        {"scale": listed(128, dtype="float16")},
        {"scale": listed(128, target="sm_100a")},
        {"scale": listed(64)},
        {"scale": listed(128, kind="cubin")},
        {"other": listed(128)},
        {},
    ],
)
def test_what_is_not_in_the_cache_is_left_out_and_counted(here: dict[str, Listed]) -> None:
    found = fit(scale_file({128: {ONE: 2.5}}), here)
    assert (dict(found.rows), found.times, found.candidates, found.left_out) == ({}, 0, 0, 1)
    assert str(found) == "0 measured times of 0 variants; 1 measured variant is not here"


def test_a_row_of_which_something_is_left_stays() -> None:
    here = listed(256)
    found = fit(scale_file({128: {ONE: 2.5, TWO: 1.0}, 256: {ONE: 1.5}}), {"scale": here})
    assert [row.times for row in found.rows["scale"]] == [{here.artifacts[0].key: 1.5}]
    assert found.left_out == 1


def test_tilings_go_with_the_times_of_problems_that_have_their_axes() -> None:
    here, file = listed(128, 256), scale_file({128: {ONE: 2.5, (("m", 8),): 1.0}, 256: {ONE: 1.5}})
    told = Tiling(tile={"n": 4}, at_once=66)
    (group,) = file.groups
    first, second = group.candidates
    file = replace(file, groups=(replace(group, candidates=(replace(first, tiling=told), second)),))
    one = here.artifacts[0].key
    rows = {tuple(row.problem): row.tilings for row in fit(file, {"scale": here}).rows["scale"]}
    assert rows == {("n",): {one: told}, ("m",): {}}


def test_those_measured_on_other_code_are_counted() -> None:
    here, file = listed(128, 256), scale_file({128: {ONE: 1.0}, 256: {ONE: 2.0}}, code=CODES[0])
    codes = {here.artifacts[0].key: CODES[0], here.artifacts[1].key: CODES[1]}
    found = fit(file, {"scale": here}, lambda one: codes[one.key])
    assert (found.times, found.earlier) == (2, 1)
    assert "1 of these was measured on an earlier build" in str(found)


def test_a_key_that_an_op_has_got_since_has_its_default() -> None:
    keys = (*SCALE_KEYS, Key(name="stages", type="int", tuned=True, has_default=True, default=2))
    rows = tuple(replace(a, config={**a.config, "stages": 2}) for a in listed(128).artifacts)
    file = scale_file({128: {ONE: 2.5}})
    assert fit(file, {"scale": Listed(keys, rows)}).times == 1
    (group,) = completed(file, {"scale": keys}).groups
    assert [dict(one.tuned) for one in group.candidates] == [{"threads": 128, "stages": 2}]
    other = tuple(replace(a, config={**a.config, "stages": 3}) for a in listed(128).artifacts)
    assert fit(file, {"scale": Listed(keys, other)}).times == 0


def test_what_an_op_no_longer_takes_stays_in_the_file() -> None:
    file = scale_file({128: {ONE: 2.5}})
    assert completed(file, {"scale": SCALE_KEYS[:1]}) == file
    assert completed(file, {}) == file
    assert completed(TuningFile(), {"scale": SCALE_KEYS}) == TuningFile()


def test_more_rows_than_a_cache_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from precast.build.measurements import fit as module

    monkeypatch.setattr(module, "TUNING_LIMIT", 1)
    with pytest.raises(FormatError, match="scale has 2 measured problems, and a cache may have 1"):
        fit(scale_file({128: {ONE: 1.0, TWO: 1.0}}), {"scale": listed(128)})


def test_the_digest_is_of_the_device_code_alone() -> None:
    fatbin = b"\x50\xed\x55\xba" + (1).to_bytes(2, "little") + (16).to_bytes(2, "little") + (4).to_bytes(8, "little")
    code = fatbin + b"code"
    assert code_digest(b"one runtime" + code) == code_digest(b"another runtime" + code + b"end")
    assert code_digest(b"x" + code) != code_digest(b"x" + fatbin + b"edoc")
    assert code_digest(b"one") != code_digest(b"two"), "without device code, of all of it"
    assert code_digest(b"one") != digest(b"one")[:16], "and it is no digest of a file"
