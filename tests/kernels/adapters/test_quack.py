"""quack's adapter: what it declares, what it refuses, and what its kernels are once compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import torch

from precast import loader
from precast.kernels import declaration_of
from precast.kernels.adapters.pinned_package import PackageError, PinnedPackage
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring.registry import find, load
from precast.kernels.authoring.verification.verify import verify
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from tests.helpers.builds import kept_store, succeeded

installed = pytest.mark.skipif(QUACK.obstacle() is not None, reason=str(QUACK.obstacle()))
torch.set_num_threads(1)  # the tensors are small: threads that wait for each other cost more than they save
HALF = {"dtype": "bfloat16"}
CONFIGS: list[tuple[str, dict[str, Any]]] = [
    ("quack.rmsnorm", {**HALF, "hidden": 4096}),
    ("quack.rmsnorm", {**HALF, "hidden": 2880, "residual": True, "statistics": True, "weight_offset": 1.0}),
    ("quack.rmsnorm", {"dtype": "float16", "hidden": 4096, "weight_dtype": "float32"}),
    ("quack.rmsnorm", {**HALF, "hidden": 34}),
    ("quack.rmsnorm", {"dtype": "float32", "hidden": 33}),
    ("quack.rmsnorm_bwd", {**HALF, "hidden": 4096, "residual": True}),
    ("quack.rmsnorm_bwd", {"dtype": "float32", "hidden": 128}),
    ("quack.layernorm", {**HALF, "hidden": 1152, "statistics": True}),
    ("quack.layernorm", {"dtype": "float32", "hidden": 128, "bias": False}),
    ("quack.layernorm_bwd", {**HALF, "hidden": 1280}),
    ("quack.softmax", {**HALF, "width": 128}),
    ("quack.softmax", {"dtype": "float32", "width": 32000}),
    ("quack.softmax_bwd", {**HALF, "width": 128}),
    ("quack.softmax_bwd", {"dtype": "float32", "width": 4096}),
    ("quack.cross_entropy", {**HALF, "classes": 1002, "dx": True, "weight": True}),
    ("quack.cross_entropy", {"dtype": "float32", "classes": 128, "target_dtype": "int32"}),
    ("quack.cross_entropy_bwd", {**HALF, "classes": 1000, "weight": True}),
    ("quack.topk", {**HALF, "width": 128, "k": 8, "softmax": True}),
    ("quack.topk", {"dtype": "float32", "width": 256, "k": 8}),
    ("quack.hadamard", {**HALF, "width": 128}),
    ("quack.hadamard", {"dtype": "float32", "width": 1000}),
    ("quack.rotary", {**HALF, "dim": 64, "interleaved": True, "varlen": True, "offsets": True}),
    ("quack.rotary", {"dtype": "float16", "dim": 128, "conjugate": True, "offsets": True}),
]
LAUNCH = {"threads": 256, "row_threads": 256, "cluster": 1, "reload": "wdy", "tma": False, "stages": 2}
LAUNCHED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # As the shipped manifest has them: the library's own choice for these would spill on sm_100a.
    ("quack.rmsnorm_bwd", {**HALF, "hidden": 7168, "residual": True}, LAUNCH),
    ("quack.rmsnorm_bwd", {**HALF, "hidden": 8192, "residual": True}, LAUNCH),
    ("quack.rmsnorm_bwd", {**HALF, "hidden": 4096, "residual": True}, {**LAUNCH, "cluster": 2, "tma": True}),
    ("quack.layernorm_bwd", {**HALF, "hidden": 1280}, {**LAUNCH, "row_threads": 128, "reload": "both", "stages": 3}),
]
ROWS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [(op, config, {}) for op, config in CONFIGS] + LAUNCHED
NAMES = ["-".join(map(str, (op, *config.values()))) for op, config in CONFIGS]


def full(op: str, config: dict[str, Any]) -> dict[str, Any]:
    return complete(declaration_of(load(find(op))).keys, config, op=op)


def small(op: str, config: dict[str, Any]) -> Any:
    """The declaration without the problem that is only for timing."""
    from dataclasses import replace

    declaration = declaration_of(load(find(op)))
    problems = declaration.problems
    assert problems is not None
    return replace(declaration, problems=lambda c: [p for p in problems(c)[:-1] if p.get("rows", 0) < 1000])


def torch_says(op: str, config: dict[str, Any], v: dict[str, Any]) -> dict[str, Any]:
    """The same by torch's own functions, differentiated by torch, in float64."""
    nn = torch.nn.functional

    def leaf(name: str) -> Any:
        return None if v.get(name) is None else v[name].double().requires_grad_()

    x, weight = leaf("x"), leaf("weight")
    if op.startswith(("quack.rmsnorm", "quack.layernorm")):
        shift = float(config.get("weight_offset", 0.0))
        y, bias = x, leaf("bias")
        if v.get("residual") is not None:
            y = x + v["residual"].double()
        if op.startswith("quack.rmsnorm"):
            out = nn.rms_norm(y, y.shape[-1:], weight + shift, 1e-6)
        else:
            bias = bias if bias is not None else torch.zeros_like(weight).requires_grad_()
            out = nn.layer_norm(y, y.shape[-1:], weight, bias, 1e-6)
        if not op.endswith("_bwd"):
            return {"out": out, "residual_out": y}
        out.backward(v["dout"].double())
        extra = 0 if v["dresidual_out"] is None else v["dresidual_out"].double()
        return {"dx": x.grad + extra, "dweight": weight.grad, "dbias": bias.grad if bias is not None else None}
    if op == "quack.softmax":
        return {"out": nn.softmax(x, dim=-1)}
    if op == "quack.softmax_bwd":
        dx = torch.ops.aten._softmax_backward_data(v["dout"].double(), v["out"].double(), -1, torch.float64)
        return {"dx": dx}
    if op.startswith("quack.cross_entropy"):
        scale = None if v["weight"] is None else v["weight"].double()
        loss = nn.cross_entropy(x, v["target"].long(), scale, ignore_index=v["ignore_index"], reduction="none")
        (loss * (v["dloss"].double() if "dloss" in v else 1.0)).sum().backward()
        return {"loss": loss, "lse": x.logsumexp(-1), "dx": x.grad}
    if op == "quack.topk":
        values = x.topk(int(config["k"]), dim=-1).values
        assert torch.equal(x.gather(1, reference_of(op, config, v)["indices"].long()), values)
        return {"values": values.softmax(-1) if config["softmax"] else values}
    if op == "quack.hadamard":
        matrix = torch.ones(1, 1, dtype=torch.float64)
        while len(matrix) < config["width"]:
            matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
        width = x.shape[1]
        return {"out": x @ matrix[:width, :width] * v["scale"]}
    return {"out": turned(config, v)}


