"""Tuning files: what is written is read again, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.measurements import tuning_file
from precast.build.measurements.tuning_file import TuningFile
from precast.loader.errors import FormatError
from tests.helpers.tuning.files import files, scale_file

ONE, TWO = (("n", 8),), (("n", 16),)


@given(files())
def test_what_is_written_is_read_again(file: TuningFile) -> None:
    data = file.encode()
    assert TuningFile.decode(data) == file
    assert TuningFile.decode(data).encode() == data
    assert json.loads(data)["version"] == 1


@given(files(), st.randoms(use_true_random=False))
def test_the_order_of_what_is_known_decides_no_byte(file: TuningFile, random: Any) -> None:
    groups, gpus = list(file.groups), list(file.gpus)
    random.shuffle(groups)
    random.shuffle(gpus)
    assert TuningFile(tuple(gpus), tuple(groups)).encode() == file.encode()


def test_a_person_reads_a_line_for_each_candidate_and_problem() -> None:
    file = scale_file({128: {ONE: 2.5}, 256: {ONE: 1.25, TWO: 3.0}})
    assert file.count == 3
    assert file.encode().decode().splitlines()[6:] == [
        ' "ops": {',
        '  "scale": [',
        "   {",
        '    "gpu": "NVIDIA H200",',
        '    "target": "sm_90a",',
        '    "config": {"dtype": "bfloat16", "layout": "row"},',
        '    "candidates": [',
        '     {"code": "0000000000000000", "date": "2026-11-20T12:00:00Z", "tuned": {"threads": 128}},',
        '     {"code": "0000000000000000", "date": "2026-11-20T12:00:00Z", "tuned": {"threads": 256}}',
        "    ],",
        '    "rows": [',
        '     {"problem": {"n": 8}, "times": [2.5, 1.25]},',
        '     {"problem": {"n": 16}, "times": [null, 3.0]}',
        "    ]",
        "   }",
        "  ]",
        " }",
        "}",
    ]


def group(data: Any) -> Any:
    return data["ops"]["scale"][0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format="precast-measurements"), "format: 'precast-measurements' is not 'precast-tuning'"),
        (lambda d: d.update(more=1), "more: unknown key"),
        (lambda d: d.pop("gpus"), "gpus: missing"),
        (lambda d: d["gpus"].append(d["gpus"][0]), "gpus: a GPU occurs twice"),
        (lambda d: d["gpus"][0].update(date="yesterday"), r"gpus\[0\].date: 'yesterday' is not a date"),
        (lambda d: d["gpus"][0].update(name="\u001b[2J"), r"gpus\[0\].name: .* is not the name of a GPU"),
        (lambda d: d["gpus"][0].update(sm_mhz=-1), r"gpus\[0\].sm_mhz: -1 is not between"),
        (lambda d: d["gpus"].clear(), r"ops.scale\[0\].gpu: 'NVIDIA H200' is not listed"),
        (lambda d: d["ops"].update({"../x": []}), r"ops\.\.\./x: not the name of an op"),
        (lambda d: d["ops"].update(scale={}), "ops.scale: expected a list"),
        (lambda d: d["ops"]["scale"].append(group(d)), "ops.scale: a config occurs twice"),
        (lambda d: group(d).update(target="sm_9"), r"ops.scale\[0\].target: 'sm_9' is not a target"),
        (lambda d: group(d)["config"].update({"a-b": 1}), r"ops.scale\[0\].config.a-b: not a config key"),
        (
            lambda d: group(d)["config"].update(threads=1),
            r"\[0\].tuned.threads: this key is in 'config' as well",
        ),
        (lambda d: group(d)["candidates"].append(group(d)["candidates"][0]), "candidates: a candidate occurs twice"),
        (lambda d: group(d)["candidates"][0].update(code="A" * 16), r"candidates\[0\].code: .* is not the digest"),
        (lambda d: group(d)["candidates"].pop(), r"rows\[0\].times: 2 times for 1 candidates"),
        (lambda d: group(d)["rows"].append(group(d)["rows"][0]), r"rows\[2\]: a problem occurs twice"),
        (lambda d: group(d)["rows"][0].update(times=[None, None]), r"rows\[0\].times: no candidate has a time"),
        (lambda d: group(d)["rows"][0].update(times=[0, 1]), r"rows\[0\].times\[0\]: expected a positive number"),
        (lambda d: group(d)["rows"][0].update(times=[True, 1]), r"rows\[0\].times\[0\]: expected a positive number"),
        (lambda d: group(d)["rows"][0].update(times=[1e300, 1]), r"rows\[0\].times\[0\]: expected a positive number"),
        (lambda d: group(d)["rows"][0].update(problem={}), r"rows\[0\].problem: expected a problem"),
        (lambda d: group(d)["rows"][0].update(problem={"n": -1}), r"rows\[0\].problem.n: -1 is not between"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(change: Callable[[Any], Any], words: str) -> None:
    data = json.loads(scale_file({128: {ONE: 2.5}, 256: {ONE: 1.25, TWO: 3.0}}).encode())
    change(data)
    place, _, text = words.partition(": ")
    with pytest.raises(FormatError, match=f"{text}.*(in|:) '.*{place}'"):
        TuningFile.decode(json.dumps(data).encode())


def test_another_version_is_refused() -> None:
    data = json.loads(scale_file({128: {ONE: 2.5}}).encode())
    for version, remedy in ((2, "upgrade precast"), (0, "write the file again")):
        message = f"the file has format version {version}; this precast reads version 1: {remedy}"
        with pytest.raises(FormatError, match=message):
            TuningFile.decode(json.dumps({**data, "version": version}).encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        TuningFile.decode(data)


@given(files(), st.data())
def test_any_change_of_a_value_is_read_or_refused(file: TuningFile, data: st.DataObject) -> None:
    root = json.loads(file.encode())
    spots: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            spots.append((value, key))
            if isinstance(item, (dict, list)):
                collect(item)

    collect(root)
    holder, key = data.draw(st.sampled_from(spots))
    holder[key] = data.draw(st.one_of(st.none(), st.integers(), st.text(max_size=3), st.just([]), st.just({"x": {}})))
    try:
        found = TuningFile.decode(json.dumps(root).encode())
    except FormatError:
        return
    assert TuningFile.decode(found.encode()) == found


def test_a_file_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_file, "LIMIT", 10)
    with pytest.raises(FormatError, match="more than the 10 this reader takes"):
        TuningFile.decode(TuningFile().encode())
