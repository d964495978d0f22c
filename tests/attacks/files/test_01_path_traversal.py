"""The index names files outside of the cache, by '..', by a root, by a null byte.

Names of ops and digests of blobs are matched whole before a path is made of them: no such name ever reaches the
file system.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.attacks import Refused, edit, forge_op

NAMES = ("../scale", "/etc/passwd", "a/b", "scale\0", "..", ".", "", "Scale", "scale\n", "%2e%2e", "a" * 65)


@pytest.mark.parametrize("name", NAMES)
def test_an_op(path: Path, refused: Refused, name: str) -> None:
    edit(path / "index.json", lambda index: index["ops"].update({name: index["ops"]["scale"]}))
    refused(path, "not the name of an op")


@pytest.mark.parametrize("name", ["../" * 20 + "etc/passwd", "/" + "0" * 63, "0" * 63, "0" * 64 + "\n", "A" * 64])
def test_a_blob(path: Path, refused: Refused, name: str) -> None:
    def change(op: object) -> None:
        for row in op["artifacts"]:  # type: ignore[index]
            row["blob"]["sha256"] = name

    forge_op(path, "scale", change)
    refused(path, "is not a SHA-256 digest")


@pytest.mark.parametrize("name", ["libc.so.6", "../libprecast-rt-0000000000000002.so", "/lib/x.so"])
def test_a_runtime(path: Path, refused: Refused, name: str) -> None:
    edit(path / "index.json", lambda index: index["runtimes"][0].update(soname=name))
    refused(path, "is not the name of a runtime library")
