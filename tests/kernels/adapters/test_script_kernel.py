"""Files with ``kernel_fn``, ``reference_fn`` and ``get_inputs``: built, loaded and verified without change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.kernels.authoring.declare import Declaration, declaration_of
from precast.kernels.authoring.errors import SourceError
from precast.kernels.authoring.registry import FunctionRef, load
from precast.loader.contract.format.config import complete
from precast.measure.checks.verify import verify
from tests.helpers.builds import kept_store, precast

torch = pytest.importorskip("torch")


FOLDER = Path(__file__).parents[2] / "gpu" / "scripts"
FILES = {
    name: (FOLDER / f"{name}.py").read_text() for name in ("relu", "axpy", "double", "triple", "square_add", "power")
}


OPS = (
    "script.relu", "script.axpy", "script.double", "script.triple", "script.square_add.square", "script.square_add.add",
)  # fmt: skip


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Declaration]]:
    """The declaration of a file with this text."""
    monkeypatch.syspath_prepend(tmp_path)

    def declare(text: str) -> Declaration:
        (tmp_path / "a_kernel_file.py").write_text(text)
        return declaration_of(load(FunctionRef.parse("a_kernel_file:kernel_fn")))

    yield declare
    sys.modules.pop("a_kernel_file", None)


@pytest.mark.slow
def test_such_files_are_built_and_loaded_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("build", FOLDER.with_suffix(".yaml"), "-o", tmp_path / "cache", "-j", 1, "-t", "sm_90a")
    built = precast(kept_store(), *words)
    assert built.returncode == 0, built.stderr
    assert built.stdout.startswith(("7 variants built", "0 variants built, 7 reused")), built.stdout
    monkeypatch.setenv("PRECAST_CACHE_PATH", str(tmp_path / "cache"))
    loader.caches(refresh=True)
    try:
        kernels = {op: loader.get(op, target="sm_90a") for op in OPS}
        kernels["script.power"] = loader.get("script.power", {"dtype": "bfloat16"}, target="sm_90a")
        taken = {op: [(a.name, a.written) for a in k.signature.passed] for op, k in kernels.items()}
        assert taken == {
            "script.relu": [("x", False), ("out", True)],
            "script.axpy": [("x", False), ("y", False), ("out", True), ("stream", False)],
            "script.double": [("x", True)],
            "script.triple": [("x", False), ("out", False), ("n", False), ("stream", False)],
            "script.square_add.square": [("x", False), ("squared", True), ("stream", False)],
            "script.square_add.add": [("x", False), ("y", False), ("out", True), ("stream", False)],
            "script.power": [("x", False), ("out", True), ("stream", False)],
        }
        assert kernels["script.power"].config == {"dtype": "bfloat16", "exponent": 2, "threads": 256}
    finally:
        monkeypatch.undo()
        loader.caches(refresh=True)


def relu(x: Any, out: Any) -> None:
    out.copy_(x.clamp(min=0))


def axpy(x: Any, y: Any, out: Any, stream: Any) -> None:
    out.copy_(2 * x + y)


def double(x: Any) -> None:
    x.add_(x.clone())


def triple(x: Any, out: Any, n: int, stream: Any) -> None:
    assert n == x.numel() == 1000
    out.copy_(3 * x)


def launch_power(x: Any, out: Any, stream: Any) -> None:
    out.copy_(x**2)


@pytest.mark.parametrize(
    ("name", "launch"),
    [("relu", relu), ("axpy", axpy), ("double", double), ("triple", triple), ("power", launch_power)],
)
def test_the_kit_knows_their_inputs_and_references(declared: Any, name: str, launch: Callable[..., None]) -> None:
    declaration = declared(FILES[name])
    config = complete(declaration.keys, {}, op=name)
    assert declaration.verifiable
    checks = list(verify(launch, declaration, config, device="cpu"))
    assert len(checks) > 3 and not [str(check) for check in checks if not check.passed]
    checks = list(verify(lambda *values: None, declaration, config, device="cpu"))
    assert not any(check.passed for check in checks if not check.left_out), "a kernel that does nothing"
    one, other, again = (declaration.inputs(config, {}, device="cpu", seed=seed)["x"] for seed in (1, 2, 1))
    assert torch.equal(one, again) and not torch.equal(one, other)


def test_keyword_only_parameters_are_keys_with_the_hints_of_the_file(declared: Any) -> None:
    declaration = declared(FILES["power"])
    assert [(key.name, key.type, key.tuned, key.default) for key in declaration.keys] == [
        ("dtype", "dtype", False, "float32"), ("exponent", "int", False, 2), ("threads", "int", True, 128),
    ]  # fmt: skip
    config = {"dtype": "bfloat16", "exponent": 3, "threads": 64}
    values = declaration.inputs(config, {}, device="cpu", seed=1)
    assert values["x"].dtype == values["out"].dtype == torch.bfloat16  # get_inputs takes the dtype
    assert declaration.tolerance(config).rtol == torch.finfo(torch.bfloat16).eps
    expected = declaration.reference(config, values)["out"]
    assert torch.equal(expected, values["x"].float() ** 3)  # and reference_fn the exponent


def test_several_launched_objects_are_parts_in_their_order(declared: Any) -> None:
    declaration = declared(FILES["square_add"])
    assert dict(declaration.parts) == {"square": ("squared",), "add": ("out",)}
    assert declaration.outputs == ("add.out",) and not declaration.verifiable
    values = declaration.inputs({}, {}, device="cpu", seed=1)
    assert list(values) == [
        "square.x", "square.squared", "square.stream", "add.x", "add.y", "add.out", "add.stream",
    ]  # fmt: skip
    assert values["square.squared"] is values["add.x"]


def test_addresses_are_those_of_their_tensors(declared: Any) -> None:
    """A view of a tensor is another address; the file may do arithmetic on a slice's own."""
    text = FILES["triple"].replace("pointer(x),", "pointer(x[4:]),").replace("x.numel()", "x.numel() - 4")
    values = declared(text).inputs({}, {}, device="cpu", seed=1)
    assert values["x"].shape == (996,) and values["n"] == 996


