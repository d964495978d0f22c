"""What ``precast new --ci`` writes: the steps run as they are, and the workflow runs nothing but these steps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from precast.build.scaffold.scaffold import new_ci
from precast.cli import main
from precast.loader.contract.format.target import Target
from precast.loader.errors import ConfigError
from tests.helpers.builds import new_store
from tests.helpers.documentation.clean import programs

MANIFEST = """\
version: 1
name: acme-tiny
targets: [sm_90a]
kernels:
  - {kernel: scale, config: {dtype: [float32, bfloat16]}, tuned: {threads: [128]}, emit: [object, cubin]}
"""
Recipe = Callable[..., "subprocess.CompletedProcess[str]"]
pytestmark = pytest.mark.skipif(
    shutil.which("bash") is None, reason="there is no bash, which the recipe is written for"
)


@pytest.fixture
def recipe(tmp_path: Path, no_torch: str) -> Recipe:
    """Runs a step of the recipe of a small manifest, with no variable of this process that could help it."""
    (tmp_path / "tiny.yaml").write_text(MANIFEST)
    new_ci("tiny").write(tmp_path)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PIP_INDEX_URL") if name in os.environ}
    python = programs(tmp_path / "bin", Path(sys.executable)) / "python3"
    basic = {"PYTHON": str(python), "PRECAST_STORE": str(new_store(tmp_path / "store")), "PYTHONPATH": no_torch}

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "ci/recipe", *words]
        everything = {**kept, **basic, **env}
        return subprocess.run(
            command, cwd=tmp_path, env=everything, capture_output=True, text=True, timeout=300, check=False
        )

    return run


class Index:
    """An index that takes uploads: what each held, and with which authority it came."""

    def __init__(self) -> None:
        received: list[tuple[str | None, bytes]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.append((self.headers["Authorization"], body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.received = received
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/legacy/"
        self.thread = Thread(target=self.server.serve_forever)
        self.thread.start()

    def end(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def index() -> Iterator[Index]:
    made = Index()
    yield made
    made.end()


@pytest.mark.slow
def test_everything_up_to_the_wheel_and_to_an_index(recipe: Recipe, tmp_path: Path, index: Index) -> None:
    """The loader is published nowhere: the step ``try`` takes it from where this Python's own came from."""
    done = recipe(RECIPE_SAMPLE="1", SOURCE_DATE_EPOCH="1767225600")
    assert done.returncode == 0, done.stderr
    for line in (
        "2 caches merged", "4 of 4 artifacts present", "2 artifacts built again, byte for byte; 0 different",
        "4 variants of acme-tiny", "2 kernels of scale for sm_90a open",
    ):  # fmt: skip
        assert line in done.stdout, done.stdout
    work = tmp_path / "ci-work"
    parts = sorted(path.name.partition("-")[2] for path in (work / "parts").iterdir())
    assert parts == ["all-1-of-2", "all-2-of-2"]
    (wheel,) = (work / "dist").glob("*.whl")
    assert wheel.name.startswith("precast_cache_acme_tiny-0.20260101.0+") and zipfile.is_zipfile(wheel)

    again = recipe("build", "1/1", "sm_90a")  # by target, and undivided: out of the store, and the same bytes
    assert "0 variants built, 2 reused" in again.stdout
    (whole,) = (work / "parts").glob("*-sm_90a-1-of-1")
    assert (whole / "index.json").read_bytes() == (work / "cache" / "index.json").read_bytes()

    wheel.with_name(f"{wheel.name}.publish.attestation").write_text('{"version": 1}')
    sent = recipe("publish", RECIPE_INDEX=index.address, UV_PUBLISH_TOKEN="a secret of the index")
    assert sent.returncode == 0, sent.stderr
    ((authority, body),) = index.received
    assert authority and authority.startswith("Basic ") and wheel.read_bytes() in body
    assert b'name="attestations"' in body, "one that lies beside its wheel goes with it"
    assert "a secret of the index" not in sent.stdout + sent.stderr

    shutil.rmtree(whole)
    shutil.rmtree(next((work / "parts").glob("*-all-1-of-2")))
    merged = recipe("merge")
    assert merged.returncode == 1, "a variant that is missing ends the recipe"
    assert "2 of 4 artifacts present" in merged.stdout + merged.stderr


def test_a_cluster_builds_all_variants(recipe: Recipe, tmp_path: Path) -> None:
    """By the command that tests/build/compile/test_cluster.py runs on a cluster: here a program writes it down."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nprintf "%s " "$@" > {tmp_path}/words\n')
    python.chmod(0o755)
    assert recipe("cluster", "tcp://there:8786", PYTHON=str(python)).returncode == 0
    parts = f"ci-work/parts/{os.uname().machine}-cluster"
    words = f"-m precast.cli.main build tiny.yaml -o {parts} --executor dask --scheduler tcp://there:8786"
    assert (tmp_path / "words").read_text().strip() == words


def test_without_a_manifest_the_workflow_has_the_usual_targets() -> None:
    """Which the template must have as the scaffold looks for them."""
    one, usual = (new_ci("tiny", targets).files[".github/workflows/tiny.yml"] for targets in ([Target(8, 0)], ()))
    assert "        target: [sm_80]\n" in one
    assert "        target: [sm_90a, sm_100a]\n" in usual


def test_an_unknown_step_and_a_missing_word_are_told(recipe: Recipe) -> None:
    wrong = recipe("wheels")
    assert wrong.returncode == 2 and "there is no step wheels" in wrong.stderr
    assert "  reproduce: a sample is built again" in wrong.stderr
    assert "name a shard, such as 1/4" in recipe("build").stderr
    assert "the address that your index takes uploads at" in recipe("publish").stderr
    assert "such as 2/4" in recipe("build", "3/2").stderr


def test_the_recipe_is_good_bash(tmp_path: Path) -> None:
    new_ci("tiny").write(tmp_path)
    subprocess.run(["bash", "-n", tmp_path / "ci" / "recipe"], check=True)


@pytest.mark.parametrize("name", ["", "a b", "../x", "a;b", "$(x)", "-x", "a\nb", "x.yaml", "é", "x" * 81])
def test_a_name_that_a_script_would_take_apart_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not the name of a manifest"):
        new_ci(name)


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main.run(["new", *words, "-o", str(tmp_path)])
        return int(ended.value.code or 0)

    assert run("acme-norms", "--ci") == 2 and not (tmp_path / "ci").exists(), "there is no such manifest"
    assert "acme-norms.yaml" in capsys.readouterr().err
    (tmp_path / "acme-norms.yaml").write_text(MANIFEST.replace("[sm_90a]", "[sm_120a, sm_90]"))
    assert run("acme-norms", "--ci") == 0
    assert "bash ci/recipe" in capsys.readouterr().out
    assert "manifest=acme-norms.yaml" in (tmp_path / "ci" / "recipe").read_text()
    workflow = yaml.safe_load((tmp_path / ".github" / "workflows" / "acme-norms.yml").read_text())
    assert workflow["jobs"]["build"]["strategy"]["matrix"]["target"] == ["sm_90", "sm_120a"], "those of the manifest"
    assert run("acme-norms", "--ci") != 0, "what is there is not touched"
    assert run("x", "--ci", "--attach", "quack") == 2
