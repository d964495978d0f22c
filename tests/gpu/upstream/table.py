"""The results of the suites, as a table. Reading and counting only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

OUTCOMES = ("passed", "failed", "not built", "not applicable", "left out")
Line = Mapping[str, Any]


def read(paths: Iterable[Path]) -> list[Line]:
    """The lines of result files, one for each test: that of a failure, where there are more."""
    tests: dict[str, Line] = {}
    for path in paths:
        for text in path.read_text().splitlines():
            line = json.loads(text)
            if tests.get(line["test"], {}).get("outcome") != "failed":
                tests[line["test"]] = line
    return list(tests.values())


def render(suites: Mapping[str, list[Line]]) -> str:
    """The table, then why tests were not built or are not applicable, then every failure.

    >>> line = {"test": "t", "outcome": "not applicable", "reason": "no bias", "launches": 0}
    >>> print(render({"norms": [line]}))
    suite                             passed  failed  not built  not applicable  left out  launches
    norms                                  0       0          0               1         0         0
    <BLANKLINE>
    norms, not applicable:
         1  no bias
    """
    lines = [f"{'suite':<32}" + "".join(f"  {o}" for o in (*OUTCOMES, "launches"))]
    for name, tests in suites.items():
        counts = Counter(test["outcome"] for test in tests)
        cells = [*((o, counts[o]) for o in OUTCOMES), ("launches", sum(test["launches"] for test in tests))]
        lines.append(f"{name:<32}" + "".join(f"  {n:>{len(o)}}" for o, n in cells))
    for name, tests in suites.items():
        for outcome in ("not built", "not applicable"):
            reasons = Counter(test["reason"].partition("\n")[0] for test in tests if test["outcome"] == outcome)
            lines += ["", f"{name}, {outcome}:"] if reasons else []
            lines += [f"{count:>6}  {reason}" for reason, count in reasons.most_common()]
    for name, tests in suites.items():
        failed = [test for test in tests if test["outcome"] == "failed"]
        lines += ["", f"{name}, failed:"] if failed else []
        lines += [f"  {test['test'].rpartition('::')[2]}: {test['reason'].partition(chr(10))[0]}" for test in failed]
    return "\n".join(lines)
