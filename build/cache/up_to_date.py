"""Up to date: detects that a cache on disk has exactly the bytes that a build would write.

After a cache is written, the memo keeps the digest of all its files, under the digest of all inputs. A cache that is
damaged, or that another plan made, has another digest and is written again.

It saves reading every record and compressing and writing all files. A build of a thousand variants with nothing to do
takes at most 1 s as a whole process (``benchmarks/build.py nothing``). It can be removed when that holds without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from precast.build.cache.compress import METHOD
from precast.build.disk.memo import Memo, memo_key
from precast.build.inputs.sources import SourceDigests
from precast.build.link.toolchain import Toolchain
from precast.build.plan.plan import Plan
from precast.fetch.trust.bundle import BUNDLE_FILE
from precast.loader.contract.format.index import OP_LIMIT, key_to_json
from precast.loader.regular_file import read_regular

_KIND = "caches"
# The code that determines the bytes of a cache, in addition to METHOD.
_PACKERS = (
    "precast.build.cache.pack",
    "precast.build.cache.build_assumptions",
    "precast.build.cache.index_writer",
    "precast.build.measurements.fit",
    "precast.loader.contract.format.index",
)


def inputs_digest(
    plan: Plan,
    records: Mapping[str, str | None],
    toolchain: Toolchain,
    sources: SourceDigests,
    dictionary: bytes | None = None,
    keep_ptx: bool = False,
) -> str:
    """The digest of everything that determines the bytes of a cache. ``records`` has the key of each record by the
    identity of its variant on its GPU."""
    return memo_key(
        plan.name,
        toolchain.versions,
        METHOD,
        [sources.digest(name) for name in _PACKERS],
        {str(t): [p.to_json() for p in plan.profiles.all_of(t)] for t in {v.target for v in plan.variants}},
        {op: [[key_to_json(k) for k in of.keys], of.doc] for op, of in plan.ops.items()},
        [
            [
                records[v.identity_on_gpu],
                v.op,
                list(v.config),
                list(v.parts),
                v.rank,
                list(v.emit),
                v.source,
                v.registered,
                v.profile,
                v.assumed,
                list(v.speed_only),
            ]
            for v in plan.variants
        ],
        hashlib.sha256(plan.tuning.encode()).hexdigest(),
        *([] if dictionary is None else [hashlib.sha256(dictionary).hexdigest()]),
        *(["ptx"] if keep_ptx else []),
    )


def is_up_to_date(memo: Memo, inputs: str, cache: Path) -> bool:
    """Whether the cache at a path has the files that a build with these inputs wrote."""
    noted = memo.get(_KIND, inputs)
    return isinstance(noted, str) and noted == tree_digest(cache)


def mark_up_to_date(memo: Memo, inputs: str, files: Mapping[str, bytes]) -> None:
    """Remember the files that a build with these inputs wrote."""
    memo.put(_KIND, inputs, _digest({name: hashlib.sha256(data).hexdigest() for name, data in files.items()}))


def tree_digest(folder: Path) -> str | None:
    """The digest of all files under a folder with their names, or None if it cannot be read.

    Without the signature, which comes after the build: a build with nothing to do leaves it.
    """
    try:
        digests = {
            path.relative_to(folder).as_posix(): hashlib.sha256(read_regular(path, OP_LIMIT)).hexdigest()
            for path in folder.rglob("*")
            if not path.is_dir() and path != folder / BUNDLE_FILE
        }
    except OSError:
        return None
    return _digest(digests) if digests else None


def _digest(files: Mapping[str, str]) -> str:
    return memo_key(dict(files))
