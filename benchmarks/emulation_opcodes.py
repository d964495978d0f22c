"""Which instructions of PTX are not emulated: reads and lowers every file of a folder, and counts what is refused.

    python benchmarks/emulation_opcodes.py FOLDER [--opcode WORD]... [--pack]

A line for each reason: how often, in how many files, the reason, and an example with its file and line. The exit
status is 1 if anything is refused.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from precast.emulator import Unsupported, find_library
from precast.emulator.lowering.kernel import lower_kernel
from precast.emulator.program import make_program
from precast.emulator.ptx.module import Function, Module, Statement
from precast.emulator.ptx.reader import read_module


def refusals(path: Path, operations: dict[str, int], *, pack: bool) -> Iterator[Unsupported]:
    """What one file holds that is not emulated."""
    try:
        module = read_module(path.read_text())
    except Unsupported as error:
        yield error
        return
    addresses = {variable.name: 4096 for variable in module.variables.values()}
    for function in module.functions.values():
        if function.entry:
            found: list[Unsupported] = []
            lower_kernel(module, function, operations, addresses, found.append)
            yield from found
            if pack and not found:
                yield from _packed(module, function, operations, addresses)


def _packed(
    module: Module, function: Function, operations: dict[str, int], addresses: dict[str, int]
) -> Iterator[Unsupported]:
    try:
        make_program(module, function, operations, addresses)
    except Unsupported as error:
        yield error


def opcodes(path: Path) -> Counter[str]:
    """How often each opcode is in a file."""
    module = read_module(path.read_text())
    return Counter(
        item.opcode for function in module.functions.values() for item in function.body if isinstance(item, Statement)
    )


def main() -> int:
    """Read, lower, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--opcode", action="append", default=[], help="only statements that begin with this word")
    parser.add_argument("--pack", action="store_true", help="also find liveness and places for each kernel")
    parser.add_argument("--list", action="store_true", help="list all opcodes instead, with counts")
    options = parser.parse_args()
    files = sorted(options.folder.rglob("*.ptx"))
    if options.list:
        total: Counter[str] = Counter()
        for path in files:
            total += opcodes(path)
        for opcode, count in total.most_common():
            print(f"{count:8} {opcode}")
        return 0
    operations = find_library().operations
    counts: Counter[str] = Counter()
    where: dict[str, set[Path]] = {}
    example: dict[str, str] = {}
    clean = 0
    for path in files:
        found = list(refusals(path, operations, pack=options.pack))
        clean += not found
        for error in found:
            words = error.statement.split()
            opcode = next((word for word in words if not word.startswith("@")), "").rstrip(";")
            if options.opcode and opcode.split(".")[0] not in options.opcode:
                continue
            key = f"{opcode}: {error.reason}"
            counts[key] += 1
            where.setdefault(key, set()).add(path)
            example.setdefault(key, f"{path.name[-60:]}:{error.line}: {error.statement[:140]}")
    for key, count in counts.most_common():
        print(f"{count:8} in {len(where[key]):4} files  {key}\n             {example[key]}")
    print(f"{clean} of {len(files)} files are lowered whole; {len(counts)} reasons for the others")
    return int(clean < len(files))


if __name__ == "__main__":
    sys.exit(main())
