"""An example of each error of the builder, its kernels and its commands. No GPU is needed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from precast.build.cache.merge import merge_caches
from precast.build.child.compiler.select_objects import select_objects
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.compile.cluster import Cluster
from precast.build.disk.scratch import write_atomically
from precast.build.errors import Location, UndeclaredInput, UnsteadyKernel
from precast.build.gpu.profile import profile_of
from precast.build.inputs.closure import Closure, Closures, reads_of
from precast.build.inputs.sources import source_digest
from precast.build.ipc.child_process import ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message
from precast.build.link.linker import Linker
from precast.build.link.toolchain import find_toolchain, program
from precast.build.plan.describer import describing
from precast.build.plan.entry import KernelRef
from precast.build.plan.manifest import parse_manifest
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.build.rehearsal.derive import derive
from precast.build.store.store import Store
from precast.build.wheel.wheel import given_version
from precast.cli.shared.artifacts import artifacts_named
from precast.emulator import Launch, emulate
from precast.emulator.interpreter_library import compile_library
from precast.kernels import DType, kernel
from precast.kernels.adapters.pinned_package import PinnedPackage
from precast.kernels.authoring.registry import FunctionRef, load
from precast.kernels.authoring.registry import find as find_kernel
from precast.kernels.authoring.schema import keys_of
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.format.target import Target
from precast.loader.resolve.cache import Cache
from precast.measure.on_gpu.launches import Launches
from precast.measure.verification.kept_ptx import KeptPtx
from precast.publish.bundle import bundle
from precast.publish.push.push import push_cache
from precast.publish.remote import Remote
from tests.helpers.errors.stage import Example, Stage
from tests.helpers.inputs.project import Project
from tests.helpers.packed_caches import RUNTIMES, TOOLS, X86, Built

SM90A = Target.parse("sm_90a")
LAUNCH = Launch(kernel="k", grid=(1, 1, 1), block=(1, 1, 1))


def declaration(stage: Stage) -> object:
    @kernel(op="mine.norm")
    def norm(dtype: DType, *hidden: int) -> None: ...

    return keys_of(norm)


def source(stage: Stage) -> object:
    return load(FunctionRef.parse("json:dmups"))


def unknown_op(stage: Stage) -> object:
    return find_kernel("rmsnrom")


def no_operator(stage: Stage) -> None:
    stage.elsewhere("""
import os
os.environ["CUTE_DSL_ARCH"] = "sm_90a"
from precast.kernels.adapters.operators.ops import gemm
gemm("bfloat16", "bfloat16", tile=(100, 100))
""")


def package(stage: Stage) -> object:
    return PinnedPackage(distribution="acme-norms", version="1.2", extra="acme").module("acme_norms")


def manifest(stage: Stage) -> object:
    text = "version: 1\nname: mine\ntargets: [sm_90a]\nkernals: []\n"
    return parse_manifest(text.encode(), Path("mine.yaml"))


def _closure(stage: Stage) -> Closure:
    return Closures.here([stage.folder]).of([reads_of("mine:norm")])


def describe(stage: Stage) -> object:
    stage.write("mine.py", "import os\nos.abort()\n")
    with describing([stage.folder], SM90A, closure=_closure(stage)) as child:
        return child.describe([KernelRef("mine.norm", "mine:norm")])


def tool(stage: Stage) -> object:
    stage.patch.setenv("PATH", "/proc/nowhere")
    return program("gcc")


def object_(stage: Stage) -> object:
    return source_digest("mine.kernels:norm", [stage.folder])


def link(stage: Stage) -> object:
    code = stage.write("norm.c", "int norm(void) { return 0; }")
    subprocess.run(["gcc", "-c", "-o", stage.folder / "norm.o", code], check=True)
    linker = Linker(find_toolchain(), RUNTIMES[X86])
    return linker.link((stage.folder / "norm.o").read_bytes(), "__tvm_ffi_norm")


def plan(stage: Stage) -> object:
    return derive(find_toolchain(), b"", "__tvm_ffi_norm", Signature(arguments=()), [])


def store(stage: Stage) -> None:
    write_atomically(stage.write("store", "a file") / "ab.json", b"{}")


def output(stage: Stage) -> object:
    stage.write("sources/norm.py", "")
    return merge_caches([Built().write(stage.folder / "part1")], stage.folder / "sources")


def wheel(stage: Stage) -> object:
    return given_version("1.x")


def bundled(stage: Stage) -> object:
    return bundle([stage.folder / "cache.whl"], stage.folder / "bundle", python="3")


def merge(stage: Stage) -> object:
    one = Built().write(stage.folder / "part1")
    two = Built(tools={**TOOLS, "gcc": "13.1.0"}).write(stage.folder / "part2")
    return merge_caches([one, two], stage.folder / "cache")


def cluster(stage: Stage) -> object:
    variant = Variant(op="x", source="m:f", config={}, target=SM90A, location=Location("m.yaml", 1, 1), env={})
    planned = Plan(name="x", variants=(variant,), ops={})
    return list(Cluster("tcp://127.0.0.1:1").compile(planned, [variant], seconds=1.0))


def remote(stage: Stage) -> object:
    return Remote("bucket://acme/precast", print)


def changed_input(stage: Stage) -> object:
    """A module that changed between two readings."""
    project = Project(stage.folder)
    stage.write("search/kernel.py", "TILE = 64\n")
    closures, closure = project.closures(), project.closure()
    closures.answers.answers(closure.names)
    stage.write("search/kernel.py", "TILE = 128\n")
    return closures.inputs(closure)


def undeclared_input(stage: Stage) -> object:
    raise UndeclaredInput.of_path("/work/kernels/tiles.json", "norm.py:12")


def unsteady(stage: Stage) -> object:
    raise UnsteadyKernel.of("norm:build")


def lost(stage: Stage) -> object:
    """The driver is a stand-in that knows a GPU, wherever this runs."""
    stage.write("driver/README", "")
    (stage.folder / "driver" / "libcuda.so.1").symlink_to(stage.native.driver())
    stage.patch.setenv("LD_LIBRARY_PATH", str(stage.folder / "driver"))
    with Launches(stage.cache(), 60.0) as launches:
        return launches.trial("skale", "ab" * 32, group="all", problem={}, launches=1, check=False)


def child_lost(stage: Stage) -> object:
    stage.write("mine.py", "import os\nos.kill(os.getpid(), 9)\n")
    settings = {"target": str(SM90A), "search": [str(stage.folder)], "closure": _closure(stage).to_json()}
    environment = child_environment(os.environ, target=SM90A)
    child = ChildProcess(
        "precast.build.child.describer_main", name="describing process", settings=settings, environment=environment
    )
    try:
        child.send(Message({"describe": [{"op": "mine.norm", "source": "mine:norm"}]}))
        return child.receive(60)
    finally:
        child.kill()


def unknown_fact(stage: Stage) -> object:
    return FactRecorder(profile_of(SM90A).name, {}).need("max_persisting_l2_cache_size")


def refused(stage: Stage) -> object:
    return select_objects([], None, source="mine:norm", expected=1)


def process_lost(stage: Stage) -> None:
    stage.elsewhere("""