def turned(config: dict[str, Any], v: dict[str, Any]) -> Any:
    """Rotary embedding as multiplication of complex numbers, a token at a time."""
    x, out = v["x"].double(), torch.empty_like(v["x"], dtype=torch.float64)
    bounds = v["cu_seqlens"].tolist() if v["cu_seqlens"] is not None else None
    count = len(bounds) - 1 if bounds else len(x)
    for i in range(count):
        rows = slice(bounds[i], bounds[i + 1]) if bounds else i
        start = 0 if v["offsets"] is None else int(v["offsets"][i])
        for t, token in enumerate(x[rows]):
            turn = torch.complex(v["cos"][start + t].double(), v["sin"][start + t].double())
            turn = turn.conj() if config["conjugate"] else turn
            half = token.shape[-1] // 2
            pairs = (token[:, 0::2], token[:, 1::2]) if config["interleaved"] else (token[:, :half], token[:, half:])
            z = torch.complex(pairs[0].contiguous(), pairs[1].contiguous()) * turn
            stacked = (
                torch.stack([z.real, z.imag], dim=-1) if config["interleaved"] else torch.cat([z.real, z.imag], -1)
            )
            out[rows][t] = stacked.flatten(-2) if config["interleaved"] else stacked
    return out


def reference_of(op: str, config: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    reference = declaration_of(load(find(op))).reference
    assert reference is not None
    return reference(config, values)


@pytest.mark.parametrize(("op", "config"), CONFIGS, ids=NAMES)
def test_references_agree_with_torch(op: str, config: dict[str, Any]) -> None:
    config = full(op, config)
    declaration = small(op, config)
    for seed, problem in enumerate(declaration.problems(config)):
        values = declaration.inputs(config, problem, device="cpu", seed=seed)
        found, said = declaration.reference(config, values), torch_says(op, config, values)
        for name, expected in said.items():
            if values.get(name) is None or name not in declaration.outputs:
                continue
            mine = found[name]
            if name in ("dweight", "dbias"):
                assert len(mine) == problem["blocks"]
                mine = mine.sum(dim=0)
            assert mine.dtype == torch.float64
            rounded = op.endswith("_bwd") or name == "lse"  # statistics are kept in float32
            torch.testing.assert_close(mine, expected.detach(), rtol=1e-5, atol=3e-4 if rounded else 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "config"), CONFIGS, ids=NAMES)
