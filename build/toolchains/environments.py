"""Environments of toolchains: created once, in one step, kept by the digest of their lock, and removed when unused.

Each has a folder under ``made/``. It is created under another name and renamed when it is complete, so that one of a
killed build is never used. Builds that need the same environment wait for the first. A build locks the environment that
it uses, so that pruning does not remove it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from precast.build.disk.last_use import mark_used
from precast.build.disk.scratch import scratch_folder, sweep
from precast.build.errors import ToolchainError
from precast.build.interpreter import Interpreter
from precast.build.toolchains.interpreter_info import inspect_interpreter
from precast.build.toolchains.lock import Lock
from precast.build.toolchains.uv import Sources, run_uv
from precast.loader.contract.format import fields
from precast.loader.errors import FormatError

_MARK = "toolchain.json"  # the file that is written last
_MAKING = ".making-"
MOST = 200  # of distributions
_NAME = 32  # letters of the digest that name its folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment. ``size`` is in bytes, ``used`` is the time of its last use."""

    path: Path
    digest: str
    python: str
    versions: dict[str, str]
    size: int
    used: float


class Environments:
    """The environments below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._held: list[int] = []  # locks on the environments that this process uses, until it ends

    def interpreter(
        self, lock: Lock, python: str, sources: Sources, own_code: Path, making: Callable[[], None] = lambda: None
    ) -> Interpreter:
        """The Python of the environment of a lock, which is created if necessary; ``making`` is called before that.

        ``python`` is the program that creates it.
        """
        digest = lock.digest(inspect_interpreter(python).version)
        folder = self.root / "made" / digest[:_NAME]
        with _reporting(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            handle = _handle(folder)
            self._held.append(handle)
            _hold(handle, fcntl.LOCK_SH)
            if not folder.exists():
                _hold(handle, fcntl.LOCK_EX)
                if not folder.exists():
                    making()
                    sweep(folder.parent, _MAKING)
                    _make(folder, lock, digest, python, sources)
                _hold(handle, fcntl.LOCK_SH)  # as long as this process lives
        environment = _opened(folder)
        todo = f"remove it with 'precast toolchains --remove {folder.name[:12]}', and run this again"
        if environment is None or environment.digest != digest or environment.versions != _installed(folder):
            raise ToolchainError(f"{folder} was changed and does not match its lock: {todo}")
        try:
            seen = inspect_interpreter(str(_program(folder)), own_code)
        except ToolchainError as error:
            raise ToolchainError(f"{error}; its Python may have been removed: {todo}") from None
        mark_used(folder / _MARK)
        return Interpreter(
            executable=str(_program(folder)),
            version=seen.version,
            standard=seen.standard,
            path=seen.path,
            precast=str(own_code),
            lock=digest,
            locked=tuple(sorted(environment.versions.items())),
        )

    def environments(self) -> list[Environment]:
        """Every complete environment, the one used last first."""
        opened = map(_opened, sorted((self.root / "made").glob("*")))
        return sorted(
            (environment for environment in opened if environment is not None),
            key=lambda environment: (-environment.used, environment.digest),
        )

    def remove(self, environment: Environment) -> bool:
        """Remove an environment, unless a build uses it, and return whether it was removed."""
        try:
            handle = _handle(environment.path)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with scratch_folder(environment.path.parent, _MAKING) as rubbish:
                os.rename(environment.path, rubbish / "removed")  # in one step, so that no build uses a part of it
            return True
        except OSError:
            return False
        finally:
            os.close(handle)


def _make(folder: Path, lock: Lock, digest: str, python: str, sources: Sources) -> None:
    with scratch_folder(folder.parent, _MAKING) as scratch:
        environment, listed = scratch / "environment", scratch / "lock.txt"
        listed.write_text(str(lock))
        run_uv("venv", "--no-project", "--python", python, environment)
        try:
            strict = ("--require-hashes", "--no-build")
            run_uv("pip", "sync", *strict, "--python", _program(environment), *sources.options, listed)
        except ToolchainError as error:
            raise ToolchainError(
                f"the lock cannot be installed:\n{error}\n"
                "Name the folder of these files with --find-links, or write the lock again with "
                "'precast toolchains --lock'"
            ) from None
        versions = _installed(environment)
        if len(versions) > MOST:
            raise ToolchainError(
                f"it has {len(versions)} distributions, and an index has at most {MOST}: remove some requirements, or "
                "move kernels to a manifest with another toolchain"
            )
        listed.rename(environment / "lock.txt")
        data = {
            "digest": digest,
            "python": inspect_interpreter(str(_program(environment))).version,
            "versions": versions,
            "size": sum(facts.st_blocks * 512 for facts in _files(environment)),
        }
        (environment / _MARK).write_text(json.dumps(data, sort_keys=True, indent=1) + "\n")
        try:
            os.rename(environment, folder)
        except OSError:  # on a file system without locks, another build may have been first
            if _opened(folder) is None:
                raise


@contextlib.contextmanager
def _reporting(folder: Path) -> Iterator[None]:
    """Report an OSError as a ToolchainError about the folder."""
    try:
        yield
    except OSError as error:
        raise ToolchainError(
            f"{folder} cannot be created ({error.strerror or error}): free disk space, or set PRECAST_TOOLCHAINS to "
            "another folder"
        ) from error


def _handle(folder: Path) -> int:
    return os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _hold(handle: int, kind: int) -> None:
    """Wait for a lock. On a file system without locks each build creates its own environment, and the first is kept."""
    with contextlib.suppress(OSError):
        fcntl.flock(handle, kind)


def _program(folder: Path) -> Path:
    return folder / "bin" / "python"


def _installed(folder: Path) -> dict[str, str]:
    """The distributions in an environment, from the names of its folders."""
    infos = sorted(info.name for info in folder.glob("lib/python3*/site-packages/*.dist-info"))
    rows = (name.removesuffix(".dist-info").rpartition("-") for name in infos)
    return {canonicalize_name(name): version for name, _, version in rows}


def _opened(folder: Path) -> Environment | None:
    try:
        data = fields.as_object(fields.read_json((folder / _MARK).read_bytes(), limit=1 << 20))
        return Environment(
            path=folder,
            digest=fields.get(data, "digest", str),
            python=fields.get(data, "python", str),
            versions=fields.table(data, "versions", fields.text, most=10_000),
            size=fields.get(data, "size", int),
            used=(folder / _MARK).stat().st_mtime,
        )
    except (OSError, FormatError):
        return None


def _files(folder: Path) -> Iterator[os.stat_result]:
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                yield os.lstat(os.path.join(path, name))
