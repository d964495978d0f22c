"""Placeholders for the DSL's names: where it is not installed, in child processes that do not process its .pth file."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import warnings
from pathlib import Path

import pytest

from precast.attach.recordings.key_reader import decode
from precast.attach.recordings.keys import encode
from tests.helpers.attached import passes
from tests.helpers.source_tree import ROOT

WITHOUT_DSL = f"""
import sys
sys.path += [{str(ROOT / "src")!r}, {sysconfig.get_path("purelib")!r}]
from precast.loader import attach
from precast.attach.compiler import importers
from precast.attach.compiler.placeholder import NoCompiler

def raises(kind, call, *texts):
    try: call()
    except kind as error: assert all(text in str(error) for text in texts), error
    else: raise AssertionError(texts)
"""


ATTACHED = """
attach([attach.Library(name="acme", distribution="acme", package="acme", seams=())], without_compiler=True)
"""


def without_dsl(code: str, timeout: float = 300, *, acme: Path | None = None) -> None:
    """Run code where the DSL is not installed. ``acme`` is the folder of a package with a module of that code, whose
    imports get placeholders."""
    if acme is not None:
        (acme / "acme").mkdir()
        (acme / "acme" / "kernels.py").write_text(WITHOUT_DSL + code)
        code = f"sys.path.insert(0, {str(acme)!r})\n{ATTACHED}import acme.kernels\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", WITHOUT_DSL + code],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_placeholders_are_refused_beside_the_dsl_and_nothing_is_left_behind() -> None:
    pytest.importorskip("cutlass")
    refused = """
import sys
from precast.loader import attach
before = list(sys.meta_path)
try: attach([], without_compiler=True)
except ImportError as error: assert "attach without without_compiler=True" in str(error), error
else: raise AssertionError
assert sys.meta_path == before and attach.attached() is None
"""
    passes(refused)
    passes("import sys, types; sys.modules['cutlass'] = types.ModuleType('cutlass')" + refused)


def test_placeholders_are_installed_on_request_only_and_taken_back_when_attaching_fails() -> None:
    without_dsl("""
from importlib import import_module
import importlib, importlib.metadata, importlib.util
questions = importlib.import_module, importlib.util.find_spec, importlib.metadata.version
attach([])
assert not importers.is_installed()

class Broken(attach.Seam):
    text: str
    def install(self, attachment, library):
        assert importers.is_installed() and importers.is_admitted("wsgiref.handlers")
        raise ValueError("broken")

broken = attach.Library(name="broken", distribution="d", package="wsgiref", seams=(Broken('x'),))
good = attach.Library(name="good", distribution="d", package="xmlrpc", seams=(attach.CompileFunctions("xmlrpc"),))
finders = list(sys.meta_path)
raises(ValueError, lambda: attach([good, broken], without_compiler=True), "broken")
assert sys.meta_path == finders and attach([]).libraries == {}
assert not importers.is_installed() and not importers.is_admitted("wsgiref.handlers")
assert (importlib.import_module, importlib.util.find_spec, importlib.metadata.version) == questions
attach([good], without_compiler=True)
attach([good], without_compiler=True)
assert importers.is_installed() and importlib.util.find_spec.__wrapped__ is questions[1]
assert [type(finder).__module__ for finder in sys.meta_path].count("precast.attach.compiler.importers") == 1
""")


def test_what_a_placeholder_can_do(tmp_path: Path) -> None:
    code = """
import copy, dataclasses, pickle, typing
import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Float32, Int32
from cutlass.cute.nvgpu import OperandMajorMode, warpgroup
assert cutlass.__version__ == "4.8.1" and cute.Int32 is Int32 is cutlass.cutlass_dsl.Int32

# Numeric types give numbers, and have widths.
assert (Int32(7), Int32(7.9), Float32(3), Boolean(2)) == (7, 7, 3.0, True)
assert [type(one) for one in (Int32(7), Float32(3), Boolean(2))] == [int, float, bool]
assert (Int32.width, cutlass.BFloat16.width, Int32.is_integer, Float32.is_float) == (32, 16, True, True)

# Classes derive from placeholders, and are classes of their own.
class Kernel(cute.Base):
    def __init__(self, tile): self.tile = tile
    @cute.jit
    def run(self): return self.tile
    @cute.kernel(options=1)
    def launch(self): return self.tile