def test_verify_takes_a_rounded_result_and_no_worse_one(op: str, config: dict[str, Any]) -> None:
    config = full(op, config)
    declaration = small(op, config)

    def launch(spoil: bool) -> Any:
        def run(*arguments: Any) -> None:
            values = dict(zip(names, arguments, strict=True))
            for name, expected in reference_of(op, config, values).items():
                if values.get(name) is not None:
                    values[name].copy_(expected)
            if spoil:
                last = values[declaration.outputs[0]]
                last.view(-1)[-1:].mul_(1.1).add_(1) if last.is_contiguous() else last[..., -1:].mul_(1.1).add_(1)

        return run

    problem = declaration.problems(config)[1]
    names = list(declaration.inputs(config, problem, device="cpu", seed=0))
    right = list(verify(launch(False), declaration, config, device="cpu"))
    assert right and not [str(check) for check in right if not check.passed]
    wrong = list(verify(launch(True), declaration, config, device="cpu"))
    assert {check.output for check in wrong if not check.passed} == {declaration.outputs[0]}


@installed
@pytest.mark.parametrize(
    ("op", "config", "reason"),
    [
        ("quack.rmsnorm", {"dtype": "int8", "hidden": 4096}, "use one of float32, float16, bfloat16"),
        ("quack.rmsnorm", {**HALF, "hidden": 0}, "hidden is 0: use a number from 2 to"),
        ("quack.rmsnorm", {**HALF, "hidden": 33}, "hidden is 33, which 2 does not divide"),
        ("quack.cross_entropy", {**HALF, "classes": 1001}, "use 1000 or 1002"),
        ("quack.rmsnorm", {**HALF, "hidden": 64, "weight_dtype": "int8"}, "weight_dtype 'int8' is not supported"),
        ("quack.rmsnorm", {**HALF, "hidden": 4096, "threads": 128}, "give all, or none"),
        (
            "quack.rmsnorm",
            {**HALF, "hidden": 64, "threads": 128, "row_threads": 128, "cluster": 1, "reload": "no"},
            "no more threads than a row has columns",
        ),
        ("quack.rmsnorm_bwd", {"dtype": "float32", "hidden": 200_000}, "use at most 131072"),
        ("quack.rmsnorm_bwd", {**HALF, "hidden": 4096, "stages": 2}, "give all, or none"),
        ("quack.rmsnorm_bwd", {**HALF, "hidden": 4096, **LAUNCH, "threads": 64}, "threads is 64: use 128 or 256"),
        ("quack.rmsnorm_bwd", {**HALF, "hidden": 4096, **LAUNCH, "stages": 4}, "stages is 4: use 2 or 3"),
        ("quack.layernorm_bwd", {**HALF, "hidden": 4100, **LAUNCH, "tma": True}, "multiples of 16 bytes"),
        ("quack.layernorm_bwd", {**HALF, "hidden": 65536, **LAUNCH}, "they take 512 KiB, and a block has 223"),
        ("quack.softmax", {**HALF, "width": 1001}, "use 1000 or 1008"),
        ("quack.softmax_bwd", {"dtype": "float32", "width": 3}, "use 4 or a multiple of it"),
        ("quack.cross_entropy", {**HALF, "classes": 1_000_000}, "classes is 1000000: use a number"),
        ("quack.cross_entropy", {**HALF, "classes": 151936}, "then writes NaN; use"),
        ("quack.softmax", {**HALF, "width": 201088}, "or float32, which is shared otherwise"),
        ("quack.topk", {**HALF, "width": 384, "k": 8}, "width is 384: use a power of two"),
        ("quack.topk", {**HALF, "width": 256, "k": 6}, "k is 6: use a power of two up to 128"),
        ("quack.rotary", {**HALF, "dim": 100}, "use 96 or 104"),
        ("quack.rotary", {**HALF, "dim": 1024}, "use a multiple of 8 up to 512"),
    ],
)
def test_what_cannot_be_built_is_refused_while_planning(op: str, config: dict[str, Any], reason: str) -> None:
    declaration = declaration_of(load(find(op)))
    assert reason in str(declaration.refusal(full(op, config), Target.parse("sm_90a")))
    assert "sm_90+" in str(declaration.refusal(full(op, config), Target.parse("sm_80")))


def test_another_release_is_refused_by_name_and_version() -> None:
    for other, words in (
        (
            PinnedPackage(distribution="pytest", version="0.1", extra="x"),
            "pytest 0.1 is the version that this adapter supports, and",
        ),
        (PinnedPackage(distribution="no-such-library", version="0.1", extra="x"), "pip install 'precast[x]'"),
    ):
        assert words in str(other.obstacle())
        with pytest.raises(PackageError, match=other.distribution):
            other.module("json")


