"""libprecast looks requests up in a table, and says which kernel of a request runs on a machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader.contract.format.assumptions import Assumptions
from tests.helpers.attacks import edit
from tests.helpers.caches import CacheWriter, Native, artifact
from tests.helpers.native.libprecast import LibprecastReader, frozen, request

BFLOAT16 = {"dtype": "bfloat16"}


def change(folder: Path, how: Callable[[dict[str, Any]], None]) -> None:
    """Change each kernel of a table."""

    def each(table: Any) -> None:
        for row in table["kernels"]:
            how(row)

    edit(folder / "table.json", each)


@pytest.mark.parametrize(
    "config",
    ['{"threads":128,"dtype":"torch.bfloat16"}', '\n{ "dtype" : "torch.\\u0062float16", "threads" : 128 }'.strip()],
)
def test_a_request_is_its_values(libprecast: LibprecastReader, folder: Path, config: str) -> None:
    pinned = libprecast.ask(folder, config=config)
    assert pinned.value() != libprecast.ask(folder, config=BFLOAT16).value()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"dtype": "float16"}, 'has the config {"dtype":"float32"}, which differs in \'dtype\''),
        ({"dtype": "torch.bfloat16", "threads": 128.0}, "which differs in 'threads'"),
        ({**BFLOAT16, "layout": "row"}, "which differs in 'layout'"),
        ({}, "which differs in 'dtype'"),
    ],
)
def test_the_nearest_request(libprecast: LibprecastReader, folder: Path, config: Any, words: str) -> None:
    with pytest.raises(loader.VariantNotFound, match="To use another, add the request to the file that 'precast nat"):
        libprecast.ask(folder, config=config).value()
    assert words in libprecast.ask(folder, config=config).text


def test_an_op_that_no_request_names(libprecast: LibprecastReader, folder: Path) -> None:
    with pytest.raises(loader.OpNotFound, match=r"no request for op 'gemm'; it has requests for: scale\. To use"):
        libprecast.ask(folder, "gemm").value()


def test_a_problem(libprecast: LibprecastReader, path: Path, tmp_path: Path) -> None:
    """That of the table; else the smallest of which no size is smaller."""
    listed = ((16, 64), (256, 64), (16, 512), (0, 4096))
    rows = [request(config=BFLOAT16, problem={"m": m, "n": n}) for m, n in listed]
    dtypes = [request(config={"dtype": dtype, "threads": n}) for dtype in ("float16", "float32") for n in (128, 256)]
    folder = frozen(path, tmp_path / "kernels", *rows, *dtypes)

    def each_its_own(table: dict[str, Any]) -> None:
        for place, row in enumerate(table["requests"][: len(rows)]):
            row["kernels"] = [1 + place]

    edit(folder / "table.json", each_its_own)
    kernels = {libprecast.ask(folder, config=BFLOAT16, problem={"m": m, "n": n}).value(): (m, n) for m, n in listed}
    assert len(kernels) == len(listed)
    for (m, n), taken in {
        (15, 64): (16, 64), (17, 64): (256, 64), (1, 65): (16, 512), (0, 513): (0, 4096), (0, 0): (16, 64),
    }.items():  # fmt: skip
        assert kernels[libprecast.ask(folder, config=BFLOAT16, problem={"m": m, "n": n}).value()] == taken
    for problem in ({"m": 257, "n": 1}, {"m": 1}, {"m": 1, "k": 1}, {"m": 1, "n": 1, "k": 1}, None):
        with pytest.raises(loader.VariantNotFound, match=r"no request scale .*: the nearest has the problem .* To use"):
            libprecast.ask(folder, config=BFLOAT16, problem=problem).value()
    with pytest.raises(loader.VariantNotFound, match=r"for a problem as large as .*: the nearest has no problem"):
        libprecast.ask(folder, config={"dtype": "float16", "threads": 128}, problem={"m": 1}).value()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda row: row["host"].update(arch="aarch64"), "built for aarch64 hosts, this one is "),
        (lambda row: row["host"].update(glibc="2.999"), "needs glibc 2.999, this host has 2."),
        (lambda row: row.update(tvm_ffi="0.2.0"), "made with apache-tvm-ffi 0.2, 0.1."),
        (lambda row: row.update(cuda="13.4"), "made with CUDA 13.4, this driver is for CUDA 12.9"),
        (lambda row: row.update(target="sm_120a"), "built for sm_120a, this GPU is 9.0"),
        (lambda row: row.update(needs={"warp_size": 64}), "whose warp_size is 64, this one's is 0: build it with"),
        (lambda row: row.update(needs={"name": "Fake Blackwell"}), "is 'Fake Blackwell', this one's is 'Fake Hopper'"),
        (lambda row: row.update(needs={"no_such": 1}), "and the driver cannot tell this one's: update the driver"),
    ],
)
def test_a_machine_that_is_another(
    libprecast: LibprecastReader, folder: Path, native: Native, how: Callable[[Any], None], words: str
) -> None:
    assert libprecast.ask(folder, config=BFLOAT16, target=None, cuda=native.driver()).value()
    change(folder, how)
    with pytest.raises(
        loader.VariantNotFound, match="no kernel of the table for this request of scale runs here"
    ) as why:
        libprecast.ask(folder, config=BFLOAT16, target=None, cuda=native.driver()).value()
    assert words in str(why.value) and "Run 'precast native' with a --target" in str(why.value)


def test_what_is_the_same_or_only_slower(libprecast: LibprecastReader, folder: Path, native: Native) -> None:
    facts = {"needs": {"warp_size": 0, "name": "Fake Hopper"}, "speed": {"multiprocessor_count": 7}}
    change(folder, lambda row: row.update(facts, cuda="12.1", tvm_ffi=""))
    assert libprecast.ask(folder, config=BFLOAT16, target=None, cuda=native.driver()).value()


def test_without_a_device(libprecast: LibprecastReader, folder: Path) -> None:
    with pytest.raises(loader.NoCudaDevice, match="Run this where there is one, or give a target such as sm_90a"):
        libprecast.ask(folder, config=BFLOAT16, target=None).value()


def test_another_target(libprecast: LibprecastReader, folder: Path) -> None:
    one, other = (libprecast.ask(folder, config=BFLOAT16, target=target).value() for target in ("sm_90a", "sm_100a"))
    assert one != other
    with pytest.raises(loader.VariantNotFound, match="built for sm_90a, sm_80 was requested"):
        libprecast.ask(folder, config=BFLOAT16, target="sm_80").value()


def test_the_variant_for_this_gpu(
    libprecast: LibprecastReader, native: Native, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the artifacts of one variant the machine decides; nothing of another target is taken for its speed."""
    monkeypatch.setenv("FAKE_SMS", "132")
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    code, keys = writer.keep(native.entry()), {}
    for place, (needs, speed) in enumerate((({"warp_size": 64}, {}), ({}, {"multiprocessor_count": 1}), ({}, {}))):
        one = artifact(code, {"dtype": "bfloat16", "layout": "row", "threads": 256}, "sm_90a", rank=place)
        assumes = Assumptions(needs=needs, speed=speed or {"multiprocessor_count": 132})
        keys[place] = replace(one, key=f"{place:064x}", assumes=assumes)
    writer.op("scale", keys.values())
    folder = frozen(writer.write(tmp_path / "cache"), tmp_path / "kernels", request(config=BFLOAT16))

    def ask() -> str:
        return libprecast.ask(folder, config=BFLOAT16, target=None, cuda=native.driver()).value()

    assert ask() == keys[2].key
    change(folder, lambda row: row.update(speed={"multiprocessor_count": 1}))
    assert ask() == keys[1].key
    change(folder, lambda row: row.update(target="sm_90", speed={}) if row["key"] == keys[2].key else None)
    assert ask() == keys[1].key
