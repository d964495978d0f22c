"""The table of the compiler's versions: each line is held against what objects of that version call, which is stated
here as facts, and against the version that is installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from precast.build.errors import LinkError, ToolError
from precast.build.link import elf
from precast.build.link.linker import FLAGS, Linker, host_libraries
from precast.build.link.runtime import SOURCES, RuntimeLibrary, link_runtime
from precast.build.link.toolchain import Toolchain, compiler_versions, find_cuda, find_toolchain, find_toolkit
from precast.build.link.versions import DSL, LIBRARIES, RELEASES, choose_cuda, release_of, toolkit, toolkit_number
from precast.build.store.key import key_parts
from tests.helpers.variants import variant

# What the object of a small kernel calls, the same for CUDA 12 and 13.
SHIMS = (
    "_cuKernelGetAttribute", "_cudaDeviceGetAttribute", "_cudaGetDevice", "_cudaKernelSetAttributeForDevice",
    "_cudaLaunchKernelEx", "_cudaLibraryGetKernel", "_cudaLibraryLoadData", "_cudaSetDevice",
    "cuda_dialect_init_library_once", "cuda_dialect_unload_library_once",
)  # fmt: skip
FFI = ("TVMFFIEnvGetStream", "TVMFFIErrorSetRaisedFromCStr", "TVMFFIErrorSetRaisedFromCStrParts")
CALLED = {
    "4.6.2": (*SHIMS, *FFI, "sprintf"),
    "4.7.1": (*SHIMS, *FFI, "CuteDSLRT_TVMFFISetRaisedCudaError"),
    "4.8.1": (*SHIMS, *FFI, "CuteDSLRT_TVMFFISetRaisedCudaError"),
}
SM_107 = (*CALLED["4.8.1"], "_cudaFuncSetAttribute")
ENTRY = "__tvm_ffi_k"


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    return find_toolchain()


@pytest.fixture(scope="module")
def runtime(toolchain: Toolchain) -> RuntimeLibrary:
    return link_runtime(toolchain)


@pytest.fixture
def link(toolchain: Toolchain, runtime: RuntimeLibrary, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Links an object that calls some symbols as that of a version of the compiler."""

    def made(version: str, called: tuple[str, ...], ld: Path = toolchain.ld) -> bytes:
        source, made = tmp_path / "k.c", tmp_path / "k.o"
        declared = "".join(f"extern int {name}();\n" for name in called)
        source.write_text(f"{declared}int {ENTRY}(void) {{ return {' + '.join(f'{n}()' for n in called)}; }}\n")
        command: list[str | Path] = ["gcc", "-fPIC", "-fno-builtin", "-w", "-c", source, "-o", made]
        subprocess.run(command, check=True)
        chosen = replace(toolchain, ld=ld, versions=toolchain.versions | {DSL: version})
        linker = Linker(chosen, runtime)
        return linker.link(made.read_bytes(), ENTRY).code

    yield SimpleNamespace(made=made)


def test_the_table_has_a_line_for_each_version_whose_facts_are_here() -> None:
    assert [release_of(version).dsl for version in CALLED] == [release.dsl for release in RELEASES]
    assert all(set(release.cuda) == set(LIBRARIES) for release in RELEASES)


@pytest.mark.parametrize("version", CALLED)
def test_what_objects_of_a_version_call_is_there(link: SimpleNamespace, version: str) -> None:
    library = link.made(version, CALLED[version])
    assert ("libc.so.6" in elf.needed(library)) == bool(release_of(version).libraries)
    assert elf.oldest_glibc(library) == "2.17"


@pytest.mark.parametrize("version", CALLED)
def test_the_helpers_of_a_version_are_in_the_runtime_library(runtime: RuntimeLibrary, version: str) -> None:
    called = {name for name in CALLED[version] if name.startswith("CuteDSLRT_")}
    assert called <= release_of(version).helpers <= elf.symbols(runtime.code)


