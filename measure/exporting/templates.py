"""The texts of an exported variant: a C++ program that calls it, and a README of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text

_EXAMPLE = """\
// Opens the kernel {name} and calls it. A call without arguments fails, and prints the arguments that it takes.
//
//   g++ -std=c++17 example.cpp $(tvm-ffi-config --cxxflags --ldflags --libs) -ldl -o example
//   LD_LIBRARY_PATH=$(tvm-ffi-config --libdir) ./example
//
// tvm-ffi-config comes with pip install apache-tvm-ffi.
#include <dlfcn.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <iostream>

int main() {{
  // The kernel's library needs this one by its name: once it is open, the loader finds it.
  if (dlopen("./{soname}", RTLD_NOW | RTLD_LOCAL) == nullptr) {{
    std::cerr << dlerror() << std::endl;
    return 1;
  }}
  tvm::ffi::Module module = tvm::ffi::Module::LoadFromFile("./{name}.so");
  tvm::ffi::Function kernel = module->GetFunction("{name}").value();
  // {signature}
  // A tensor is a DLTensor* or a tvm::ffi::Tensor in device memory. The launch is on the stream that
  // TVMFFIEnvSetStream(kDLCUDA, device, stream, nullptr) sets for this thread.
  try {{
    kernel();
  }} catch (const tvm::ffi::Error& error) {{
    std::cout << error.what() << std::endl;
  }}
  return 0;
}}
"""

_KINDS = {
    ".cpp": "a program that opens the kernel and calls it; its first lines have the command that compiles it",
    ".cubin": "the device code: what Nsight Compute, cuobjdump and cuModuleLoadData read",
    ".o": "the compiler's object, to be linked with the runtime library and libtvm_ffi.so",
    ".ptx": "the PTX, from compiling the variant again, with the same device code",
    ".py": "kernel_fn, reference_fn and get_inputs of the kernel, for scripts that verify or time kernel files",
    ".sass": "the device code, disassembled by nvdisasm",
    ".so": "the kernel's library in the cache",
}


def example(name: str, soname: str, artifact: Artifact) -> str:
    """A C++ program that opens an exported kernel and calls it."""
    return _EXAMPLE.format(name=name, soname=soname, signature=f"{name}{artifact.signature}")


def readme(name: str, op: str, artifact: Artifact, files: Sequence[str], left_out: Mapping[str, str]) -> str:
    """The README of an exported variant, with the purpose of each file."""
    host = f", for {artifact.host.arch} hosts with glibc {artifact.host.glibc} or newer" if artifact.host else ""
    lines = [
        f"# {name}",
        "",
        f"Op `{op}` with `{config_text(artifact.config)}` for {artifact.target}{host}.",
        f"It takes `{artifact.signature}`.",
        "",
        "| file | |",
        "| --- | --- |",
    ]
    for file in files:
        runtime = file.startswith("libprecast-rt-")
        purpose = "the runtime library that the kernel needs" if runtime else _KINDS["." + file.rpartition(".")[2]]
        lines.append(f"| `{file}` | {purpose} |")
    lines += ["", *(f"Not here: {kind}: {reason}" for kind, reason in left_out.items())]
    for used in artifact.resources:
        lines.append(
            f"`{used.kernel}` uses {used.registers} registers, {used.shared} bytes of static shared memory, "
            f"{used.stack} of stack, {used.local} of local memory."
        )
    return "\n".join(lines).rstrip() + "\n"
