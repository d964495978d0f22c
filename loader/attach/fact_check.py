"""Fact check: whether the facts that decided an attached kernel when it was built hold in this process."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from precast.loader.attach.guards import Guard, NotInstalled, guard_of
from precast.loader.contract.recordings.kernel_facts import KernelFacts, Package

_SHOWN = 80


class FactCheck:
    """Compares facts with this process. What is installed is read once for each package."""

    def __init__(self) -> None:
        self._guards: dict[tuple[str, str], Guard | NotInstalled] = {}

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
        return None

    def _package(self, name: str, built: Package) -> str | None:
        here = self._guard(built.distribution, name)
        if isinstance(here, NotInstalled):
            return f"the kernel was built with {built.distribution} {built.version[:_SHOWN]}: {here}"
        if here.version != built.version:
            return (
                f"the kernel was built with {built.distribution} {built.version[:_SHOWN]}, and {here.version} is "
                "installed: install that version, or build it again"
            )
        if here.source != built.source:
            return f"files of {name} differ from those that the kernel was built with: build it again"
        return None

    def _guard(self, distribution: str, package: str) -> Guard | NotInstalled:
        key = (distribution, package)
        if key not in self._guards:
            try:
                self._guards[key] = guard_of(distribution, package)
            except NotInstalled as error:
                self._guards[key] = error
        return self._guards[key]


def source_digest(module: str) -> str | None:
    """The digest of a module's file as it is now; None where it has none. The module is not executed.

    >>> source_digest("sys") is None, len(source_digest("json") or "")
    (True, 64)
    """
    loaded = sys.modules.get(module)
    try:
        spec = find_spec(module) if loaded is None else None
        file = getattr(loaded, "__file__", None) or (spec.origin if spec and spec.has_location else None)
        return hashlib.sha256(Path(file).read_bytes()).hexdigest() if isinstance(file, str) else None
    except (ImportError, ValueError, OSError):
        return None


def _setting(name: str, value: str | None) -> str:
    return f"{name} not set" if value is None else f"{name}={value[:_SHOWN]}"


def _value(value: str | None) -> str:
    return "not set" if value is None else repr(value[:_SHOWN])
