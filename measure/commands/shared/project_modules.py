"""The modules of the project, ``precast.toml``, in which its kernels and their references are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from precast.cli.shared.project import project_here


def import_from_project(cache: Path) -> None:
    """Let this process, and those that it starts, import the modules that the project's manifests name.

    References and inputs are in the modules that the kernels are in. For another cache than the project's, which may be
    a part of it, a mistake in a manifest does not matter.
    """
    from precast.build.errors import ManifestError
    from precast.build.plan.manifest import read_manifest

    project = project_here()
    if project is None:
        return
    try:
        folders = dict.fromkeys(str(folder) for path in project.manifests for folder in read_manifest(path).search)
    except ManifestError:
        if cache.resolve() == project.output.resolve():
            raise
        return
    if not folders:
        return
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*([before] if before else []), *folders])
