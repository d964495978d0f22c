"""Descriptions of a user's own modules, which may print, fail, hang or die while they are imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from precast.build.disk.memo import Memo
from precast.build.errors import DescribeError, Location, ManifestError
from precast.build.inputs.closure import Closure, Closures, Reads
from precast.build.plan.describer import Describer, Description, NotDescribed, describing
from precast.build.plan.entry import KernelRef
from precast.build.plan.planner import plan_of_files
from precast.build.plan.variant import Variant
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.target import Target

SM90A = Target(9, 0, "a")
MODULES = {
    "good": """
        import functools, os, sys
        from precast.kernels import DType, Tuned, kernel
        print("noise on stdout", flush=True); os.write(1, b"more noise\\n"); print("and on stderr", file=sys.stderr)

        def refuses(config, target):
            if config["hidden"] > 8 and target.major == 9:
                return f"{config['hidden']} is too wide"

        @kernel(op="acme.norm", targets=["sm_90+"], supports=refuses, outputs=["y"])
        def norm(dtype: DType, hidden: int, tile: list[int] = [64, 64], threads: Tuned[int] = 128):
            \"\"\"A norm,
            in two lines.

            And more.\"\"\"

        def plain(n: int, flag: bool = False): ...
        def closure(n: int):
            return lambda: n
        @functools.cache
        def cached(n: int, tile: tuple[int, int] = (1, 2)): ...
        class Namespace:
            @staticmethod
            def inner(n: int): ...
        def loose(**anything): ...
        here = os.environ["CUTE_DSL_ARCH"], os.environ["CUDA_VISIBLE_DEVICES"]
        def told(arch: str = here[0], devices: str = here[1]): ...
        def heard(line: str = sys.stdin.read()): ...
    """,
    "judges": """
        from precast.kernels import kernel
        def _raises(config, target): return config["nothing"]
        def _lies(config, target): return False
        def _exits(config, target): raise SystemExit(3)
        @kernel(op="acme.raises", supports=_raises)
        def raises(n: int): ...
        @kernel(op="acme.lies", supports=_lies)
        def lies(n: int): ...
        @kernel(op="acme.exits", supports=_exits)
        def exits(n: int): ...
    """,
    "asks": """
        import torch
        from precast.kernels.authoring.declare import kernel
        SMS = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
        MAJOR, MINOR = torch.cuda.get_device_capability()
        def _supports(config, target):
            if torch.cuda.get_device_capability() != (target.major, target.minor):
                return "told of another GPU: ask for it"
        @kernel(op="acme.asks", supports=_supports)
        def f(n: int, sms: int = SMS, sm: str = f"{MAJOR}.{MINOR}"): ...
    """,
    "needs_more": "import a_module_that_nobody_has",
    "needs_torch": "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')",
    "tuned_by_env": """
        import os
        from precast.kernels import kernel
        def _supports(config, target): return os.environ.get("ACME_REFUSES")
        @kernel(op="acme.env", supports=_supports)
        def f(n: int, stages: int = int(os.environ.get("ACME_STAGES", "1"))): ...
        def g(n: int, stages: int = int(os.environ.get("ACME_STAGES", "1"))): ...
    """,
    "raises": "def deep():\n    raise RuntimeError('no licence')\ndeep()",
    "misspelt": "def f(:\n    pass",
    "quits": "import sys; sys.exit(4)",
    "dies": "import os; print('last words', flush=True); os._exit(7)",
    "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "hangs": "import os, time; print('pid', os.getpid(), flush=True); time.sleep(600)",
    "closes": "import os; os.closerange(3, 64); os._exit(0)",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    import textwrap

    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    return tmp_path


def closure_of(folder: Path) -> Closure:
    return Closures.here([folder]).of([Reads(source=f"{name}:f") for name in MODULES])


@pytest.fixture
def child(folder: Path) -> Iterator[Describer]:
    with describing([folder], SM90A, closure=closure_of(folder), limit=60) as describer:
        yield describer


def reason(child: Describer, source: str, op: str | None = "acme.x") -> str:
    found = child.describe([KernelRef(op, source)])[KernelRef(op, source)]
    assert isinstance(found, NotDescribed)
    return found.reason


def test_a_declared_kernel(child: Describer) -> None:
    assert child.describe([KernelRef(None, "good:norm")]) == {
        KernelRef(None, "good:norm"): Description(
            op="acme.norm",
            source="good:norm",
            keys=(
                Key(name="dtype", type="dtype"),
                Key(name="hidden", type="int"),
                Key(name="tile", type="list[int]", has_default=True, default=(64, 64)),
                Key(name="threads", type="int", tuned=True, has_default=True, default=128),
            ),
            targets=("sm_90+",),
            doc="A norm, in two lines.",
            declared=True,
            has_supports=True,
        )
    }


@pytest.mark.parametrize("name", ["plain", "closure", "cached", "Namespace.inner"])
def test_functions_as_they_come(child: Describer, name: str) -> None:
    found = child.describe([KernelRef("acme.x", f"good:{name}")])[KernelRef("acme.x", f"good:{name}")]
    assert isinstance(found, Description)
    assert (found.op, found.declared, found.keys[0]) == ("acme.x", False, Key(name="n", type="int"))


def test_a_registered_op(child: Describer) -> None:
    answer = child.describe([KernelRef("acme.none")])[KernelRef("acme.none")]
    assert (
        isinstance(answer, NotDescribed) and "no installed distribution registers the op 'acme.none'" in answer.reason
    )


def test_the_child_imports_for_the_target_and_sees_no_gpu(child: Describer) -> None:
    found = child.describe([KernelRef("acme.x", "good:told"), KernelRef("acme.y", "good:heard")])
    defaults = [k.default for d in found.values() if isinstance(d, Description) for k in d.keys]
    assert defaults == ["sm_90a", "-1", ""]  # nor can a module read the requests


def test_a_module_that_asks_for_the_gpu_hears_of_the_targets(child: Describer) -> None:
    found = child.describe([KernelRef(None, "asks:f")])[KernelRef(None, "asks:f")]
    assert isinstance(found, Description), found
    assert [k.default for k in found.keys] == [None, 132, "9.0"]
    others = [variant("acme.asks", "asks:f", Target.parse(t), n=1) for t in ("sm_90a", "sm_100a", "sm_120f")]
    assert child.refusals(others) == (None, None, None)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere:f", ["there is no module 'nowhere'", "add its folder to 'path:' in the manifest, or to PYTHONPATH"]),
        ("good:plian", ["'good' has no 'plian'; did you mean 'plain'?"]),
        ("good:here", ["is tuple, not a function"]),
        ("good:loose", ["**anything hides the config keys: name each parameter"]),
        ("needs_more:f", ["needs the module 'a_module_that_nobody_has': install it", "needs_more.py:1"]),
        ("needs_torch:f", ["needs the module 'torch'", "pip install 'precast[torch]'", "needs_torch.py:1"]),
        ("raises:f", ["RuntimeError: no licence", "raises.py:2 in deep: raise RuntimeError('no licence')"]),
        ("misspelt:f", ["SyntaxError"]),
        ("quits:f", ["SystemExit: 4"]),
    ],
)
def test_one_bad_module_costs_its_own_kernels_alone(child: Describer, source: str, words: list[str]) -> None:
    found = child.describe([KernelRef("acme.x", source), KernelRef("acme.y", "good:plain")])
    bad = found[KernelRef("acme.x", source)]
    assert isinstance(bad, NotDescribed) and all(w in bad.reason for w in words), bad
    assert isinstance(found[KernelRef("acme.y", "good:plain")], Description)


def test_a_plain_function_needs_an_op(child: Describer) -> None:
    assert "declares no op" in reason(child, "good:plain", None) and "write 'op:'" in reason(child, "good:plain", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("dies:f", ["ended with exit status 7", "it last printed:\nlast words"]),
        ("crashes:f", ["was ended by SIGSEGV"]),
        ("closes:f", ["ended with exit status 0"]),
    ],
)
def test_a_child_that_dies_says_how(child: Describer, source: str, words: list[str]) -> None:
    with pytest.raises(DescribeError) as caught:
        child.describe([KernelRef("acme.x", source)])
    assert all(w in str(caught.value) for w in words), caught.value
    with pytest.raises(DescribeError):  # and it stays dead
        child.describe([KernelRef("acme.x", source)])


def test_a_child_that_hangs_is_ended(folder: Path) -> None:
    with pytest.raises(DescribeError, match=r"(?s)no answer in 2 s; .* was ended; it last printed:\npid \d+") as caught:  # noqa: SIM117
        with describing([folder], SM90A, closure=closure_of(folder), limit=2) as child:
            child.describe([KernelRef("acme.x", "hangs:f")])
    pid = int(str(caught.value).split("pid ")[1].split()[0])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def variant(op: str, source: str, target: Target = SM90A, **config: int | str) -> Variant:
    return Variant(op=op, source=source, config=config, target=target, location=Location("m.yaml", 1, 1))


def test_judges_each_variant(child: Describer) -> None:
    rows = [
        variant("acme.norm", "good:norm", t, dtype="bfloat16", hidden=h)
        for h in (8, 9)
        for t in (SM90A, Target(10, 0, "a"))
    ]
    assert child.refusals(rows) == (None, None, "9 is too wide", None)


def test_a_judge_that_fails_refuses_and_says_why(child: Describer) -> None:
    reasons = child.refusals([variant(f"acme.{n}", f"judges:{n}", n=1) for n in ("raises", "lies", "exits")])
    assert [r and r.split("\n")[0] for r in reasons] == [
        "its supports() failed with KeyError: 'nothing': correct it",
        "its supports() returned False: return None, or a reason as text",
        "its supports() failed with SystemExit: 3: correct it",
    ]


def test_the_parent_imports_neither_the_kernels_nor_the_dsl(folder: Path) -> None:
    (folder / "m.yaml").write_text(
        "version: 1\nname: acme\ntargets: sm_90a\npath: .\n"
        "kernels: [{compile: 'good:norm', config: {dtype: bf16, hidden: 8}}]\n"
    )
    code = (
        "import sys; from pathlib import Path; from precast.build.plan.planner import plan_of_files\n"
        f"assert len(plan_of_files([Path({str(folder / 'm.yaml')!r})]).variants) == 1\n"
        "bad = {m.partition('.')[0] for m in sys.modules} & {'good', 'cutlass', 'torch', 'tvm_ffi'}\n"
        "assert not bad, bad\n"
        "kernels = ('scale', 'rmsnorm', 'device', 'operators', 'attention', 'quack', 'flashinfer')\n"
        "assert not [k for k in kernels if f'precast.kernels.{k}' in sys.modules]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_error_points_at_the_entry(folder: Path) -> None:
    path = folder / "m.yaml"
    path.write_text(
        "version: 1\nname: acme\ntargets: sm_90a\npath: .\nkernels:\n  - compile: 'raises:f'\n    op: acme.x\n"
    )
    with pytest.raises(
        ManifestError, match=r"m\.yaml:6:5: raises:f: importing it failed with RuntimeError: no licence"
    ):
        plan_of_files([path])


def env_manifest(folder: Path, *entries: str) -> Path:
    rows = "".join(f"  - {{{entry}}}\n" for entry in entries)
    path = folder / "m.yaml"
    path.write_text(f"version: 1\nname: acme\ntargets: [sm_90a, sm_100a]\npath: .\nkernels:\n{rows}")
    return path


def test_an_entrys_variables_are_set_when_its_kernel_is_described(folder: Path) -> None:
    f, g = "compile: 'tuned_by_env:f', config: {n: 1}", "compile: 'tuned_by_env:g', config: {n: 1}"
    made = plan_of_files(
        [
            env_manifest(
                folder, f"{f}, env: {{ACME_STAGES: 3}}", f"{g}, op: acme.g", f"{g}, op: acme.h, env: {{ACME_STAGES: 4}}"
            )
        ]
    )
    assert {(v.op, v.config["stages"]) for v in made.variants} == {("acme.env", 3), ("acme.g", 1), ("acme.h", 4)}


@pytest.mark.slow
def test_the_callers_variables_count_only_where_they_are_passed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an entry sets comes before them; a kernel that is described again sees the new value."""
    monkeypatch.setenv("ACME_STAGES", "5")
    f = "compile: 'tuned_by_env:f', config: {n: 1}, targets: [sm_90a]"
    manifest = env_manifest(folder, f, "compile: 'tuned_by_env:g', op: acme.g, config: {n: 1}, env: {ACME_STAGES: 4}")
    found = []
    for passed in ({}, {"ACME_STAGES": "5"}, {"ACME_STAGES": "6"}):
        made = plan_of_files([manifest], notes=Memo(folder / "notes"), passed=passed)
        stages = {v.op: v.config["stages"] for v in made.variants}
        found.append((stages["acme.env"], stages["acme.g"], made.variants[0].identity))
    assert [row[:2] for row in found] == [(1, 4), (5, 4), (6, 4)]
    assert len({str(identity) for *_, identity in found}) == 3


@pytest.mark.slow
def test_supports_sees_the_variables_of_each_variants_target(folder: Path) -> None:
    variables = "env: {ACME_REFUSES: 'not ${target.name}'}"
    entry = f"compile: 'tuned_by_env:f', config: {{n: [1, 2]}}, {variables}, skip_unsupported: true"
    for notes in (None, Memo(folder / "notes"), Memo(folder / "notes")):
        made = plan_of_files([env_manifest(folder, entry)], notes=notes)
        assert not made.variants
        assert {s.reason for s in made.skipped if str(s.variant.target) == "sm_90a"} == {"not sm_90a"}
        assert {s.reason for s in made.skipped if str(s.variant.target) == "sm_100a"} == {"not sm_100a"}


def test_the_current_folder_is_no_place_to_import_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with describing([], SM90A, closure=Closures.here([]).of([]), limit=60) as child:
        assert "there is no module 'good'" in reason(child, "good:plain")
