"""An attachment: what happens when an attached library asks its compiler for a kernel.

``record``  every key is written down; a kernel that no cache has is compiled as before where the DSL is installed,
            else replaced by one that does nothing, so that one run reaches everything
``serve``   a cache's kernel where there is one; else it is compiled as before, or refused if that was asked for
``frozen``  a cache's kernel, or an error that says which manifest lines would build it
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal

from precast.loader import api, session
from precast.loader.attach import placeholder
from precast.loader.attach.guards import DSL_DISTRIBUTION, Guard, NotInstalled
from precast.loader.attach.keys import UnknownKey, encode
from precast.loader.attach.library import Library
from precast.loader.attach.recording import Recorded, Recorder
from precast.loader.attach.returned import PROVENANCE, WRAPPED, rebuilt
from precast.loader.errors import OpNotFound, PrecastError, VariantNotFound
from precast.loader.fast_start.values import Immutable
from precast.loader.format.config import config_text, to_value, value_text
from precast.loader.launch.kernel import Kernel

Mode = Literal["record", "serve", "frozen"]
Missing = Literal["compile", "raise", "skip"]
VERSION, SOURCE, COMPILER = "library_version", "library_source", "dsl_version"
_REASONS = 100

Own = Callable[[Callable[..., Any]], Any]
"""What a library's own compile function returns where the compiler gives it this kernel."""


class KernelMissing(PrecastError, LookupError):
    """An attached library asked for a kernel that no cache has, and compiling was not allowed."""


class SeamCount(Immutable, kw_only=True):
    """What one function of a library asked for so far: keys that a cache served, keys that none did, and why."""

    function: str
    hits: int
    misses: int
    reasons: Mapping[str, int]

    def __str__(self) -> str:
        why = "".join(f"\n    {count} x {reason}" for reason, count in self.reasons.items())
        return f"{self.function}: {self.hits} served, {self.misses} not{why}"


