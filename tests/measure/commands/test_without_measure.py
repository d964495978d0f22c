"""The builder without precast-measure: its commands say what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.cli.shared.output import checkout, installable
from tests.helpers.builds import precast

ADVICE = installable("pip install 'precast[measure]'", checkout())


@pytest.mark.parametrize(
    "words", [("verify", "cache"), ("bench", "cache"), ("tune", "apply", "cache", "t.json"), ("report", "-o", "r.html")]
)
def test_a_command_that_measures_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['precast.measure'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = precast(tmp_path / "store", *words)
    expected = f"error: this needs precast-measure, which is not installed: {ADVICE} (PCB03)\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)
