"""Runs a notebook from its first cell to its last: ``python -m tests.helpers.notebook.runner [--check] NOTEBOOK``.

It keeps what the cells show, where that is not what the file has already; with ``--check`` it only says what differs.
Digests, times, sizes, folders and the versions of this host are no difference.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

_SECONDS = 300  # for one cell
_VARYING = (
    ("<wbr>", ""),  # its places depend on how long the folder's name is
    (r"/[^\s<>]*precast-tour-\w+", "FOLDER"),
    (r"\b(slow|large): .*", r"\1: VARIANT"),
    (r"\b(?=\w*\d)[0-9a-f]{10,64}\b", "DIGEST"),
    (r"\b(x86_64|aarch64)\b", "HOST"),
    (r"\b(glibc|tvm-ffi) [\w.]+\w", r"\1 VERSION"),
    (r"\b\d+(\.\d+)? ?(ms|s|kB|MB|bytes)\b", r"AMOUNT \2"),
    (r"(?<=<td>)\d+\.\d+(?=</td>)", "SECONDS"),
    (r"(?<=bytes read</th><td>)\d+", "AMOUNT"),
    (r"\d+(?= of them stored)", "AMOUNT"),  # what was packed holds digests
    (r"(stored|seconds)=[\d.e-]+", r"\1=AMOUNT"),
    (r"closed by \w+", "closed by HOW"),
    (r"no CUDA device: .*?(?=[.;<\n])", "no CUDA device: REASON"),
)


def main(argv: list[str] | None = None) -> int:
    """Run it, and compare or keep what it shows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--check", action="store_true", help="change nothing; end with 1 where the file is stale")
    args = parser.parse_args(argv)
    import nbformat

    kept = nbformat.read(args.notebook, as_version=4)
    fresh = run(nbformat.read(args.notebook, as_version=4), args.notebook.parent)
    before, after = shown(kept), shown(fresh)
    if before == after:
        print(f"{args.notebook} shows what it did")
        return 0
    if not args.check:
        args.notebook.write_text(nbformat.writes(fresh) + "\n")
        print(f"{args.notebook} written")
        return 0
    print("\n".join(difflib.unified_diff(before, after, "kept", "now", lineterm="", n=1)))
    print(f"{args.notebook} is stale: run make notebook, and look at what it shows", file=sys.stderr)
    return 1


def run(notebook: Any, folder: Path) -> Any:
    """The notebook with what its cells show now, and nothing of this machine besides."""
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory(prefix="precast-jupyter-") as home:
        os.environ.update(IPYTHONDIR=home, JUPYTER_CONFIG_DIR=home, JUPYTER_RUNTIME_DIR=home, JUPYTER_PLATFORM_DIRS="1")
        client = NotebookClient(
            notebook, timeout=_SECONDS, resources={"metadata": {"path": str(folder)}}, record_timing=False
        )
        client.execute()
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for place, cell in enumerate(notebook.cells):
        cell["id"], cell["metadata"] = f"cell-{place}", {}
    return notebook


def shown(notebook: Any) -> list[str]:
    """Everything that the cells show, line by line, with one word for what differs from run to run."""
    lines = []
    for place, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            texts = output.get("data") or {output.get("name", output.output_type): output.get("text", "")}
            for kind, text in sorted(texts.items()):
                lines += [f"[{place}] {kind}: {line}" for line in steady(text).splitlines()]
    return lines


def steady(text: str) -> str:
    """A text with one word for what differs from run to run.

    >>> steady("43ca40a951f9 in 1.25 ms at /tmp/precast-tour-x1/cache, glibc 2.36")
    'DIGEST in AMOUNT ms at FOLDER/cache, glibc VERSION'
    """
    for pattern, word in _VARYING:
        text = re.sub(pattern, word, text)
    return re.sub(r" {2,}", " ", text)


if __name__ == "__main__":
    sys.exit(main())
