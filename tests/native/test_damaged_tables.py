"""Tables, blobs and host programs that someone changed, through libprecast with sanitizers.

In most of these the table has the digest that it must have: the attacker writes the whole folder. What is promised then
is that libprecast reads nothing outside of it and no memory but its own.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast import loader
from precast.loader.contract.format.index import digest
from tests.helpers.attacks import edit
from tests.helpers.caches import CacheWriter, Native, artifact, compiler, gives_away
from tests.helpers.gpu.programs import PROGRAM, SIGNATURE
from tests.helpers.native.libprecast import (
    CACHE_ERROR,
    INTEGRITY_ERROR,
    LAUNCH_ERROR,
    LOAD_ERROR,
    NO_CUDA_DEVICE,
    OK,
    OP_NOT_FOUND,
    VARIANT_NOT_FOUND,
    WRONG_REQUEST,
    LibprecastReader,
    frozen,
    request,
)

CONFIG = {"dtype": "bfloat16"}
GOOD = "t1:0:2:32:1:4096;17,4;4,1 n t1:0:10:8:1:64;17;1 i2 b1 f1.5 f-2.0"
REFUSED = {CACHE_ERROR, INTEGRITY_ERROR}
ANY = {OK, *REFUSED, OP_NOT_FOUND, VARIANT_NOT_FOUND, LOAD_ERROR}
SETTINGS = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
TOKENS = (
    "null", "true", "-1", "1e5", "0.5", '""', "[]", "{}", '"x"', "99999999999999999999", '{"a":1}', r'"\ud800"', "NaN",
    ",", ":", '"', "[", "}", "\\", "0", '"key"', "1e999", "-0", "01", "[" * 600, '{"":' * 300, "9" * 5000,
)  # fmt: skip
VALUES: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", "\ud800", [], [None], {}, {"a": None}, [[]], 2**70)
FREE = ("config", "signature", "problem", "tvm_ffi", "cuda", "needs", "speed")
"""What may hold other values of another type, or names of any versions."""


@pytest.fixture
def opened(libprecast: LibprecastReader, folder: Path) -> Callable[[], int]:
    """The status of a request after the folder was changed; no error is long."""

    def ask() -> int:
        answer = libprecast.ask(folder, config=CONFIG)
        assert len(answer.text) < 4000
        return answer.status

    assert ask() == OK
    return ask


@pytest.fixture
def refused(libprecast: LibprecastReader, folder: Path) -> Callable[..., None]:
    """The request is refused with these words, and no library is opened."""

    def ask(*words: str) -> None:
        with pytest.raises(loader.CacheError) as caught:
            libprecast.ask(folder, config=CONFIG).value()
        assert all(word in str(caught.value) for word in words), str(caught.value)
        assert not libprecast.opened()

    return ask


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*here, key)
        yield from places(item, (*here, key))


def changed(data: Any, place: tuple[Any, ...], value: Any) -> Any:
    data = copy.deepcopy(data)
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return data


def small(folder: Path) -> Any:
    """Leave one kernel and one request, and return the table."""

    def cut(table: Any) -> None:
        table["kernels"], table["requests"] = table["kernels"][:1], table["requests"][:1]
        table["requests"][0]["kernels"] = [0]

    edit(folder / "table.json", cut)
    return json.loads((folder / "table.json").read_bytes())


@given(st.data())
@SETTINGS
@pytest.mark.slow
def test_random_damage(opened: Callable[[], int], folder: Path, data: st.DataObject) -> None:
    table = folder / "table.json"
    whole = table.read_bytes()
    text, kinds = bytearray(whole), st.sampled_from(("byte", "cut", "insert"))
    for _ in range(data.draw(st.integers(1, 3))):
        place, kind = data.draw(st.integers(0, len(text))), data.draw(kinds)
        if kind == "byte":
            text[place : place + 1] = data.draw(st.binary(min_size=1, max_size=4))
        elif kind == "cut":
            del text[place : place + data.draw(st.integers(1, 40))]
        else:
            text[place:place] = data.draw(st.sampled_from(TOKENS)).encode()
    try:
        table.write_bytes(text)
        assert opened() in ANY
    finally:
        table.write_bytes(whole)


@given(st.binary(max_size=300))
@settings(SETTINGS, max_examples=60)
def test_random_bytes(opened: Callable[[], int], folder: Path, data: bytes) -> None:
    whole = (folder / "table.json").read_bytes()
    (folder / "table.json").write_bytes(data)
    assert opened() == CACHE_ERROR
    (folder / "table.json").write_bytes(whole)


@pytest.mark.slow
def test_every_truncation_of_a_table(libprecast: LibprecastReader, opened: Callable[[], int], folder: Path) -> None:
    small(folder)
    whole = (folder / "table.json").read_bytes().rstrip()
    for length in range(len(whole)):
        (folder / "table.json").write_bytes(whole[:length])
        assert opened() == CACHE_ERROR, length


@pytest.mark.slow
def test_a_bit_of_every_byte(libprecast: LibprecastReader, folder: Path) -> None:
    """Each flip of a blob is noticed, and of a table whose digest is given; of another table some leave a sound one."""
    small(folder)
    sha256, seen = digest((folder / "table.json").read_bytes()), Counter[int]()
    assert libprecast.ask(folder, config=CONFIG, sha256=sha256).value()
    (row,) = json.loads((folder / "table.json").read_bytes())["kernels"]
    blobs = [folder / "blobs" / blob["sha256"] for blob in (row["blob"], row["runtime"]["blob"])]
    for file in (folder / "table.json", *blobs):
        whole = file.read_bytes()
        for place in range(0, len(whole), 1 if file.name == "table.json" else 64):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << place % 8
            file.write_bytes(flipped)
            if file.name == "table.json":
                seen[libprecast.ask(folder, config=CONFIG).status] += 1
            assert libprecast.ask(folder, config=CONFIG, sha256=sha256).status == INTEGRITY_ERROR, place
        file.write_bytes(whole)
    assert set(seen) <= ANY and seen[OK] > 0 and seen[CACHE_ERROR] > 0


@pytest.mark.slow
def test_every_value_by_one_of_another_type(libprecast: LibprecastReader, folder: Path) -> None:
    table, count = small(folder), 0
    for place in places(table):
        inner = table
        for step in place:
            inner = inner[step]
        for value in VALUES:
            if type(value) is type(inner) and value not in (-1, 2**70):
                continue
            (folder / "table.json").write_text(json.dumps(changed(table, place, value)))
            answer = libprecast.ask(folder, config=CONFIG)
            free = any(step in FREE for step in place)
            assert answer.status == CACHE_ERROR or (free and answer.status in ANY), (place, value, answer)
            assert answer.status == OK or "table.json" in answer.text or "here" in answer.text, answer
            count += answer.status == CACHE_ERROR
    assert count > 300


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("version",), 2, "format version 2; this libprecast reads version 1: upgrade libprecast"),
        (("version",), 0, "version 1: make the folder again"),
        (("format",), "precast-cache", "'precast-cache' is not 'precast-native' in 'format': make the folder again"),
        (("more",), 1, "unknown key in 'more'"),
        (("requests", 0, "kernels"), [], "expected at least one kernel in 'requests[0].kernels'"),
        (("requests", 0, "kernels"), [1], "1 is not between 0 and 0 in 'requests[0].kernels[0]'"),
        (("requests", 0, "kernels"), [0] * 65, "65 items, more than the 64"),
        (("requests", 0, "problem"), {"m": 2**63}, "is not between 0 and"),
        (("kernels", 0, "blob", "sha256"), "../" * 20 + "etc/passwd" + "0" * 10, "is not a SHA-256 digest"),
        (("kernels", 0, "blob", "size"), 2**26 + 1, "is not between 0 and 67108864"),
        (("kernels", 0, "runtime", "soname"), "libc.so.6", "is not the name of a runtime library"),
        (("kernels", 0, "runtime", "soname"), "../libprecast-rt-0000000000000002.so", "is not the name of a runtime"),
        (("kernels", 0, "symbol"), "a\nb", "is not a symbol name"),
        (("kernels", 0, "target"), "sm_9", "not a target"),
        (("kernels", 0, "needs"), {"a b": 1}, "not the name of a fact"),
        (("kernels", 0, "needs"), {"warp_size": [32]}, "expected a number or a text"),
        (("kernels", 0, "kind"), "cubin", "missing in 'kernels[0].program'"),
        (("kernels", 0, "signature"), {"arguments": [{"name": "x"}]}, "missing in 'kernels[0].signature.arguments[0]."),
        (("kernels", 0, "config"), json.loads('{"a":' * 499 + "1" + "}" * 499), "JSON nests too deep"),
    ],
)  # fmt: skip
def test_a_value_that_is_none(refused: Any, folder: Path, place: tuple[Any, ...], value: Any, words: str) -> None:
    (folder / "table.json").write_text(json.dumps(changed(small(folder), place, value)))
    refused(words)


def test_a_key_twice(refused: Any, folder: Path) -> None:
    table = (folder / "table.json").read_text()
    (folder / "table.json").write_text(table.replace('"version":1', r'"version":1,"versio\u006e":1'))
    refused("the key occurs twice in 'version'")


@pytest.mark.parametrize("symbol", ["system", "TVMFFIErrorSetRaisedFromCStr", "_init", "__tvm_ffi_", "__tvm_ffi_other"])
def test_a_function_that_is_no_entry(libprecast: LibprecastReader, folder: Path, symbol: str) -> None:
    table = json.loads((folder / "table.json").read_bytes())
    for row in table["kernels"]:
        row["symbol"] = symbol
    (folder / "table.json").write_text(json.dumps(table))
    assert libprecast.ask(folder, config=CONFIG).status == LOAD_ERROR


def test_an_entry_of_a_library_it_needs(libprecast: LibprecastReader, folder: Path) -> None:
    """dlsym also looks into what a library needs; a name found there is not this kernel's entry."""
    source, soname = folder / "both.c", "libprecast-rt-00000000000000ee.so"
    source.write_text("int __tvm_ffi_scale(void) { return 7; }\n")
    compiler(source, f"-Wl,-soname,{soname}", "-o", folder / soname)
    source.write_text("extern int __tvm_ffi_scale(void); int use(void) { return __tvm_ffi_scale(); }\n")
    compiler(source, folder / soname, "-o", folder / "variant.so")

    def put(name: str) -> dict[str, Any]:
        code = (folder / name).read_bytes()
        (folder / "blobs" / digest(code)).write_bytes(code)
        return {"sha256": digest(code), "size": len(code)}

    def change(table: Any) -> None:
        for row in table["kernels"]:
            row |= {"blob": put("variant.so"), "runtime": {"soname": soname, "blob": put(soname)}}

    edit(folder / "table.json", change)
    with pytest.raises(loader.LoadError, match="has no symbol __tvm_ffi_scale"):
        libprecast.ask(folder, config=CONFIG).value()


