"""Scaffolds: the files of a new kernel, an attached library, a CI workflow or a whole project; the next commands."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from precast.build.disk.output_folder import check_output_folder
from precast.build.disk.scratch import write_output
from precast.build.errors import OutputError
from precast.loader.contract.format.config import suggest
from precast.loader.contract.format.patterns import NAME
from precast.loader.contract.format.target import Target
from precast.loader.errors import ConfigError
from precast.loader.version import VERSION

_HERE = Path(__file__).parent
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")  # it becomes part of a script and of a workflow
_LIBRARY_NAMES = {"quack": "quack", "flashinfer": "FlashInfer", "flash_attention": "FlashAttention-4"}
LIBRARIES = tuple(_LIBRARY_NAMES)
"""The libraries with a warm-up."""
_PROJECT = (".gitignore", "precast.toml", "pyproject.toml")
_TARGETS = "[sm_90a, sm_100a]"  # in the workflows
_TAKEN = ("warm_up", "precast", "torch", "cutlass")  # modules that a file of this name would hide


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaffold:
    """Files by name, and the commands to run next. A file of ``shared`` that exists already stays as it is."""

    files: dict[str, str]
    next: tuple[str, ...]
    shared: frozenset[str] = frozenset()

    def kept(self, folder: Path) -> tuple[str, ...]:
        """The files of ``shared`` that a folder has already."""
        return tuple(name for name in self.files if name in self.shared and _exists(folder / name))

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Write the files and return their paths; raises OutputError if one of them exists already."""
        check_output_folder(folder)
        there = [name for name in self.files if name not in self.shared and _exists(folder / name)]
        if there:
            raise OutputError(f"{folder} has {', '.join(there)} already: choose another name, or another folder")
        kept = self.kept(folder)
        new = {folder / name: text for name, text in self.files.items() if name not in kept}
        for path, text in new.items():
            write_output(path, text.encode())
        return tuple(new)


def new_kernel(name: str) -> Scaffold:
    """The files of a new kernel.

    >>> sorted(new_kernel("swish").files)
    ['swish.py', 'swish.yaml', 'swish_device.py']
    """
    _check(name)
    files = {}
    for path in sorted((_HERE / "kernel").glob("NAME*")):
        text = path.read_text(encoding="utf-8").replace("@DASHED@", _cache_name(name))
        files[path.stem.replace("NAME", name)] = text.replace("@DOTTED@", f"mine.{_op_name(name)}").replace(
            "NAME", name
        )
    return Scaffold(
        files=files,
        next=(
            f"precast plan {name}.yaml",
            f"precast build {name}.yaml -o cache",
            "PYTHONPATH=. precast verify cache --emulate    # without a GPU",
            "PYTHONPATH=. precast verify cache    # on a machine with a GPU",
            "PYTHONPATH=. precast bench cache",
            "precast wheel cache -o dist",
        ),
    )


def new_project(name: str, *, ci: bool = True) -> Scaffold:
    """The files of a new kernel, of its CI, and of the project file that names its manifest.

    >>> sorted(new_project("swish", ci=False).files)
    ['.gitignore', 'precast.toml', 'pyproject.toml', 'swish.py', 'swish.yaml', 'swish_device.py']
    """
    files = new_kernel(name).files
    for path in _PROJECT:
        text = (_HERE / "project" / f"{path.lstrip('.')}.txt").read_text(encoding="utf-8")
        files[path] = text.replace("@DASHED@", _cache_name(name)).replace("VERSION", VERSION).replace("NAME", name)
    return Scaffold(
        files={**files, **(new_ci(name).files if ci else {})},
        next=(
            "precast build",
            "precast check",
            "precast verify --emulate    # without a GPU; needs torch",
            "precast build --watch    # while you change the kernel",
            *(("bash ci/recipe    # what the CI runs",) if ci else ()),
        ),
        shared=frozenset({".gitignore", "pyproject.toml"}),
    )


def name_of_folder(folder: Path) -> str:
    """The name of a kernel for a folder's name: hyphens, dots and spaces become underscores.

    >>> name_of_folder(Path("/work/acme-norms"))
    'acme_norms'
    """
    name = re.sub(r"[-. ]+", "_", folder.absolute().resolve().name)
    if name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and name not in _TAKEN:
        return name
    raise ConfigError(f"{folder.absolute().name[:80]!r} gives no name for a kernel: choose one with --name")


def new_attached(library: str, name: str) -> Scaffold:
    """A warm-up that requests kernels from a library, and the manifest that builds them.

    >>> sorted(new_attached("quack", "server").files)
    ['server.yaml', 'warm_up.py']
    """
    if library not in LIBRARIES:
        raise ConfigError(f"there is no warm-up for {library!r}{suggest(library, LIBRARIES)}: name {_any(LIBRARIES)}")
    _check(name)
    manifest = (_HERE / "attach" / "NAME.yaml.txt").read_text(encoding="utf-8").replace("NAME", name)
    manifest = manifest.replace("@DASHED@", _cache_name(name)).replace("@LIBRARY@", _LIBRARY_NAMES[library])
    warm_up = (_HERE / "attach" / f"warm_up.{library}.py.txt").read_text(encoding="utf-8")
    return Scaffold(
        files={f"{name}.yaml": manifest, "warm_up.py": warm_up},
        next=(
            f"precast plan {name}.yaml",
            f"precast build {name}.yaml -o cache",
            "precast wheel cache -o dist",
            "python -m precast.loader.attach server.py    # where the wheel is installed: nothing compiles",
        ),
    )


def new_ci(name: str, targets: Iterable[Target] = ()) -> Scaffold:
    """The steps that build and ship a manifest, and the workflows that run them, with a job for each target.

    >>> sorted(new_ci("acme-norms").files)
    ['.github/workflows/acme-norms.yml', 'ci/gitlab.yml', 'ci/recipe', 'ci/requirements.txt']
    """
    if not FILE_NAME.fullmatch(name):
        raise ConfigError(f"{name[:80]!r} is not the name of a manifest: give the name of the file without .yaml")
    files = {
        "NAME.yml": f".github/workflows/{name}.yml", "gitlab.yml": "ci/gitlab.yml", "recipe": "ci/recipe",
        "requirements": "ci/requirements.txt",
    }  # fmt: skip
    texts = {path: (_HERE / "ci" / source).read_text(encoding="utf-8") for source, path in files.items()}
    jobs = ", ".join(map(str, sorted(set(targets))))
    texts = {path: text.replace(_TARGETS, f"[{jobs}]" if jobs else _TARGETS) for path, text in texts.items()}
    return Scaffold(
        files={path: text.replace("VERSION", VERSION).replace("NAME", name) for path, text in texts.items()},
        next=(
            f"bash ci/recipe    # where {name}.yaml is: everything up to the wheel, on this machine",
            f"git add ci .github/workflows/{name}.yml    # on GitLab: include ci/gitlab.yml in .gitlab-ci.yml",
        ),
    )


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _check(name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii() or not NAME.admits(name):
        raise ConfigError(f"{name[:80]!r} is not the name of a Python function: use letters, digits and underscores")
    if name in _TAKEN:
        raise ConfigError(f"{name!r} would hide another module: choose another name")


def _op_name(name: str) -> str:
    """An op's name for a function: MyKernel is my_kernel."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_") or "kernel"


def _cache_name(name: str) -> str:
    """A cache's name for a function: words of small letters and digits, joined by hyphens."""
    return "-".join(filter(None, _op_name(name).split("_")))


def _any(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
