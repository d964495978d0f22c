"""The door to precast-attach: all that ``precast.attach`` has for programs, by the name that programs write.

>>> from precast import loader
>>> loader.attach([]) is loader.attach.attached()
True
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from precast.loader.errors import AttachNotInstalled

try:
    from precast.attach import *  # noqa: F403
    from precast.attach import Attachment, attach
    from precast.attach import __all__ as __all__
except ModuleNotFoundError as error:
    if error.name != "precast.attach":
        raise
    raise AttachNotInstalled(
        "precast-attach is not installed: pip install precast-attach", name=__name__
    ) from None  # with its name, python -m prints one line


class _CallableModule(ModuleType):
    """So that ``loader.attach(...)`` and ``loader.attach.attach(...)`` are one."""

    def __call__(self, *args: Any, **kwargs: Any) -> Attachment:
        return attach(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
