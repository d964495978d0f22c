"""Rounds of a watched build: one at the start, and one after each change of a file that it was made of."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

import typer

from precast.build.errors import OutputError
from precast.build.watch.fingerprints import Fingerprint, Fingerprints, changed, modified_since
from precast.build.watch.input_files import manifest_files, plan_files
from precast.cli.shared.builds.display import print_failures, print_report, totals
from precast.cli.shared.builds.run import BuildRequest, Result, sigterm_as_ctrl_c
from precast.cli.shared.excerpt import error_text
from precast.cli.shared.output import print_message
from precast.loader.errors import PrecastError

INTERVAL = 0.5  # seconds between two looks at the files
_SETTLED = 0.1  # an editor writes several files; a round begins when nothing changes for this long
_NAMED = 3  # changed files in the line of a round


@dataclass(slots=True)
class Watch:
    """A watched build. ``make`` gives the request of each round: the project file may have changed."""

    make: Callable[[], BuildRequest]
    verbose: bool = False
    as_json: bool = False
    sleep: Callable[[float], None] = time.sleep
    _paths: frozenset[str] = frozenset()
    _fingerprints: Fingerprints = field(default_factory=Fingerprints)
    _seen: dict[str, Fingerprint] = field(default_factory=dict)  # at the end of the last round
    _warned: set[str] = field(default_factory=set)

    def run(self) -> NoReturn:
        """Build again after every change, until Ctrl-C."""
        because: tuple[str, ...] = ()
        try:
            with sigterm_as_ctrl_c():
                while True:
                    because = self._round(because) or self._wait()
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(*(interrupt.args or ("the cache is that of the last round",))) from None

    def _round(self, because: tuple[str, ...]) -> tuple[str, ...]:
        """Build once; returns the files that have changed since the round began."""
        began, earlier = time.time_ns(), self._paths
        before = self._fingerprints.now(earlier)
        try:
            request = self.make()
            self._watch(manifest_files(request.files, request.store.notes), request)
            result = self._build(request)
            self._paths |= plan_files(result.plan, request.store)
            line = totals(result.report, result.cache)
        except (PrecastError, typer.BadParameter, OSError) as error:
            if not earlier and isinstance(error, (OutputError, typer.BadParameter)):
                raise  # the command line is wrong: no file that is watched could correct it
            self._paths |= earlier  # what the last good round was made of: the mistake may be there
            self._print_error(error)
            line = "not built, waiting for a change"
        if not self.as_json:
            print(f"{time.strftime('%H:%M:%S')} {_reason(because)}{line}, {_seconds(began)}", flush=True)
        self._seen = self._fingerprints.now(self._paths)
        return tuple(dict.fromkeys((*changed(before, self._seen), *modified_since(self._paths - earlier, began))))

    def _watch(self, paths: frozenset[str], request: BuildRequest) -> None:
        """Watch only these paths. What this round and earlier ones write, such as the cache, is left out of folders."""
        self._paths = paths
        written = frozenset(os.path.abspath(path) for path in (request.output, request.store.path))
        if not written <= self._fingerprints.without:
            self._fingerprints = Fingerprints(written | self._fingerprints.without)

    def _build(self, request: BuildRequest) -> Result:
        result = request.run()
        if self.as_json:
            print_report(*result, as_json=True, verbose=self.verbose)
            return result
        print_failures(result.report, verbose=self.verbose)
        for variant, text in result.report.advice:
            self._warn(f"warning: {variant.location}: {text}")
        return result

    def _warn(self, text: str) -> None:
        """Print a warning that no round before has printed."""
        if text not in self._warned:
            self._warned.add(text)
            print_message(text)

    def _print_error(self, error: Exception) -> None:
        if isinstance(error, PrecastError):
            print_message(error_text(error))
        elif isinstance(error, typer.BadParameter):
            print_message(f"error: {error.format_message()}")
        elif isinstance(error, OSError):
            print_message(f"error: {error.filename}: {error.strerror}: check the path and its permissions")

    def _wait(self) -> tuple[str, ...]:
        """Wait for a change, and until nothing changes any more; returns the files that have changed."""
        now = self._fingerprints.now(self._paths)
        while not (files := changed(self._seen, now)):
            self.sleep(INTERVAL)
            now = self._fingerprints.now(self._paths)
        while True:
            self.sleep(_SETTLED)
            later = self._fingerprints.now(self._paths)
            if later == now:
                return files
            now = later


def _reason(files: tuple[str, ...]) -> str:
    """The files that have changed, as the line of a round begins.

    >>> _reason(("/work/norm.py",)), _reason(())
    ('norm.py changed: ', '')
    """
    names = [os.path.basename(file) for file in files[:_NAMED]]
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return f"{', '.join(names)}{more} changed: " if names else ""


def _seconds(began: int) -> str:
    return f"{(time.time_ns() - began) / 1e9:.1f} s"
