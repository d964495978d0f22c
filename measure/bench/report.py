"""The report of a benchmark: the timings of each variant and problem, and the peak rates of the GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.config import Config, config_text, to_json, to_value
from precast.loader.contract.format.index import check_version
from precast.loader.contract.format.patterns import OP_NAME, SHA256
from precast.loader.contract.format.target import Capability, parse_capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.measure.annotate import Measurements
from precast.measure.bench.roofline import Standing, standing
from precast.measure.timing.bench import Timing
from precast.measure.timing.ceilings import Ceilings

FORMAT = "precast-bench"
LIMIT = 256 << 20
_MOST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One variant on one problem, over all rounds."""

    op: str
    key: str
    target: str
    config: Config
    timing: Timing

    @property
    def dtype(self) -> str | None:
        """The dtype that the variant computes with, if its config has one."""
        dtype = self.config.get("dtype")
        return dtype if isinstance(dtype, str) else None

    def to_json(self) -> dict[str, Any]:
        """As the file has it."""
        config = {name: to_json(value) for name, value in self.config.items()}
        timing = self.timing.to_json()
        return {"op": self.op, "key": self.key, "target": self.target, "config": config, "timing": timing}

    @classmethod
    def parse(cls, value: object) -> Row:
        """Read one."""
        data = fields.as_object(value)
        config = fields.parsed(data, "config", fields.as_object)
        return cls(
            op=fields.matching(data, "op", OP_NAME, "the name of an op"),
            key=fields.matching(data, "key", SHA256, "an artifact's key"),
            target=fields.get(data, "target", str),
            config={name: to_value(item) for name, item in config.items()},
            timing=fields.parsed(data, "timing", Timing.parse),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All results. ``left_out`` has the variants without a timing and the reasons; ``ceilings`` may be unmeasured.

    >>> Report.decode(Report(gpu="NVIDIA H200", capability=Capability(9, 0)).encode()).gpu
    'NVIDIA H200'
    """

    gpu: str
    capability: Capability
    rounds: int = 1
    ceilings: Ceilings | None = None
    rows: tuple[Row, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = field(default=())

    def standings(self) -> Iterator[tuple[Row, Standing | None]]:
        """Each row with its position under the roofline."""
        for row in self.rows:
            yield row, standing(row.timing, row.dtype, self.ceilings) if self.ceilings else None

    def measurements(self, tilings: Mapping[str, Tiling] = MappingProxyType({})) -> Measurements:
        """The file for ``precast tune apply``: the times by op and problem. ``tilings`` are by key, if known."""
        table: dict[str, dict[tuple[tuple[str, int], ...], dict[str, float]]] = {}
        for row in self.rows:
            sizes = tuple(sorted(row.timing.problem.items()))
            table.setdefault(row.op, {}).setdefault(sizes, {})[row.key] = round(row.timing.microseconds, 3)
        return Measurements(
            {
                op: tuple(
                    Measured(
                        gpu=self.gpu,
                        capability=self.capability,
                        problem=dict(sizes),
                        times=times,
                        tilings={key: t for key in times if (t := tilings.get(key)) and t.cuts(dict(sizes))},
                    )
                    for sizes, times in rows.items()
                )
                for op, rows in table.items()
            }
        )

    def to_json(self) -> dict[str, Any]:
        """What ``precast bench --json`` prints."""
        rows = [
            {**row.to_json(), "roofline": position.to_json() if position else None}
            for row, position in self.standings()
        ]
        return {
            "format": FORMAT,
            "version": 1,
            "gpu": self.gpu,
            "capability": str(self.capability),
            "rounds": self.rounds,
            "ceilings": self.ceilings.to_json() if self.ceilings else None,
            "rows": rows,
            "left_out": [{"variant": variant, "reason": reason} for variant, reason in self.left_out],
            "notes": list(self.notes),
        }

    def encode(self) -> bytes:
        """The bytes of a file of it."""
        return json.dumps(self.to_json(), sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Report:
        """Read such a file."""
        return cls.parse(fields.read_json(data, limit=LIMIT))

    @classmethod
    def parse(cls, value: object) -> Report:
        """Read one. Derived values, such as shares, are computed again and not read from the file."""
        root = fields.as_object(value)
        check_version(root, FORMAT)
        return cls(
            gpu=fields.get(root, "gpu", str),
            capability=fields.parsed(root, "capability", lambda v: parse_capability(fields.text(v))),
            rounds=fields.count(root, "rounds", most=1000),
            ceilings=fields.parsed(root, "ceilings", lambda v: None if v is None else Ceilings.parse(v)),
            rows=fields.items(root, "rows", Row.parse, most=_MOST),
            left_out=fields.items(root, "left_out", _left_out, most=_MOST, default=()),
            notes=fields.items(root, "notes", fields.text, most=_MOST, default=()),
        )


def _left_out(value: object) -> tuple[str, str]:
    data = fields.as_object(value)
    return fields.get(data, "variant", str), fields.get(data, "reason", str)


def distinguishing(rows: Sequence[Row]) -> list[str]:
    """For each row, the config keys and values that differ among the rows of its op.

    >>> zero = Timing(problem={"n": 1}, microseconds=1.0, spread=0.0)
    >>> made = [Row(op="a", key="0" * 64, target="sm_90a", config={"x": 1, "y": y}, timing=zero) for y in (1, 2)]
    >>> distinguishing(made)
    ['y: 1', 'y: 2']
    """
    configs: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        configs.setdefault(row.op, []).append(row.config)
    differing = {
        op: [name for name in row_configs[0] if len({str(config.get(name)) for config in row_configs}) > 1]
        for op, row_configs in configs.items()
    }
    return [config_text({n: row.config.get(n) for n in differing[row.op]})[1:-1] for row in rows]
