"""Entries that are run, calls and scripts: what they ask a library for is planned, built and checked as usual."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.attach.builder import program_recorder
from precast.attach.builder.program import Call
from precast.attach.builder.program_recorder import record_programs
from precast.attach.builder.recorded_manifest import read_recorded_manifest
from precast.build.disk.memo import Memo
from precast.build.errors import ManifestError
from precast.build.gpu.profile import Profiles
from precast.build.inputs.closure import Closures
from precast.build.plan.entry import Entry
from precast.build.plan.manifest import parse_manifest, read_manifest
from precast.loader.resolve.cache import Cache
from tests.helpers.attach.toy_library import write_toy_library
from tests.helpers.builds import kept_store, precast
from tests.helpers.kernels.kept_builds import kept_notes

pytest.importorskip("torch")

HEAD = "version: 1\nname: mine\ntargets: [sm_90a]\nkernels:\n"
ASKS = "from toy_attached.kernels import compiled_alone\nimport sys\n"
Plan = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library ``toy``, installed. One for all tests, so that all processes that import it may be forked."""
    return write_toy_library(tmp_path_factory.mktemp("toy") / "site", compiler=False)


@pytest.fixture
def plan(tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Runs ``precast plan --json`` on these entries, for the library ``toy``."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    home = tmp_path / "home"
    home.mkdir()

    def run(entries: str, *words: object, head: str = HEAD) -> subprocess.CompletedProcess[str]:
        (home / "mine.yaml").write_text(head + entries)
        return precast(tmp_path / "store", "plan", home / "mine.yaml", "--json", *words)

    return run


def asked(done: subprocess.CompletedProcess[str]) -> list[tuple[Any, str]]:
    """The argument of every kernel of a plan, and its target."""
    assert done.returncode == 0, done.stderr
    return [(v["config"]["value"], v["target"]) for v in json.loads(done.stdout)["variants"]]


CALL = '  - call: "toy_attached.kernels:compiled_alone"\n    libraries: toy\n'


def test_a_call_is_planned_for_each_value_and_target(plan: Plan) -> None:
    entry = f'{CALL}    with: {{value: "${{n}}"}}\n    config: {{n: [3, 1, 2]}}\n    exclude: [{{n: 1}}]\n'
    done = plan(entry, head=HEAD.replace("[sm_90a]", "[sm_90a, sm_100a]"))
    assert asked(done) == [(2, "sm_90a"), (3, "sm_90a"), (2, "sm_100a"), (3, "sm_100a")]
    assert {v["location"].rpartition("/")[2] for v in json.loads(done.stdout)["variants"]} == {"mine.yaml:5:5"}


@pytest.mark.slow
def test_a_call_is_run_again_when_a_declared_file_has_changed(plan: Plan, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "asking.py").write_text(
        f"{ASKS}from pathlib import Path\n"
        "def ask(): compiled_alone(int((Path(__file__).parent / 'size.txt').read_text()))\n"
    )
    for size in (3, 4):
        (home / "size.txt").write_text(str(size))
        entry = '  - {call: "asking:ask", libraries: toy, inputs: {files: size.txt}}\n'
        done = plan(entry, head=HEAD.replace("kernels:", "path: .\nkernels:"))
        assert asked(done) == [(size, "sm_90a")]


def test_a_call_for_other_targets_than_those_asked_for_is_left_out(plan: Plan) -> None:
    """Also where no other call is left."""
    plain = "  - {kernel: scale, config: {dtype: float32}}\n"
    done = plan(plain + f"{CALL}    with: {{value: 1}}\n    targets: sm_100a\n", "-t", "sm_90a")
    assert done.returncode == 0, done.stderr
    assert [v["op"] for v in json.loads(done.stdout)["variants"]] == ["scale"]


@pytest.mark.slow
def test_a_kernel_that_two_entries_ask_for_is_built_once(plan: Plan) -> None:
    first, second = (f"{CALL}    with: {{value: {n}}}\n" for n in (1, 2))
    assert asked(plan(first + second + first)) == [(1, "sm_90a"), (2, "sm_90a")]


@pytest.mark.slow
def test_a_script_runs_as_by_itself_in_the_manifests_folder(plan: Plan, tmp_path: Path) -> None:
    folder = tmp_path / "home" / "programs"
    folder.mkdir()
    (folder / "beside.py").write_text("VALUE = 40")
    (tmp_path / "home" / "data.txt").write_text("2")
    (folder / "ask.py").write_text(
        f"{ASKS}import beside\nassert __name__ == '__main__'\n"
        "compiled_alone(beside.VALUE + int(open('data.txt').read()) + len(sys.argv[1:]))\nprint('noise')\nsys.exit()\n"
    )
    entry = "  - {script: programs/ask.py, arguments: [--fast, 1], libraries: [toy]}\n"
    assert asked(plan(entry)) == [(44, "sm_90a")]
    (tmp_path / "home" / "data.txt").write_text("3")  # a script may read anything: it is never noted
    assert asked(plan(entry)) == [(45, "sm_90a")]


@pytest.mark.slow
def test_what_a_call_asked_for_is_noted_until_its_sources_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("quack")
    front, manifest = tmp_path / "front.py", tmp_path / "mine.yaml"
    front.write_text("import quack\nfront = quack.softmax\n")
    entry = '  - {call: "front:front", with: {x: {dtype: bf16, shape: [8, 4096]}}, libraries: quack}\n'
    manifest.write_text(HEAD.replace("kernels:", "path: .\nkernels:") + entry)
    notes = Memo(tmp_path / "notes")

    def sources() -> list[str | None]:
        closures = Closures.here([tmp_path], kept_notes())
        found = [read_manifest(manifest)]
        made = record_programs(found, targets=(), profiles=Profiles.named([]), notes=notes, closures=closures)
        return [entry.source for entry in made[0].entries]

    first = sources()
    assert first == ["quack.softmax:Softmax.compile@quack"]
    monkeypatch.setattr(program_recorder, "ChildProcess", None)
    assert sources() == first
    front.write_text("import quack\nfront = quack.softmax  # changed\n")
    with pytest.raises(TypeError):
        sources()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise ValueError('three is too many')", ["failed with ValueError: three is too many", "ask.py\", line 3"]),
        ("sys.exit(3)", ["it called sys.exit(3): correct the script"]),
        ("import os\nprint('last words', flush=True)\nos._exit(4)", ["ended with exit status 4", "last words"]),
        ("x = (", ["SyntaxError"]),
        ("compiled_alone(object())", ["requested no kernel", "a builtins.object has no form as a key"]),
        ("compiled_alone(1)\ncompiled_alone(object())", ["add 'skip_unsupported: true' to build only the others"]),
    ],
)  # fmt: skip
def test_an_error_names_the_entry_and_shows_the_authors_frames_alone(
    plan: Plan, tmp_path: Path, text: str, words: list[str]
) -> None:
    (tmp_path / "home" / "ask.py").write_text(ASKS + text)
    done = plan("  - {script: ask.py, libraries: toy}\n")
    assert done.returncode == 2, done.stdout
    said = " ".join(done.stderr.split())
    assert "mine.yaml:5:5: ask.py" in said
    for part in words:
        assert part in said, done.stderr
    assert not [p for p in ("/build/child/", "/attach/builder/", "runpy") if p in said], done.stderr


