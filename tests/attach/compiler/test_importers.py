"""Who is told, in an attached process without the DSL, that it is there: the attached libraries, and nobody else."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from precast.attach import activation
from precast.attach.compiler import importers
from tests.helpers.attached import IMPORTED

HIDDEN = f"""
import sys
sys.path += [{str(IMPORTED)!r}, *PACKAGES]
from precast.attach import Library, attach
from precast.attach.compiler import importers
"""
QUESTIONS = {
    "an import": "import cutlass; answer = cutlass",
    "an import of a module inside": "import cutlass.cute as cute; answer = cute.jit",
    "an import of a name": "from cutlass.cute.runtime import make_ptr; answer = make_ptr",
    "an import that may fail": "try: import cutlass.cute as answer\nexcept ImportError: answer = None",
    "an import by a string": "import importlib; answer = importlib.import_module('cutlass.experimental.primitives')",
    "quack's, for a number of its kernels": "from cutlass import CUDA_VERSION; answer = CUDA_VERSION.major >= 12",
    "a search": "import importlib.util; answer = importlib.util.find_spec('cutlass')",
    "FlashInfer's search": """
import importlib.util
answer = importlib.util.find_spec("cutlass") is not None and importlib.util.find_spec("cutlass.cute") is not None
answer = answer and importlib.util.find_spec("cutlass.utils.rubin_helpers") is not None""",
    "vLLM's search": """
import functools, importlib.util
@functools.cache
def _has_module(name): return importlib.util.find_spec(name) is not None
answer = _has_module("cutlass")""",
    "a version": "from importlib.metadata import version; answer = version('nvidia-cutlass-dsl') == '4.8.1'",
    "the version of the import": "import cutlass; answer = cutlass.__version__ == '4.8.1'",
}
OF_OTHER_DISTRIBUTIONS = {
    "Inductor's search for operators": "import importlib.util; answer = importlib.util.find_spec('cutlass.operators')",
    "an import of operators": "import cutlass.operators; answer = cutlass.operators",
}
ASK = """
import importlib, json, sys
attach([Library(name="acme", distribution="acme", package="acme", seams=())], without_compiler=True)

def ask(module):
    try: return bool(importlib.import_module(module).question())
    except ImportError: return False

answers = {}
for number, question in enumerate(QUESTIONS):
    for package in ("other", "acme", "other"):
        importlib.import_module(package)
        answers[f"{package}: {question}"] = [ask(f"{package}.at_import{number}"), ask(f"{package}.at_call{number}")]
