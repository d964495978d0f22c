"""What files are, beside their content: a mode, times, an order."""

from __future__ import annotations

import os
import shutil
import socket

from tests.helpers.inputs.project import Project
from tests.helpers.inputs.route import HEAD, MADE, ONE, Route, Step, linked, remove, steps, write


def _mode(mode: int) -> Step:
    return lambda project: (project.search / "tiles.json").chmod(mode)


def _rewritten(project: Project) -> None:
    """The same content in another file, with other times."""
    file = project.search / "tiles.json"
    file.rename(project.outside / "kept")
    file.write_text((project.outside / "kept").read_text())
    os.utime(file, (1, 1))


def _socket_in(folder: str) -> Step:
    def step(project: Project) -> None:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(project.search / folder / "socket"))

    return step


def _names_in(order: str) -> Step:
    """Empty files in a new folder, made in this order."""

    def step(project: Project) -> None:
        shutil.rmtree(project.search / "tiles", ignore_errors=True)
        project.write({f"tiles/{name}": "" for name in order})

    return step


def _declared(code: str, before: Step, after: Step, *declared: str) -> Route:
    return Route(HEAD + code, before, after, declared or ("file:{search}/tiles.json", "folder:{search}/tiles"))


_FACTS = steps(MADE, ONE)
NOT_COUNTED = {
    "the mode of a file": _declared("VALUE = F.stat().st_mode", steps(_FACTS, _mode(0o644)), _mode(0o600)),
    "whether a file can be written": _declared(
        "VALUE = os.access(F, os.W_OK), F.stat()[0]", steps(_FACTS, _mode(0o644)), _mode(0o444)),
    "the mode of a folder": _declared(
        "VALUE = D.stat().st_mode", _FACTS, lambda p: (p.search / "tiles").chmod(0o700)),
    "the times of a file": _declared("VALUE = F.stat().st_mtime, F.stat().st_atime", _FACTS, _rewritten),
    "names of a file": _declared(
        "VALUE = F.stat().st_nlink", _FACTS, lambda p: os.link(p.search / "tiles.json", p.outside / "more")),
    "blocks of a file": _declared(
        "VALUE = F.stat().st_blocks", write("tiles.json", "\0" * 50_000),
        steps(write("tiles.json", ""), lambda p: os.truncate(p.search / "tiles.json", 50_000))),
    "an attribute of a file": _declared(
        "VALUE = os.listxattr(F)", _FACTS, lambda p: os.setxattr(p.search / "tiles.json", "user.tile", b"1")),
    "the owner of a file": _declared(
        "VALUE = F.stat().st_uid", _FACTS,
        lambda p: os.chown(p.search / "tiles.json", 1000, -1) if os.geteuid() == 0 else None),
    "the order of names": _declared("VALUE = os.listdir(D)", _names_in("012345678"), _names_in("385107264")),
    "byte code in a folder": _declared("VALUE = os.listdir(D)", _FACTS, write("tiles/__pycache__/x.pyc", "")),
    "a socket in a folder": _declared(
        "VALUE = os.listdir(D)", steps(_FACTS, _socket_in("tiles")), remove("tiles/socket")),
    "a pipe in a folder": _declared("VALUE = os.listdir(D)", _FACTS, lambda p: os.mkfifo(p.search / "tiles/pipe")),
    "the time of a link": _declared(
        "VALUE = (here / 'link').readlink()", steps(MADE, linked("tiles.json")), linked("tiles.json"),
        "file:{search}/link"),
}  # fmt: skip
"""What is declared differs in nothing that counts, so that neither inputs nor results may differ."""
