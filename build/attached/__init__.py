"""Kernels of attached libraries: manifests of recordings, and programs that are run to find out what they request.

All of the builder that needs precast-attach is here, in ``build.child.attached`` and in ``build.child.facts``.
"""

from __future__ import annotations

from precast.build.errors import ToolError

try:
    import precast.attach as _attach  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "precast.attach":
        raise
    raise ToolError(
        "recordings and programs need precast-attach, which is not installed: pip install 'precast[attach]'"
    ) from None
