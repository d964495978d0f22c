"""What precast reads from ELF files: device code inside an object, and what a library needs and defines."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from precast.build.errors import ObjectError

if TYPE_CHECKING:  # a build with nothing to do reads no ELF file, and does not wait for the import
    from elftools.elf.elffile import ELFFile

_GLIBC = re.compile(r"GLIBC_2\.(\d+)(?:\.\d+)?", re.ASCII)
_FATBIN = b"\x50\xed\x55\xba"
_NV_SIZED, _NV_PARAMETER = 4, 0x17  # .nv.info: an attribute with a payload; the one of a kernel's parameter
_FATBIN_HEAD = struct.Struct("<IHHQ")  # the four bytes, a version, this header's size, the size of the rest
_ARCHES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}


def fatbins(obj: bytes) -> tuple[bytes, ...]:
    """The containers of device code that a host object embeds as constants, in the order of their addresses."""
    from elftools.elf.sections import SymbolTableSection

    elf = _open(obj, "the compiled object")
    containers: dict[tuple[int, int], bytes] = {}
    for table in elf.iter_sections():
        if not isinstance(table, SymbolTableSection):
            continue
        for symbol in table.iter_symbols():
            index, start, size = symbol["st_shndx"], symbol["st_value"], symbol["st_size"]
            if symbol["st_info"]["type"] != "STT_OBJECT" or not isinstance(index, int):
                continue
            section = elf.get_section(index)
            if section["sh_type"] != "SHT_NOBITS":
                data = section.data()[start : start + size]
                if data.startswith(_FATBIN):
                    containers[index, start] = data
    return tuple(containers[position] for position in sorted(containers))


def embedded(library: bytes) -> tuple[bytes, ...]:
    """The same containers in a linked library, which no symbol names any more: found by how they begin."""
    containers, at = [], library.find(_FATBIN)
    while at >= 0:
        head = library[at : at + _FATBIN_HEAD.size]
        if len(head) == _FATBIN_HEAD.size:
            _, version, size, rest = _FATBIN_HEAD.unpack(head)
            if version == 1 and size == _FATBIN_HEAD.size and at + size + rest <= len(library):
                containers.append(library[at : at + size + rest])
        at = library.find(_FATBIN, at + 1)
    return tuple(containers)


def symbols(obj: bytes) -> frozenset[str]:
    """The names an object or library defines for others."""
    return frozenset(symbol.name for symbol in _global(obj) if symbol["st_shndx"] != "SHN_UNDEF")


def undefined(obj: bytes) -> frozenset[str]:
    """The names that an object or library takes from others, except those that it can do without."""
    return frozenset(symbol.name for symbol in _global(obj) if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name)


def _global(obj: bytes) -> Iterator[Any]:
    from elftools.elf.sections import SymbolTableSection

    for table in _open(obj, "the object").iter_sections():
        if isinstance(table, SymbolTableSection):
            yield from (symbol for symbol in table.iter_symbols() if symbol["st_info"]["bind"] == "STB_GLOBAL")


def oldest_glibc(library: bytes) -> str:
    """The oldest glibc that has every versioned symbol the library requires; 2.17 at least.

    Nothing that precast supports is older than 2.17, the first glibc of the wheel tags.
    """
    from elftools.elf.gnuversions import GNUVerNeedSection

    elf = _open(library, "the linked library")
    newest = 17
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for _, versions in section.iter_versions():
                for version in versions:
                    match = _GLIBC.fullmatch(version.name)
                    newest = max(newest, int(match[1])) if match else newest
    return f"2.{newest}"


def host_arch(library: bytes) -> str:
    """The processor a host library is for."""
    machine = _open(library, "the library")["e_machine"]
    if machine not in _ARCHES:
        raise ObjectError(f"the library is for {machine}: build on x86-64 or aarch64 Linux")
    return _ARCHES[machine]


def needed(library: bytes) -> tuple[str, ...]:
    """The libraries that a library names as needed."""
    return tuple(str(tag.needed) for tag in _dynamic_tags(library) if tag.entry.d_tag == "DT_NEEDED")


def search_paths(library: bytes) -> tuple[str, ...]:
    """The folders in which a library has the dynamic linker search (RUNPATH and RPATH)."""
    tags = ((tag, tag.entry.d_tag) for tag in _dynamic_tags(library))
    return tuple(str(getattr(tag, name[3:].lower())) for tag, name in tags if name in ("DT_RUNPATH", "DT_RPATH"))


def _dynamic_tags(library: bytes) -> Iterator[Any]:
    from elftools.elf.dynamic import DynamicSection

    for section in _open(library, "the library").iter_sections():
        if isinstance(section, DynamicSection):
            yield from section.iter_tags()


def _open(data: bytes, what: str) -> ELFFile:
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        return ELFFile(io.BytesIO(data))
    except ELFError as error:
        raise ObjectError(f"{what} is not an ELF file ({error}): report the kernel that made it") from None


def kernels(cubin: bytes) -> tuple[str, ...]:
    """The kernels in device code, by their symbols."""
    names = (s.name for s in _open(cubin, "the device code").iter_sections())
    return tuple(name.removeprefix(".nv.info.") for name in names if name.startswith(".nv.info."))


def kernel_parameters(cubin: bytes, kernel: str) -> tuple[tuple[int, int], ...]:
    """The offset and the size of each parameter of a kernel, in order, as its device code says."""
    section = _open(cubin, "the device code").get_section_by_name(f".nv.info.{kernel}")
    if section is None:
        raise ObjectError(f"the device code says nothing of {kernel}: report the kernel that made it")
    data, parameters, at = section.data(), {}, 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _NV_SIZED:
            if attribute == _NV_PARAMETER and size >= 12:
                _, ordinal, offset, packed = struct.unpack_from("<IHHI", data, at)
                parameters[ordinal] = (offset, packed >> 18)
            at += size
    return tuple(parameters[ordinal] for ordinal in sorted(parameters))
