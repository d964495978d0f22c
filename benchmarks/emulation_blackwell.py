"""Which instructions that Hopper lacks rest on which kernels.

    python benchmarks/emulation_blackwell.py CACHE... --store STORE [--all] [--page]

No Blackwell GPU was at hand, so an instruction that only it has is believed where kernels that are right on real
ones come out right when they are emulated. This reads the PTX of the variants for sm_100a that `make emulate-all`
found right (with `--all`: of all variants), and prints a table: instruction, how many variants have it, and of which
ops. With `--page` it is written into docs/emulation-hardware.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from precast.build.errors import NoPtx
from precast.build.store.store import Store
from precast.build.verification.kept_ptx import KeptPtx
from precast.emulator.ptx.module import Statement
from precast.emulator.ptx.reader import read_module
from precast.loader.resolve.cache import Cache

ROOT = Path(__file__).parent.parent
EMULATED = ROOT / "benchmarks" / "results" / "emulated.json"
PAGE = ROOT / "docs" / "emulation-hardware.md"
BEGIN, END = "<!-- begin blackwell -->", "<!-- end blackwell -->"
TARGET = "sm_100a"
_NAMED = 4  # ops of an instruction
# Opcodes that need sm_100 or later; what differs within one of these in shape or type is one instruction.
NEWER = tuple(
    re.compile(pattern)
    for pattern in (
        r"tcgen05\..*",
        r"clusterlaunchcontrol\..*",
        r"(add|sub|mul|fma)\.(rn\.|rz\.|rm\.|rp\.)?(ftz\.)?f32x2",
        r"(add|sub|fma)\..*f32\.(bf16|f16)",
        r"redux\.sync\..*f32",
        r"cvt\..*(e2m1|e2m3|e3m2|ue8m0)x2.*",
        r"cp\.async\.bulk\.tensor\..*(cta_group|gather4|scatter4|im2col::w).*",
        r"(ld|st)\.global\..*(v8\.b32|v4\.b64).*",
        r"stmatrix\..*(m16n8|b8).*",
        r"ldmatrix\..*(m16n16|m8n16|b6x16|b4x16).*",
    )
)
SHAPE = re.compile(r"\.x\d+\b")


def instruction(opcode: str) -> str:
    """An opcode without what only says how many: empty if Hopper has it.

    >>> instruction("tcgen05.ld.sync.aligned.32x32b.x32.b32"), instruction("add.f32")
    ('tcgen05.ld.sync.aligned.32x32b.b32', '')
    """
    return SHAPE.sub("", opcode) if any(pattern.fullmatch(opcode) for pattern in NEWER) else ""


def right_keys() -> set[str]:
    """The first digits of the keys of the variants that emulation found right."""
    stored = json.loads(EMULATED.read_text())["variants"]
    return {key for key, one in stored.items() if one["result"] == "right"}


def variants(caches: list[Path], store: Path, *, every: bool) -> Iterator[tuple[str, str, str]]:
    """Op, key and PTX of each variant that counts."""
    right = set() if every else right_keys()
    for path in caches:
        cache = Cache(path)
        kept = KeptPtx(cache, Store(store))
        for op in sorted(cache.index.ops):
            for artifact in cache.op(op).artifacts:
                if str(artifact.target) == TARGET and (every or artifact.key[:12] in right):
                    try:
                        yield op, artifact.key, kept.text(op, artifact)
                    except NoPtx as error:
                        print(f"{op} {artifact.key[:12]} is left out: {error}", file=sys.stderr)


def table(found: Mapping[str, Mapping[str, set[str]]]) -> Iterator[str]:
    """Lines of Markdown: instructions by name, ops by how many of their variants have it."""
    yield "| instruction | variants | of |"
    yield "| --- | --- | --- |"
    for name in sorted(found):
        ops = sorted(found[name].items(), key=lambda item: (-len(item[1]), item[0]))
        kernels = ", ".join(f"{op} ({len(keys)})" for op, keys in ops[:_NAMED])
        kernels += f" and {len(ops) - _NAMED} more" if len(ops) > _NAMED else ""
        yield f"| `{name}` | {sum(len(keys) for _, keys in ops)} | {kernels} |"


def main() -> int:
    """Read, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("caches", type=Path, nargs="+")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--all", action="store_true", help="all variants, also those without a result")
    parser.add_argument("--page", action="store_true", help="write the table into docs/emulation-hardware.md")
    options = parser.parse_args()
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    count = 0
    for op, key, text in variants(options.caches, options.store, every=options.all):
        count += 1
        for function in read_module(text).functions.values():
            for item in function.body:
                if isinstance(item, Statement) and (name := instruction(item.opcode)):
                    found[name][op].add(key)
    lines = "\n".join([*table(found), "", f"{count} variants for {TARGET}."])
    if options.page:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(before + BEGIN + "\n" + lines + "\n" + END + rest.partition(END)[2])
    else:
        print(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
