"""A folder that ``precast init`` lays out, and the commands in it that name neither a manifest nor a cache."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.helpers.builds import command, environment, new_store, precast
from tests.helpers.forks.forked_process import run


def go(folder: Path, *words: object, status: int = 0, **env: str) -> str:
    """What a command prints in a folder; it has a store of its own, the home of these tests, and no PYTHONPATH.

    The emulator alone is in the cache of this user: g++ would take minutes. Processes of one home are forked.
    """
    default_folder = pytest.importorskip("precast.emulator.interpreter_library").default_folder
    home, cache = folder.parents[1] / "home", folder.parent / "cache"
    emulator = cache / "precast" / default_folder().name
    if not emulator.is_symlink():
        emulator.parent.mkdir(parents=True, exist_ok=True)
        emulator.symlink_to(default_folder())
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PRECAST_STORE")}
    done = run(words, {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(cache), **env}, folder)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "acme-norms"
    made.mkdir()
    return made


def one_variant(manifest: Path) -> None:
    """Leave one of the variants that ``init`` lists: the tutorial, which is run, builds and verifies all of them."""
    text = manifest.read_text()
    for many, one in (("[sm_90a, sm_100a]", "[sm_90a]"), ("[bfloat16, float32]", "bfloat16"), ("[256, 128]", "256")):
        assert many in text
        text = text.replace(many, one)
    manifest.write_text(text)


@pytest.mark.slow
def test_what_init_writes_works_at_once(folder: Path) -> None:
    wrote = go(folder, "init")
    assert "wrote acme_norms.yaml" in wrote and "precast build\n" in wrote
    assert "acme-norms: 8 variants, 0 skipped" in go(folder, "plan")
    one_variant(folder / "acme_norms.yaml")
    assert "1 variant built, 0 reused: cache" in go(folder, "build")
    assert "1 of 1 artifact present" in go(folder, "check")
    assert "acme-norms: 1 artifact of 1 op" in go(folder, "list")
    assert "1 variant verified by emulation" in go(folder, "verify", "--emulate", "--seeds", "0", "--most", "500")
    assert "precast_cache_acme_norms" in go(folder, "wheel", "-o", "dist")
    below = go(folder / "ci", "build", XDG_CACHE_HOME=str(folder.parent / "cache"))
    assert "0 variants built, 1 reused: ../cache" in below
    assert "no caches" in go(folder, "list", "--installed", PRECAST_CACHE_PATH="")


@pytest.mark.slow
def test_init_keeps_the_environment_of_a_folder_and_refuses_a_second_project(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("# mine\n")
    assert "kept pyproject.toml" in go(folder, "init", "--name", "norm", "--no-ci")
    assert (folder / "pyproject.toml").read_text() == "# mine\n" and not (folder / "ci").exists()
    assert "has norm.py, norm.yaml" in go(folder, "init", "--name", "norm", status=2)
    assert "gives no name for a kernel" in go(folder, "init", "2024", status=2)


@pytest.mark.slow
def test_the_command_line_wins_over_the_project(folder: Path) -> None:
    go(folder, "init", "--name", "norm", "--no-ci")
    (folder / "precast.toml").write_text('manifests = "norm.yaml"\ntargets = "sm_90a"\nstore = "kept"\njobs = 1\n')
    assert "norm: 4 variants" in go(folder, "plan")
    assert "sm_90a" not in go(folder, "plan", "-t", "sm_100a")
    assert "norm: 8 variants" in go(folder, "plan", "norm.yaml"), "the targets are those of the project's manifests"
    assert "name the folder of the cache with -o" in go(folder, "build", "norm.yaml", status=2)
    assert str(json.loads(go(folder, "store", "--json"))["path"]).endswith("kept")
    assert json.loads(go(folder, "store", "--json", "--store", "other"))["path"] == "other"
    assert json.loads(go(folder, "store", "--json", PRECAST_STORE="third"))["path"] == "third"


@pytest.mark.slow
def test_without_a_project_or_a_cache_the_message_says_what_to_do(folder: Path) -> None:
    assert "'precast init' writes one" in " ".join(go(folder, "build", status=2).replace("│", "").split())
    go(folder, "init", "--no-ci")
    assert "run 'precast build'" in go(folder, "list", status=2)
    assert "cannot be" in go(folder, "build", "--watch", "-o", "/dev/null/cache", status=2)
    (folder / "precast.toml").write_text('manifest = "norm.yaml"\n')
    wrong = go(folder, "build", status=2)
    assert "precast.toml:1:1: unknown key 'manifest'; did you mean 'manifests'?" in wrong and "  | ^" in wrong


@pytest.mark.slow
def test_a_watch_builds_again_after_each_change_and_survives_a_mistake(folder: Path, no_torch: str) -> None:
    assert precast(folder.parent / "store", "init", folder, "--name", "norm", "--no-ci").returncode == 0
    one_variant(folder / "norm.yaml")
    log, device, manifest = folder.parent / "log", folder / "norm_device.py", folder / "norm.yaml"
    env = environment(new_store(folder.parent / "store"), PYTHONPATH=no_torch)
    with log.open("w") as out, (folder.parent / "err").open("w") as err:
        watching = subprocess.Popen(command("build", "--watch"), cwd=folder, env=env, stdout=out, stderr=err)
    try:
        assert "1 variant built, 0 reused: cache" in line(log, 1)
        device.write_text(device.read_text() + "# a comment\n")
        assert "norm_device.py changed: 1 variant built, 0 reused: cache" in line(log, 2)
        right = manifest.read_text()
        manifest.write_text(right.replace("targets:", "target:"))
        assert "norm.yaml changed: not built, waiting for a change" in line(log, 3)
        os.utime(device)  # the same content: no round
        manifest.write_text(right)
        assert "norm.yaml changed: 0 variants built, 1 reused" in line(log, 4)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=30) == 130
    finally:
        watching.kill()
        watching.wait()
    errors = (folder.parent / "err").read_text()
    assert "unknown key 'target'; did you mean 'targets'?" in errors and errors.count("interrupted") == 1
    assert "Traceback" not in errors and len(log.read_text().splitlines()) == 4
    assert not list(folder.glob(".cache.*")), "nothing half-written is left"


def line(log: Path, number: int) -> str:
    """The line of a round, once it is printed."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        lines = log.read_text().splitlines()
        if len(lines) >= number:
            return lines[number - 1]
        time.sleep(0.1)
    raise AssertionError(f"no line {number}: {log.read_text()}")
