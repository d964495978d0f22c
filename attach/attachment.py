"""An attachment: what happens when an attached library would compile a kernel.

``record``  every key is recorded; a kernel that no cache has is compiled as before where the DSL is installed,
            else replaced by one that does nothing, so that one run reaches every kernel
``serve``   a cache's kernel where there is one; else it is compiled as before, or refused with ``missing="raise"``
``frozen``  a cache's kernel, or an error with the manifest lines that would build it
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal

from precast.attach import miss
from precast.attach.compiler import importers
from precast.attach.compiler.call_site import untracked_compile
from precast.attach.compiler.dsl import Answers
from precast.attach.compiler.native_kernel import NativeKernel
from precast.attach.fact_check import FactCheck
from precast.attach.guards import Guard, NotInstalled
from precast.attach.library import Library
from precast.attach.recorder import Recorder
from precast.attach.recordings.kernel_facts import parse_facts
from precast.attach.recordings.keys import UnknownKey, encode, place_of
from precast.attach.recordings.provenance import (
    COMPILER,
    DSL_DISTRIBUTION,
    FACTS,
    NATIVE_CALL,
    RETURNS,
    SOURCE,
    VERSION,
    parse_defaults,
)
from precast.attach.recordings.recording import Recorded
from precast.attach.recordings.return_structure import WRAPPED, parse_structure, rebuilt
from precast.attach.recordings.untracked_compiles import without_key
from precast.attach.seam_count import SeamCount
from precast.loader import api, session
from precast.loader.contract.format.config import canonical, to_value
from precast.loader.contract.format.several_objects import count_of, numbered
from precast.loader.contract.format.target import Target
from precast.loader.errors import ConfigError, Frozen, OpNotFound, PrecastError
from precast.loader.launch.kernel import Kernel
from precast.loader.locks import ForkSafeLock
from precast.loader.resolve.candidate import same

Mode = Literal["record", "serve", "frozen"]
Missing = Literal["compile", "raise", "skip"]
_ADVICE = "\nto build it, put this in a manifest, build it, and install the cache:\n{}"
_ADVICE_OF_CALLS = "\nto build it, record the program (precast record), build the recording, and install the cache"
_NO_ADVICE = "\nno cache can hold it: attach with mode='serve' where the DSL is installed, so that it is compiled"

Fallback = Callable[[Answers], Any]
"""Runs a library's own compile function, with these kernels in place of what it would compile."""


class KernelMissing(PrecastError, LookupError):
    """An attached library requested a kernel that no cache has, and compiling was not allowed."""

    code = "PCA02"