import os, time
from precast.build.child.module_process import ModuleProcess
class Log:
    def use(self): pass
    def close(self): pass
class Work:
    def new_log(self): return Log()
    def load(self, header): time.sleep(60)
process = ModuleProcess(Work())
process.request({"source": "mine:norm"}, seconds=0.5, memory=0, build=os.getppid())
""")


def push(stage: Stage) -> object:
    stage.write("sources/norm.py", "")
    return push_cache(Built().write(stage.folder / "cache"), f"file://{stage.folder}/sources")


def unsupported(stage: Stage) -> object:
    text = ".version 8.8\n.visible .entry k() { .reg .b32 %r<4>;\nvset.u32.u32.eq %r1, %r2, %r3; ret; }"
    return emulate(text, LAUNCH)


def emulation_fault(stage: Stage) -> object:
    text = ".version 8.8\n.visible .entry k() { .reg .b32 %r<4>;\nld.global.u32 %r1, [64]; ret; }"
    return emulate(text, LAUNCH).checked()


def interpreter(stage: Stage) -> object:
    stage.write("g++", "#!/bin/sh\necho 'cc1plus: out of memory' >&2\nexit 1\n").chmod(0o755)
    stage.patch.setenv("PATH", f"{stage.folder}{os.pathsep}{os.environ['PATH']}")
    return compile_library(stage.folder / "library")


def no_ptx(stage: Stage) -> object:
    cache = Cache(stage.cache())
    artifact = cache.op("scale").artifacts[0]
    return KeptPtx(cache, Store(stage.folder / "store")).text("scale", artifact)


def no_such_artifact(stage: Stage) -> object:
    return artifacts_named(Cache(stage.cache()), "3f2a91c0")


EXAMPLES: dict[str, Example] = {
    "PCK01": declaration, "PCK02": source, "PCK03": unknown_op, "PCK05": no_operator,
    "PCK06": package, "PCB01": manifest, "PCB02": describe, "PCB03": tool, "PCB05": object_,
    "PCB06": link, "PCB07": plan, "PCB08": store, "PCB09": output, "PCB10": wheel, "PCB11": bundled, "PCB12": merge,
    "PCB13": cluster, "PCB14": remote, "PCB15": changed_input, "PCB16": lost, "PCB17": child_lost,
    "PCB18": unknown_fact, "PCB19": refused, "PCB20": process_lost, "PCB21": push,
    "PCB22": unsupported, "PCB23": emulation_fault, "PCB24": interpreter, "PCB25": no_ptx, "PCB26": undeclared_input,
    "PCB27": unsteady, "PCC01": no_such_artifact,
}  # fmt: skip
