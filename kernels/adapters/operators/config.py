"""What a GEMM computes, and how: the two halves of a config, as CUTLASS's metadata has them (operands and design)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precast.kernels.authoring.dtypes import bits
from precast.loader.contract.format.config import to_json

Pair = tuple[int, int]


def pair(values: Sequence[int]) -> Pair:
    """The (m, n) of a tile or a cluster.

    >>> pair([128, 64])
    (128, 64)
    """
    m, n = values
    return m, n


@dataclass(frozen=True, slots=True)
class Operands:
    """What is computed: ``out[m, n] = a[m, k] @ b[k, n]``, and which dimension of each is contiguous."""

    dtype: str
    out_dtype: str
    accumulator: str = "float32"
    a_major: str = "k"
    b_major: str = "k"
    out_major: str = "n"
    batched: bool = False
    epilogue: str = ""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Operands:
        """The operands of a full config, which may hold more."""
        return cls(**{name: config[name] for name in cls.__slots__ if name in config})

    def granularity(self, dimension: str) -> int:
        """What divides a dimension: sixteen bytes where it is contiguous in an operand.

        >>> Operands(dtype="bfloat16", out_dtype="float32").granularity("k")
        8
        """
        stored = ((self.dtype, self.a_major), (self.dtype, self.b_major), (self.out_dtype, self.out_major))
        return max(128 // bits(dtype) if major == dimension else 1 for dtype, major in stored)


@dataclass(frozen=True, slots=True)
class Design:
    """How it is computed. ``tile`` is the (m, n) that is multiplied at a time, over both blocks with ``two_cta``."""

    tile: Pair
    cluster: Pair = (1, 1)
    two_cta: bool = False
    scheduler: str = "static"
    fallback_cluster: Pair | None = None
    operator: str = ""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Design:
        """The design of a full config, which may hold more."""
        values: dict[str, Any] = {name: config[name] for name in cls.__slots__ if config.get(name) is not None}
        for name in ("tile", "cluster", "fallback_cluster"):
            if name in values:
                values[name] = pair(values[name])
        return cls(**values)

    @classmethod
    def of_metadata(cls, metadata: Any) -> Design:
        """The design that an operator's metadata describes; what it leaves open is as in the plain case."""
        design = metadata.design
        scheduler = getattr(design, "tile_scheduler", None)
        fallback = getattr(design, "fallback_cluster_shape", None)
        return cls(
            tile=tuple(design.tile_shape[:2]),
            cluster=tuple(design.cluster_shape[:2]),
            two_cta=bool(getattr(design, "use_2cta_mma", False)),
            scheduler="dynamic" if "CLC" in type(scheduler).__name__ else "static",
            fallback_cluster=None if fallback is None else tuple(fallback[:2]),
            operator=metadata.operator_class.__name__,
        )

    def admits(self, other: Design) -> bool:
        """Whether another design is the requested one; an empty operator stands for any.

        >>> Design(tile=(64, 64)).admits(Design(tile=(64, 64), operator="MyOperator"))
        True
        """
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__ if name != "operator") and (
            self.operator in ("", other.operator)
        )


def shown(value: Any) -> str:
    """A value of a config as a manifest writes it.

    >>> shown((128, 64)), shown("static"), shown(""), shown(True), shown(None)
    ('[128, 64]', 'static', "''", 'true', 'null')
    """
    if isinstance(value, str):
        return value or "''"
    return json.dumps(to_json(value))
