"""The Tab key: what is offered for each value, that it is quick and silent, and that real shells offer it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from precast.cli import main
from precast.cli.completion import MOST, SOURCES
from precast.loader.command_line.error_page import entries
from precast.loader.resolve.cache import Cache
from tests.cli.satellites import installed_commands, is_installed, need_command
from tests.helpers.caches import Native, demo
from tests.helpers.shell import Shell, path_of

PRECAST = [sys.executable, "-m", "precast.cli.main"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    native = Native(tmp_path_factory.mktemp("native"))
    return demo(native).write(tmp_path_factory.mktemp("with space") / "cache")


def offered(*words: str, folder: Path | None = None, **env: str) -> list[str]:
    """What bash is given for the last of these words."""
    line = {"COMP_WORDS": "\n".join(["precast", *words]), "COMP_CWORD": str(len(words))}
    variables = os.environ | line | {"_PRECAST_COMPLETE": "complete_bash"} | env
    done = subprocess.run(PRECAST, capture_output=True, text=True, check=False, env=variables, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def quoted(path: Path) -> str:
    """A path as somebody types it."""
    return str(path).replace(" ", "\\ ")


@pytest.mark.slow
def test_a_key_or_an_op_of_the_cache_on_the_line(cache: Path) -> None:
    need_command("verify")
    keys = [artifact.key for op in ("scale", "twice") for artifact in Cache(cache).op(op).artifacts]
    found = offered("show", quoted(cache), "")
    assert found[:2] == ["scale", "twice"] and set(found[2:]) == {key[:16] for key in keys}
    assert offered("show", quoted(cache), keys[0][:6]) == [keys[0][:16]]
    assert offered("show", quoted(cache), "tw") == ["twice"]
    assert offered("verify", quoted(cache), "--op", "s") == ["scale"]
    assert set(offered("export", quoted(cache), "")) == {key[:16] for key in keys}


def test_an_op_of_the_caches_that_are_found(cache: Path) -> None:
    need_command("tune measure")
    assert "twice" in offered("tune", "measure", "--op", "tw", PRECAST_CACHE_PATH=str(cache))


@pytest.mark.slow
def test_targets_gpus_and_codes() -> None:
    assert offered("build", "-t", "sm_9") == ["sm_90", "sm_90a"]
    need_command("record")
    assert offered("record", "--build-for", "sm_121") == ["sm_121", "sm_121a", "sm_121f"]
    assert offered("build", "--profile", "H2") == ["H200", "H20"]
    assert offered("tune", "model", "--gpu", "H2") == ["H200", "H20"]
    assert offered("error", "") == [entry.code for entry in entries()]
    assert offered("error", "Variant") == ["VariantNotFound"]


def test_a_manifest_that_ships_where_no_file_here_begins_so(tmp_path: Path) -> None:
    found = offered("plan", "", folder=tmp_path)
    assert [Path(one).name for one in found if Path(one).is_file()][:2] == [
        "attention-heads.yaml",
        "attention-spilling.yaml",
    ]
    (tmp_path / "mine.yaml").write_text("")
    assert offered("plan", "", folder=tmp_path) == offered("plan", "mi", folder=tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("content", [None, "{", '{"format": "precast-cache", "version": 99}'])
def test_a_broken_cache_offers_nothing_and_says_nothing(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "index.json").write_text(content)
    assert offered("show", str(tmp_path), "") == []
    assert offered("bench", "--op", "", PRECAST_CACHE_PATH=str(tmp_path)) == []
    assert offered("bench", str(tmp_path / "none"), "--op", "") == []


def test_a_large_cache_offers_what_a_person_reads(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES, ("show", "key"), lambda ctx, begun: (f"{n:016x}" for n in range(10**12)))
    command = main.load("show")
    (key,) = (parameter for parameter in command.params if parameter.name == "key")
    context = command.make_context("show", [str(cache)], resilient_parsing=True)
    assert len(key.shell_complete(context, "")) == MOST


def test_every_source_is_of_a_parameter_that_there_is() -> None:
    there = {(name, p.name) for name in installed_commands() for p in main.load(name).params}
    everything = len(installed_commands()) == len(main.commands())
    sources = [s for s in SOURCES if (is_installed(s[0]) if s[0] else everything)]
    missing = {s for s in sources if s not in there and not (s[0] == "" and s[1] in {name for _, name in there})}
    assert not missing


def test_completing_imports_neither_the_compiler_nor_torch(cache: Path) -> None:
    script = (
        "import sys\nfrom precast.cli import main\ntry: main.run([])\nexcept SystemExit: pass\n"
        "print({'torch', 'cutlass', 'tvm_ffi', 'rich'} & set(sys.modules), file=sys.stderr)"
    )
    for line in (["show", quoted(cache), ""], ["build", "-t", ""], ["verify", quoted(cache), "--op", ""]):
        if not is_installed(line[0]):
            continue
        env = {"COMP_WORDS": "\n".join(["precast", *line]), "COMP_CWORD": str(len(line))}
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True, text=True, check=True, env=os.environ | env | {"_PRECAST_COMPLETE": "complete_bash"},
        )  # fmt: skip
        assert done.stdout and done.stderr == "set()\n"


def test_what_zsh_evaluates(cache: Path) -> None:
    """zsh runs the answer as a command: it holds names and keys alone, and nothing else that a cache says."""
    env = {"_TYPER_COMPLETE_ARGS": f"precast show {quoted(cache)} t", "_PRECAST_COMPLETE": "complete_zsh"}
    done = subprocess.run(PRECAST, capture_output=True, text=True, check=True, env=os.environ | env)
    assert done.stdout.strip() == """_arguments '*: :(("twice"))'"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose ``bin`` has the command, as pip installs it."""
    script = tmp_path / "bin" / "precast"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m precast.cli.main "$@"\n')
    script.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words", "rc"),
    [
        ("bash", ["--noprofile"], ".bashrc"),
        ("fish", ["--private"], ".config/fish/completions/precast.fish"),
        ("zsh", [], ".zfunc/_precast"),
    ],
)
def test_what_install_completion_sets_up(name: str, words: list[str], rc: str, home: Path, cache: Path) -> None:
    """A person installs it, opens another shell, and presses Tab."""
    program = path_of(name)
    if program is None:
        pytest.skip(f"{name} is not installed here")
    env = {
        "HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}", "TERM": "xterm", "LANG": "C.UTF-8", "PS1": "$ ",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "XDG_CONFIG_HOME": str(home / ".config"),
        "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
    }  # fmt: skip
    done = subprocess.run(
        [program, "-c", "precast --install-completion; true"], env=env, capture_output=True, text=True, check=False
    )
    assert (home / rc).is_file(), done.stdout + done.stderr
    link = home / "cache"
    link.symlink_to(cache)
    with Shell([program, *words, "-i"], env, home) as shell:
        shell.type("echo re''ady\n", r"ready")
        shell.type("precast doct\t", r"precast doctor ")
        shell.type("\x15precast build --remote-c\t", r"--remote-cache ")
        shell.type("\x15precast show cache tw\t", r"show cache twice ")
        shell.type("\x15precast build -t sm_90\t\t", r"sm_90a")