print(json.dumps([answers, [name for name in sys.modules if name.partition(".")[0] == "cutlass"]]))
"""


def without_dsl(code: str, packages: Path | None = None, **environment: str) -> str:
    """What code prints in a process that has these packages, and no DSL."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", HIDDEN.replace("PACKAGES", repr([str(packages)])) + code],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test environment's packages but the DSL, and the operators, whose folder would pass for a part of it."""
    folder = tmp_path_factory.mktemp("packages")
    for there in Path(sysconfig.get_path("purelib")).iterdir():
        if "cutlass" not in there.name:
            (folder / there.name).symlink_to(there)
    return folder


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bool]]:
    """The answers to each question, asked by the attached package ``acme`` and by another."""
    folder = tmp_path_factory.mktemp("site")
    questions = {**QUESTIONS, **OF_OTHER_DISTRIBUTIONS}
    for package in ("acme", "other"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text("")
        for number, text in enumerate(questions.values()):
            inside = "".join(f"    {line}\n" for line in text.splitlines())
            (folder / package / f"at_call{number}.py").write_text(f"def question():\n{inside}    return answer\n")
            (folder / package / f"at_import{number}.py").write_text(f"{text}\ndef question(): return answer\n")
    printed = without_dsl(f"sys.path.insert(0, {str(folder)!r})\nQUESTIONS = {list(questions)}\n{ASK}")
    given, left = json.loads(printed)
    assert left == []
    return dict(given)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_attached_library_is_told_that_the_dsl_is_there_and_others_are_not(
    question: str, answers: dict[str, list[bool]]
) -> None:
    assert answers[f"acme: {question}"] == [True, True]
    assert answers[f"other: {question}"] == [False, False]


@pytest.mark.parametrize("question", OF_OTHER_DISTRIBUTIONS)
def test_nobody_is_told_that_the_operators_are_there(question: str, answers: dict[str, list[bool]]) -> None:
    assert answers[f"acme: {question}"] == answers[f"other: {question}"] == [False, False]


def test_a_package_that_a_library_imports_gets_placeholders_with_it(tmp_path: Path) -> None:
    for package in ("acme", "below", "other"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("import cutlass\n")
    without_dsl(f"""
sys.path.insert(0, {str(tmp_path)!r})
attach([Library(name="acme", distribution="acme", package="acme", seams=(), imports=("below",))], without_compiler=True)
import acme, below
assert acme.cutlass is below.cutlass
try: import other
except ModuleNotFoundError as error: assert error.name == "cutlass"
else: raise AssertionError
""")


def test_a_library_makes_options_at_its_import_and_what_cannot_be_imported_is_printed_once(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "__init__.py").write_text("""
try: import acme.fused
except ImportError: pass
try: import acme.fused
except ImportError: pass
""")
    (tmp_path / "acme" / "fused.py").write_text("import acme.state\n")
    (tmp_path / "acme" / "state.py").write_text("""
from cutlass import cute
options = (cute.EnableTVMFFI(True), cute.GenerateLineInfo(True), cute.OptLevel(3), cute.KeepPTX())
assert [option.value for option in options] == [True, True, 3, True]
cute.size(1, 2)
""")
    printed = without_dsl(f"""
import io
sys.path.insert(0, {str(tmp_path)!r})
attach([Library(name="acme", distribution="acme", package="acme", seams=())], without_compiler=True)
out, sys.stderr = sys.stderr, io.StringIO()
import acme
print(sys.stderr.getvalue())
""")
    assert printed.startswith("precast: acme.state is not imported: cutlass.cute.size was called. The library may take")
    assert printed.count("precast:") == 1


def test_a_module_that_names_no_dsl_has_the_built_in_names_of_all_modules(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "plain.py").write_text("")
    (tmp_path / "acme" / "kernels.py").write_text("def compiled():\n    import cutlass.cute\n    import acme.plain\n")
    without_dsl(f"""
import builtins, inspect
sys.path.insert(0, {str(tmp_path)!r})
attach([Library(name="acme", distribution="acme", package="acme", seams=())], without_compiler=True)
import acme.plain, acme.kernels
assert vars(acme.plain)["__builtins__"] is vars(builtins) and vars(acme.kernels)["__builtins__"] is not vars(builtins)
assert acme.kernels.compiled() is None and inspect.getsource(acme.kernels).startswith("def compiled")
""")


TORCH = """
import torch, torch._inductor.utils as inductor
from torch._native import cutedsl_utils
assert not inductor.ensure_cute_available() and not inductor.ensure_nv_universal_gemm_available()
assert cutedsl_utils.runtime_available() is False
"""


SEAMS = """
from precast.loader.attach import KernelMissing

def missing(call, *texts):
    try: call()
    except KernelMissing as error: assert all(text in str(error) for text in texts), error
    else: raise AssertionError(texts)

assert type(attention._flash_attn_fwd.compile_cache).__name__ == "CachedMapping"
hooked = rmsnorm._get_compiled_rmsnorm_kernel
some = [1] * len(__import__("inspect").signature(hooked).parameters)
missing(lambda: hooked(*some), "no cache holds attach.flashinfer.")
from quack.cache.jit import jit_cache
assert jit_cache.__wrapped__ is not None
from quack.softmax import Softmax
from quack.cute_dsl_utils import torch2cute_dtype_map
BFloat16 = torch2cute_dtype_map[torch.bfloat16]
missing(lambda: Softmax.compile(BFloat16, BFloat16, 64), "$cutlass:BFloat16", "N: 64", "no cache")
assert not [name for name in sys.modules if name.partition(".")[0] == "cutlass"]
"""


INDUCTOR = """
from torch.nn import functional as F

@torch.compile(fullgraph=True)
def layer(x, weight, bias, scale):
    q = F.rms_norm(torch.addmm(bias, x, weight), (32,), scale)
    return F.scaled_dot_product_attention(q[None, None], q[None, None], q[None, None]) @ weight

torch.manual_seed(0)
given = torch.randn(8, 32), torch.randn(32, 32), torch.randn(32), torch.randn(32)
torch.testing.assert_close(layer(*given), layer._torchdynamo_orig_callable(*given))
"""


@pytest.mark.slow
def test_inductor_compiles_and_torch_is_told_no_after_the_attached_libraries_are_imported(
    packages: Path, tmp_path: Path
) -> None:
    """They are imported without the DSL, with the seams in place. Then Inductor compiles a product, an attention and a
    norm with empty caches, for the CPU."""
    pytest.importorskip("torch._native.cutedsl_utils")
    pytest.importorskip("quack")
    without_dsl(
        f"""
attached = attach(["quack", "flash_attention", "flashinfer"], mode="frozen", without_compiler=True)
import quack, flash_attn.cute.interface as attention, flashinfer.norm, flashinfer.norm.kernels.rmsnorm as rmsnorm
import flashinfer.gdn_kernels.gdn_decode_bf16_state
import quack.gemm_interface, torch
{INDUCTOR}
{TORCH}
from flashinfer.cute_dsl.availability import is_cute_dsl_available, is_rubin_cute_dsl_available
assert is_cute_dsl_available() and is_rubin_cute_dsl_available() and flashinfer.gemm.gemm_base.CUTE_DSL_AVAILABLE
{SEAMS}
""",
        packages,
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path),
        TORCHINDUCTOR_COMPILE_THREADS="1",
        TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS="0",
        TORCHINDUCTOR_VEC_ISA_OK="0",
    )
    assert list(tmp_path.rglob("*.py"))


@pytest.mark.slow
def test_an_unattached_flashinfer_is_told_no(packages: Path) -> None:
    pytest.importorskip("flashinfer")
    without_dsl("""
attach(["quack"], without_compiler=True)
from flashinfer.cute_dsl.availability import is_cute_dsl_available
assert not is_cute_dsl_available()
""", packages)  # fmt: skip


def test_a_search_ends_where_a_library_still_waits_to_be_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finder of PRECAST_ATTACH asks all others, also those before it; that of placeholders those after it."""
    mine, waiting = importers._Finder("json"), activation._Finder({"json": "json"}, "")
    monkeypatch.setattr(sys, "meta_path", [mine, waiting, *sys.meta_path])
    for _ in range(2):
        spec = importlib.util.find_spec("json.tool")
        assert spec is not None and isinstance(spec.loader, importers._Loader)
