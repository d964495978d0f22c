"""What is emulated: a launch, the memory that it may touch, and the order of its warps."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NAN = 0x7FFF7FFF  # as float32, and twice as bfloat16 or float16
_ALIGN = 256  # that of memory of cudaMalloc; parameters need 64, for tensor maps


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of this process that launches may touch, from ``begin`` to before ``end``.

    Multicast memory has ``copies``, the first of them at ``first``, each ``step`` bytes behind the one before. Only
    ``multimem`` instructions reach it, and they touch the copies, which are memory of their own.
    """

    begin: int
    end: int
    writable: bool = True
    name: str = ""
    copies: int = 0
    first: int = 0
    step: int = 0
    owner: object = field(default=None, repr=False, compare=False)  # keeps the memory

    @classmethod
    def of(cls, buffer: Buffer, *, writable: bool = True, name: str = "") -> Memory:
        """The memory of an object, such as a numpy array or a bytearray: a kernel works on it in place.

        >>> Memory.of(bytearray(6)).data.nbytes
        6
        """
        owner = ctypes.c_char.from_buffer(buffer)  # refuses what is not writable, contiguous
        begin = ctypes.addressof(owner)
        return cls(begin, begin + memoryview(buffer).nbytes, writable, name, owner=owner)

    @classmethod
    def copy_of(cls, data: Buffer, *, writable: bool = True, name: str = "") -> Memory:
        """A copy of some bytes, aligned to 256 bytes as memory of a GPU is.

        >>> memory = Memory.copy_of(b"123")
        >>> memory.begin % 256, bytes(memory.data)
        (0, b'123')
        """
        content = memoryview(data).tobytes()
        owner = ctypes.create_string_buffer(len(content) + _ALIGN)
        begin = -(-ctypes.addressof(owner) // _ALIGN) * _ALIGN
        ctypes.memmove(begin, content, len(content))
        return cls(begin, begin + len(content), writable, name, owner=owner)

    @property
    def data(self) -> memoryview:
        """The bytes, in place. They are read after a launch, too: ``numpy.frombuffer(memory.data, "float32")``."""
        return memoryview((ctypes.c_char * (self.end - self.begin)).from_address(self.begin)).cast("B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch: a kernel's name, its sizes, and its parameters.

    A parameter is its bytes, a whole number, or memory, whose address is passed and which the launch may touch.

    With a ``preferred`` cluster, the GPU takes clusters of that size or of ``cluster`` as it likes, side by side.
    ``shared`` is dynamic shared memory in bytes.
    ``overlap`` is programmatic dependent launch: the grid may begin before the one before it has ended. Launches of one
    ``device`` are in order; those of several are there at once, as the ranks of a collective.
    ``registers`` are those of a thread, which its machine code decides; 0 where they are not known.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    preferred: tuple[int, int, int] = (0, 0, 0)
    shared: int = 0
    overlap: bool = False
    device: int = 0
    registers: int = 0
    parameters: tuple[bytes | int | Memory, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How warps and asynchronous operations are ordered, and what is checked.

    Parameters
    ----------
    seed
        0: in program order, and asynchronous effects at once; else at random.
    delay
        With a seed: effects come up to so many turns later.
    check_races
        Whether accesses are checked that no synchronisation orders.
    limit
        The most warp instructions of a call; 0: any number.
    multiprocessors
        How many the emulated GPU has.
    clusters
        How many clusters of a size it runs at once, by the size, as far as that is known.
    fill
        Two words that registers and memory hold before they are written, in no regular order. By default both are NaN
        in every floating type. An output that differs with another fill depends on what was never written.
    """

    seed: int = 0
    delay: int = 0
    check_races: bool = False
    limit: int = 0
    multiprocessors: int = 132
    clusters: Mapping[int, int] = field(default_factory=dict, hash=False)
    fill: tuple[int, int] = (_NAN, _NAN)


DEFAULT = Options()
