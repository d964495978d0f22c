"""Pages that are walked: every file and command in them, in their order, in an empty folder.

- A block in ``sh`` is commands. All of a page run in one shell, so that ``cd`` and ``export`` hold.
- Any other block after a line that ends in ``NAME`:`` is that file.
- A block in ``text`` is what the command before it printed; ``...`` stands for anything.
- A command that ends in ``# exit 1`` has that status. One that ends in ``# on a machine with a GPU`` has status 1, and
  says why: a walk sees no GPU, so that it is the same on every machine. ``tests/gpu`` launches.
- A command with ``PYTHONPATH=.`` that ends in ``# needs torch`` sees the torch of this environment: to install it would
  take minutes.

A block of another kind is an error: nothing on a page is left out.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.pages import text_of

ON_A_GPU = "on a machine with a GPU"
NEEDS_TORCH = "# needs torch"
_TORCH = (
    "torch", "torchgen", "functorch", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec",
    "numpy", "numpy.libs",
)  # fmt: skip
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"`([\w./-]+)`:\s*\Z")
_STATUS = re.compile(r"# exit (\d+)")
_SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True, slots=True)
class File:
    """A file that the reader saves."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A line that the reader types, and what it prints if the page shows that."""

    line: str
    shown: str | None = None

    @property
    def needs_gpu(self) -> bool:
        return ON_A_GPU in self.line

    @property
    def status(self) -> int:
        found = _STATUS.search(self.line)
        return int(found[1]) if found else int(self.needs_gpu)


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command did."""

    command: Command
    status: int
    output: str
    errors: str


def steps(page: str) -> Iterator[File | Command]:
    """What a page tells its reader to do."""
    yield from _shown(list(_blocks(page)))


def _blocks(page: str) -> Iterator[File | Command | str]:
    text = text_of(page)
    for block in _BLOCK.finditer(text):
        language, body = block.groups()
        if language == "sh":
            yield from (Command(line) for line in re.sub(r" *\\\n *", " ", body).splitlines() if line.strip())
        elif named := _FILE.search(text[: block.start()]):
            yield File(named[1], body)
        elif language == "text":
            yield body
        else:
            line = text[: block.start()].count("\n") + 1
            raise ValueError(f"{page}:{line}: a block in {language} that is neither a file nor commands")


def _shown(blocks: list[File | Command | str]) -> Iterator[File | Command]:
    """Each command with the output that follows it."""
    for one, after in zip(blocks, [*blocks[1:], None], strict=True):
        if isinstance(one, Command):
            yield Command(one.line, after if isinstance(after, str) else None)
        elif isinstance(one, File):
            yield one


def walk(page: str, folder: Path, environment: Mapping[str, str]) -> list[Printed]:
    """Do what a page says. Raises AssertionError at the first command that does something else."""
    return follow(page, list(steps(page)), folder, environment)


def follow(page: str, each: list[File | Command], folder: Path, environment: Mapping[str, str]) -> list[Printed]:
    """The same for some of the steps of a page."""
    logs = folder.parent / f"{folder.name}-log"
    logs.mkdir()
    script = ["set -u"]
    commands: list[Command] = []
    for step in each:
        if isinstance(step, File):
            path = folder / step.name
            script.append(f"mkdir -p '{path.parent}' && cp '{_kept(logs, step, len(script))}' '{path}'")
            continue
        log = logs / f"{len(commands)}"
        commands.append(step)
        line = step.line
        if NEEDS_TORCH in line:
            line = line.replace("PYTHONPATH=.", f"PYTHONPATH=.:'{link_torch(logs / 'torch')}'")
        script.append(f"{{ {line}\n}} >'{log}.out' 2>'{log}.err' </dev/null; echo $? >'{log}.status'")
        script.append(f"[ $(cat '{log}.status') = {step.status} ] || exit 9")
    environment = {**os.environ, **environment, "CUDA_VISIBLE_DEVICES": "-1"}
    subprocess.run(["bash", "-c", "\n".join(script)], cwd=folder, env=environment, timeout=600, check=False)
    done = [_printed(command, logs / str(number)) for number, command in enumerate(commands)]
    for one in done:
        _check(page, one)
    return done


def link_torch(folder: Path) -> Path:
    """Put this environment's torch, and what that imports, into a folder, each with the list of its files.

    Its folders are made anew, and their files are hard links: a build reads the sources of what no distribution of that
    folder has, and through a symbolic link it would read those of torch, for minutes.
    """
    folder.mkdir(exist_ok=True)
    for name in (*_TORCH, *(f"{name}-*.dist-info" for name in _TORCH)):
        for found in (found for path in sys.path for found in Path(path).glob(name)):
            if not (folder / found.name).exists():
                shutil.copytree(found, folder / found.name, symlinks=True, copy_function=link)
    list_last(folder)
    return folder


def list_last(folder: Path) -> None:
    """Change the lists of files of what is installed there after these: a build reads the files that were changed after
    their list, and a link changes a file, also for the environment that it is of."""
    for record in folder.glob("*.dist-info/RECORD"):
        record.chmod(record.stat().st_mode)


def link(source: str, target: str) -> None:
    """A hard link, or a copy where the file system refuses one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _kept(logs: Path, file: File, number: int) -> Path:
    kept = logs / f"file-{number}"
    kept.write_text(file.text)
    return kept


def _printed(command: Command, log: Path) -> Printed:
    status = log.with_suffix(".status")
    if not status.exists():
        return Printed(command, -1, "", "it was not run, since a command before it did something else")
    texts = [log.with_suffix(end).read_text(errors="replace") for end in (".out", ".err")]
    return Printed(command, int(status.read_text()), *texts)


def _check(page: str, one: Printed) -> None:
    said = f"{page}: {one.command.line}\nstatus {one.status}\n{one.output}\n{one.errors[-4000:]}"
    assert one.status == one.command.status, said
    assert not one.command.needs_gpu or re.search(r"GPU|CUDA", one.errors), said
    if one.command.shown is not None:
        text = one.output or one.errors
        assert matches(one.command.shown, text), f"{said}\nbut the page shows:\n{one.command.shown}"


def matches(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed, but for spaces and for what ``...`` stands for.

    >>> matches("8 of 8\\nin ... s", "8 of 8\\nin 0.01 s\\n"), matches("8 of 8", "7 of 8\\n")
    (True, False)
    """
    return doctest.OutputChecker().check_output(shown, printed, _SAME)