def test_a_kernel_that_calls_more_of_the_cuda_runtime_does_not_link(link: SimpleNamespace) -> None:
    with pytest.raises(LinkError, match=r"__tvm_ffi_k needs _cudaMalloc, which neither .* has"):
        link.made("4.8.1", (*CALLED["4.8.1"], "_cudaMalloc"))


def test_an_object_for_sm_107_links(link: SimpleNamespace) -> None:
    assert "_cudaFuncSetAttribute" in elf.undefined(link.made("4.8.1", SM_107))


def test_what_is_exported_calls_what_is_there(runtime: RuntimeLibrary) -> None:
    source = next(path for path in SOURCES if path.name == "cuda_runtime.c").read_text()
    exported = {name[1:] for name in elf.symbols(runtime.code) if name.startswith("_cuda")}
    both = {"cudaLaunchKernel", "cudaLaunchKernelEx"}  # shims of one function
    assert both < exported
    assert not {name for name in (exported - both) | {"cudaLaunchKernelExC"} if f"\nint {name}(" not in source}


def test_a_version_that_calls_no_library_of_the_host_gets_none(link: SimpleNamespace, toolchain: Toolchain) -> None:
    """What its objects call beyond the table is an error that names it, and not a library that happens to be here."""
    with pytest.raises(LinkError, match=r"__tvm_ffi_k needs sprintf, which neither .* has\. Check the toolchain"):
        link.made("4.8.1", CALLED["4.6.2"])
    assert host_libraries(replace(toolchain, versions=toolchain.versions | {DSL: "4.8.1"})) == ()


def test_a_version_that_nobody_knows_is_tried(link: SimpleNamespace) -> None:
    for called in CALLED.values():
        assert ENTRY in elf.symbols(link.made("4.9.0", called))
    assert "libc.so.6" not in elf.needed(link.made("4.9.0", CALLED["4.8.1"])), "only where it is called"


def test_a_version_that_nobody_knows_says_what_it_lacks(link: SimpleNamespace) -> None:
    with pytest.raises(LinkError) as refused:
        link.made("4.9.0", (*CALLED["4.8.1"], "_cudaFromTheFuture", "CuteDSLRT_New"))
    said = str(refused.value)
    assert "needs CuteDSLRT_New, _cudaFromTheFuture, which" in said
    assert "knows nvidia-cutlass-dsl 4.6, 4.7 and 4.8, and 4.9.0 was tried" in said
    assert said.endswith("pip install 'nvidia-cutlass-dsl==4.8.*'")


def test_the_libraries_of_a_version_are_in_its_keys(toolchain: Toolchain) -> None:
    """A table that links a version in another way must not take what it built before."""
    linked = {}
    for version in CALLED:
        chosen = replace(toolchain, versions=toolchain.versions | {DSL: version})
        linked[version] = key_parts(variant(1), chosen, "0" * 64)["link"]
    assert linked == {"4.6.2": (*FLAGS, "libc.so.6"), "4.7.1": FLAGS, "4.8.1": FLAGS}


@pytest.mark.parametrize(
    ("installed", "wanted", "chosen"),
    [((12,), "", 12), ((13,), "", 13), ((13, 12), "", 12), ((12, 13), "13", 13), ((12, 13), "12", 12)],
)
def test_the_cuda_that_is_built_for(installed: tuple[int, ...], wanted: str, chosen: int) -> None:
    assert choose_cuda(installed, wanted) == chosen


