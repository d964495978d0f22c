"""Fact check: whether the facts that decided an attached kernel when it was built hold in this process."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from precast.attach.guards import NotInstalled, folder_of, version_of
from precast.attach.recordings.function_state import by_file
from precast.attach.recordings.kernel_facts import KernelFacts, Package

_SHOWN = 80


class FactCheck:
    """Compares facts with this process, each as it is now. Versions are read once for each package."""

    def __init__(self) -> None:
        self._versions: dict[str, str | NotInstalled] = {}

    def difference(self, facts: KernelFacts) -> str | None:
        """The first fact that does not hold here, and what to do; None where all hold.

        >>> facts = KernelFacts(variables={"ACME_TILE": "64"}, packages={}, modules={})
        >>> print(FactCheck().difference(facts))
        the kernel was built with ACME_TILE=64, which is not set here: build it with this environment (env: in the \
manifest), or run with that one
        """
        environment = os.environ
        for name in facts.changed_variables(environment):
            return (
                f"the kernel was built with {_setting(name, facts.variables[name])}, which is "
                f"{_value(environment.get(name))} here: build it with this environment (env: in the manifest), or run "
                "with that one"
            )
        for name, package in facts.packages.items():
            reason = self._package(name, package)
            if reason:
                return reason
        for name, digest in facts.modules.items():
            if source_digest(name) != digest:
                return f"the source of {name} differs from the one that the kernel was built with: build it again"
        for name, digest in facts.files.items():
            if data_digest(name) != digest:
                return f"the file {name} differs from the one that the kernel was built with: build it again"
        for name, expected in facts.globals.items():
            values = vars(sys.modules[name]) if name in sys.modules else None
            changed = () if values is None else expected.changed(values)
            if changed:
                return (
                    f"a global of {name} that the kernel depends on was changed in this process"
                    f" ({', '.join(changed)[:_SHOWN]}): do not change it, or build the kernel with that change in the"
                    " source"
                )
        return None

    def _package(self, name: str, built: Package) -> str | None:
        if built.distribution not in self._versions:
            try:
                self._versions[built.distribution] = version_of(built.distribution)
            except NotInstalled as error:
                self._versions[built.distribution] = error
        here = self._versions[built.distribution]
        if isinstance(here, NotInstalled):
            return f"the kernel was built with {built.distribution} {built.version[:_SHOWN]}: {here}"
        if here != built.version:
            return (
                f"the kernel was built with {built.distribution} {built.version[:_SHOWN]}, and {here} is "
                "installed: install that version, or build it again"
            )
        return None


def source_digest(module: str) -> str | None:
    """The digest of a module's file as it is now; None where it has none. Nothing is imported.

    >>> source_digest("sys") is None, len(source_digest("json") or "")
    (True, 64)
    """
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if isinstance(loaded, str):
        return _digest_of(Path(loaded))
    top, _, rest = module.partition(".")
    folder = folder_of(top)
    if folder is None:
        return None
    path = folder.joinpath(*rest.split(".")) if rest else folder
    return _digest_of(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))


def data_digest(name: str) -> str | None:
    """The digest of a package's data file, by the package's name and the path in it; None where there is none.

    >>> len(data_digest("json/__init__.py") or ""), data_digest("json/no.txt")
    (64, None)
    """
    package, _, path = name.partition("/")
    folder = folder_of(package)
    return None if folder is None else _digest_of(folder / path)


def _digest_of(file: Path) -> str | None:
    digest: str | None = by_file(str(file), _read_digest, file)
    return digest


def _read_digest(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def _setting(name: str, value: str | None) -> str:
    return f"{name} not set" if value is None else f"{name}={value[:_SHOWN]}"


def _value(value: str | None) -> str:
    return "not set" if value is None else repr(value[:_SHOWN])
