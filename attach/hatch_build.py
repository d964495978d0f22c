"""Build hooks: precast-attach depends on the loader of its version, and Python reads its ``.pth`` when it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ACTIVATION = "precast_attach.pth"


class Dependencies(MetadataHookInterface):
    """Adds the loader. The back end has put the version into the metadata before."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``dependencies``, which ``project.dynamic`` names."""
        metadata["dependencies"] = [f"precast-loader=={metadata['version']}"]


class Activation(BuildHookInterface):  # type: ignore[type-arg]
    """Puts ``precast_attach.pth`` at the top of the wheel; everything else goes into the folder ``precast/attach``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the wheel is packed."""
        # The table of pyproject.toml is sorted, so that its rule for all files would come before a rule for one.
        self.build_config.sources = {ACTIVATION: ACTIVATION, **self.build_config.sources}
        if version == "editable":
            build_data["force_include_editable"][str(Path(self.root, ACTIVATION))] = ACTIVATION
