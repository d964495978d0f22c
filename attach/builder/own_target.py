"""The target of this machine's GPU, for commands whose result depends on one."""

from __future__ import annotations

from precast.loader.errors import ConfigError
from precast.loader.machine.driver import NoDriver


def own_target(purpose: str) -> str:
    """The target of this machine's GPU, such as ``sm_90a``; without one, the advice names the purpose."""
    from precast.loader import current_session

    try:
        capability = current_session().machines.driver.find().capability
    except NoDriver as error:
        raise ConfigError(f"{error}: name the GPU to {purpose}, such as --target sm_100a") from None
    return f"sm_{capability.major}{capability.minor}{'a' if capability.major >= 9 else ''}"
