"""An example of each error of the loader, raised through what a program calls. No GPU is needed."""

from __future__ import annotations

import ctypes
import importlib
import sys
from types import ModuleType

from precast import loader
from precast.attach.attachment import Attachment
from precast.attach.companions.before_import import place_companions
from precast.attach.compiler import importers
from precast.attach.compiler.dsl import Answers
from precast.attach.deferred.module import Deferral, defer
from precast.attach.guards import guard_of
from precast.attach.recordings.keys import encode
from precast.fetch.distribution.reference import read_reference
from precast.fetch.source import open_source
from precast.fetch.transport.patience import PATIENCE
from precast.fetch.transport.web import Web
from precast.fetch.trust.policy import TrustPolicy
from precast.loader.contract.diagnostics.requests import read_requests
from precast.loader.contract.format.program.host_program import Step
from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.contract.format.target import Capability
from precast.loader.contract.values import replace
from precast.loader.launch.warm_up import warm_up
from precast.loader.machine.driver import CurrentDriver, Driver
from precast.loader.resolve.cache import Cache
from tests.helpers.attach.companions import cache_with
from tests.helpers.attach.mini_library import PACKAGE, write_library
from tests.helpers.attached import MINE
from tests.helpers.caches import demo
from tests.helpers.echo import HOPPER
from tests.helpers.errors.stage import NOWHERE, Example, Stage


def no_narrower_class(stage: Stage) -> object:
    return Answers([]).next()


def config(stage: Stage) -> object:
    stage.serve()
    return loader.get("scale", {"dtpye": "bfloat16"})


def target(stage: Stage) -> object:
    stage.serve()
    return loader.get("scale", {"dtype": "bfloat16"}, target="sm90")


def format_(stage: Stage) -> object:
    return read_requests(b'{"op": "scale", "config": []}\n')


def cache(stage: Stage) -> object:
    return Cache(stage.folder / "cahce")


def integrity(stage: Stage) -> object:
    path = stage.serve() / "ops" / "twice.json"
    path.write_bytes(path.read_bytes().replace(b"twice", b"thrice"[:5]))
    return loader.get("twice")


def op(stage: Stage) -> object:
    stage.serve()
    return loader.get("skale", {"dtype": "bfloat16"})


def variant(stage: Stage) -> object:
    stage.serve(replace(HOPPER, capability=Capability(10, 3)))
    return loader.get("twice")


def load(stage: Stage) -> object:
    writer = demo(stage.native)
    writer.op("twice", [replace(writer.ops["twice"].artifacts[0], blob=writer.keep(b"no library"))], keys=())
    stage.serve()
    writer.write(stage.folder / "cache")
    return loader.get("twice")


def launch(stage: Stage) -> object:
    """What a cubin's launch is computed with; the sizes are those of the tensors of a call."""
    step = Step(kernel="k", grid=("x.shape[0]", 1, 1), block=(1025, 1, 1), cluster=(1, 1, 1), shared=0, parameters=())
    return step.launch({"x.shape[0]": 20})


def frozen(stage: Stage) -> object:
    stage.serve()
    loader.freeze()
    return loader.get("scale", {"dtype": "float16"})


def no_cuda_device(stage: Stage) -> object:
    """The machine is one without a driver, wherever this runs."""
    stage.serve(NOWHERE)
    return loader.get("twice", target="sm_90")(1)


def wrong_device(stage: Stage) -> object:
    """The machine has another GPU than the target asked for, wherever this runs."""
    stage.serve(replace(HOPPER, capability=Capability(10, 3)))
    return loader.get("twice", target="sm_90")(1)


def no_driver(stage: Stage) -> object:
    """A stand-in for a machine without a driver: a library that no machine has."""
    return CurrentDriver("libcuda-of-no-machine.so.1").get()


def not_warmed_up(stage: Stage) -> None:
    """The driver is a stand-in: a real one could launch."""
    signature = Signature(arguments=(Argument(name="x", kind="tensor", dtype="float32", shape=("n",)),))
    warm_up(0, signature, Driver(ctypes.CDLL(str(stage.native.driver()))), 0)


def attach_not_installed(stage: Stage) -> object:
    stage.patch.setitem(sys.modules, "precast.attach", None)
    stage.patch.delitem(sys.modules, "precast.loader.attach", raising=False)
    return importlib.import_module("precast.loader.attach")


def no_library(stage: Stage) -> object:
    return guard_of("quack-kernals", "quack_kernals")


def kernel_missing(stage: Stage) -> object:
    stage.patch.syspath_prepend(write_library(stage.folder / "site", {f"{PACKAGE}/kernels.py": "def norm(n): ...\n"}))
    stage.serve()
    return Attachment("frozen").obtain(MINE, f"{PACKAGE}.kernels:norm", {"n": 4096})


def unknown_key(stage: Stage) -> object:
    return encode(object())


def no_compiler(stage: Stage) -> object:
    stage.patch.setitem(sys.modules, "cutlass", ModuleType("cutlass"))
    return importers.install("4.8.1")


def deferred_import_failed(stage: Stage) -> object:
    tuner = {f"{PACKAGE}/tuner.py": "raise ValueError('no tuner here')\n"}
    stage.patch.syspath_prepend(write_library(stage.folder / "site", tuner))
    stage.patch.setattr(sys, "meta_path", list(sys.meta_path))
    defer(Deferral(f"{PACKAGE}.tuner"))
    try:
        return importlib.import_module(f"{PACKAGE}.tuner").tune
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


def companion_left_out(stage: Stage) -> object:
    stage.patch.setenv("PRECAST_CACHE_PATH", str(cache_with(stage.folder / "cache", name="humming").path))
    stage.patch.setenv("PRECAST_COMPANIONS", str(stage.folder / "placed"))
    return place_companions(frozen=True)


def fetch(stage: Stage) -> object:
    with Web(PATIENCE) as web:
        return open_source(read_reference(f"file://{stage.folder}/cahce"), web)


def signature(stage: Stage) -> object:
    opened = Cache(stage.cache())
    (stage.folder / "policy.json").write_text(
        f'{{"format": "precast-trust", "version": 1, "pins": ["{opened.name}={"0" * 64}"]}}'
    )
    return TrustPolicy.read(stage.folder / "policy.json").accept(opened.name, opened.digest, [])


EXAMPLES: dict[str, Example] = {
    "PCL00": no_narrower_class, "PCL01": config, "PCL02": target, "PCL03": format_, "PCL04": cache,
    "PCL05": integrity, "PCL06": op, "PCL07": variant, "PCL08": load, "PCL09": launch, "PCL10": frozen,
    "PCL11": no_cuda_device, "PCL12": wrong_device, "PCL13": no_driver, "PCL14": not_warmed_up,
    "PCL16": fetch, "PCL17": attach_not_installed, "PCL18": signature,
    "PCA01": no_library, "PCA02": kernel_missing, "PCA03": unknown_key, "PCA04": no_compiler,
    "PCA05": deferred_import_failed, "PCA06": companion_left_out,
}  # fmt: skip
