"""Assembling: links and inspects a compiled variant, and makes a record of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from precast.build.compile.launch_limits import LaunchSizes, launch_problem, sizes_in, sizes_of
from precast.build.compile.outcome import Compiled, Object
from precast.build.errors import ObjectError, PlanError
from precast.build.gpu.profile import profile_of
from precast.build.link.device_code import read_cubins
from precast.build.link.linker import Linker
from precast.build.link.toolchain import Toolchain
from precast.build.rehearsal.calls import Caller
from precast.build.rehearsal.derive import derive
from precast.build.store.key import record_key
from precast.build.store.record import Product, Record
from precast.loader.contract.format.artifact import Resources
from precast.loader.contract.format.target import Target

# The compiler puts this text into the host code of a launch that needs more shared memory than there is, and no other.
_OVERSIZED = b"launch shared memory exceeds current GPU arch"


def assemble(compiled: Compiled, key: str, linker: Linker, toolchain: Toolchain) -> Record:
    """Link every object of a variant, read its device code, and check that it is for the target.

    ``key`` is the key of the variant. The key of the record also covers the facts of its GPU and the inputs.
    """
    products = []
    for compiled_object in compiled.objects:
        cubins = read_cubins(toolchain, compiled_object.code)
        if not cubins:
            raise ObjectError(
                f"{compiled_object.symbol} has no device code: a kernel function must launch at least one kernel"
            )
        for cubin in cubins:
            if cubin.target != compiled.variant.target:
                raise ObjectError(
                    f"{compiled_object.symbol} holds device code for {cubin.target}, not {compiled.variant.target}: "
                    f"{_advice(cubin.target, compiled.variant.target)}"
                )
        resources = tuple(r for cubin in cubins for r in cubin.resources)
        sizes = sizes_in(compiled_object.ptx.decode(errors="replace"))
        if _OVERSIZED in compiled_object.code:  # by how much, a launch shows
            sizes = _recorded_sizes(compiled_object, toolchain, cubins[0].code)
        _check_limits(compiled_object, compiled.variant.target, resources, sizes)
        library = linker.link(compiled_object.code, compiled_object.symbol)
        rehearsed = "cubin" in compiled.variant.emit
        program, unlaunchable = None, ""
        if rehearsed:
            codes = [cubin.code for cubin in cubins]
            try:
                program = derive(
                    toolchain, compiled_object.code, compiled_object.symbol, compiled_object.signature, codes
                )
                _check_limits(compiled_object, compiled.variant.target, resources, sizes_of(program))
            except PlanError as error:
                unlaunchable = str(error)
        products.append(
            Product(
                op=compiled_object.op,
                symbol=compiled_object.symbol,
                signature=compiled_object.signature,
                target=compiled.variant.target,
                host=library.host,
                resources=resources,
                obj=compiled_object.code,
                library=library.code,
                cubins=tuple(cubin.code for cubin in cubins),
                rehearsed=rehearsed,
                program=program,
                unlaunchable=unlaunchable,
                ptx=compiled_object.ptx,
            )
        )
    inputs, installed = compiled.inputs.split()
    return Record(
        key=record_key(key, compiled.assumed, inputs.answers),
        products=tuple(products),
        seconds=compiled.seconds,
        assumed=compiled.assumed,
        inputs=inputs,
        installed=installed,
        closed=compiled.closed,
        provenance=compiled.provenance,
    )


def _check_limits(
    compiled: Object, target: Target, resources: Sequence[Resources], sizes: Mapping[str, LaunchSizes]
) -> None:
    """Raise ObjectError, with what is used and what there is, for code that no GPU of the target launches."""
    problem = launch_problem(resources, sizes, profile_of(target).facts)
    if not problem and _OVERSIZED in compiled.code:
        problem = "it uses more shared memory than a block has"
    if problem:
        raise ObjectError(
            f"{compiled.symbol} cannot be launched on {target}: {problem}: use smaller tiles, fewer stages or a larger"
            " cluster"
        )


def _recorded_sizes(compiled: Object, toolchain: Toolchain, cubin: bytes) -> dict[str, LaunchSizes]:
    """The sizes of the launches of one call; none where its host code cannot be called without a GPU.

    The host code prints that there is too little shared memory.
    """
    code, symbol, signature = compiled.code, compiled.symbol, compiled.signature
    try:
        caller = Caller(toolchain, code, symbol, signature, cubin, only_launches=False)
        calls = caller.drawn("sizes", 1, tame=True)
    except PlanError:
        return {}
    launches = [launch for call in calls for launch in call.recorded.launches]
    return {each.kernel: LaunchSizes(block=each.block, cluster=each.cluster, shared=each.shared) for each in launches}


def _advice(actual: Target, expected: Target) -> str:
    """The advice about device code for another target."""
    if actual.major == 10 and actual.minor == 1 and expected.major == 11:
        return (
            "CUDA 12 has another number for that GPU, and drivers need not run such code: "
            "build with the compiler of CUDA 13"
        )
    return "remove '--gpu-arch' from the kernel's compile options"
