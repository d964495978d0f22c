"""Plans at the size of a fleet: 100,000 variants in bounded memory and time; more than the limit, an error at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from precast.build.errors import ManifestError
from precast.build.plan.plan import LIMIT
from tests.helpers.variants import thousands

SECONDS = 60  # of the processor; about 12 on a machine of 2024
MEGABYTES = 600  # above what an empty plan takes

PLAN = """
import json, resource, sys, time
from tests.helpers.variants import thousands
thousands(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begun = time.process_time()
made = thousands(100)
print(json.dumps({
    "variants": len(made.variants),
    "seconds": time.process_time() - begun,
    "megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024,
}))
"""


@pytest.mark.slow
def test_a_hundred_thousand_variants_are_planned_in_bounded_memory_and_time() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", PLAN], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["variants"] == 100_000
    assert found["seconds"] < SECONDS, found
    assert found["megabytes"] < MEGABYTES, found


def test_past_the_limit_nothing_is_multiplied() -> None:
    begun = time.process_time()
    with pytest.raises(ManifestError, match=f"the plan has more than {LIMIT} variants"):
        thousands(LIMIT // 1000 + 1)
    assert time.process_time() - begun < 2
