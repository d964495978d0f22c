"""Shell lines: the variables that the line of a shell uses. A shell reads them without the C library."""

from __future__ import annotations

import re
from collections.abc import Iterator

_USED = re.compile(r"\$\{?[#!]?([A-Za-z_][A-Za-z0-9_]*)|\$(\$)|(?:^|[;&|({`\s])(ulimit|umask|times)(?=$|[;&|)}`\s])")
_UNSTEADY = {
    **dict.fromkeys(("RANDOM", "SRANDOM"), "randomness"),
    **dict.fromkeys(("EPOCHSECONDS", "EPOCHREALTIME", "SECONDS"), "clock"),
    **dict.fromkeys(("$", "BASHPID", "PPID", "UID", "EUID", "GROUPS", "HOSTNAME", "ulimit", "umask", "times"), "host"),
}
_SET = re.compile(
    r"(?:^|[;&|({`\s])(?:export\s+|local\s+|read\s+(?:-\w+\s+)*|for\s+)?([A-Za-z_][A-Za-z0-9_]*)(?==|\s+in\s)"
)
_OWN = frozenset({"IFS", "OPTARG", "OPTIND", "REPLY", "LINENO", "PWD", "OLDPWD", "PIPESTATUS", "FUNCNAME"})


def shell_requests(line: str) -> Iterator[tuple[str, str]]:
    """What a line requests: the kind, and the name. Variables that it sets itself are left out.

    >>> sorted(shell_requests("cc=gcc; $cc -O$LEVEL -o $HOME/out.$RANDOM"))
    [('randomness', 'RANDOM in a shell'), ('variable', 'HOME'), ('variable', 'LEVEL')]
    """
    assigned = {match.group(1) for match in _SET.finditer(line)}
    for name in dict.fromkeys(next(filter(None, match.groups())) for match in _USED.finditer(line)):
        if name in _UNSTEADY:
            yield _UNSTEADY[name], f"{name} in a shell"
        elif name not in assigned and name not in _OWN:
            yield "variable", name


def script_of_shell(text: bytes) -> str:
    """The text of a script that a shell runs; empty for another file.

    >>> script_of_shell(b"#!/bin/sh\\necho $A"), script_of_shell(b"#!/usr/bin/python3")
    ('#!/bin/sh\\necho $A', '')
    """
    first = text.partition(b"\n")[0]
    return text.decode(errors="replace") if re.match(rb"#!.*[/ ](ba|da|k|z)?sh\b", first) else ""