class Attachment:
    """The mode, the recording and the counts of the attached libraries of a process."""

    def __init__(
        self, mode: Mode, *, missing: Missing = "compile", recorder: Recorder | None = None, target: str | None = None
    ) -> None:
        self.mode: Mode = mode
        self.missing: Missing = missing
        self.target = target
        self.recorder = recorder or Recorder(None)
        self._guards: dict[str, Guard | str] = {}
        self._hits: Counter[str] = Counter()
        self._misses: dict[str, Counter[str]] = {}
        self._lock = threading.Lock()

    @property
    def noting(self) -> bool:
        """Whether the arguments of calls are wanted, for a recording."""
        return self.mode == "record"

    def obtain(
        self,
        library: Library,
        function: str,
        arguments: Mapping[str, Any],
        *,
        call: Callable[[], Mapping[str, Any]] | None = None,
        own: Own | None = None,
    ) -> Any:
        """What the library's function returns for a key; None where the library is to compile it as before.

        Parameters
        ----------
        library, function
            Who asks: ``function`` as ``module:name``.
        arguments
            What the key is made of, by name.
        call
            Gives the arguments of the call that makes this key, encoded, where a recording needs them.
        own
            Runs the library's own function around a kernel, where what it returns cannot be told otherwise.
        """
        try:
            forms = {name: encode(value, describe=library.describe) for name, value in arguments.items()}
        except UnknownKey as error:
            return self._missed(function, str(error), lambda: [], own)
        local = library.refuses(forms)
        if local:
            return self._missed(function, local, lambda: [], own)
        return self.obtain_encoded(library, function, forms, call=call, own=own)

    def obtain_encoded(
        self,
        library: Library,
        function: str,
        forms: Mapping[str, Any],
        *,
        call: Callable[[], Mapping[str, Any]] | None = None,
        own: Own | None = None,
    ) -> Any:
        """The same for arguments that are encoded already."""
        guard = self._guard(library)
        if isinstance(guard, str):
            return self._missed(function, guard, lambda: [], own)
        config = {**forms, VERSION: guard.version, SOURCE: guard.source}
        if self.mode == "record":
            try:
                made = None if call is None else call()
            except UnknownKey as error:
                return self._missed(function, str(error), lambda: [], own)
            self.recorder.add(Recorded(library=library.name, compile=function, config=config, call=made))
        try:
            found = _as_returned(self._look_up(library.op(function), config), own)
        except PrecastError as error:
            reason = _short_reason(error) if isinstance(error, VariantNotFound) else str(error)
            return self._missed(function, reason, lambda: _manifest_lines(library, function, config), own)
        with self._lock:
            self._hits[function] += 1
        return found

    def counts(self) -> tuple[SeamCount, ...]:
        """What each function has asked for."""
        with self._lock:
            names = sorted({*self._hits, *self._misses})
            return tuple(
                SeamCount(
                    function=name,
                    hits=self._hits[name],
                    misses=sum(self._misses.get(name, Counter()).values()),
                    reasons=dict(self._misses.get(name, Counter())),
                )
                for name in names
            )

    def _look_up(self, op: str, config: Mapping[str, Any]) -> Kernel:
        """A cache's kernel; raises where there is none."""
        installed = None if placeholder.is_installed() else session.default.installed.version_of(DSL_DISTRIBUTION)
        wanted = {name: to_value(value) for name, value in config.items()}
        if installed:
            wanted[COMPILER] = installed
        try:
            return api.get(op, wanted, target=self.target)
        except OpNotFound:
            raise PrecastError(f"no cache holds {op}") from None

    def _guard(self, library: Library) -> Guard | str:
        found = self._guards.get(library.name)
        if found is None:
            try:
                found = library.guard()
            except NotInstalled as error:
                found = str(error)
            self._guards[library.name] = found
        return found

    def _missed(self, function: str, reason: str, lines: Callable[[], list[str]], own: Own | None) -> Any:
        with self._lock:
            reasons = self._misses.setdefault(function, Counter())
            if reason in reasons or len(reasons) < _REASONS:
                reasons[reason] += 1
            else:
                reasons["other reasons"] += 1
        compiler = not placeholder.is_installed()
        if self.missing == "skip" or (self.mode == "record" and not compiler):
            return _skipped(own if compiler else None)
        if self.mode == "record":
            return None
        if self.mode == "frozen" or self.missing == "raise" or not compiler:
            advice = "\n".join(["to build it, put this in a manifest, build it, and install the cache:", *lines()])
            raise KernelMissing(f"{function}: {reason}\n{advice}")
        return None


def _as_returned(kernel: Kernel, own: Own | None) -> Any:
    """What the library's function returned when the kernel was built, around this kernel."""
    structure = kernel.artifact.provenance.get(PROVENANCE)
    if structure is None:
        return kernel
    if structure != WRAPPED:
        return rebuilt(structure, kernel)
    if own is None or placeholder.is_installed():
        raise PrecastError(
            "the library wraps this kernel in a function that only its own code can make, which needs the DSL: "
            f"install {DSL_DISTRIBUTION}"
        )
    return own(kernel)


def _skipped(own: Own | None) -> Any:
    """What the library's function returns around a kernel that does nothing.

    Some functions look at more than the kernel can answer; then it is the kernel that does nothing alone.
    """
    if own is None:
        return _nothing
    try:
        return own(_nothing)
    except Exception:
        return _nothing


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stands for a kernel while a run is recorded where nothing can be compiled: it launches nothing."""


def _short_reason(error: VariantNotFound) -> str:
    resolution: Any = error.resolution
    rejected = getattr(resolution, "rejected", ())
    if not rejected:
        return "no variant of it is built"
    return "; ".join(rejected[0].reasons)


def _manifest_lines(library: Library, function: str, config: Mapping[str, Any]) -> list[str]:
    wanted = {name: [value] if isinstance(value, list) else value for name, value in config.items()}
    return [
        "kernels:",
        f"  - compile: {value_text(f'{function}@{library.name}')}",
        f"    op: {library.op(function)}",
        f"    config: {config_text(wanted)}",
    ]
