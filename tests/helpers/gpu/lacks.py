"""What a kit lacks: a test that requests a kernel which no installed cache has is skipped, and not failed."""

from __future__ import annotations

from precast.loader.contract.format.target import Capability
from precast.loader.errors import OpNotFound, PrecastError, VariantNotFound
from precast.loader.resolve.resolution import Resolution


def lacking(error: PrecastError, capability: Capability) -> str:
    """What the kit lacks, by the error of a lookup; empty where the loader refused something that the kit has.

    Only a config that no artifact for this GPU has is a lack. A refusal for another reason, such as the driver or a
    fact of the GPU, is what a test must report.
    """
    if isinstance(error, OpNotFound):
        return str(error).partition("\n")[0]
    if not isinstance(error, VariantNotFound) or not isinstance(error.resolution, Resolution):
        return ""
    here = [r for r in error.resolution.rejected if r.candidate.artifact.target.runs_on(capability)]
    if any(not rejected.differing for rejected in here):
        return ""
    request = error.resolution.request
    return f"no installed cache has {request} for a GPU of {capability}"
