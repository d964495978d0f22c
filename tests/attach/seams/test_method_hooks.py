"""Seams of classes: recorded and built by the real compiler, and served where it is forbidden, or not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from precast.attach import Keyed, KeyedMethods
from precast.loader.resolve.cache import Cache
from tests.helpers.attach.mini_library import write_library
from tests.helpers.attached import TORCH, TORCH_AND_DSL, run_forked
from tests.helpers.builds import HEAD, precast

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

LIBRARY = {
    "methody/kernels.py": f"""
{HEAD}
import dataclasses
import functools


def compiled(value):
    x = make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(divisibility=4),), assumed_align=16)
    return add_host, x, float(value), make_fake_stream(use_tvm_ffi_env_stream=True)


class Static:
    @functools.cache
    @staticmethod
    def compile(n, device_index=0):
        return cute.compile(*compiled(n), options="--enable-tvm-ffi")

    @staticmethod
    @functools.cache
    def other(n):
        return cute.compile(*compiled(n), options="--enable-tvm-ffi")


class Base:
    scale = 1

    @classmethod
    def of_class(cls, n):
        return cute.compile(*compiled(cls.scale * n), options="--enable-tvm-ffi")


class Derived(Base):
    scale = 10


class Jit:
    @dataclasses.dataclass(frozen=True)
    class CompileKey:
        rows: int

    def __init__(self, scale):
        self.scale = scale
        self._asked = object()
        self._compiled = {{}}

    def compile(self, compile_key):
        if compile_key in self._compiled:
            return
        self._compiled[compile_key] = cute.compile(*compiled(self.scale * compile_key.rows), options="--enable-tvm-ffi")


class OfDevice(Jit):
    device = 0

    def compile_n(self, n):
        key = (type(self).device, n)
        self._compiled[key] = cute.compile(*compiled(n), options="--enable-tvm-ffi")
        return "filed"
""",
    "methody_seams.py": """
from precast.attach import ClassMethods, Keyed, KeyedMethods, Library

JIT = Keyed(filed=("_compiled",), without=("_asked",))
ON_DEVICE = Keyed(filed=("_compiled",), without=("_asked",), entry=lambda it, n: (type(it).device, n))
LIBRARY = Library(
    name="methody", distribution="methody", package="methody",
    seams=(
        ClassMethods("methody", devices=("device_index",)),
        KeyedMethods({"methody.kernels:Jit.compile": JIT, "methody.kernels:OfDevice.compile_n": ON_DEVICE}),
    ),
)
""",
}
USERS = {
    "userbase.py": "from methody.kernels import Base\n\n\nclass Middle(Base):\n    scale = 5\n",
    "userclass.py": "from userbase import Middle\n\n\nclass Last(Middle):\n    pass\n",
}
OF_USER = "from userclass import Last\nLast.of_class(3)\n"
CALLS = """
from methody.kernels import Base, Derived, Jit, OfDevice, Static

static, on_device = Static.compile(1), Static.compile(1, device_index=5)
other = Static.other(2)
base, derived = Base.of_class(3), Derived.of_class(3)
one, two = Jit(1), Jit(2)
one.compile(Jit.CompileKey(4)), two.compile(Jit.CompileKey(4)), two.compile(Jit.CompileKey(4))
OfDevice.device = DEVICE
placed = OfDevice(7)
said = placed.compile_n(5)
placed.compile(Jit.CompileKey(6))
"""
ANSWER = """
import json
from precast.loader.launch.kernel import Kernel
filed = {key: one._compiled[key] for key in one._compiled}
kernels = [static, other, base, derived, *one._compiled.values(), *two._compiled.values(), *placed._compiled.values()]
print(json.dumps({
    "kernels": [kernel.op.rpartition("_")[0] for kernel in kernels], "different": len({id(k) for k in kernels}),
    "entries": [str(key) for key in (*one._compiled, *placed._compiled)], "said": said,
    "same": static.artifact.key == on_device.artifact.key,
}))
"""
SERVE = """
from precast import loader
attached = loader.attach(["methody"], mode="frozen", target="sm_90a", without_compiler=ABSENT)
"""
FORBID = """
from precast.loader.contract.import_hook import after_import
def forbid(module):
    def compile_nothing(self, *args, **kwargs):
        raise RuntimeError("compiling is forbidden here")
    module.CompileCallable.__call__ = compile_nothing
