"""The examples in the documents are files that build and load."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from precast.build.plan.manifest import read_manifest
from tests.end_to_end.conftest import Run

ROOT = Path(__file__).resolve().parents[2]


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def test_the_authoring_example(tmp_path: Path, precast: Run) -> None:
    (module,), (manifest,) = blocks("docs/authoring.md", "python"), blocks("docs/authoring.md", "yaml")
    (tmp_path / "mykernels.py").write_text(module)
    (tmp_path / "mine.yaml").write_text(manifest)
    built = precast("build", "mine.yaml", "-o", "cache", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    assert "8 variants built" in built.stdout
    code = (
        "from precast import loader; k = loader.get('mine.add', {'dtype': 'bf16'}, target='sm_100a');"
        "print(k.signature, k.config['threads'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PRECAST_CACHE_PATH": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "(x: bfloat16[n0], out: bfloat16[n0], value: float32) 128\n", done.stderr
    refused = manifest.replace("[128, 256]", "[128, 100]")
    (tmp_path / "mine.yaml").write_text(refused)
    planned = precast("plan", "mine.yaml", cwd=tmp_path)
    assert planned.returncode == 2
    assert "threads must be a multiple of 32" in planned.stderr


def test_the_manifest_in_the_readme_is_one(tmp_path: Path) -> None:
    path = tmp_path / "readme.yaml"
    path.write_text(*blocks("README.md", "yaml"))
    manifest = read_manifest(path)
    assert [str(target) for target in manifest.entries[0].targets] == ["sm_90a", "sm_100a"]
    assert len(manifest.entries) == 2
