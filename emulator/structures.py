"""The interpreter's structures, as interpreter/core/program.h declares them."""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_char_p, c_int32, c_uint32, c_uint64, c_void_p

OPERANDS = 11
INSTRUCTION_BYTES = 64


class ProgramStructure(ctypes.Structure):
    """``Program``."""

    _fields_ = (
        ("code", c_void_p),
        ("pool", c_void_p),
        ("lines", c_void_p),
        ("constants", c_void_p),
        ("poisoned", c_void_p),
        ("instructions", c_uint32),
        ("pool_size", c_uint32),
        ("constant_count", c_uint32),
        ("poisoned_count", c_uint32),
        ("register_words", c_uint32),
        ("static_shared", c_uint32),
        ("dynamic_offset", c_uint32),
        ("local_bytes", c_uint32),
        ("parameter_bytes", c_uint32),
    )


class RangeStructure(ctypes.Structure):
    """``Range``."""

    _fields_ = (
        ("begin", c_uint64),
        ("end", c_uint64),
        ("first", c_uint64),
        ("step", c_uint64),
        ("copies", c_uint32),
        ("writable", c_uint32),
        ("number", c_uint32),
        ("name", c_char_p),
    )


class ScheduleStructure(ctypes.Structure):
    """``Schedule``."""

    _fields_ = (
        ("seed", c_uint64),
        ("delay", c_uint32),
        ("check_races", c_uint32),
        ("limit", c_uint64),
        ("multiprocessors", c_uint32),
        ("fill", c_uint32 * 2),
    )


class LaunchStructure(ctypes.Structure):
    """``Launch``."""

    _fields_ = (
        ("program", ctypes.POINTER(ProgramStructure)),
        ("parameters", c_void_p),
        ("ranges", ctypes.POINTER(RangeStructure)),
        ("range_count", c_uint32),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("cluster", c_uint32 * 3),
        ("preferred", c_uint32 * 3),
        ("dynamic_shared", c_uint32),
        ("multiprocessors", c_uint32),
        ("overlap", c_uint32),
        ("device", c_uint32),
        ("resident", c_uint32),
    )


class CountsStructure(ctypes.Structure):
    """``Counts``."""

    _fields_ = tuple(
        (name, c_uint64) for name in ("instructions", "turns", "blocks", "copied_bytes", "product_flops", "spins")
    )


class FaultStructure(ctypes.Structure):
    """``FaultRecord``."""

    _fields_ = (
        ("kind", c_char * 32),
        ("text", c_char * 1024),
        ("launch", c_uint32),
        ("block", c_uint32 * 3),
        ("warp", c_uint32),
        ("lane", c_uint32),
        ("line", c_uint32),
        ("other_line", c_uint32),
    )


class ConstantStructure(ctypes.Structure):
    """``Constant``."""

    _fields_ = (("place", c_int32), ("kind", c_uint32), ("value", c_uint64))
