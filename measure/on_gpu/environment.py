"""The environment of the processes that launch kernels."""

from __future__ import annotations

from collections.abc import Mapping

from precast.loader.contract.diagnostics.variables import VARIABLES as WATCHING


def launching_environment(base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process that launches kernels: its parent's, without variables that watch a service.

    Tools that follow child processes, such as sanitizers, use variables of their own.

    >>> launching_environment({"PRECAST_LOG": "1", "LD_PRELOAD": "tool.so"})
    {'LD_PRELOAD': 'tool.so'}
    """
    return {name: value for name, value in base.items() if name not in WATCHING}
