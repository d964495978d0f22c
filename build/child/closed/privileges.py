"""Privileges: a closed process, and all that it starts, can neither undo nor go round what closes it.

The superuser could unmount what hides a folder, read other processes' files by ``/proc``, or open a file by its number.
"""

from __future__ import annotations

import ctypes
import platform
import re
import struct
from pathlib import Path

from precast.build.child.closed.system_calls import call, control, set_no_new_privileges

_KEPT = 1 << 1 | 1 << 3  # reads files of others (CAP_DAC_OVERRIDE), sets the modes and times of them (CAP_FOWNER)
_VERSION = 0x20080522
_SET = {"x86_64": 126, "aarch64": 91}
_DROP, _FILTER = 24, 22  # of prctl: a privilege of the set that bounds those of programs; the filter of calls
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Calls that reach what has no namespace here, by their numbers: keys of the user, segments and queues of other
# processes or of an earlier variant, the log and the counters of the kernel, and requests that no filter sees.
_CALLS = {
    # add_key, request_key, keyctl, shmget, semget, msgget, mq_open, syslog, perf_event_open, bpf, open_by_handle_at,
    # setns, io_uring_setup
    "x86_64": (248, 249, 250, 29, 64, 68, 240, 103, 298, 321, 304, 308, 425),
    "aarch64": (217, 218, 219, 194, 190, 186, 180, 116, 241, 280, 265, 268, 425),
}
_SOCKET = {"x86_64": 41, "aarch64": 198}
_FAMILIES = (1, 2, 10, 16)  # by a path, IPv4, IPv6, netlink; others lead out, as to the host of a virtual machine
_ABSENT = 0x50000 | 38  # the call fails as one that this kernel does not have
_ALLOWED = 0x7FFF0000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06


def give_up() -> None:
    """Give up all privileges but those over files, and the calls that go round namespaces. It cannot be undone."""
    machine = platform.machine()
    if machine not in _SET:
        return
    for number in range(64):
        control(_DROP, number)  # fails for those that there are not
    permitted = re.findall(r"^CapPrm:\t(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    kept = int(permitted[0], 16) & _KEPT
    header, sets = struct.pack("Ii", _VERSION, 0), struct.pack("6I", kept, kept, 0, 0, 0, 0)
    call(_SET[machine], ctypes.c_char_p(header), ctypes.c_char_p(sets))
    set_no_new_privileges()
    program = b"".join(struct.pack("HBBI", *each) for each in _filter(machine))
    rules = ctypes.create_string_buffer(program, len(program))
    control(_FILTER, 2, struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(rules)))


def _filter(machine: str) -> list[tuple[int, int, int, int]]:
    """The instructions of the filter: an operation, how many to skip if true and if false, and a number."""
    denied = _CALLS[machine]
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), (_RETURN, 0, 0, _ABSENT), (_LOAD, 0, 0, 0)]
    steps += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _ABSENT)]
    for number in denied:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ABSENT)]
    steps += [(_EQUAL, 1, 0, _SOCKET[machine]), (_RETURN, 0, 0, _ALLOWED), (_LOAD, 0, 0, 16)]
    for family in _FAMILIES:
        steps += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOWED)]
    return [*steps, (_RETURN, 0, 0, _ABSENT)]