@pytest.mark.parametrize(
    ("installed", "wanted", "said"),
    [
        ((), "", "no libraries for any CUDA here: pip install nvidia-cutlass-dsl"),
        ((12,), "13", r"PRECAST_CUDA is 13, and .*-cu13 is not installed: pip install 'nvidia-cutlass-dsl\[cu13\]'"),
        ((12, 13), "11", "PRECAST_CUDA is '11': set it to 12 or 13"),
        ((12, 13), "13.0", "PRECAST_CUDA is '13.0': set it to 12 or 13"),
        ((12, 13), " 12", "PRECAST_CUDA is ' 12': set it"),
    ],
)
def test_a_cuda_that_cannot_be_built_for(installed: tuple[int, ...], wanted: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        choose_cuda(installed, wanted)


def test_the_variable_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    before = find_cuda()
    monkeypatch.setenv("PRECAST_CUDA", str(before))
    assert find_cuda() == before
    monkeypatch.setenv("PRECAST_CUDA", "twelve")
    with pytest.raises(ToolError, match="'twelve': set it to 12 or 13, or remove it"):
        find_toolkit()


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.dsl)
@pytest.mark.parametrize("cuda", LIBRARIES)
def test_a_driver_of_the_toolkit_is_of_its_major_version(release: object, cuda: int) -> None:
    for one in (release, release_of("4.99.0")):
        assert toolkit_number(cuda, one) // 1000 == cuda  # type: ignore[arg-type]


@pytest.mark.parametrize("cuda", LIBRARIES)
def test_a_cache_records_the_cuda_of_the_compiler(cuda: int, toolchain: Toolchain) -> None:
    assert toolkit(cuda, release_of("4.7.1")) == {12: "12.9", 13: "13.3"}[cuda]
    assert toolkit(cuda, release_of("4.99.0")) == str(cuda), "of a version that is not known, the major one is"
    recorded = toolkit(toolchain.cuda, toolchain.release)
    assert toolchain.versions["cuda"] == compiler_versions()["cuda"] == recorded
    assert not {name for name in toolchain.versions if name.startswith("nvidia-cuda")}


def test_the_installed_version_is_as_the_table_says(toolchain: Toolchain, runtime: RuntimeLibrary) -> None:
    """The compiler's own number of its toolkit, what its archive lacks, and what its own runtime library has."""
    code = (
        "from precast.build.child.stand_in.fake_gpu import toolkit\n"
        f"with toolkit({find_toolkit()}): from cutlass import CUDA_VERSION as made\n"
        "print(made.major, made.minor, sep='.')"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    release = toolchain.release
    if not release.known:
        pytest.skip(f"{toolchain.versions[DSL]} is not in the table")
    assert done.stdout.strip() == release.cuda[toolchain.cuda]
    archive = toolchain.archive.read_bytes()
    assert all(helper.encode() not in archive for helper in release.helpers)
    own = elf.symbols(toolchain.archive.with_name("libcute_dsl_runtime.so").read_bytes())
    assert {name for name in own if "TVMFFISetRaised" in name} == release.helpers
    assert {name for name in CALLED["4.8.1"] if name in SHIMS} <= elf.symbols(runtime.code)
    assert not {name for name in elf.undefined(runtime.code) if name.startswith(("cu", "_cu", "CuteDSLRT"))}


def test_variables_of_the_caller_do_not_reach_the_linker(
    link: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """HPC modules and Spack set LD_RUN_PATH; COMPILER_PATH would exchange the linker that gcc names."""
    before = link.made("4.8.1", CALLED["4.8.1"])
    (tmp_path / "ld").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "ld").chmod(0o755)
    monkeypatch.setenv("LD_RUN_PATH", "/opt/stack/lib")
    monkeypatch.setenv("COMPILER_PATH", str(tmp_path))
    assert link.made("4.8.1", CALLED["4.8.1"]) == before
    find_toolchain.cache_clear()
    assert find_toolchain().ld.parent != tmp_path


@pytest.mark.parametrize(
    ("option", "named"), [("-rpath /opt/stack/lib", "/opt/stack/lib"), ("--no-as-needed -lm", r"libm\.so\.6")]
)
def test_what_a_linker_adds_of_its_own_is_refused(
    link: SimpleNamespace, toolchain: Toolchain, tmp_path: Path, option: str, named: str
) -> None:
    wrapper = tmp_path / "wrapped-ld"
    wrapper.write_text(f'#!/bin/sh\nexec {toolchain.ld} "$@" {option}\n')
    wrapper.chmod(0o755)
    with pytest.raises(LinkError, match=f"added {named} to the library of {ENTRY}: use the distribution's linker"):
        link.made("4.8.1", CALLED["4.8.1"], wrapper)
