"""The values of the inputs of child processes, which have an environment of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from precast.build.disk.memo import Memo
from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.roots import Roots
from precast.build.ipc.environment import child_environment


def answers_here(search: Sequence[Path], memo: Memo | None = None) -> InputAnswers:
    """The values of inputs on this machine, at this moment."""
    return InputAnswers(Roots.here(search, child_environment(os.environ)), memo)
