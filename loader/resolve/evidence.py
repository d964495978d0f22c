"""Evidence: whether an artifact was verified on a GPU like this one, or emulated, according to its cache.

People and tools write evidence into a cache: it is read as text of any form, and proves nothing beyond that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.target import Capability

CHECK, EMULATION = "verify", "emulate"
EMULATED: Literal["emulated"] = "emulated"  # what a request accepts beside what a GPU showed
_LONGEST = 200


def unproven(artifact: Artifact, capability: Capability | None, *, emulated: bool = False) -> str:
    """Why an artifact does not count as verified on a GPU of a capability; empty where it does.

    It does where ``precast verify`` passed on such a GPU, and failed on none. With ``emulated``, one that was never on
    such a GPU also counts where it passed when it was emulated, and never failed so.
    """
    here = [entry for entry in artifact.evidence if _is_of(entry, capability)]
    for entry in here:
        if entry.get("failed") != []:
            return outcome(entry)
    if here:
        return ""
    emulations = [entry for entry in artifact.evidence if emulated and entry.get("check") == EMULATION]
    for entry in emulations:
        if entry.get("failed") != []:
            return outcome(entry)
    if emulations:
        return ""
    others = sorted({str(e.get("capability"))[:_LONGEST] for e in artifact.evidence if e.get("check") == CHECK})
    elsewhere = f", only on {', '.join(others)}" if others else ""
    if emulated:
        return f"never emulated, nor verified on a GPU of {capability}{elsewhere}: run 'precast verify CACHE --emulate'"
    return f"never verified on a GPU of {capability}{elsewhere}: run 'precast verify CACHE --record' on one"


def outcome(entry: Mapping[str, Any]) -> str:
    """The GPU, or that it was emulated, and the date of a verification, and what failed, if anything did.

    >>> outcome({"check": "verify", "gpu": "NVIDIA H200", "date": "2026-05-04", "failed": []})
    'NVIDIA H200, 2026-05-04'
    """
    if entry.get("failed") == []:
        return _where(entry)
    how = "by" if entry.get("check") == EMULATION else "on"
    return f"found wrong {how} {_where(entry)}: {_first(entry.get('failed'))}"


def _is_of(entry: Mapping[str, Any], capability: Capability | None) -> bool:
    return entry.get("check") == CHECK and capability is not None and entry.get("capability") == str(capability)


def _where(entry: Mapping[str, Any]) -> str:
    where = "emulation" if entry.get("check") == EMULATION else entry.get("gpu")
    facts: Iterable[object] = (where, entry.get("date"))
    return ", ".join(str(fact)[:_LONGEST] for fact in facts if fact) or "a GPU"


def _first(failed: object) -> str:
    return (
        str(failed[0])[:_LONGEST] if isinstance(failed, (list, tuple)) and failed else "its evidence does not say how"
    )