class Attachment:
    """The attached libraries of a process, the mode, the recording and the counts.

    A process has one, since the hooks change its modules. ``print`` it for a report.
    """

    def __init__(
        self, mode: Mode, *, missing: Missing = "compile", recorder: Recorder | None = None, target: str | None = None
    ) -> None:
        _check(mode, missing)
        if target is not None:
            Target.parse(target)  # a wrong one is refused here, not at the first kernel of a library
        self.mode: Mode = mode
        self.missing: Missing = missing
        self.target = target
        self.recorder = recorder or Recorder(None)
        self.libraries: dict[str, Library] = {}
        self.notes: dict[str, Any] = {}
        self.companions: tuple[str, ...] = ()  # what became of other compilers' files, a line each
        self._forget: list[Callable[[], None]] = []
        self._guards: dict[str, Guard | NotInstalled] = {}
        self._facts = FactCheck()
        self._answers: dict[str, dict[bytes, str]] = {}  # by function and key: why it is not served, or no text
        self._warned = False  # of the first miss: one line a process
        self._lock = ForkSafeLock()

    @property
    def recording(self) -> bool:
        """Whether the arguments of calls are recorded."""
        return self.mode == "record"

    def on_change(self, forget: Callable[[], None]) -> None:
        """Call a function whenever a change of the mode may change earlier answers."""
        self._forget.append(forget)

    def change(self, mode: Mode | None = None, missing: Missing | None = None) -> None:
        """Change the mode, such as to ``frozen`` once a server is warm; what is None stays as it is."""
        mode, missing = mode or self.mode, missing or self.missing
        if (mode == "record") != (self.mode == "record"):
            raise ConfigError(f"this process is attached with mode={self.mode!r}: record in a separate process")
        _check(mode, missing)
        if (mode, missing) != (self.mode, self.missing):
            self.mode, self.missing = mode, missing
            self._forget_answers()

    def _forget_answers(self) -> None:
        for forget in self._forget:
            forget()

    def obtain(
        self,
        library: Library,
        function: str,
        arguments: Mapping[str, Any],
        *,
        call: Callable[[], Mapping[str, Any]] | None = None,
        fallback: Fallback | None = None,
        owner: type | None = None,
    ) -> Any:
        """What the library's function returns for a key; None where the library must compile it as before.

        Parameters
        ----------
        library, function
            The caller: ``function`` as ``module:name``.
        arguments
            What the key is made of, by name.
        call
            Returns the encoded arguments of the call that has this key, where a recording needs them.
        fallback
            Runs the library's own function around kernels, where no other way gives what it returns.
        owner
            The class of a method: another process must find it by its name.
        """
        try:
            if owner is not None:
                place_of(owner)
            config = self._key(library, arguments)
            if self.mode == "record":
                recorded_call = None if call is None else call()
                self.recorder.add(Recorded(library=library.name, compile=function, config=config, call=recorded_call))
        except (UnknownKey, NotInstalled) as error:
            if self.mode == "record":
                self.recorder.add(without_key(function, str(error)))
            return self._missed(function, str(error).encode(), str(error), _NO_ADVICE, fallback)
        key = hashlib.sha256(canonical(config)).digest()
        try:
            returned = self._as_returned(self._objects(library.op(function), config), library, fallback)
        except Frozen:
            raise  # loader.freeze() promises that nothing new is loaded: compiling would break that promise, too
        except PrecastError as error:
            skew = miss.skew(library, config, error)
            lines = library.manifest_lines(function, config)
            advice = _ADVICE_OF_CALLS if call is not None else _ADVICE.format(lines)
            if skew is not None:
                advice = f"\nto have it served, {miss.UPDATE}"
            kernel = self._missed(function, key, miss.reason(skew, error), advice, fallback)
            if kernel is None and self.mode == "serve" and not self._warned:
                self._warned = True
                print(miss.warning(function, skew, error), file=sys.stderr)
            return kernel
        self._note(function, key, "")
        return returned

    def _key(self, library: Library, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The config of a key: its arguments in their forms, and the guard."""
        describe = library.describe
        noted = None if describe is None else lambda value: describe(value, self.notes)
        forms = {name: encode(value, describe=noted) for name, value in arguments.items()}
        try:
            for form in forms.values():
                to_value(form)
        except ConfigError as error:
            raise UnknownKey(str(error)) from None
        refusal = library.refuses(forms)
        if refusal:
            raise UnknownKey(refusal)
        guard = self._guard(library)
        return {**forms, VERSION: guard.version, SOURCE: guard.source}

    def counts(self) -> tuple[SeamCount, ...]:
        """What each function has requested, each key counted once."""
        with self._lock:
            return tuple(SeamCount.of(name, answers.values()) for name, answers in sorted(self._answers.items()))

    def note_untracked(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Count and record a call of ``cute.compile``, with these arguments, that no seam tracks."""
        compiled = untracked_compile(args, kwargs)
        self.recorder.add(compiled)
        self._note(compiled.place, compiled.text.encode(), str(compiled))

    def _note(self, function: str, key: bytes, reason: str) -> None:
        with self._lock:
            self._answers.setdefault(function, {})[key] = reason

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.companions, *self.counts()))) or "no attached library requested a kernel"

    def _objects(self, op: str, config: Mapping[str, Any]) -> list[Kernel]:
        """A cache's kernels for a key, in their order; raises where one is missing."""
        first = self._look_up(op, config)
        count = count_of(first.artifact.provenance)
        kernels = [first, *(self._look_up(numbered(op, number), config) for number in range(1, count))]
        if any(count_of(kernel.artifact.provenance) != count for kernel in kernels):
            raise PrecastError("the objects of this function are from different builds: rebuild the cache")
        facts = parse_facts(first.artifact.provenance.get(FACTS))
        difference = facts and self._facts.difference(facts)
        if difference:
            raise PrecastError(difference)
        return kernels

    def _as_returned(self, kernels: list[Kernel], library: Library, fallback: Fallback | None) -> Any:
        """What the library's function returned when the kernels were built, around these kernels."""
        structure = parse_structure(kernels[0].artifact.provenance.get(RETURNS))
        called = [_as_called(kernel) for kernel in kernels]
        if structure is None:
            return called[0]
        if structure != WRAPPED:
            return rebuilt(structure, called, library.package)
        if fallback is None or importers.is_installed():
            raise PrecastError(
                "the library wraps this kernel in a function that only its own code can make, and that needs the DSL: "
                f"pip install {DSL_DISTRIBUTION}"
            )
        if len(kernels) > 1:
            self._forget_answers()  # functions that this one calls must take their kernels from these
        answers = Answers(called)
        result = fallback(answers)
        answers.assert_exhausted()
        return result

    def _look_up(self, op: str, config: Mapping[str, Any]) -> Kernel:
        """A cache's kernel; raises where there is none."""
        installed = None if importers.is_installed() else session.default.installed.version_of(DSL_DISTRIBUTION)
        request = {name: to_value(value) for name, value in config.items()}
        if installed:
            request[COMPILER] = installed
        try:
            kernel = api.get(op, request, target=self.target)
        except OpNotFound:
            raise OpNotFound(f"no cache holds {op}") from None
        if self.mode == "frozen" and (dispute := session.default.disputes.get(op)):
            raise PrecastError(dispute)
        # A request may name a dtype in several ways; a key must match literally.
        different = [name for name, value in request.items() if not same(kernel.config.get(name), value)]
        if different:
            raise PrecastError(f"the cache's variant has another {different[0]}")
        return kernel

    def _guard(self, library: Library) -> Guard:
        """The library's guard, computed once: digests take milliseconds."""
        if library.name not in self._guards:
            try:
                self._guards[library.name] = library.guard()
            except NotInstalled as error:
                self._guards[library.name] = error
        guard = self._guards[library.name]
        if isinstance(guard, NotInstalled):
            raise guard
        return guard

    def _missed(self, function: str, key: bytes, reason: str, advice: str, fallback: Fallback | None) -> Any:
        self._note(function, key, reason)
        compiler = not importers.is_installed()
        if self.missing == "skip" or (self.mode == "record" and not compiler):
            return _skipped(fallback if compiler else None)
        if self.mode == "record":
            return None
        if self.mode == "frozen" or self.missing == "raise" or not compiler:
            raise KernelMissing(f"{function}: {reason}{advice}")
        return None


