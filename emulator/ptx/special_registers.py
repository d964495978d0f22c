"""Special registers, in the order of ``Special`` in interpreter/core/program.h."""

from __future__ import annotations

_XYZ = ("x", "y", "z")
SPECIAL_REGISTERS: tuple[str, ...] = (
    *(f"%tid.{i}" for i in _XYZ),
    *(f"%ntid.{i}" for i in _XYZ),
    *(f"%ctaid.{i}" for i in _XYZ),
    *(f"%nctaid.{i}" for i in _XYZ),
    "%cluster_ctarank",
    "%cluster_nctarank",
    *(f"%cluster_ctaid.{i}" for i in _XYZ),
    *(f"%cluster_nctaid.{i}" for i in _XYZ),
    *(f"%clusterid.{i}" for i in _XYZ),
    *(f"%nclusterid.{i}" for i in _XYZ),
    "%laneid",
    "%warpid",
    "%smid",
    "%nsmid",
    "%dynamic_smem_size",
    *(f"%lanemask_{i}" for i in ("eq", "lt", "le", "gt", "ge")),
    "%nwarpid",
    "%total_smem_size",
    "%aggr_smem_size",
)
"""All that hold 32 bits and do not change while a block runs."""

_NUMBERS = {name: number for number, name in enumerate(SPECIAL_REGISTERS)}


def special_number(name: str) -> int | None:
    """The number of a special register, or None.

    >>> special_number("%ctaid.y"), special_number("%r1")
    (7, None)
    """
    return _NUMBERS.get(name)
