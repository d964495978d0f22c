"""Device code: the cubins inside an object, the architecture of each, and the resources of its kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from precast.build.disk.scratch import temporary_folder
from precast.build.errors import ObjectError, ToolError
from precast.build.ipc.process_tree import describe_exit
from precast.build.ipc.tool import run_tool
from precast.build.link import elf
from precast.build.link.toolchain import Toolchain
from precast.loader.contract.format.artifact import Resources
from precast.loader.contract.format.target import Target

_FUNCTION = re.compile(r"^\s*Function (\S+):\s*$")
_USAGE = re.compile(r"\bREG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)\b")
_NAME = re.compile(r"code\.(sm_\d+[af]?)\.cubin")
_LISTED = re.compile(r"^arch = (sm_\d+[af]?)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cubin:
    """Device code for one architecture."""

    code: bytes
    target: Target
    resources: tuple[Resources, ...]


def read_cubins(toolchain: Toolchain, obj: bytes) -> tuple[Cubin, ...]:
    """The cubins that a host object embeds."""
    return tuple(cubin for fatbin in elf.fatbins(obj) for cubin in cubins_in(toolchain, fatbin))


def cubins_in(toolchain: Toolchain, fatbin: bytes) -> tuple[Cubin, ...]:
    """The cubins in one container of device code."""
    with temporary_folder() as folder:
        Path(folder, "object.fatbin").write_bytes(fatbin)
        _cuobjdump(toolchain, folder, "-xelf", "all", "object.fatbin")
        cubins = tuple(_read_cubin(toolchain, path) for path in sorted(Path(folder).glob("*.cubin")))
        if not any(_may_be_family(cubin.target) for cubin in cubins):
            return cubins
        listed = frozenset(map(Target.parse, _LISTED.findall(_cuobjdump(toolchain, folder, "object.fatbin"))))
        return tuple(replace(cubin, target=_of_family(cubin.target, listed)) for cubin in cubins)


def _may_be_family(target: Target) -> bool:
    """Whether a cubin that says it is for this target may be for its family: both say the same. Families are of 10.0
    and newer."""
    return not target.suffix and target.major >= 10


def _of_family(target: Target, listed: frozenset[Target]) -> Target:
    """The target of a cubin, by what its container lists: for a family only where nothing there is plain.

    >>> str(_of_family(Target.parse("sm_100"), frozenset({Target.parse("sm_100f")})))
    'sm_100f'
    """
    family = Target(target.major, target.minor, "f")
    return family if _may_be_family(target) and family in listed and target not in listed else target


def _read_cubin(toolchain: Toolchain, path: Path) -> Cubin:
    plain = path.rename(
        path.with_name("code.cubin")
    )  # a neutral name, so that the architecture in the listing comes from the file's contents
    listing = _cuobjdump(toolchain, path.parent, "-lelf", plain.name)
    name = _NAME.search(listing)
    if name is None:
        raise ObjectError(f"cuobjdump names no architecture for the device code; it printed: {listing[-500:]}")
    usage = parse_usage(_cuobjdump(toolchain, path.parent, "-res-usage", plain.name))
    code = plain.read_bytes()
    plain.unlink()
    return Cubin(code=code, target=Target.parse(name[1]), resources=usage)


def parse_usage(text: str) -> tuple[Resources, ...]:
    """Read what ``cuobjdump -res-usage`` prints.

    >>> parse_usage(" Function k:\\n  REG:10 STACK:0 SHARED:64 LOCAL:0 CONSTANT[0]:564\\n")[0].registers
    10
    """
    resources: list[Resources] = []
    kernel = ""
    for line in text.splitlines():
        function, usage = _FUNCTION.match(line), _USAGE.search(line)
        if function:
            kernel = function[1]
        elif usage and kernel:
            registers, stack, shared, local = map(int, usage.groups())
            resources.append(Resources(kernel=kernel, registers=registers, shared=shared, stack=stack, local=local))
            kernel = ""
    return tuple(sorted(resources, key=lambda r: r.kernel))


def _cuobjdump(toolchain: Toolchain, folder: str | Path, *arguments: str) -> str:
    command: list[str | Path] = [toolchain.cuobjdump, *arguments]
    done = run_tool(command, folder)
    if done.returncode < 0:
        raise ToolError(f"cuobjdump {describe_exit(done.returncode)}: build again")
    if done.returncode:
        output = (done.stderr or done.stdout).strip()[-500:]
        todo = "check it with 'precast doctor'"
        if "GLIBC_" in output:  # that of 13.5 for aarch64 needs 2.38, whatever its wheel says
            todo = "it is for a newer system than this: pip install 'nvidia-cuda-cuobjdump<13.5'"
        raise ObjectError(f"cuobjdump cannot read the device code: {output}; {todo}")
    return done.stdout
