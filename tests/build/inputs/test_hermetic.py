"""A hermetic build: what is not declared is absent, however it is read, and is listed at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.builds import manifest, module, precast, tree

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]

SIZE = "\n\ndef {0}_made(n: int):\n    return compile_add(SIZE + n)\n"
READING = {
    "by_open": "try: SIZE = int(open({0!r}).read())\nexcept FileNotFoundError: SIZE = 0\n",
    "by_cat": "import subprocess\nSIZE = len(subprocess.run(['cat', {0!r}], capture_output=True).stdout)\n",
    "by_fopen": "import ctypes\nC = ctypes.CDLL(None)\nC.fopen.restype = ctypes.c_void_p\n"
    "SIZE = int(C.fopen({0!r}.encode(), b'r') is not None)\n",
    "by_list": "import os\ntry: SIZE = len(os.listdir(os.path.dirname({0!r})))\nexcept FileNotFoundError: SIZE = 0\n",
    "by_check": "import os\nSIZE = int(os.path.exists({0!r}))\n",
    "by_link": "import pathlib\ntry: SIZE = int((pathlib.Path(__file__).parent / 'link').read_text())\n"
    "except FileNotFoundError: SIZE = 0\n",
    "declared": "import pathlib\nSIZE = int((pathlib.Path(__file__).parent / 'size.txt').read_text())\n",
}


def test_what_is_not_declared_is_absent(tmp_path: Path) -> None:
    source, outside = tmp_path / "src", tmp_path / "outside" / "size.txt"
    for folder in (outside.parent, tmp_path / "temporary"):
        folder.mkdir()
    outside.write_text("7")
    for name, text in READING.items():
        module(source, name, text.format(str(outside)) + SIZE.format(name))
    (source / "size.txt").write_text("5")
    (source / "link").symlink_to(outside)
    made = manifest(source, {f"{name}:{name}_made": [1] for name in READING})
    temporary = {"TMPDIR": str(tmp_path / "temporary")}
    done = precast(tmp_path / "store", "build", made, "-o", tmp_path / "open", **temporary)
    assert done.returncode == 0 and "undeclared" not in done.stdout, done.stderr
    done = precast(tmp_path / "store", "build", made, "-o", tmp_path / "closed", "--hermetic", **temporary)
    assert done.returncode == 0 and "7 variants built" in done.stdout, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("undeclared input: ")]
    assert {line.split("user.")[1].split("_made")[0] for line in lines} == READING.keys() - {"declared"}, lines
    assert all(str(outside.parent) in line or str(source / "link") in line for line in lines), lines
    assert all(".py:" in line for line in lines if "by_fopen" not in line), lines
    for name in READING:
        module(source, name, f"SIZE = {5 * (name == 'declared')}{SIZE.format(name)}")
    precast(tmp_path / "fresh", "build", made, "-o", tmp_path / "plain")
    blobs = [{name for name in tree(tmp_path / cache) if "blobs" in str(name)} for cache in ("closed", "plain")]
    assert blobs[0] == blobs[1]
    assert precast(tmp_path / "store", "check", made, tmp_path / "closed").returncode == 1