after_import({"cutlass.base_dsl.compiler": forbid})
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library in ``site``, and the cache of what its calls compile."""
    folder = tmp_path_factory.mktemp("methods")
    site = write_library(folder / "site", LIBRARY, package="methody", distribution="methody")
    (site / "methody-1.0.dist-info" / "entry_points.txt").write_text("[precast.libraries]\nmethody = methody_seams\n")
    for name, text in USERS.items():
        (site / name).write_text(text)
    (folder / "program.py").write_text(CALLS.replace("DEVICE", "0") + OF_USER)
    manifest = folder / "methody.yaml"
    target = ("-t", "sm_90a", "--library", "methody", "-o", manifest)
    for words in (
        ("record", *target, "--", "python", folder / "program.py"),
        ("build", manifest, "-o", folder / "cache"),
    ):
        done = precast(folder / "store", *words, PYTHONPATH=str(site))
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def serve(
    shop: Path, code: str, *, absent: bool = False, calls: str = CALLS, site: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run calls where the compiler is forbidden, or hidden from the process."""
    begin = SERVE.replace("ABSENT", str(absent))
    program = f"{hidden(shop) if absent else FORBID}\n{begin}\n{calls.replace('DEVICE', '3')}\n{code}"
    imported = TORCH if absent else TORCH_AND_DSL
    return run_forked(program, imported, path=[site or shop / "site"], cache=shop / "cache")


def hidden(shop: Path) -> str:
    """Code that takes the compiler's folders off ``sys.path``."""
    return (
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "sys.meta_path[:] = [type('Hiding', (), {'find_spec': staticmethod(lambda name, path=None, target=None, found="
        "finder.find_spec: None if name.partition('.')[0] == 'cutlass' else found(name, path, target))})"
        " for finder in sys.meta_path]\n"
    )


@pytest.mark.parametrize("absent", [False, True])
def test_every_kind_is_served(shop: Path, absent: bool) -> None:
    done = serve(shop, ANSWER, absent=absent)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert answer["kernels"] == [
        "attach.methody.kernels_static_compile", "attach.methody.kernels_static_other",
        "attach.methody.kernels_base_of_class", "attach.methody.kernels_derived_of_class",
        "attach.methody.kernels_jit_compile", "attach.methody.kernels_jit_compile",
        "attach.methody.kernels_ofdevice_compile_n", "attach.methody.kernels_ofdevice_compile",
    ]  # fmt: skip
    assert answer["different"] == 8 and answer["same"], "a device's number is no part of a key"
    assert answer["entries"] == ["Jit.CompileKey(rows=4)", "(3, 5)", "Jit.CompileKey(rows=6)"]
    assert answer["said"] == "filed"


def test_the_manifest_has_each_key_once(shop: Path) -> None:
    cache = Cache(shop / "cache")
    found = {op.rpartition("_")[0]: len(cache.op(op).artifacts) for op in cache.index.ops}
    assert found.pop("attach.methody.kernels_jit_compile") == 2
    assert set(found.values()) == {1} and len(found) == 7


@pytest.mark.parametrize("edited", ["", *USERS])
def test_a_class_of_a_user_is_refused_after_an_edit(shop: Path, tmp_path: Path, edited: str) -> None:
    site = tmp_path / "site"
    shutil.copytree(shop / "site", site)
    if edited:
        (site / edited).write_text(USERS[edited].replace("scale = 5", "scale = 6").replace("    pass", "    scale = 7"))
    done = serve(shop, "", calls=OF_USER, site=site)
    reason = f"the source of {edited.removesuffix('.py')} differs from the one that the kernel was built with"
    assert (done.returncode == 0) == (not edited) and (not edited or reason in done.stderr), done.stderr[-2000:]


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ("from methody.kernels import Jit\nJit(3).compile(Jit.CompileKey(4))", "self is"),
        ("from methody.kernels import Jit\nJit(2).compile(Jit.CompileKey(5))", "compile_key is"),
        ("from methody.kernels import Base\nclass Own(Base): pass\nOwn.of_class(3)", "no cache holds"),
        (
            "from methody.kernels import Jit\nit = Jit(1)\nit.late = object()\nit.compile(4)",
            "a builtins.object has no form",
        ),
    ],
)
def test_another_object_is_another_key(shop: Path, calls: str, reason: str) -> None:
    done = serve(shop, "", calls=calls)
    assert done.returncode == 1 and "KernelMissing" in done.stderr and reason in done.stderr, done.stderr[-2000:]


def test_a_method_that_is_gone_says_what_to_do(shop: Path) -> None:
    code = (
        "from precast.loader.attach import *\n"
        "seam = KeyedMethods({'methody.kernels:Jit.gone': Keyed(filed=('_compiled',))})\n"
        "attach([Library(name='mine', distribution='methody', package='methody', seams=(seam,))])\n"
        "import methody.kernels\n"
    )
    done = run_forked(code, path=[shop / "site"])
    assert "methody.kernels has no Jit.gone: mine is declared for another version of methody" in done.stderr


def test_the_rule_of_a_base_class_holds_for_its_subclasses() -> None:
    class Base:
        pass

    class Derived(Base):
        pass

    keyed = Keyed(filed=("_compiled",))
    seam = KeyedMethods({f"{__name__}:{Base.__qualname__}.compile": keyed})
    assert seam.keyed(Derived, "compile") is keyed and seam.keyed(Derived, "other") is None