def _check(mode: str, missing: str) -> None:
    if mode not in ("serve", "record", "frozen"):
        raise ConfigError(f"{mode!r} is not a mode: use 'serve', 'record' or 'frozen'")
    if missing not in ("compile", "raise", "skip"):
        raise ConfigError(f"missing={missing!r} is not valid: use 'compile', 'raise' or 'skip'")
    if missing == "skip" and mode != "record":
        raise ConfigError("missing='skip' launches nothing, so that results are wrong: use it with mode='record' only")
    if missing == "raise" and mode == "record":
        raise ConfigError("mode='record' continues after a missing kernel: use missing='compile' or 'skip'")


def _as_called(kernel: Kernel) -> Any:
    """A kernel as its library calls it: in the DSL's own convention where the library compiles for that."""
    defaults = parse_defaults(kernel.artifact.provenance.get(NATIVE_CALL))
    return kernel if defaults is None else NativeKernel(kernel, defaults)


def _skipped(fallback: Fallback | None) -> Any:
    """What the library's function returns around a kernel that does nothing.

    Some functions read more of the kernel than it has; for these it is the kernel that does nothing, alone.
    """
    if fallback is None:
        return _nothing
    try:
        return fallback(Answers(itertools.repeat(_nothing)))
    except Exception:
        return _nothing


def _nothing(*args: Any, **kwargs: Any) -> None:
    """A kernel that launches nothing, for recording where nothing can be compiled."""