def test_a_changed_parameter_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "upstream_changed.py").write_text("def compile(dtype, width):\n    return width\n")
    monkeypatch.syspath_prepend(tmp_path)
    library = PinnedPackage(distribution="pytest", version=pytest.__version__, extra="x")
    assert library.call("upstream_changed:compile", dtype="a", width=3) == 3
    with pytest.raises(
        PackageError, match=r"upstream_changed:compile .*missing a required argument: 'width'.*dtype, w"
    ):
        library.call("upstream_changed:compile", dtype="a", N=3)
    with pytest.raises(PackageError, match="upstream_changed has no tile, which its adapter sets"):
        library.switch("upstream_changed", tile=3)


def test_the_extra_installs_the_version_that_the_adapter_supports() -> None:
    asked = [r.replace(" ", "") for r in requires("precast") or ()]
    assert f"{QUACK};extra=='{QUACK.extra}'" in [r.replace('"', "'") for r in asked]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every config above, compiled in real workers for both targets."""
    folder = tmp_path_factory.mktemp("quack")
    lines = [f"  - kernel: {op}\n    config: {config}\n    tuned: {tuned}" for op, config, tuned in ROWS]
    text = "version: 1\nname: quack\ntargets: [sm_90a, sm_100a]\nkernels:\n" + "\n".join(lines) + "\n"
    (folder / "quack.yaml").write_text(text.replace("True", "true").replace("False", "false"))
    succeeded("build", folder / "quack.yaml", "-o", folder / "cache", "--store", kept_store(), "-j", 1)
    return folder / "cache"


@installed
@pytest.mark.slow
def test_every_family_compiles_without_a_gpu(cache: Path, use: Callable[[Path], None]) -> None:
    use(cache)
    for (op, config, tuned), target in itertools.product(ROWS, ("sm_90a", "sm_100a")):
        kernel = loader.get(op, {**config, **tuned}, target=target)
        declaration = declaration_of(load(find(op)))
        assert declaration.inputs and declaration.problems
        values = declaration.inputs(kernel.config, declaration.problems(kernel.config)[0], device="cpu", seed=0)
        passed = kernel.signature.passed
        assert [a.name for a in passed] == list(values), "the names and the order are what the declaration says"
        assert [a.always_none for a in passed] == [value is None for value in values.values()]
        assert [a.dtype for a in passed if a.kind == "tensor"] == [
            str(v.dtype).removeprefix("torch.") for v in values.values() if isinstance(v, torch.Tensor)
        ]
        for resources in kernel.artifact.resources:
            assert (resources.stack, resources.local) == (0, 0), f"{op} {config} spills on {target}"


@installed
@pytest.mark.slow
@pytest.mark.parametrize(("op", "config", "tuned"), LAUNCHED[2:], ids=["rmsnorm", "layernorm"])
def test_how_a_gradient_is_launched_changes_no_argument(
    cache: Path, use: Callable[[Path], None], op: str, config: dict[str, Any], tuned: dict[str, Any]
) -> None:
    use(cache)
    for target in ("sm_90a", "sm_100a"):
        own, chosen = (loader.get(op, {**config, **keys}, target=target) for keys in (dict.fromkeys(tuned), tuned))
        assert own.artifact != chosen.artifact
        assert own.signature == chosen.signature


def test_a_block_that_takes_several_rows_is_verified_alone() -> None:
    config = {**HALF, "hidden": 4096}
    problems = declaration_of(load(find("quack.rmsnorm_bwd"))).problems
    assert problems is not None
    for tuned, most in (({}, 264), (LAUNCH, 264), ({**LAUNCH, "row_threads": 128}, 1)):
        assert max(p["blocks"] for p in problems(full("quack.rmsnorm_bwd", {**config, **tuned}))) == most


@pytest.mark.parametrize(
    ("op", "config", "target", "said"),
    [
        ("quack.softmax", {"dtype": "float32", "width": 201088}, "sm_120a", "a block holds 102400 bytes of its rows"),
        ("quack.softmax", {"dtype": "float32", "width": 196608}, "sm_120a", None),
        ("quack.softmax", {"dtype": "float32", "width": 201088}, "sm_103a", None),
        ("quack.softmax_bwd", {"dtype": "float32", "width": 98304}, "sm_121a", None),
        ("quack.softmax_bwd", {"dtype": "float32", "width": 102400}, "sm_121a", "one of sm_121a has 101376"),
        ("quack.cross_entropy", {"dtype": "float32", "classes": 202048}, "sm_120a", "use fewer columns"),
        ("quack.cross_entropy", {"dtype": "bfloat16", "classes": 202048}, "sm_120a", None),
    ],
)
def test_rows_that_little_shared_memory_does_not_hold(
    op: str, config: dict[str, Any], target: str, said: str | None
) -> None:
    reason = declaration_of(load(find(op))).refusal(full(op, config), Target.parse(target))
    assert reason is None if said is None else said in str(reason)
