"""What the loader costs, side by side in one run: ``python benchmarks/loader.py [SECTION...] [--json FILE]``.

Each section is a file in ``loader_sections/`` with a function ``run() -> Iterator[Result]``; a section that needs a
GPU says ``GPU = True`` and is left out, with the reason, where there is none. Exit status 1: a bound is broken.
Where the least of several rounds is taken, that is because other work on the machine only adds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECTIONS = tuple(sorted(p.stem for p in (HERE / "loader_sections").glob("[a-z]*.py")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measured number, with the bound it has to keep where it has one."""

    what: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def kept(self) -> bool:
        """Whether the bound is kept."""
        low = self.at_least is None or self.value >= self.at_least
        return low and (self.at_most is None or self.value <= self.at_most)

    def __str__(self) -> str:
        bound = f"at most {self.at_most:g}" if self.at_most is not None else ""
        bound = f"at least {self.at_least:g}" if self.at_least is not None else bound
        verdict = ("  ok" if self.kept else "  BROKEN") if bound else ""
        return f"  {self.what:<72} {self.value:>10.3f} {self.unit:<6} {bound:<14}{verdict}".rstrip()


def main(argv: list[str] | None = None) -> int:
    """Run the sections that were asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--json", type=Path, help="write the results there, too")
    args = parser.parse_args(argv)
    sys.path.insert(0, str(HERE))
    sys.path.insert(0, str(HERE.parent))
    results = {name: list(section(name)) for name in args.sections or SECTIONS}
    if args.json:
        args.json.write_text(json.dumps({n: [asdict(r) for r in rows] for n, rows in results.items()}, indent=1) + "\n")
    broken = [r for rows in results.values() for r in rows if not r.kept]
    print(f"\n{sum(map(len, results.values()))} numbers, {len(broken)} beyond their bounds")
    return 1 if broken else 0


def section(name: str) -> Iterator[Result]:
    """Run one section, printing as it goes."""
    module = importlib.import_module(f"loader_sections.{name}")
    print(f"\n{name}: {(module.__doc__ or '').partition(chr(10))[0]}")
    from tests.helpers.gpu.device import no_device

    reason = no_device() if getattr(module, "GPU", False) else ""
    if reason:
        print(f"  left out: {reason}")
        return
    for result in module.run():
        print(result, flush=True)
        yield result


if __name__ == "__main__":
    sys.modules["loader_benchmark"] = sys.modules[__name__]  # what sections import Result from
    sys.exit(main())
