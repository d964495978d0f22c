"""Comparing the entries of two indexes about one artifact, or about one host's runtime library."""

from __future__ import annotations

from typing import Any

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.index import Runtime


def artifact_facts(artifact: Artifact) -> dict[str, Any]:
    """The entry of an artifact in an index, except how its bytes are compressed and its compilation was closed."""
    data = artifact.to_json()
    data["bytes"] = data.pop("blob")["sha256"]
    data["provenance"] = {name: value for name, value in data.get("provenance", {}).items() if name != "closed"}
    return data


def differing_facts(first: Artifact, second: Artifact) -> list[str]:
    """The names of the facts in which two artifacts differ."""
    mine, theirs = artifact_facts(first), artifact_facts(second)
    return [fact for fact in {**mine, **theirs} if mine.get(fact) != theirs.get(fact)]


def runtime_facts(runtime: Runtime) -> tuple[str, ...]:
    """The name of a runtime library, the host that it needs, and its digest."""
    host = runtime.host
    return runtime.soname, host.arch, host.glibc, runtime.blob.sha256
