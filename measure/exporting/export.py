"""Exports: one variant of a cache as files for C++ and for NVIDIA's tools.

The library and the device code are those of the cache. The object and the PTX come from the cache or from this
machine's store, or are compiled again. Such files are used only if the device code is equal to that of the cache.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from precast.build.compile.outcome import Failed, outcome_of, request_for
from precast.build.compile.worker import Worker
from precast.build.disk.scratch import write_output
from precast.build.errors import Location, ObjectError, StoreError
from precast.build.gpu.gpu_table import Fact
from precast.build.gpu.profile import Profile, parse_answers, profile_of
from precast.build.ipc.child_process import ChildLost
from precast.build.ipc.message import Message
from precast.build.link import elf
from precast.build.link.device_code import cubins_in, read_cubins
from precast.build.link.toolchain import Toolchain, find_toolchain
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.build.store.store import Store
from precast.kernels.adapters.scripts.contract import contract, script
from precast.kernels.authoring.registry import source_of
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.several_objects import first_op
from precast.loader.errors import PrecastError
from precast.loader.resolve.cache import Cache
from precast.measure.exporting.templates import example, readme

_ENTRY = "__tvm_ffi_"
_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Export:
    """The files of a variant by name, and the reason for each kind of file that is left out."""

    files: Mapping[str, bytes]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the files into a folder, which may hold others."""
        for name, data in self.files.items():
            write_output(folder / name, data)


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    obj: bytes
    ptx: bytes
    cubins: tuple[bytes, ...]


def export(
    cache: Cache,
    op: str,
    artifact: Artifact,
    *,
    store: Store,
    plan: Plan | None = None,
    kernel_script: bool = False,
) -> Export:
    """All files of one artifact. ``plan`` is needed if its function is in a folder that a manifest names.

    ``kernel_script`` adds a file with ``kernel_fn``, ``reference_fn`` and ``get_inputs``.
    """
    toolchain = find_toolchain()
    name = artifact.symbol.removeprefix(_ENTRY)[:80] if artifact.kind == "object" else f"{op}_{artifact.key[:16]}"
    content = cache.read(artifact.blob)
    cubins = _device_code(toolchain, content, artifact)
    files: dict[str, bytes] = {}
    left_out: dict[str, str] = {}
    if artifact.kind == "object":
        files[f"{name}.so"] = content
        runtime = next((r for r in cache.index.runtimes if artifact.host and r.host.arch == artifact.host.arch), None)
        if runtime is None:
            raise StoreError(f"cache {cache.name!r} has no runtime library for this variant: build it again")
        files[runtime.soname] = cache.read(runtime.blob)
        files["example.cpp"] = example(name, runtime.soname, artifact).encode()
    files.update(_numbered(name, "cubin", cubins))
    sass = _sass(toolchain, cubins)
    if isinstance(sass, str):
        left_out["sass"] = sass
    else:
        files.update(_numbered(name, "sass", sass))
    compiled = _kept(cache, op, artifact, store, cubins)
    needed = {"ptx", "o"} if artifact.kind == "object" else {"ptx"}
    if needed - set(compiled):
        try:
            rebuilt = _rebuild(toolchain, op, artifact, plan)
            if rebuilt.cubins != cubins:
                raise ObjectError(
                    "its device code differs when compiled again: use the versions and sources of the build"
                )
            compiled = {"o": rebuilt.obj, "ptx": rebuilt.ptx} | compiled
        except PrecastError as error:
            left_out |= dict.fromkeys(needed - set(compiled), f"the store {store.path} lacks it, and {error}")
    files.update({f"{name}.{kind}": compiled[kind] for kind in needed & set(compiled) if compiled[kind]})
    if kernel_script:
        try:
            files["kernel.py"] = _kernel_script(op, artifact).encode()
        except PrecastError as error:
            left_out["kernel.py"] = str(error)
    files["README.md"] = readme(name, op, artifact, sorted(files), left_out).encode()
    return Export(files, left_out)


def _kernel_script(op: str, artifact: Artifact) -> str:
    """The text of a kernel script; raises PrecastError if the kernel cannot have one."""
    source = source_of(op, artifact)
    given = "" if source.distribution else str(source)
    contract(op, artifact.config, source=given)
    return script(op, artifact.config, source=given)


