"""Entries of the memo that a child process made from what it read: valid while its inputs are unchanged."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from precast.build.disk.memo import Memo, memo_key
from precast.build.errors import ChangedInputError
from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.input_rules import InputRules
from precast.build.inputs.inputs import Inputs
from precast.build.inputs.observation import Observation
from precast.loader.errors import FormatError

_KIND = "observed"
_VALUE, _INPUTS = "value", "inputs"


@dataclass(frozen=True, slots=True)
class ObservedMemo:
    """A memo whose entries depend on inputs beside their keys. ``answers`` has the values of inputs at this moment.

    Installed distributions are not compared here: the keys cover those that a kernel's sources import.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from precast.build.inputs.roots import Roots
    >>> memo = Memo(Path(tempfile.mkdtemp()))
    >>> def at(**variables: str) -> ObservedMemo:
    ...     return ObservedMemo(memo, InputAnswers(Roots([], [], variables)))
    >>> at(TILE="1").put("kernels", "0" * 64, [7], at(TILE="1").answers_of(["variable:TILE"]))
    >>> at(TILE="1").get("kernels", "0" * 64), at(TILE="2").get("kernels", "0" * 64)
    ([7], None)
    """

    memo: Memo
    answers: InputAnswers
    _valid: dict[str, bool] = field(default_factory=dict)
    _rules: InputRules = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rules", InputRules(self.answers))

    def inputs_of(self, observed: Observation | None, given: Collection[str]) -> Inputs | None:
        """The inputs in what a child process read, except for these variables; None if some of it is unsteady, or has
        changed since: then nothing must be kept."""
        if observed is None:
            return None
        try:
            inputs, unsteady = self._rules.inputs_of(observed, given)
        except ChangedInputError:
            return None
        return None if unsteady else inputs

    def get(self, kind: str, key: str) -> Any:
        """The value of an entry; None if there is none, or if one of its inputs has changed."""
        noted = self.memo.get(kind, key)
        if not isinstance(noted, dict) or not isinstance(noted.get(_INPUTS), str):
            return None
        return noted.get(_VALUE) if self._is_valid(noted[_INPUTS]) else None

    def put(self, kind: str, key: str, value: Any, inputs: Inputs) -> None:
        """Keep a value that was made of these inputs."""
        compared = Inputs.of({n: a for n, a in inputs.answers.items() if not _is_distribution(n, a)})
        name = memo_key(compared.to_json())
        if name not in self._valid:
            self.memo.put(_KIND, name, compared.to_json())
        self.memo.put(kind, key, {_VALUE: value, _INPUTS: name})

    def answers_of(self, names: list[str]) -> Inputs:
        """Inputs with their values at this moment."""
        return Inputs.of(self.answers.answers(names))

    def _is_valid(self, name: str) -> bool:
        """Whether inputs, which many entries share, have the values that they had."""
        if name not in self._valid:
            self._valid[name] = self._is_unchanged(name)
        return self._valid[name]

    def _is_unchanged(self, name: str) -> bool:
        if len(name) != 64 or not name.isalnum():
            return False
        try:
            inputs = Inputs.parse(self.memo.get(_KIND, name))
        except FormatError:
            return False
        return not inputs.changed(self.answers.answers(inputs.names))


def _is_distribution(name: str, answer: str | None) -> bool:
    """Whether an input is installed code. Its digest takes long to compute, and changes with its version."""
    return name.startswith("distribution:") or (answer or "").startswith("distribution:")
