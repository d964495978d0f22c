"""Build metadata: the builder depends on the loader of its own version, which ``loader/version.py`` states.

Its description is the README without pictures and links into the repository, which an index cannot follow. The other
dependencies stand in ``pyproject.toml``, under ``[tool.hatch.metadata.hooks.custom]``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Dependencies(MetadataHookInterface):
    """Adds the loader and the description. The back end has put the version into the metadata before."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``dependencies`` and ``readme``, which ``project.dynamic`` names."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = re.sub(r"<picture>.*?</picture>\n*", "", text, flags=re.DOTALL)
        text = re.sub(r"\[([^\]]*)\]\((?!https?://)[^)]*\)", r"\1", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["dependencies"] = [f"precast-loader=={metadata['version']}", *self.config["dependencies"]]
