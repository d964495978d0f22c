"""The values of the inputs of child processes, which have an environment of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from precast.build.disk.memo import Memo
from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.roots import Roots
from precast.build.interpreter import HERE, Interpreter
from precast.build.ipc.environment import child_environment


def answers_here(search: Sequence[Path], memo: Memo | None = None, interpreter: Interpreter = HERE) -> InputAnswers:
    """The values of inputs on this machine, at this moment."""
    environment = child_environment(os.environ, interpreter=interpreter)
    return InputAnswers(Roots.here(search, environment, interpreter), memo)