def test_another_blob(refused: Any, folder: Path) -> None:
    """Of the right size."""
    first = json.loads((folder / "table.json").read_bytes())["kernels"][0]["blob"]["sha256"]
    path = folder / "blobs" / first
    path.write_bytes(bytes(path.stat().st_size))
    refused(f"blobs/{first} is damaged: its content is not what the table promises: make the folder again")
    path.write_bytes(b"short")
    refused("it should have ", " bytes: make the folder again")
    path.unlink()
    refused("is missing: make the folder again")


@pytest.mark.parametrize("what", ["table.json", "blobs", "a blob"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_plain_file(refused: Any, folder: Path, tmp_path: Path, what: str, kind: str) -> None:
    first = json.loads((folder / "table.json").read_bytes())["kernels"][0]["runtime"]["blob"]["sha256"]
    path = folder / "blobs" / first if what == "a blob" else folder / what
    moved = Path(shutil.move(path, tmp_path / "moved"))
    if kind == "link":
        path.symlink_to(moved)
    elif kind == "pipe":
        os.mkfifo(path)
    elif what == "blobs":
        path.touch()
    else:
        path.mkdir()
    refused("")


@pytest.mark.parametrize("what", ["", "table.json", "blobs"])
def test_what_strangers_may_write(
    refused: Any, libprecast: LibprecastReader, folder: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / what
    mode = path.stat().st_mode
    path.chmod(mode | 0o002)
    refused("can be written by everyone, who could run code as you: change that")
    path.chmod(mode)
    if gives_away():
        os.chown(path, 4711, -1)
        refused("belongs to another user (uid 4711)")
    libprecast.close()
    monkeypatch.setenv("PRECAST_ALLOW_UNSAFE_CACHES", "1")
    assert libprecast.ask(folder, config=CONFIG).value()


def test_what_is_too_large(refused: Any, folder: Path) -> None:
    with (folder / "table.json").open("ab") as file:
        file.truncate(1 << 33)  # a hole: 8 GiB that no disk has
    refused("should have at most 16777216 bytes")
    (folder / "table.json").write_text("[" + "[]," * 5_000_000 + "[]]")
    refused("more than the 1000000 values")


def test_another_digest(libprecast: LibprecastReader, folder: Path) -> None:
    for wrong in ("0" * 64, "x", digest(b"")):
        with pytest.raises(loader.IntegrityError, match="install the folder that this program was made for"):
            libprecast.ask(folder, config=CONFIG, sha256=wrong).value()


def test_a_request_as_text(libprecast: LibprecastReader, folder: Path) -> None:
    """The reader of JSON, which a program's request reaches too."""
    chance = random.Random(3)
    for _ in range(500):
        text = "".join(chance.choice('{}[]",:0123456789.eE+-truefalsn\\ud8 €') for _ in range(chance.randrange(1, 40)))
        try:
            is_object = isinstance(json.loads(text), dict)
        except ValueError:
            is_object = False
        status = libprecast.ask(folder, config=text).status
        assert status == (VARIANT_NOT_FOUND if is_object else WRONG_REQUEST), text


@pytest.fixture
def cubin(native: Native, tmp_path: Path) -> Path:
    """A folder of one cubin, of which the stand-in for the driver knows the kernels."""
    writer = CacheWriter()
    steps = [[step.kernel, *[f"{p.size}" for p in step.parameters]] for step in PROGRAM.steps]
    code = writer.keep(f"kernels {'; '.join(map(' '.join, steps))}".encode(), "raw")
    made = artifact(code, {}, symbol="first", kind="cubin", host=None)
    writer.op("op", [replace(made, signature=SIGNATURE, program=PROGRAM)], keys=())
    return frozen(writer.write(tmp_path / "cubin"), tmp_path / "frozen", request("op"))


@pytest.mark.slow
def test_a_damaged_host_program(libprecast: LibprecastReader, native: Native, cubin: Path) -> None:
    """Its numbers are others, and the table has the digest of these: refused, or launched as something."""
    table = json.loads((cubin / "table.json").read_bytes())
    program = table["kernels"][0]["program"]
    words = (cubin / "blobs" / program["sha256"]).read_bytes()
    chance, seen = random.Random(5), Counter[int]()

    def ask(code: bytes, arguments: str) -> int:
        program.update(sha256=digest(code), size=len(code))
        (cubin / "blobs" / digest(code)).write_bytes(code)
        (cubin / "table.json").write_text(json.dumps(table))
        answer = libprecast.ask(cubin, "op", command="call", target=None, cuda=native.launches(), arguments=arguments)
        seen[answer.status] += 1
        return answer.status

    assert ask(words, GOOD) == OK
    for length in range(0, len(words), 7):
        assert ask(words[:length], GOOD) == LOAD_ERROR
    extremes = (0, 1, -1, 7, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63), 255, 256)
    for _ in range(700):
        code = bytearray(words)
        for _ in range(chance.randrange(1, 3)):
            place = 8 * chance.randrange(len(words) // 8)
            number = chance.choice((*extremes, chance.randrange(64), chance.getrandbits(63)))
            code[place : place + 8] = number.to_bytes(8, "little", signed=True)
        assert ask(bytes(code), GOOD) in (OK, LAUNCH_ERROR, LOAD_ERROR, NO_CUDA_DEVICE)
    for n in extremes:
        for stride in extremes:
            arguments = f"t1:0:2:32:1:4096;{n},4;{stride},1 n t1:0:10:8:1:64;{n};{stride} i{n} b1 fnan finf"
            assert ask(words, arguments) in (OK, LAUNCH_ERROR)
    assert seen[LOAD_ERROR] > 100 and seen[LAUNCH_ERROR] > 20 and seen[OK] > 20, seen