def test_kernels_that_no_manifest_can_hold_are_left_out_on_request(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "home" / "ask.py").write_text(f"{ASKS}compiled_alone(1)\ncompiled_alone(object())\n")
    assert asked(plan("  - {script: ask.py, libraries: toy, skip_unsupported: true}\n")) == [(1, "sm_90a")]


def test_a_row_that_fails_is_named(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "home" / "front.py").write_text(f"{ASKS}def ask(n):\n    assert n != 2\n    compiled_alone(n)\n")
    entry = '  - {call: "front:ask", with: {n: "${n}"}, libraries: toy, config: {n: [1]}, include: [{n: 2}]}\n'
    done = plan(entry, head=HEAD.replace("kernels:", "path: .\nkernels:"))
    assert done.returncode == 2
    assert "mine.yaml:6:88: front:ask with n=2 for sm_90a failed with AssertionError" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_its_variables_and_its_gpu_are_those_that_it_is_built_with(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "home" / "ask.py").write_text(
        f"{ASKS}import os, torch\nfrom torch.cuda import get_device_properties\n"
        "compiled_alone((os.environ['MINE'], get_device_properties(0).multi_processor_count, torch.ones(2).is_cuda))\n"
    )
    entry = '  - {script: ask.py, libraries: toy, env: {MINE: "${target.sm_count}"}}\n'
    done = plan(entry, head=HEAD.replace("kernels:", "profiles: H200\nkernels:"))
    assert [value for value, _ in asked(done)] == [["132", 132, True]]
    assert json.loads(done.stdout)["variants"][0]["env"] == {"MINE": "132"}


@pytest.mark.slow
def test_each_gpu_is_built_what_the_program_asks_for_on_it(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "home" / "ask.py").write_text(
        f"{ASKS}from torch.cuda import get_device_properties\n"
        "compiled_alone(get_device_properties(0).multi_processor_count)\ncompiled_alone(7)\n"
    )
    entry = "  - {script: ask.py, libraries: toy}\n"
    done = plan(entry, head=HEAD.replace("kernels:", "profiles: [H200, H20, H100]\nkernels:"))
    assert done.returncode == 0, done.stderr
    found = [(v["config"]["value"], v["profile"]) for v in json.loads(done.stdout)["variants"]]
    assert sorted(found) == [(7, "H100"), (7, "H20"), (7, "H200"), (78, "H20"), (132, "H100"), (132, "H200")]


def test_a_manifest_with_programs_takes_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(f'{HEAD}  - call: "a:b"\n')
    with pytest.raises(ManifestError, match="record into another file"):
        read_recorded_manifest(path)


