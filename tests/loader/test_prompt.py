"""What a prompt shows of the loader's tuples, and that they are what tuples are to programs."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

from precast import loader
from precast.loader.api import Variants
from tests.helpers.loader_fixtures import Use


def test_ops_and_caches_are_tuples(path: Path, use: Use) -> None:
    use(path)
    ops, caches = loader.ops(), loader.caches()
    assert ops == ("scale", "twice") and json.dumps(ops) == '["scale", "twice"]'
    assert pickle.loads(pickle.dumps(ops)) == copy.deepcopy(ops) == ops
    assert isinstance(caches, tuple) and caches == tuple(caches) and loader.caches() is caches
    assert repr(caches) == "demo (PRECAST_CACHE_PATH): 2 ops"


def test_each_variant_has_a_line(path: Path, use: Use) -> None:
    use(path)
    assert repr(loader.variants("scale")).count("<Candidate scale {") == 12


def test_where_nothing_is_the_prompt_says_so(use: Use) -> None:
    use()
    assert repr(Variants()) == "no variants" and repr(loader.caches()) == "no caches"
