"""The builder without precast-publish: its commands, and a build with a shared store, say what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.cli.shared.output import checkout, installable
from tests.helpers.builds import precast


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("push", "cache", "file:///pushed"), "publish"),
        (("sign", "cache", "--keyless"), "sign"),
        (("build", "kernels.yaml", "-o", "cache", "--remote-cache", "file:///shared"), "remote"),
    ],
)
def test_what_publishes_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], extra: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['precast.publish'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = precast(tmp_path / "store", *words)
    advice = installable(f"pip install 'precast[{extra}]'", checkout())
    expected = f"error: this needs precast-publish, which is not installed: {advice} (PCB03)\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)
