"""Build metadata: the builder depends on the loader of its own version, which ``loader/version.py`` states.

The other dependencies stand in ``pyproject.toml``, under ``[tool.hatch.metadata.hooks.custom]``.
"""

from __future__ import annotations

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Dependencies(MetadataHookInterface):
    """Adds the loader. The back end has put the version into the metadata before."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``dependencies``, which ``project.dynamic`` names."""
        metadata["dependencies"] = [f"precast-loader=={metadata['version']}", *self.config["dependencies"]]
