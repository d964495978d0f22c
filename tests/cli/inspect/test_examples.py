"""The examples of each command's help, run as they are printed: all that need no GPU, no cluster and no network."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from precast.loader.resolve.cache import Cache
from tests.cli.satellites import each_example, installed_commands
from tests.helpers.caches import Native, demo
from tests.helpers.forks.forked_process import run
from tests.helpers.packed_caches import Built
from tests.helpers.pages import examples

MANIFEST = """version: 1
name: demo
targets: [sm_90a, sm_100a]
kernels:
  - {kernel: scale, config: {dtype: bfloat16}}
"""
REQUESTS = (
    '{"op":"scale","config":{},"count":3,"problem":{"rows":8},"missing":"VariantNotFound: no variant fits","wanted":'
    '{"op":"scale","config":{"dtype":"bfloat16"},"tuned":{},"target":"sm_90a"}}\n'
)
RUN = {
    "new": slice(None), "plan": slice(2), "requests": slice(None), "check": slice(None), "wheel": slice(None),
    "merge": slice(None),
    "list": slice(None), "show": slice(None), "diff": slice(None), "report": slice(None), "store": slice(None),
    "doctor": slice(None), "error": slice(None), "schema": slice(None),
}  # fmt: skip
"""The examples that run here. The others compile, launch or ask a network: rooms of their own do that."""
MAY_FAIL = ("doctor", "check")
"""Their exit status is the result: here something may be missing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples speak of, by its name there."""
    folder = tmp_path_factory.mktemp("examples")
    native = Native(tmp_path_factory.mktemp("native"))
    demo(native).write(folder / "cache")
    for name in ("old", "new", "part1"):
        Built().write(folder / name)
    Built(dtypes=("float32",)).write(folder / "part2")
    (folder / "manifest.yaml").write_text(MANIFEST)
    (folder / "requests.jsonl").write_text(REQUESTS)
    return folder


@pytest.mark.parametrize("line", each_example(RUN))
def test_an_example_runs_as_it_is_printed(line: str, folder: Path) -> None:
    key = Cache(folder / "cache").op("twice").artifacts[0].key
    line = line.replace("3f2a91c0", key[:8]).replace("show cache rmsnorm", "show cache scale")
    if re.match(r"precast merge", line):
        line = line.replace("-o cache", "-o merged")
    words, to, _ = line.partition(" > ")
    program, name, *rest = shlex.split(words)
    env = os.environ | {"PRECAST_STORE": str(folder / "store")}
    done = run([name, *rest], env, folder)
    assert program == "precast" and "Traceback" not in done.stderr
    assert done.returncode == 0 or (name in MAY_FAIL and done.returncode == 1), done.stderr
    assert done.stdout and ("error" not in done.stderr)
    assert not to or done.stdout.strip()


def test_every_help_ends_with_one_to_three_examples() -> None:
    assert all(1 <= len(examples(name)) <= 3 for name in installed_commands())