def test_what_is_read_and_written_is_in_place(declared: Any) -> None:
    assert declared(FILES["double"]).in_place == ("x",)
    assert declared(FILES["relu"]).in_place == ()
    assert declared(FILES["double"]).tolerance({}).rtol == torch.finfo(torch.bfloat16).eps
    assert declared(FILES["axpy"]).tolerance({}).rtol == 1e-3


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "def reference_fn",
            "def reference",
            "has kernel_fn and get_inputs and no reference_fn: a kernel file has all",
        ),
        ("def get_inputs", "def inputs", "has kernel_fn and reference_fn and no get_inputs: a kernel file has all"),
        ("def kernel_fn", "def kernel", "has reference_fn and get_inputs and no kernel_fn: a kernel file has all"),
        ("    compiled(view(x), view(out))", "    relu(view(x), view(out))", "compile it once with cute.compile"),
        ("    compiled(view(x), view(out))", "    out.copy_(x)", "called 0 objects returned by cute.compile"),
        (
            "    compiled(view(x), view(out))",
            "    compiled(view(x), view(out))\n    compiled(view(x), view(out))",
            "called 1 objects returned by cute.compile, in 2 calls",
        ),
        ("def kernel_fn(x)", "def kernel_fn(x, *, tile)", "'tile' of kernel_fn is a config key, and has no default"),
        ("    return out", "    return out + 1", "return the tensors that the kernel writes"),
        ("    return out", "    return None", "return the tensors that the kernel writes"),
        (
            "    out = ",
            "    assert x.sum().item() > 0\n    out = ",
            "it may look at shapes and types, and not at values",
        ),
    ],
)
def test_a_file_with_half_of_it_is_told_what_is_missing(declared: Any, old: str, new: str, words: str) -> None:
    assert FILES["relu"].count(old) == 1
    with pytest.raises(SourceError) as caught:
        declared(FILES["relu"].replace(old, new))
    assert words in str(caught.value), caught.value


def test_a_reference_that_returns_something_else_is_told_so(declared: Any) -> None:
    declaration = declared(FILES["relu"].replace("    return torch.relu(x)", "    return torch.relu(x), x"))
    with pytest.raises(SourceError, match="returns 2 values and kernel_fn 1: return the same from both"):
        list(verify(relu, declaration, {}, device="cpu"))


def test_a_function_that_only_has_the_name_is_a_plain_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_plain_file.py").write_text("def kernel_fn(n: int):\n    return n\n")
    monkeypatch.syspath_prepend(tmp_path)
    function = load(FunctionRef.parse("a_plain_file:kernel_fn"))
    assert function(7) == 7
    assert [key.name for key in declaration_of(function, "plain").keys] == ["n"]
    sys.modules.pop("a_plain_file")
