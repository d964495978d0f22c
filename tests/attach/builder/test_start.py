"""``precast start``: what a program's compilers leave is recorded, and a second start that compiles is found out.

A small program stands for an engine: it keeps files as Triton does. ``test_start_compilers.py`` has the real ones.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from precast.attach.builder.checked_start import CompilerWatch, _process
from precast.attach.companions.companion import COMPANIONS
from precast.attach.companions.machine_facts import Machine
from precast.attach.companions.placement import place_files
from precast.build.cache.contents import CacheContents
from precast.build.wheel.wheel import write_wheels
from precast.cli.main import app, run
from precast.loader.resolve.cache import Cache

ENGINE = """
import os, sys
from pathlib import Path
folder = Path(os.environ["TRITON_CACHE_DIR"])
for name in sys.argv[1:]:
    kernel = folder / name / "kernel.cubin"
    group = folder / name / "__grp__kernel.json"
    if not group.exists():
        kernel.parent.mkdir()
        kernel.write_text(name)
        group.write_text(str(kernel))
    assert Path(group.read_text()).read_text() == name
    (folder / name / "lock").touch()
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that start the program; kernels follow."""
    monkeypatch.chdir(tmp_path)
    Path("engine.py").write_text(ENGINE)
    return [sys.executable, "engine.py"]


def start(*words: str) -> Result:
    return CliRunner().invoke(app, ["start", *words], catch_exceptions=False)


def test_a_start_is_recorded_and_checked(engine: list[str]) -> None:
    done = start("record", "-o", "cache", "--", *engine, "A", "B")
    assert done.exit_code == 0, done.output
    assert "cache: triton: 4 files" in done.output
    index = Cache("cache").companions()
    assert index is not None and index.command == (*engine, "A", "B")
    assert [file.path for file in index.companions[0].files if file.relocations] == [
        "A/__grp__kernel.json",
        "B/__grp__kernel.json",
    ]
    done = start("check", "cache", "--", *engine, "B", "A")
    assert done.exit_code == 0 and "nothing was compiled: 4 files of 1 companion" in done.output, done.output


def test_a_pickled_graph_names_its_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle has the length of each text before it, so that only a path of the same length can take its place."""
    monkeypatch.chdir(tmp_path)
    Path("engine.py").write_text(
        "import os, pathlib, pickle; root = pathlib.Path(os.environ['VLLM_CACHE_ROOT'])\n"
        "graph = root / 'rank_0' / 'model'; graph.parent.mkdir(exist_ok=True)\n"
        "if graph.exists(): assert pickle.loads(graph.read_bytes()) == [str(graph), 8]\n"
        "else: graph.write_bytes(pickle.dumps([str(graph), 8]))\n"
    )
    for words in (["record", "-o", "cache"], ["check", "cache"]):
        done = start(*words, "--", sys.executable, "engine.py")
        assert done.exit_code == 0, done.output


def test_what_is_compiled_all_the_same_is_listed(engine: list[str]) -> None:
    start("record", "-o", "cache", "--", *engine, "A")
    done = start("check", "cache", "--", *engine, "A", "B")
    assert done.exit_code == 1 and "Triton wrote B/__grp__kernel.json, B/kernel.cubin" in done.output


@pytest.mark.parametrize(("line", "seen"), [(b"ptxas\0a.ptx\0", True), (b"ptxas\0--version\0", False), (b"", False)])
def test_a_compiler_that_prints_its_version_or_has_ended_is_not_seen(tmp_path: Path, line: bytes, seen: bool) -> None:
    (tmp_path / "stat").write_text(f"7 (ptxas) R 1 {' '.join('0' * 20)}")
    (tmp_path / "cmdline").write_bytes(line)
    assert (_process(tmp_path) is not None) == seen


def test_compilers_below_this_process_are_seen_with_their_seconds(tmp_path: Path) -> None:
    """A program that sleeps, under a compiler's name, stands for ptxas."""
    ptxas = shutil.copy("/bin/sleep", tmp_path / "ptxas")
    between = "import subprocess, sys; subprocess.run([sys.argv[1], '0.5'], check=True)"
    with CompilerWatch() as watch:
        subprocess.run([sys.executable, "-c", between, ptxas], check=True)
    (seconds,) = watch.seconds()["ptxas"]
    assert seconds > 0


