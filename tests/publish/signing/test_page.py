"""Signatures on the page on security: the commands are run, the policy is read, and the attacks have tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from precast.fetch.trust.policy import TrustPolicy
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.pins import read_pins
from tests.helpers.packed_caches import Built
from tests.helpers.pages import blocks
from tests.helpers.signatures.signed import key_pair

PAGE = "docs/security.md"


@pytest.mark.slow
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    cache = Built().write(tmp_path / "cache")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script, environment = blocks(PAGE, "sh")[0], {**os.environ, "PATH": path}
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True)
    assert read_pins(str(tmp_path / "pins.txt")) == {"demo": frozenset({Cache(cache).digest})}


def test_the_policy_of_the_page(tmp_path: Path) -> None:
    key_pair(tmp_path)
    (policy,) = blocks(PAGE, "json")
    (tmp_path / "policy.json").write_text(policy.replace("288f4e0f...", "0" * 64))
    policies = TrustPolicy.read(tmp_path / "policy.json")
    assert len(policies.signers) == 2 and policies.pins and policies.since