def request(arguments: str, **values: Any) -> Any:
    config = json.dumps(values)
    text = f'{HEAD}  - {{call: "a:b", with: {arguments}, config: {config}}}\n'
    program = parse_manifest(text.encode(), Path("m.yaml")).entries[0].program
    assert isinstance(program, Call) and program.names == tuple(sorted(values))
    return program.request(values)["arguments"]


def test_arguments_are_written_as_keys_are() -> None:
    assert request("{x: {dtype: bf16, shape: [2, 3, 4]}, y: {dtype: half, shape: [], requires_grad: true}}") == {
        "x": ["$tensor", "bfloat16", [2, 3, 4], [12, 4, 1], False],
        "y": ["$tensor", "float16", [], [], True],
    }
    assert request("{x: {dtype: d, shape: [r, 0, 4], strides: [s, 1, 1]}}", d="float32", r=2, s=9) == {
        "x": ["$tensor", "float32", [2, 0, 4], [9, 1, 1], False],
    }
    assert request("{x: {dtype: int32, values: [[0, n], [1, 2]]}}", n=7) == {
        "x": ["$made:values", "int32", ["$list", ["$list", 0, 7], ["$list", 1, 2]], False],
    }
    assert request('{a: [1, {dtype: int8, shape: [1]}], b: torch.half, c: "${v}", d: "$x", e: null}', v="$y") == {
        "a": ["$list", 1, ["$tensor", "int8", [1], [1], False]],
        "b": "$torch:half", "c": "$str:$y", "d": "$str:$x", "e": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("shape: [n]", "x", "n is 'x', which is not a size"), ("shape: [n]", -1, "n is -1, which is not a size"),
        ("values: [n]", "x", "n is 'x', which is not a number"),
        ("shape: [1], requires_grad: n", 1, "not true or false"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused_where_it_is_named(field: str, value: Any, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        request(f"{{x: {{dtype: int32, {field}}}}}", n=value)


@given(st.lists(st.integers(0, 5), max_size=4))
def test_strides_that_are_left_out_are_torchs(shape: list[int]) -> None:
    import torch

    (form,) = request(f"{{x: {{dtype: int8, shape: {shape}}}}}").values()
    assert form[3] == list(torch.empty(shape, dtype=torch.int8, device="meta").stride())


@pytest.mark.slow
def test_what_a_call_asks_for_is_built_and_checked_like_any_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cutlass")
    monkeypatch.setenv("PYTHONPATH", str(write_toy_library(tmp_path / "site")))
    path, cache, store = tmp_path / "mine.yaml", tmp_path / "cache", kept_store()
    with_x = "with: {x: {dtype: float32, shape: [100]}}, libraries: toy"
    entry = f'  - {{call: "toy_attached.kernels:add_alone", {with_x}}}\n'
    path.write_text(HEAD + entry)
    built = precast(store, "build", path, "-o", cache, "-j", 1)
    assert built.returncode == 0, built.stderr
    assert list(Cache(cache).index.ops) == ["attach.toy.kernels_compiled_alone_86365204"]
    assert precast(store, "check", path, cache).returncode == 0
    path.write_text(HEAD + entry + entry.replace("add_alone", "add_pair"))
    done = precast(store, "check", path, cache)
    assert done.returncode == 1 and "compiled_pair" in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.slow
def test_a_script_asks_for_what_precast_record_records(tmp_path: Path) -> None:
    pytest.importorskip("quack")
    (tmp_path / "ask.py").write_text(
        "import torch, quack\n"
        "x = torch.empty(64, 4096, dtype=torch.bfloat16, device='cuda', requires_grad=True)\n"
        "y = quack.softmax(x)\ny.backward(torch.empty_like(y))\n"
    )
    x = "x: {dtype: bfloat16, shape: [64, 4096], requires_grad: true}"
    path, recorded = tmp_path / "mine.yaml", tmp_path / "recorded.yaml"
    made = precast(tmp_path / "store", "record", "-t", "sm_90a", "-o", recorded, "--", tmp_path / "ask.py")
    assert made.returncode == 0, made.stderr
    asking = ("script: ask.py", f'{{call: "quack:softmax", with: {{{x}}}, backward: true}}')
    found = []
    for program in asking:
        path.write_text(f"{HEAD}  - {program}\n")
        (mine,) = record_programs(
            [read_manifest(path)],
            targets=(),
            profiles=Profiles.named([]),
            notes=None,
            closures=Closures.here([], kept_notes()),
        )
        found.append(list(map(requested, mine.entries)))
    expected = list(map(requested, read_manifest(recorded).entries))
    assert len(expected) == 2 and found == [expected, expected]


def requested(entry: Entry) -> tuple[object, ...]:
    """What an entry has of a recording."""
    values = ({name: node.plain() for name, node in some.items()} for some in (entry.config, entry.tuned))
    return entry.source, entry.targets, *values