def test_a_companion_that_the_cache_lacks_is_listed_too(engine: list[str]) -> None:
    start("record", "-o", "cache", "--", *engine, "A")
    Path("other.py").write_text("import os; open(os.environ['CUDA_CACHE_PATH'] + '/x', 'w').close()")
    done = start("check", "cache", "--", sys.executable, "other.py")
    assert done.exit_code == 1 and "the CUDA driver wrote x" in done.output


def test_what_does_not_fit_ends_the_check_before_the_program_runs(
    engine: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start("record", "-o", "cache", "--", *engine, "A")
    monkeypatch.setenv("TRITON_DEBUG", "1")
    done = start("check", "cache", "--", "no-such-program")
    assert done.exit_code == 1 and "recorded with TRITON_DEBUG unset; here it is 1" in done.output


def test_a_start_that_fails_writes_nothing(engine: list[str]) -> None:
    done = start("record", "-o", "cache", "--", sys.executable, "-c", "raise SystemExit(3)")
    assert done.exit_code == 1 and "the program ended with status 3: nothing was written" in done.output
    assert not Path("cache").exists()


def test_a_program_that_compiles_nothing_is_a_wrong_request(
    engine: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(["start", "record", "-o", "cache", "--", *engine])
    assert "left no file of a companion" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        run(["start", "record", "-o", "cache", "--companion", "tritn", "--", *engine])
    assert "'tritn' is not a companion; did you mean 'triton'?" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="1"):
        run(["start", "check", "cache", "--", *engine])


def test_what_cannot_be_recorded_is_listed(engine: list[str]) -> None:
    Path("odd.py").write_text(
        "import os; from pathlib import Path\n"
        "triton, humming = Path(os.environ['TRITON_CACHE_DIR']), Path(os.environ['HUMMING_CACHE_DIR'])\n"
        "(triton / 'good').touch(); (triton / 'a\\\\b').touch(); (triton / 'link').symlink_to('good')\n"
        "(triton / 'K').mkdir(); (triton / 'K' / '__grp__x.json').write_text('@precast-folder@')\n"
        "(humming / 'kernel.cubin').touch()\n"
    )
    done = start("record", "-o", "cache", "--", sys.executable, "odd.py")
    text = " ".join(done.output.split())
    assert done.exit_code == 0 and "cache: triton: 1 file" in text
    assert "not recorded: Triton: a\\b: its name has characters" in text
    assert "Triton: link: " in text and "it has the text @precast-folder@" in text
    assert f"not recorded: humming: 1 files: {COMPANIONS['humming'].refusal}" in text


def test_a_wheel_has_them_and_a_second_recording_replaces_them(engine: list[str], tmp_path: Path) -> None:
    start("record", "-o", "cache", "--", *engine, "A")
    first = {path.name for path in Path("cache/blobs").iterdir()}
    start("record", "-o", "cache", "--", *engine, "B")
    assert not first & {path.name for path in Path("cache/blobs").iterdir()}
    assert CacheContents.open(Path("cache")).verify().files == 1 + 3
    (wheel,) = write_wheels(Path("cache"), tmp_path / "dist", version="1")
    assert wheel.name == "precast_cache_cache-1-py3-none-any.whl"
    placement = place_files(Cache("cache"), tmp_path / "placed", Machine().facts, {})
    assert [each.files for each in placement.placed] == [2]


def test_kernels_of_attached_libraries_are_recorded_where_requested(engine: list[str]) -> None:
    Path("show.py").write_text(
        "import os; from pathlib import Path\n"
        "Path(os.environ['TRITON_CACHE_DIR'], os.environ['PRECAST_ATTACH_MODE']).touch()\n"
        "print(os.environ['PRECAST_ATTACH'], os.environ['PRECAST_RECORDING'])\n"
    )
    done = start("record", "-o", "cache", "--recording", "run.jsonl", "--", sys.executable, "show.py")
    index = Cache("cache").companions()
    assert done.exit_code == 0 and index is not None
    assert [file.path for file in index.companions[0].files] == ["record"]
