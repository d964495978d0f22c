"""What the lists of a manifest become: rows, order, ranks, targets, environments."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.errors import ManifestError
from precast.build.plan.describer import Described, Description
from precast.build.plan.entry import KernelRef
from precast.build.plan.manifest import Manifest, parse_manifest
from precast.build.plan.matrix import matrix_of
from precast.build.plan.plan import Plan, make_plan
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.target import Target
from precast.loader.errors import TargetError

KEYS = (
    Key(name="dtype", type="dtype"),
    Key(name="hidden", type="int"),
    Key(name="eps", type="float", has_default=True, default=1e-6),
    Key(name="tile", type="list[int]", has_default=True, default=(64, 64)),
    Key(name="threads", type="int", tuned=True, has_default=True, default=128),
    Key(name="stages", type="int?", tuned=True, has_default=True, default=None),
)
NORM = Description(op="norm", source="acme:norm", keys=KEYS, targets=("sm_90+",), declared=True, doc="A norm.")


def manifest(*entries: dict[str, Any], path: str = "m.yaml", **root: Any) -> Manifest:
    data = {"version": 1, "name": "acme", "targets": ["sm_90a"], "kernels": list(entries), **root}
    return parse_manifest(json.dumps(data).encode(), Path(path))


def plan(*entries: dict[str, Any], description: Description = NORM, **root: Any) -> Plan:
    made = manifest(*({"kernel": "norm", **e} for e in entries), **root)
    return make_plan([made], {entry.ref: description for entry in made.entries})


def configs(made: Plan, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(v.config[n] for n in names) for v in made.variants]


def test_lists_multiply_and_defaults_fill_in() -> None:
    made = plan({"config": {"dtype": ["bf16", "half"], "hidden": [128, 64]}})
    assert configs(made, "dtype", "hidden") == [
        ("bfloat16", 64),
        ("bfloat16", 128),
        ("float16", 64),
        ("float16", 128),
    ]
    assert set(configs(made, "eps", "tile", "threads", "stages")) == {(1e-6, (64, 64), 128, None)}
    assert all(list(v.config) == [k.name for k in KEYS] for v in made.variants)


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ([128, 64], {(128, 64)}),
        ([[128, 64]], {(128, 64)}),
        ([[128, 64], [64, 64]], {(128, 64), (64, 64)}),
        ([], {()}),
        ([[], [1]], {(), (1,)}),
    ],
)
def test_a_list_as_deep_as_the_type_is_one_value(written: Any, values: set[Any]) -> None:
    made = plan({"config": {"dtype": "bf16", "hidden": 1, "tile": written}})
    assert {v.config["tile"] for v in made.variants} == values


def test_true_and_one_are_different_values() -> None:
    loose = Description(op="norm", source="a:b", keys=(Key(name="x"),))
    made = plan({"config": {"x": [1, True, 1.0, "1"]}}, description=loose)
    assert len({v.identity for v in made.variants}) == 4


def test_rank_is_the_order_written_among_tuned_values() -> None:
    made = plan({"config": {"dtype": "bf16", "hidden": [64, 128]}, "tuned": {"threads": [256, 128], "stages": [2, 1]}})
    ranks = {(v.config["hidden"], v.config["threads"], v.config["stages"]): v.rank for v in made.variants}
    for hidden in (64, 128):
        assert [ranks[hidden, t, s] for t, s in [(256, 2), (256, 1), (128, 2), (128, 1)]] == [0, 1, 2, 3]


def test_an_included_row_ranks_after_the_matrix() -> None:
    made = plan({"config": {"dtype": "bf16", "hidden": 64}, "tuned": {"threads": 256}, "include": [{"threads": 512}]})
    assert [(v.config["threads"], v.rank) for v in made.variants] == [(256, 0), (512, 1)]


def test_exclude_drops_what_matches_every_key() -> None:
    made = plan(
        {
            "config": {"dtype": ["bf16", "fp32"], "hidden": [64, 128, 256]},
            "exclude": [{"dtype": "float32", "hidden": [128, 256]}],
        }
    )
    assert configs(made, "dtype", "hidden") == [
        ("bfloat16", 64),
        ("bfloat16", 128),
        ("bfloat16", 256),
        ("float32", 64),
    ]


def test_exclude_sees_defaults_and_leaves_included_rows() -> None:
    made = plan(
        {
            "config": {"dtype": ["bf16", "fp16"], "hidden": 64},
            "tuned": {"threads": [128, 256]},
            "exclude": [{"tile": [64, 64], "threads": 256}],
            "include": [{"dtype": "fp32", "threads": 256}],
        }
    )
    assert configs(made, "dtype", "threads") == [("bfloat16", 128), ("float16", 128), ("float32", 256)]


def test_include_takes_the_single_value_else_the_default() -> None:
    made = plan(
        {
            "config": {"dtype": "bf16", "hidden": [64, 128], "eps": [1e-5, 1e-3]},
            "include": [{"hidden": 8}],
        }
    )
    assert [v.config for v in made.variants if v.config["hidden"] == 8] == [
        {"dtype": "bfloat16", "hidden": 8, "eps": 1e-6, "tile": (64, 64), "threads": 128, "stages": None}
    ]


def test_include_alone_is_the_whole_list() -> None:
    made = plan({"include": [{"dtype": "bf16", "hidden": 1}, {"dtype": "fp16", "hidden": 2}]})
    assert configs(made, "dtype", "hidden") == [("bfloat16", 1), ("float16", 2)]
    assert [v.location for v in made.variants] != [made.variants[0].location] * 2


@pytest.mark.parametrize(
    ("entry", "count"),
    [
        ({"include": [{"dtype": "bf16", "hidden": 1}, {"dtype": "fp16", "hidden": 2}]}, 2),
        ({"config": {"dtype": ["bf16", "fp16"], "hidden": 1}, "include": [{"dtype": "fp32"}]}, 3),
        ({"config": {"dtype": "bf16", "hidden": [1, 2]}, "tuned": {"threads": [1, 2, 3]}}, 6),
    ],
)
def test_rows_are_counted_without_making_them(entry: dict[str, Any], count: int) -> None:
    matrix = matrix_of(manifest({"kernel": "norm", **entry}).entries[0], NORM)
    assert matrix.count == count == len(list(matrix.rows()))


def test_a_plain_function_is_tuned_where_the_manifest_says_so() -> None:
    plain = Description(op="norm", source="a:b", keys=(Key(name="n", type="int"), Key(name="t", type="int")))
    made = plan({"config": {"n": 1}, "tuned": {"t": [3, 2]}}, description=plain)
    assert [k.tuned for k in made.ops["norm"].keys] == [False, True]
    assert [(v.config["t"], v.rank, v.tuned) for v in made.variants] == [(2, 1, ("t",)), (3, 0, ("t",))]


def test_environment_holds_the_facts_of_each_target() -> None:
    entry = {
        "config": {"dtype": "bf16", "hidden": 1},
        "env": {"SMS": "n=${target.sm_count}", "A": 1, "B": "$x ${target.name}"},
    }
    made = plan(entry, targets=["sm_90a", "sm_100a"])
    assert [dict(v.env) for v in made.variants] == [
        {"SMS": "n=132", "A": "1", "B": "$x sm_90a"},
        {"SMS": "n=148", "A": "1", "B": "$x sm_100a"},
    ]


def test_parts_are_filed_as_ops_of_their_own() -> None:
    made = plan({"config": {"dtype": "bf16", "hidden": 1}, "parts": ["fwd", "bwd"]})
    assert [v.produces for v in made.variants] == [("norm.fwd", "norm.bwd")]
    assert list(made.ops) == ["norm.bwd", "norm.fwd"]


def test_targets_keep_some_and_must_exist() -> None:
    source = manifest({"kernel": "norm", "config": {"dtype": "bf16", "hidden": 1}}, targets=["sm_90a", "sm_100a"])
    described: Described = {KernelRef("norm"): NORM}
    made = make_plan([source], described, targets=[Target(10, 0, "a")])
    assert [str(v.target) for v in made.variants] == ["sm_100a"]
    with pytest.raises(TargetError, match="no manifest builds for sm_80: choose one of sm_90a, sm_100a"):
        make_plan([source], described, targets=[Target(8, 0)])


def test_what_cannot_be_built_is_listed_where_the_entry_says_so() -> None:
    entry = {"config": {"dtype": "bf16", "hidden": [1, 2]}, "targets": ["sm_80", "sm_90a"], "skip_unsupported": True}
    source = manifest({"kernel": "norm", **entry})
    made = make_plan(
        [source],
        {KernelRef("norm"): NORM},
        refusals=lambda variants: ["two is too many" if v.config["hidden"] == 2 else None for v in variants],
    )
    assert configs(made, "hidden") == [(1,)]
    assert [(str(s.variant.target), s.variant.config["hidden"], s.reason) for s in made.skipped] == [
        ("sm_80", 1, "its kernel is for sm_90+"),
        ("sm_80", 2, "its kernel is for sm_90+"),
        ("sm_90a", 2, "two is too many"),
    ]


def test_every_refused_variant_is_named() -> None:
    with pytest.raises(ManifestError) as caught:
        make_plan(
            [manifest({"kernel": "norm", "config": {"dtype": "bf16", "hidden": list(range(1, 31))}})],
            {KernelRef("norm"): NORM},
            refusals=lambda variants: ["no"] * len(variants),
        )
    text = str(caught.value)
    assert text.count("cannot be built: no") == 10 and "and 20 more" in text and "skip_unsupported: true" in text


def test_several_manifests_make_one_plan() -> None:
    one = manifest({"kernel": "norm", "config": {"dtype": "bf16", "hidden": 1}})
    two = manifest({"kernel": "norm", "config": {"dtype": "bf16", "hidden": 2}}, name="other", path="n.yaml")
    described: Described = {KernelRef("norm"): NORM}
    assert make_plan([one, two], described).name == "acme"
    assert make_plan([one, two], described, name="mine").name == "mine"
    assert make_plan([one, two], described).variants == make_plan([two, one], described).variants
    with pytest.raises(ManifestError, match=r"m\.yaml:1:\d+: .* is listed twice, first at m\.yaml:1:\d+: remove one"):
        make_plan([one, manifest({"kernel": "norm", "config": {"dtype": "bf16", "hidden": 1}})], described)


def test_recordings_of_two_models_may_share_kernels() -> None:
    attached = replace(NORM, source="acme.norms:norm@acme")
    described: Described = {KernelRef("norm", None, env): attached for env in ((), (("ACME_TILE", "2"),))}
    entry = {"kernel": "norm", "config": {"dtype": "bf16", "hidden": 1}}
    one, two = manifest(entry), manifest(entry, name="other", path="n.yaml")
    (variant,) = make_plan([one, two], described).variants
    assert variant.location.file == "m.yaml"
    differing = manifest(entry | {"env": {"ACME_TILE": "2"}}, name="other", path="n.yaml")
    for others in ([one, manifest(entry)], [one, differing]):
        with pytest.raises(ManifestError, match="is listed twice"):
            make_plan(others, described)


def test_the_bound_is_checked_before_anything_is_multiplied() -> None:
    wide = Description(op="norm", source="a:b", keys=tuple(Key(name=f"k{i}", type="int") for i in range(8)))
    with pytest.raises(ManifestError, match="more than 200000 variants, 100000000000000000000000000000000 of them"):
        plan({"config": {f"k{i}": list(range(10_000)) for i in range(8)}}, description=wide)


axes = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.lists(st.integers(-5, 5) | st.booleans() | st.text("xyz", max_size=2), min_size=1, max_size=4, unique_by=repr),
    min_size=1,
)


@given(axes, st.sets(st.sampled_from(["sm_90a", "sm_100a", "sm_120a"]), min_size=1))
def test_any_matrix_is_the_product_of_its_lists(lists: dict[str, list[Any]], targets: set[str]) -> None:
    loose = Description(op="norm", source="a:b", keys=tuple(Key(name=n) for n in lists))
    made = plan({"config": lists}, description=loose, targets=sorted(targets))
    assert len(made.variants) == len(targets) * math.prod(map(len, lists.values()))
    expected = {(repr(row), t) for row in itertools.product(*lists.values()) for t in targets}
    assert {(repr(tuple(v.config.values())), str(v.target)) for v in made.variants} == expected
    assert len({v.identity for v in made.variants}) == len(made.variants)


@given(axes, st.randoms(use_true_random=False))
def test_order_does_not_depend_on_the_order_written(lists: dict[str, list[Any]], random: Any) -> None:
    loose = Description(op="norm", source="a:b", keys=tuple(Key(name=n) for n in sorted(lists)))
    shuffled = {
        name: random.sample(values, len(values)) for name, values in random.sample(sorted(lists.items()), len(lists))
    }
    one, two = plan({"config": lists}, description=loose), plan({"config": shuffled}, description=loose)
    assert [v.identity for v in one.variants] == [v.identity for v in two.variants]