def _device_code(toolchain: Toolchain, content: bytes, artifact: Artifact) -> tuple[bytes, ...]:
    if artifact.kind == "cubin":
        return (content,)
    cubins = tuple(c.code for fatbin in elf.embedded(content) for c in cubins_in(toolchain, fatbin))
    if not cubins:
        raise ObjectError("the library has no device code: build it again with this version")
    return cubins


def _numbered(name: str, kind: str, contents: tuple[bytes, ...]) -> Iterator[tuple[str, bytes]]:
    for number, content in enumerate(contents):
        yield f"{name}.{kind}" if len(contents) == 1 else f"{name}.{number}.{kind}", content


def _sass(toolchain: Toolchain, cubins: tuple[bytes, ...]) -> tuple[bytes, ...] | str:
    if toolchain.nvdisasm is None:
        return "nvdisasm is not installed: pip install 'precast[export]'"
    texts = []
    for cubin in cubins:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            done = subprocess.run([toolchain.nvdisasm, "-c", file.name], capture_output=True, check=False)
        if done.returncode:
            detail = done.stderr.decode(errors="replace").strip()[-300:]
            return f"nvdisasm failed on the device code: {detail}; upgrade nvidia-cuda-nvdisasm"
        texts.append(done.stdout)
    return tuple(texts)


def _kept(cache: Cache, op: str, artifact: Artifact, store: Store, cubins: tuple[bytes, ...]) -> dict[str, bytes]:
    """The object and the PTX of an artifact, if the cache has them, or the store beside the same device code."""
    record = store.record_of(artifact.key, op, artifact.kind)
    product = next((p for p in record.products if p.op == op and p.cubins == cubins), None) if record else None
    kept = {"o": product.obj, "ptx": product.ptx} if product else {}
    kept |= {"ptx": cache.read(artifact.ptx)} if artifact.ptx is not None else {}
    return {kind: content for kind, content in kept.items() if content}


def _rebuild(toolchain: Toolchain, op: str, artifact: Artifact, plan: Plan | None) -> _Rebuilt:
    """Compile the variant again, with its PTX."""
    variant = _variant(op, artifact, plan)
    worker = Worker(variant.target, variant.env, plan.search if plan else (), _profile(artifact))
    try:
        worker.send(worker.with_closure(Message(request_for(variant, _SECONDS))))
        outcome = outcome_of(variant, worker.receive(_SECONDS), worker.output)
    except ChildLost as lost:
        raise ObjectError(f"compiling it again failed: {lost}") from None
    finally:
        worker.close()
    if isinstance(outcome, Failed):
        raise ObjectError(
            f"compiling it again failed: {outcome.reason}; if the module is your own, name its manifest with --manifest"
        )
    (rebuilt,) = (item for item in outcome.objects if item.op == op)
    cubins = tuple(cubin.code for cubin in read_cubins(toolchain, rebuilt.code))
    return _Rebuilt(rebuilt.code, rebuilt.ptx, cubins)


def _variant(op: str, artifact: Artifact, plan: Plan | None) -> Variant:
    """The variant of an artifact: that of the manifests, or one made from the provenance in the cache."""
    for variant in plan.variants if plan else ():
        if first_op(op) in variant.produces and (variant.config, variant.target) == (artifact.config, artifact.target):
            return variant
    source, env = artifact.provenance.get("function"), artifact.provenance.get("env", {})
    if not isinstance(source, str) or not isinstance(env, dict):
        raise ObjectError("the cache lacks the name of its function: name its manifest with --manifest")
    texts = {str(name): str(value) for name, value in env.items()}
    here = Location("the cache", 1, 1)
    parts = tuple(map(str, artifact.provenance.get("parts", ())))
    return Variant(
        op=op.rpartition(".")[0] if parts else first_op(op),
        source=source,
        config=artifact.config,
        target=artifact.target,
        location=here,
        env=texts,
        parts=parts,
    )


def _profile(artifact: Artifact) -> Profile:
    """The GPU that the variant was built for, with the facts that it got."""
    assumed = parse_answers(artifact.provenance.get("assumed", {}))
    usual = profile_of(artifact.target)
    facts = {name: Fact(answer, "the cache") for name, answer in assumed.items() if answer is not None}
    return replace(usual, facts={**usual.facts, **facts})