class More(Kernel): pass
made = More(8)
assert (made.run(), made.launch(), isinstance(made, Kernel), issubclass(More, cute.Base)) == (8, 8, True, True)
assert not isinstance(made, cute.Base) and not isinstance(1, (cute.Tensor, Int32)) and isinstance(1, (cute.Tensor, int))
raises(AttributeError, lambda: More.nothing, "nothing")

# Decorators, subscripts, unions, annotations, keys.
@cute.jit
def function(x: cute.Tensor[Int32], y: "cute.Tensor | None" = None): return x
assert function(1) == 1 and typing.get_type_hints(function)["x"] is cute.Tensor
assert cute.Tensor[int, 3] is cute.Tensor and (cute.Tensor | None) is (None | cute.Tensor) is cute.Tensor
assert {cute.Tensor: 1}[cute.Tensor] == 1 and cute.Tensor == cute.Tensor != cute.Pointer
assert OperandMajorMode.K is OperandMajorMode.K and OperandMajorMode.K != OperandMajorMode.MN

@dataclasses.dataclass(frozen=True)
class Config:
    dtype: type[cutlass.Numeric] = cutlass.BFloat16
    tensor: typing.Optional[cute.Tensor] = None
assert Config() == Config() and hash(Config()) == hash(Config()) and Config(Int32) != Config()

# Copies and pickles are the placeholder itself.
for one in (Int32, cute.Tensor, OperandMajorMode.K, warpgroup):
    if one is not warpgroup:
        assert pickle.loads(pickle.dumps(one)) is copy.deepcopy(one) is copy.copy(one) is one, one
assert repr(cute.Tensor) == "<no cutlass.cute.Tensor>"

# Anything else that is called says its name.
assert issubclass(NoCompiler, ImportError)
raises(NoCompiler, lambda: cute.compile(function, 1), "cutlass.cute.compile was called", "record the program")
raises(NoCompiler, lambda: cutlass.utils.HardwareInfo().clusters(2), "cutlass.utils.HardwareInfo().clusters")
raises(NoCompiler, lambda: 1 + cute.question(), "the value of cutlass.cute.question()")
raises(NoCompiler, lambda: bool(cute.question()), "cutlass.cute.question()")
raises(NoCompiler, lambda: Int32("7"), "cutlass.Int32")
raises(cutlass.DSLRuntimeError, lambda: (_ for _ in ()).throw(cutlass.DSLRuntimeError("told")), "told")
assert not hasattr(cute.Tensor, "__len__") and not callable(getattr(cute.Tensor, "__get__", None))
assert pickle.loads(pickle.dumps(More)) is More
"""
    without_dsl(code, acme=tmp_path)


def test_libraries_that_are_not_installed_are_left_out_unless_they_are_named() -> None:
    without_dsl(f"""
sys.path.remove({sysconfig.get_path("purelib")!r})
from precast.loader.errors import ConfigError
raises(ConfigError, lambda: attach(["quack"]), "the package quack is not installed: pip install quack-kernels")
assert attach().libraries == {{}}
""")


NAMES = """
from precast.attach.recordings.keys import encode
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05, warpgroup
import cutlass
majors = [module.OperandMajorMode.K for module in (warpgroup, tcgen05)]
forms = [encode(value) for value in (*majors, OperandMajorMode.K, warpgroup.MmaF16BF16Op, cutlass.BFloat16)]
assert forms == FORMS, forms
"""
FORMS = [
    "$cutlass:warpgroup.OperandMajorMode.K", "$cutlass:tcgen05.OperandMajorMode.K", "$cutlass:OperandMajorMode.K",
    "$cutlass:warpgroup.MmaF16BF16Op", "$cutlass:BFloat16",
]  # fmt: skip


@pytest.mark.slow
def test_families_tell_equal_names_apart() -> None:
    cutlass = pytest.importorskip("cutlass")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two of them are deprecated names
        from cutlass.cute import nvgpu
        from cutlass.cute.nvgpu import tcgen05, warpgroup

        values = [
            warpgroup.OperandMajorMode.K, tcgen05.OperandMajorMode.K, nvgpu.OperandMajorMode.K,
            warpgroup.MmaF16BF16Op, cutlass.BFloat16,
        ]  # fmt: skip
        assert [encode(value) for value in values] == FORMS
        assert all(decode(form) is value for form, value in zip(FORMS, values, strict=True))


def test_placeholders_have_the_same_forms(tmp_path: Path) -> None:
    without_dsl(NAMES.replace("FORMS", repr(FORMS)), acme=tmp_path)
