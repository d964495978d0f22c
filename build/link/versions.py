"""What differs between versions of the compiler, and between its libraries for CUDA 12 and 13: one table.

Everything else is the same in each of them. A version that the table lacks is tried as the newest that it has, with all
that any other needed; a link that fails then says which versions are known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from precast.build.errors import ToolError

DSL = "nvidia-cutlass-dsl"
VARIABLE = "PRECAST_CUDA"
LIBRARIES: Mapping[int, str] = MappingProxyType({12: f"{DSL}-libs-cu12", 13: f"{DSL}-libs-cu13"})
"""The distribution that holds the compiler's libraries for a major version of CUDA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A minor version of the compiler.

    ``cuda`` has the toolkit that its libraries for each major version of CUDA were made with. ``helpers`` are the error
    helpers that its objects call and its static archive lacks; ``runtime.c`` has them. ``libraries`` are the host's own
    libraries that its objects call into directly.
    """

    dsl: str
    cuda: Mapping[int, str]
    helpers: frozenset[str] = frozenset()
    libraries: tuple[str, ...] = ()
    known: bool = True  # words: allow


_C = ("libc.so.6",)
_HELPERS = frozenset({"CuteDSLRT_TVMFFISetRaisedCudaError", "CuteDSLRT_TVMFFISetRaisedCudaLaunchError"})

RELEASES = (
    # Each object words its own errors, with sprintf.
    Release(dsl="4.6", cuda={12: "12.9", 13: "13.3"}, libraries=_C),
    Release(dsl="4.7", cuda={12: "12.9", 13: "13.3"}, helpers=_HELPERS),
    Release(dsl="4.8", cuda={12: "12.9", 13: "13.4"}, helpers=_HELPERS),
)
"""The versions with which the shipped manifests were built and launched, oldest first."""


def release_of(version: str) -> Release:
    """What holds for a version of the compiler.

    >>> release_of("4.6.2").libraries, release_of("4.9.0").known
    (('libc.so.6',), False)
    """
    minor = ".".join(version.split(".")[:2])
    for release in RELEASES:
        if release.dsl == minor:
            return release
    return Release(dsl=minor, cuda={}, helpers=_HELPERS, libraries=_C, known=False)


def known_versions() -> str:
    """The versions of the table, as text.

    >>> known_versions()
    '4.6, 4.7 and 4.8'
    """
    *first, last = (release.dsl for release in RELEASES)
    return f"{', '.join(first)} and {last}"


def advice(version: str) -> str:
    """What to do where an object of a version does not link.

    >>> advice("4.9.0")
    "precast knows nvidia-cutlass-dsl 4.6, 4.7 and 4.8, and 4.9.0 was tried: pip install 'nvidia-cutlass-dsl==4.8.*'"
    """
    if release_of(version).known:
        return "Check the toolchain with 'precast doctor'"
    return f"precast knows {DSL} {known_versions()}, and {version} was tried: pip install '{DSL}=={RELEASES[-1].dsl}.*'"


def choose_cuda(installed: Collection[int], requested: str = "") -> int:
    """The major version of CUDA to build for, out of those that the compiler has libraries for here.

    Where several are installed, and none is ``requested``, it is the oldest: code for it runs with every driver.

    >>> choose_cuda({12, 13}), choose_cuda({12, 13}, "13"), choose_cuda({13})
    (12, 13, 13)
    """
    if requested and requested not in map(str, LIBRARIES):
        raise ToolError(f"{VARIABLE} is {requested!r}: set it to {' or '.join(map(str, LIBRARIES))}, or remove it")
    if requested and int(requested) not in installed:
        raise ToolError(
            f"{VARIABLE} is {requested}, and {LIBRARIES[int(requested)]} is not installed: {_bring(int(requested))}"
        )
    if not installed:
        raise ToolError(f"the compiler has no libraries for any CUDA here: {_bring(min(LIBRARIES))}")
    return int(requested) if requested else min(installed)


def toolkit(cuda: int, release: Release) -> str:
    """The CUDA toolkit that the compiler's libraries were made with; its major version where the table has none.

    >>> toolkit(13, RELEASES[2]), toolkit(13, release_of("4.9.0"))
    ('13.4', '13')
    """
    return release.cuda.get(cuda, str(cuda))


def toolkit_number(cuda: int, release: Release) -> int:
    """A CUDA toolkit as its driver numbers it; the newest of its major version where the table has none.

    >>> toolkit_number(12, RELEASES[0]), toolkit_number(13, release_of("4.9.0"))
    (12090, 13990)
    """
    major, _, minor = release.cuda.get(cuda, f"{cuda}.99").partition(".")
    return int(major) * 1000 + int(minor) * 10


def _bring(cuda: int) -> str:
    return f"pip install '{DSL}[cu{cuda}]'" if cuda > min(LIBRARIES) else f"pip install {DSL}"
