"""Build the shipped manifests with every compiler, CUDA and Python, load all of it with every Python, and compare.

    python benchmarks/version_matrix.py --dsl 4.6.2,4.7.1,4.8.1 --cuda 12,13 --python 3.10,3.14,/opt/3.14t/bin/python

It needs ``uv`` (``pip install uv``), gcc and no GPU. Each environment is made under ``--work``, and removed when its
cell is done unless ``--keep`` is given; the caches stay, in ``caches/DSL-cuN-pyV``. What was seen is printed, kept in
``benchmarks/results/versions.json``, and written into docs/versions.md. A cell that fails costs itself alone.

``--shard 1/8`` takes an eighth of the variants; ``--sources`` adds requirements for manifests of other libraries.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import requires
from pathlib import Path
from typing import Any

from performance import RESULTS, ROOT

from precast.build.link.versions import DSL, LIBRARIES, release_of, toolkit

KEPT = RESULTS / "versions.json"
PAGE = ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- the table begins -->\n", "<!-- the table ends -->\n"
_PINNED = (DSL, *LIBRARIES.values(), "precast-loader")  # which each cell has its own versions of

# Opens every artifact of a cache as a process without a compiler does, and prints what each takes.
LOAD = """
import hashlib, json, sys
from precast.loader.resolve.candidate import Candidate
from precast.loader.session import Session
from precast.loader.errors import PrecastError
found = {}
for folder in sys.argv[1:]:
    session = Session(folder)
    held = session.caches()[0]
    if held.index is None:
        raise SystemExit(f"{folder}: {held.error}")
    for op in held.index.ops:
        source = session.sources(op)[0][0]
        for one in source.op.artifacts:
            if one.kind == "object":
                kernel = session.load(Candidate(source, one), None, str(one.target)).kernel
                name = json.dumps([op, dict(one.config), str(one.target)], sort_keys=True, default=str)
                code = held.cache.read(one.blob)
                for runtime in held.index.runtimes:  # named by an archive that each Python has another of
                    code = code.replace(runtime.soname.encode(), b"")
                found.setdefault(folder, {})[name] = [str(kernel.signature), hashlib.sha256(code).hexdigest()]
assert "cutlass" not in sys.modules
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Cell:
    """One compiler, for one CUDA, under one Python: a version of Python, or the path of one."""

    dsl: str
    cuda: int
    python: str

    @property
    def name(self) -> str:
        return f"{self.dsl}-cu{self.cuda}-py{label(self.python)}"

    @property
    def labelled(self) -> Cell:
        """The same, by the version of its Python."""
        return Cell(self.dsl, self.cuda, label(self.python))


@dataclass
class Seen:
    """What happened in a cell. ``failed`` has the first line of each reason, by variant."""

    built: int = 0
    seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    trouble: str = ""
    loaded: dict[str, int] = field(default_factory=dict)  # by Python
    unlike: list[str] = field(default_factory=list)  # variants whose signature is another one than elsewhere
    other_bytes: list[str] = field(default_factory=list)  # the same compiler gives other bytes under another Python


def main(argv: list[str] | None = None) -> int:
    """Run the cells, load their caches, write the table."""
    options = parse(argv)
    work: Path = options.work
    cells = [Cell(d, c, p) for p in options.python for d in options.dsl for c in options.cuda]
    before = seen_before(options) if options.resume else {}
    cells += [cell for cell in before if cell.name not in {one.name for one in cells}]
    seen = {cell.name: before.get(cell.labelled, Seen()) for cell in cells}
    with Environments(work, options) as environments:
        for cell in cells:
            if cell.labelled in before:
                continue
            print(f"{cell.name}: ", end="", flush=True)
            started = time.monotonic()
            try:
                build(cell, environments, options, seen[cell.name])
            except Failed as error:
                seen[cell.name].trouble = str(error)
            seen[cell.name].seconds = round(time.monotonic() - started, 1)
            print(said(seen[cell.name]), flush=True)
            keep(cells, seen, options)
        for python in options.python:
            load_all(python, cells, environments, seen)
    compare(cells, work, seen)
    kept = keep(cells, seen, options)
    if options.page:
        write_page(kept, options.page)
    good = all(not s.trouble and not s.unlike and set(s.loaded.values()) == {s.built} for s in seen.values())
    print(f"{'all' if good else 'NOT all'} cells built, loaded and agree in their signatures")
    return 0 if good else 1


def parse(argv: list[str] | None) -> argparse.Namespace:
    listed = lambda text: [one for one in text.split(",") if one]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dsl", type=listed, default=["4.6.2", "4.7.1", "4.8.1"])
    parser.add_argument("--cuda", type=lambda text: list(map(int, listed(text))), default=[12, 13])
    parser.add_argument("--python", type=listed, default=["3.11"], help="versions, or paths of interpreters")
    parser.add_argument("--manifests", type=listed, default=["default"])
    parser.add_argument("--target", type=listed, default=["sm_90a"])
    parser.add_argument("--shard", default="1/1", help="I/N: build one of N parts")
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--sources", nargs="*", default=[], metavar="REQUIREMENT", help="what manifests need beside")
    parser.add_argument("--work", type=Path, default=ROOT / ".work" / "versions")
    parser.add_argument("--resume", action="store_true", help="add to the cells of --json whose caches are there")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    parser.add_argument("--json", type=Path, default=KEPT)
    parser.add_argument("--page", type=Path, help=f"the page to write the table into, such as {PAGE.relative_to(ROOT)}")
    return parser.parse_args(argv)


