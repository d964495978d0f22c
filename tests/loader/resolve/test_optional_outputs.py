"""A variant that differs from a request by one more output serves it, after all that have no more than it requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from precast import loader
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.signature import Argument, Signature, outputs_of
from precast.loader.launch.kernel import Kernel
from precast.loader.resolve.candidate import CachedOp, Request
from precast.loader.resolve.choose import choose
from precast.loader.resolve.judge import resolve
from precast.loader.resolve.resolution import Resolution
from tests.helpers.caches import artifact
from tests.helpers.resolutions import BLOB, HERE, source

LSE = Key(name="lse", type="bool", has_default=True, default=False)
KEYS = (
    Key(name="dtype", type="dtype"),
    Key(name="causal", type="bool", has_default=True, default=False),
    LSE,
    Key(name="pack", type="bool", tuned=True, has_default=True, default=False),
)


def attention(target: str = "sm_90a", **config: Any) -> Artifact:
    """An artifact that writes ``out``, and ``lse`` where its config has it."""
    full = {"dtype": "bfloat16", "causal": False, "lse": False, "pack": False, **config}
    lse = (
        Argument(name="lse", kind="tensor", dtype="float32", shape=("n",), written=True)
        if full["lse"]
        else Argument(name="lse", kind="none")
    )
    out = Argument(name="out", kind="tensor", dtype="bfloat16", shape=("n",), written=True)
    causal = Argument(name="causal", kind="tensor", dtype="bfloat16", shape=("n",))  # read, of a key's name
    made = artifact(BLOB, full, target, rank=int(full["pack"]))
    return replace(made, signature=Signature(arguments=(causal, out, lse)))


def serving(*artifacts: Artifact, keys: tuple[Key, ...] = KEYS) -> CachedOp:
    return source(*artifacts, keys=keys)


def ask(one: CachedOp, **config: object) -> tuple[Artifact | None, Resolution]:
    """What ``get`` takes, and the decision of ``explain``, which are the same artifact."""
    request = Request(op="scale", config={"dtype": "bf16", **config})
    resolution, taken = resolve(request, HERE, [one]), choose(request, HERE, [one])
    assert (taken and taken.artifact.key) == (resolution.chosen and resolution.chosen.artifact.key)
    return taken.artifact if taken else None, resolution


@pytest.mark.parametrize("config", [{}, {"lse": False}])
def test_a_variant_with_one_more_output_serves(config: dict[str, object]) -> None:
    only = attention(lse=True)
    taken, resolution = ask(serving(only), **config)
    assert taken == only
    assert resolution.accepted[0].outputs == ("lse",)
    assert "it also writes lse: pass it" in str(resolution)


def test_a_variant_without_an_output_does_not_serve_who_requests_it() -> None:
    taken, resolution = ask(serving(attention()), lse=True)
    assert taken is None and resolution.rejected[0].differing == ("lse",)


def test_the_variant_that_writes_no_more_is_preferred_whatever_its_target_and_order() -> None:
    more, plain = attention(lse=True), attention("sm_90", pack=True)
    assert ask(serving(more, plain))[0] == plain
    assert ask(serving(plain, more), lse=True)[0] == more


@pytest.mark.parametrize(
    ("key", "config"),
    [
        (LSE, {"lse": True, "causal": True}),  # another bool, whose argument is only read
        (replace(LSE, default=True), {"lse": True}),  # by default the output is written
        (replace(LSE, type="any"), {"lse": True}),
    ],
)
def test_any_other_difference_is_a_refusal(key: Key, config: dict[str, Any]) -> None:
    one = serving(attention(**config), keys=(*KEYS[:2], key, KEYS[3]))
    assert ask(one, lse=False)[0] is None


def test_a_key_whose_output_the_kernel_does_not_write_is_a_difference() -> None:
    made = attention(lse=True)
    silent = replace(made, signature=Signature(arguments=made.signature.arguments[:2]))
    assert ask(serving(silent))[0] is None


@pytest.mark.parametrize("signature", [None, 3, {}, {"arguments": 3}, {"arguments": [3, {"written": True}]}])
def test_a_signature_that_is_not_valid_has_no_output_of_a_keys_name(signature: object) -> None:
    assert "lse" not in outputs_of(signature)


def test_a_measured_choice_is_among_variants_with_the_same_outputs() -> None:
    request = Request(op="scale", config={"dtype": "bf16"}, problem={"m": 4})
    one = serving(attention(lse=True), attention(pack=True), attention(lse=True, pack=True))
    chosen = resolve(request, HERE, [one]).chosen
    assert chosen is not None and chosen.config["lse"] is False


def test_a_call_without_the_output_says_that_this_variant_writes_it() -> None:
    kernel = Kernel("attention", attention(lse=True), print, lambda: HERE)
    with pytest.raises(TypeError, match=r"misses lse \(this variant writes lse, too"):
        kernel(causal=1, out=2)
    assert isinstance(kernel, loader.Kernel)
