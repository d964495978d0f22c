"""Rehearse a release: ``release_check.py DIST WORK UV``, with the Python of an environment that has twine.

The distributions in DIST are checked as an index would check them, served by one on this machine (PEP 503), and
installed from it into two new environments in WORK: one builds a kernel of its own, the other, without the compiler,
finds it. Each step prints a line; the first that fails ends the rehearsal with status 1.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from email.parser import Parser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("precast", *(f"precast-{part}" for part in ("loader", "attach", "emulator", "measure", "native", "publish")))
_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)]+)\)|(?:src|srcset)=\"(?!https?://)([^\"]+)\"")
FIND = """
import importlib.util
from precast import loader
assert importlib.util.find_spec("cutlass") is None, "the compiler is here"
kernel = loader.get("mine.scaled", {"dtype": "bfloat16"}, target="sm_90a")
print(kernel)
"""


class Wrong(Exception):
    """Something that must not be released."""


def main(dist: Path, work: Path, uv: str) -> int:
    """Every step in its order."""
    version = re.search(r'^VERSION = "(.+)"$', (ROOT / "loader" / "version.py").read_text(), re.MULTILINE)
    assert version is not None
    files = sorted(path for path in dist.iterdir() if path.name.endswith((".whl", ".tar.gz")))
    try:
        for line in (*checked(files, version[1]), *rendered(files)):
            print(line, flush=True)
        with index_of(files, work / "simple") as address:
            print(f"index: {address}", flush=True)
            for line in rehearsed(work, uv, address, version[1]):
                print(line, flush=True)
    except Wrong as error:
        print(f"release-check: {error}", file=sys.stderr)
        return 1
    return 0


def checked(files: list[Path], version: str) -> Iterator[str]:
    """Names, versions, licences, and the digests that an attestation has for its subjects."""
    kinds = {(name, kind) for name in NAMES for kind in (".whl", ".tar.gz")}
    for path in files:
        metadata, licences = contents(path)
        name = str(metadata["Name"])
        kinds.discard((name, ".whl" if path.suffix == ".whl" else ".tar.gz"))
        found = {"Version": version, "License-Expression": "Apache-2.0", "Requires-Python": metadata["Requires-Python"]}
        for field, expected in found.items():
            if not expected or metadata[field] != expected:
                raise Wrong(f"{path.name}: {field} is {metadata[field]!r}, not {expected!r}")
        if not licences:
            raise Wrong(f"{path.name} has no LICENSE")
        relative = _LINK.findall(str(metadata.get_payload()))
        if relative:
            raise Wrong(f"{path.name}: its description has links that an index cannot follow: {relative[0]}")
        yield f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
    if kinds:
        raise Wrong(f"not built: {sorted(kinds)}")


def contents(path: Path) -> tuple[Message, list[str]]:
    """The metadata of a distribution, with its description for a payload, and the names of its licences."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            (head,) = (name for name in names if name.endswith(".dist-info/METADATA"))
            text = wheel.read(head).decode()
    else:
        with tarfile.open(path) as archive:
            names = archive.getnames()
            member = archive.extractfile(min((name for name in names if name.endswith("/PKG-INFO")), key=len))
            assert member is not None
            text = member.read().decode()
    return Parser().parsestr(text), [name for name in names if name.endswith("/LICENSE")]


def rendered(files: list[Path]) -> Iterator[str]:
    """The descriptions, as an index renders them."""
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)])
    yield f"descriptions: {len(files)} are rendered without warnings"


@contextmanager
def index_of(files: list[Path], folder: Path) -> Iterator[str]:
    """An index of these files alone, at an address of this machine."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in files:
        project = folder / re.sub(r"[-_.]+", "-", path.name.partition("-")[0])
        project.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, project)
    handler = functools.partial(Quiet, directory=str(folder.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{folder.name}/"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    """Lists folders as pages of links, which is all that PEP 503 needs."""

    def log_message(self, *words: object) -> None:
        """No line for each request."""


def rehearsed(work: Path, uv: str, address: str, version: str) -> Iterator[str]:
    """The ten lines of the README. Names of the index at the address are taken from it alone."""
    project, home = work / "project", work / "home"
    for folder in (project, home):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    builder = environment(work / "builder", uv, address, f"precast=={version}")
    precast = [str(builder / "bin" / "precast")]
    for words in (["new", "scaled"], ["build", "scaled.yaml", "-o", "cache"], ["wheel", "cache", "-o", "dist"]):
        run([*precast, *words], cwd=project, home=home)
        yield f"$ precast {' '.join(words)}"
    wheels = [str(path) for path in (project / "dist").glob("*.whl")]
    server = environment(work / "server", uv, address, f"precast-loader[attach]=={version}", *wheels)
    yield run([str(server / "bin" / "python"), "-c", FIND], cwd=home, home=home).strip()


def environment(folder: Path, uv: str, address: str, *requirements: str) -> Path:
    """A new environment with what these requirements need."""
    shutil.rmtree(folder, ignore_errors=True)
    run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)])
    run(
        [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), "--index", address, *requirements]
    )
    return folder


def run(words: list[str], cwd: Path = ROOT, home: Path | None = None) -> str:
    """What a command prints, which must succeed; with ``home``, as a user who has never used it."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(home)} if home else dict(os.environ)
    done = subprocess.run(words, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3]))
