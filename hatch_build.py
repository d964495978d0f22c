"""Build metadata: the builder depends on the loader, the emulator and attach of its own version, which
``loader/version.py`` states.

The other dependencies stand in ``pyproject.toml``, under ``[tool.hatch.metadata.hooks.custom]``.
"""

from __future__ import annotations

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Dependencies(MetadataHookInterface):
    """Adds the loader, and to extras the others. The back end has put the version into the metadata before."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``dependencies``, which ``project.dynamic`` names, and the versions in two extras."""
        metadata["dependencies"] = [f"precast-loader=={metadata['version']}", *self.config["dependencies"]]
        for extra, name in (("attach", "precast-attach"), ("emulate", "precast-emulator")):
            metadata["optional-dependencies"][extra] = [f"{name}=={metadata['version']}"]
