"""docs/targets.md has the same targets as the loader."""

from __future__ import annotations

from precast.loader.contract.format.target import Target, parse_capability
from tests.helpers.source_tree import ROOT

PAGE = ROOT / "docs" / "targets.md"


def test_where_a_target_runs_is_what_the_loader_takes_there() -> None:
    rows = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line.startswith("| `sm_")]
    assert len(rows) == 15
    for targets, devices in rows:
        numbers = devices.partition(";")[0].split(", ")
        for target in targets.split(","):
            parsed = Target.parse(target.strip().strip("`"))
            assert all(parsed.runs_on(parse_capability(number.strip())) for number in numbers), (targets, devices)
            known = ("8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "10.7", "11.0", "12.0", "12.1")
            runs = [device for device in known if parsed.runs_on(parse_capability(device))]
            assert runs == [number.strip() for number in numbers], (targets, devices)