def keep(cells: Sequence[Cell], seen: Mapping[str, Seen], options: argparse.Namespace) -> dict[str, Any]:
    """Write what was seen so far."""
    rows = [{**asdict(cell), "python": label(cell.python), **asdict(seen[cell.name])} for cell in cells]
    kept = {"cells": rows, "manifests": options.manifests, "shard": options.shard, "targets": options.target}
    options.json.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    return kept


def seen_before(options: argparse.Namespace) -> dict[Cell, Seen]:
    """What earlier runs saw, where their caches are still there. Each Python of this run loads them again."""
    kept = json.loads(options.json.read_text()) if options.json.exists() else {"cells": []}
    again = {label(python) for python in options.python}
    found = {}
    for one in kept["cells"]:
        cell = Cell(one["dsl"], one["cuda"], one["python"])
        if one["built"] and any(folders(cell, options.work)):
            loaded = {python: count for python, count in one["loaded"].items() if python not in again}
            found[cell] = Seen(built=one["built"], seconds=one["seconds"], failed=one["failed"], loaded=loaded)
    return found


class Failed(Exception):
    """What a command printed last."""


class Environments:
    """The environments of cells, made when they are asked for and removed at the end of each."""

    def __init__(self, work: Path, options: argparse.Namespace) -> None:
        self.work, self.options = work, options
        self.uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"

    def __enter__(self) -> Environments:
        (self.work / "caches").mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if not self.options.keep:
            shutil.rmtree(self.work / "environments", ignore_errors=True)

    def loading(self, python: str) -> Path:
        """A Python with what loads caches, and no compiler."""
        return self._made(f"loader-py{label(python)}", python, [*needed("precast-loader"), "packaging"])

    def building(self, cell: Cell) -> Path:
        """A Python with one compiler."""
        wanted = [f"{LIBRARIES[cell.cuda]}=={cell.dsl}", *needed("precast")]
        # The compiler's own distribution asks for its libraries for CUDA 12, whichever are wanted.
        return self._made(cell.name, cell.python, [*wanted, *self.options.sources], alone=[f"{DSL}=={cell.dsl}"])

    def done(self, cell: Cell) -> None:
        """Make room."""
        if not self.options.keep:
            shutil.rmtree(self.work / "environments" / cell.name, ignore_errors=True)

    def _made(self, name: str, python: str, requirements: Sequence[str], alone: Sequence[str] = ()) -> Path:
        folder = self.work / "environments" / name
        interpreter = folder / "bin" / "python"
        if not (folder / ".ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            run(self.uv, "venv", "-q", "--python", python, str(folder))
            install = (self.uv, "pip", "install", "-q", "--python", str(interpreter))
            run(*install, *requirements)
            if alone:
                run(*install, "--no-deps", *alone)
            run(*install, "--no-deps", "-e", str(ROOT / "loader"), "-e", str(ROOT))
            (folder / ".ready").touch()
        return interpreter


def label(python: str) -> str:
    """How the table names a Python.

    >>> label("3.12")
    '3.12'
    """
    if os.sep not in python:
        return python
    code = "import sys; print('%d.%d%s' % (*sys.version_info[:2], sys.abiflags))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def needed(distribution: str) -> list[str]:
    """What a distribution needs, but for its extras and for what each cell has its own version of."""
    found = [one for one in requires(distribution) or () if "extra ==" not in one]
    return [one for one in found if one.split(">")[0].split("=")[0].split("<")[0].strip() not in _PINNED]


def run(*command: str, environment: Mapping[str, str] | None = None) -> str:
    """What a command prints, or Failed with the end of what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PRECAST_"))}
    env = {**kept, "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
    done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode not in (0, 1) or (done.returncode and not done.stdout):
        raise Failed((done.stderr or done.stdout).strip()[-800:])
    return done.stdout


def build(cell: Cell, environments: Environments, options: argparse.Namespace, seen: Seen) -> None:
    """Build the manifests of a cell, each into a cache of its own."""
    python = environments.building(cell)
    try:
        for manifest in options.manifests:
            cache = environments.work / "caches" / cell.name / manifest
            shutil.rmtree(cache, ignore_errors=True)
            targets = [word for target in options.target for word in ("--target", target)]
            command = [str(python), "-m", "precast.cli.main", "build", str(ROOT / "manifests" / f"{manifest}.yaml")]
            command += ["-o", str(cache), "-j", options.jobs, "--shard", options.shard, "--json", *targets]
            command += ["--store", str(environments.work / "stores" / cell.name)]
            report = json.loads(run(*command, environment={"PRECAST_CUDA": str(cell.cuda)}).splitlines()[-1])
            if "built" not in report:
                raise Failed(str(report)[:800])
            seen.built += report["built"] + report["reused"]
            seen.failed |= {str(one["variant"]): one["reason"].splitlines()[0][:200] for one in report["failed"]}
    finally:
        environments.done(cell)


def folders(cell: Cell, work: Path) -> Iterator[Path]:
    """The caches of a cell."""
    yield from sorted(path.parent for path in (work / "caches" / cell.name).glob("*/index.json"))


def load_all(python: str, cells: Sequence[Cell], environments: Environments, seen: Mapping[str, Seen]) -> None:
    """Load the caches of every cell in one process of a Python; then, where that fails, of each cell alone."""
    try:
        interpreter = str(environments.loading(python))
    except Failed as error:
        print(f"loading with {label(python)}: {error}", flush=True)
        return
    all_folders = {str(folder): cell for cell in cells for folder in folders(cell, environments.work)}
    try:
        found = json.loads(run(interpreter, "-W", "error", "-c", LOAD, *all_folders))
    except (Failed, ValueError) as error:
        print(f"loading with {label(python)}: {error}", flush=True)
        return
    for folder, cell in all_folders.items():
        loaded = seen[cell.name].loaded
        loaded[label(python)] = loaded.get(label(python), 0) + len(found.get(folder, {}))
    (environments.work / "signatures.json").write_text(json.dumps(found))


def compare(cells: Sequence[Cell], work: Path, seen: Mapping[str, Seen]) -> None:
    """Hold the signatures and bytes of every cell against those of the first one that has the variant."""
    kept = work / "signatures.json"
    found: dict[str, dict[str, list[str]]] = json.loads(kept.read_text()) if kept.exists() else {}
    known: dict[tuple[Any, ...], str] = {}
    for cell in cells:
        for folder in folders(cell, work):
            for variant, (signature, digest) in found.get(str(folder), {}).items():
                if known.setdefault((folder.name, variant), signature) != signature:
                    seen[cell.name].unlike.append(variant)
                if known.setdefault((cell.dsl, cell.cuda, folder.name, variant), digest) != digest:
                    seen[cell.name].other_bytes.append(variant)


def said(seen: Seen) -> str:
    """A cell in words."""
    failed = f", {len(seen.failed)} failed" if seen.failed else ""
    return seen.trouble.splitlines()[-1][:200] if seen.trouble else f"{seen.built} built{failed} in {seen.seconds} s"


def table(kept: Mapping[str, Any]) -> str:
    """The cells as a table: a row for each compiler and CUDA, a column for each Python, and below it what failed."""
    cells = kept["cells"]
    pythons = list(dict.fromkeys(cell["python"] for cell in cells))
    rows = sorted({(cell["dsl"], cell["cuda"]) for cell in cells})
    by_place = {(c["dsl"], c["cuda"], c["python"]): c for c in cells}
    part = f", part {kept['shard']}" if kept["shard"] != "1/1" else ""
    lines = [
        f"Variants of {' and '.join(kept['manifests'])}{part}, for {' and '.join(kept['targets'])}:",
        "",
        "| DSL | CUDA | " + " | ".join(f"Python {p}" for p in pythons) + " |",
        "| --- | --- |" + " --- |" * len(pythons),
    ]
    for dsl, cuda in rows:
        texts = [text_of(by_place.get((dsl, cuda, python))) for python in pythons]
        lines.append(f"| {dsl} | {toolkit(cuda, release_of(dsl))} | " + " | ".join(texts) + " |")
    reasons: dict[str, set[str]] = {}
    for cell in cells:
        for variant, reason in cell["failed"].items():
            reasons.setdefault(f"{variant.partition('(')[0]}: {reason}", set()).add(cell["dsl"])
        if cell["trouble"]:
            text = cell["trouble"].strip().splitlines()[-1][:200]
            reasons.setdefault(text, set()).add(f"{cell['dsl']} under {cell['python']}")
    if reasons:
        lines += ["", "What was not built:", ""]
        lines += [f"- {', '.join(sorted(where))}: {reason}" for reason, where in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


def text_of(cell: Mapping[str, Any] | None) -> str:
    """One cell of the table: variants built, of how many, and the Pythons that did not load all of them."""
    if cell is None:
        return ""
    if cell["trouble"]:
        return "none"
    total = cell["built"] + len(cell["failed"])
    unlike = f"; {len(cell['unlike'])} with another signature" if cell["unlike"] else ""
    unlike += f"; {len(cell['other_bytes'])} of other bytes" if cell["other_bytes"] else ""
    short = [python for python, count in cell["loaded"].items() if count != cell["built"]]
    loaded = f"; not all loaded with {', '.join(short)}" if short or not cell["loaded"] else ""
    return f"{cell['built']} of {total}{unlike}{loaded}"


def write_page(kept: Mapping[str, Any], page: Path) -> None:
    """Put the table in its place on a page."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}{table(kept)}{END}{after}")


if __name__ == "__main__":
    sys.exit(main())
