"""A tuning file of what ``gemm_candidates.py`` measured: ``python benchmarks/gemm_choose.py CACHE FILE... -o TUNING``.

Needs no GPU. FILE is its JSON, of one dtype or another. Of each dtype, ``--count`` variants are chosen, each the one
that helps most after those before it. They are printed as rows of a manifest, with what they reach together. TUNING
keeps the groups of other dtypes, and gets a new one for each of these: the times of the chosen variants; at fewer rows
than any of FILE, those that TUNING had. With ``--add`` nothing is chosen: the variants that TUNING has get the times of
FILE at sizes that it lacks; where it has none of this GPU, all variants of CACHE do.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from precast.build.gpu.profile import profile_named
from precast.build.measurements.fit import code_digest
from precast.build.measurements.tuning_file import Candidate, Gpu, Group, Sizes, TuningFile, sizes_of
from precast.kernels import gemm
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.target import Capability, Target
from precast.loader.resolve.cache import Cache

KEPT = 1.3  # times the best of a size: what takes longer is not in the file, and so counts as the slowest
PLAIN = {"batched": False, "epilogue": "", "a_major": "k", "b_major": "k", "out_major": "n", "weights": False}
TARGET = Target.parse("sm_90a")
FIRST = ("operators 64x256 cluster=[2,1]", "operators 128x256 cluster=[2,1]")  # of bfloat16, and of float8
USEFUL = 0.01  # of a time: how much quicker than all others a variant has to be somewhere
FEW = 1e-3  # of a result, which differ by the order in which sums were made, are not a fault of the kernel
BANDS = ((1, 64), (65, 1024), (1025, 1 << 30))


@dataclass(frozen=True)
class Row:
    """A size, torch's microseconds, infinite where they are not known, and those of variants."""

    problem: Mapping[str, int]
    torch: float
    times: Mapping[str, float]

    def of(self, names: Collection[str]) -> Row:
        """With the times of some variants alone."""
        return replace(self, times={name: took for name, took in self.times.items() if name in names})


def rows_of(files: Sequence[Path]) -> dict[str, list[Row]]:
    """The sizes of the first file of each dtype. Others add variants; their times are scaled by torch's in both."""
    found: dict[str, dict[str, Row]] = {}
    for file in files:
        data = json.loads(file.read_text())
        is_first = data["dtype"] not in found
        rows = found.setdefault(data["dtype"], {})
        faulty = {line["wrong"] for line in data["wrong"] if fraction(line) > FEW}
        for text, row in sorted(data["sizes"].items()):
            m, n, k = map(int, text.split("x"))
            if not is_first and text not in rows:
                continue
            first = rows.get(text, Row({"m": m, "n": n, "k": k}, row["torch"], {}))
            scale = first.torch / row["torch"]
            times = {name: took * scale for name, took in row["times"].items() if name not in faulty}
            if times or first.times:
                rows[text] = replace(first, times={**times, **first.times})
    return {dtype: list(rows.values()) for dtype, rows in found.items()}


def fraction(line: Mapping[str, Any]) -> float:
    """The share of a result that is wrong, by a line of a file; all of it where the kernel failed.

    >>> fraction({"what": "3 of 300"}), fraction({"what": ["silent"]})
    (0.01, 1.0)
    """
    words = line["what"].split() if isinstance(line["what"], str) else []
    return int(words[0]) / int(words[2]) if len(words) == 3 and words[1] == "of" else 1.0


def choose(rows: Sequence[Row], count: int, first: Sequence[str] = ()) -> Iterator[str]:
    """Variants, each the one that helps most after those before it; a size that is far from its best, or from torch
    where that is quicker, counts for more.

    >>> rows = [Row({}, 1.0, {"a": 1.0, "b": 2.0}), Row({}, 1.0, {"b": 1.0, "c": 3.0})]
    >>> list(choose(rows, 2)), list(choose(rows, 2, ["c"]))
    (['b', 'a'], ['c', 'b'])
    >>> list(choose([Row({}, 0.5, {"a": 1.2, "b": 1.0}), Row({}, 2.0, {"a": 1.0, "b": 1.3})], 1))
    ['b']
    """
    best = [min(row.torch, *row.times.values()) for row in rows]
    so_far = [3 * min(row.times.values()) for row in rows]
    left = {name for row in rows for name in row.times}
    wanted = list(first)
    for _ in range(min(count, len(left))):
        if wanted:
            chosen = wanted.pop(0)
        else:
            gains = dict.fromkeys(sorted(left), 0.0)
            for row, held, least in zip(rows, so_far, best, strict=True):
                for name, took in row.times.items():
                    if took < held and name in gains:
                        gains[name] += (held / least) ** 4 - (took / least) ** 4
            chosen = max(gains, key=gains.__getitem__)
            if gains[chosen] < 1e-4:
                return
        left.discard(chosen)
        so_far = [min(held, row.times.get(chosen, held)) for held, row in zip(so_far, rows, strict=True)]
        yield chosen


def pruned(rows: Sequence[Row], chosen: Sequence[str], least: float = USEFUL) -> list[str]:
    """Without the variants that are nowhere quicker than the best of the others by more than a part.

    >>> rows = [Row({}, 1.0, {"a": 1.0, "b": 1.001}), Row({}, 1.0, {"b": 1.0, "c": 0.9})]
    >>> pruned(rows, ["a", "b", "c"])
    ['b', 'c']
    """
    left = list(chosen)
    for name in chosen:
        others = set(left) - {name}
        for row in rows:
            rest = min((took for other, took in row.times.items() if other in others), default=math.inf)
            if row.times.get(name, math.inf) * (1 + least) < rest:
                break
        else:
            left.remove(name)
    return left


def reached(rows: Sequence[Row], chosen: Sequence[str]) -> str:
    """What the best of some variants reach, beside torch and beside the best of all, by bands of m."""
    words = []
    names = set(chosen)
    for least, most in BANDS:
        own = [row for row in rows if least <= row.problem["m"] <= most and row.torch < math.inf]
        held = [(min((t for n, t in row.times.items() if n in names), default=math.inf), row) for row in own]
        ratios = [row.torch / took for took, row in held if took < math.inf]
        of_best = [min(row.times.values()) / took for took, row in held if took < math.inf]
        if ratios:
            mean = [math.exp(statistics.fmean(map(math.log, values))) for values in (ratios, of_best)]
            words.append(
                f"m {least}..{most}: {mean[0]:.3f} of torch, least {min(ratios):.3f}; of the best {mean[1]:.4f}"
            )
    return "; ".join(words)


def added(file: TuningFile, measured: Group) -> TuningFile:
    """A tuning file with the times of a group of its variants at further sizes; at those that it has, its own stay.

    A time is that of some device code, so the measured code must be that of the file.
    """
    group = next((one for one in file.groups if one.identity == measured.identity), None)
    if group is None:
        return replace(file, groups=(*file.groups, measured))
    found = {one.identity: one for one in measured.candidates}
    candidates, known = [], set(group.problems)
    for own in group.candidates:
        new = found.get(own.identity, own)
        if new.code != own.code:
            raise SystemExit(f"CACHE has other device code of {dict(own.tuned)}: choose anew, without --add")
        further = {sizes: took for sizes, took in new.times.items() if sizes not in known}
        candidates.append(replace(own, times={**own.times, **further}))
    grown = replace(group, candidates=tuple(candidates))
    return replace(file, groups=tuple(grown if one is group else one for one in file.groups))


def few_rows(old: Group, today: Group, least: int) -> list[Row]:
    """What a tuning file has of sizes with fewer rows than ``least``, for the variants whose device code is the same.

    Parameters
    ----------
    old
        A group of the file.
    today
        The variants as they are built today.
    least
        The fewest rows that were measured anew.
    """
    codes = {one.identity: one.code for one in today.candidates}
    found: dict[Sizes, dict[str, float]] = {}
    for one in old.candidates:
        if codes.get(one.identity) == one.code:
            name = tuned_name({**old.config, **one.tuned})
            for sizes, took in one.times.items():
                if dict(sizes)["m"] < least:
                    found.setdefault(sizes, {})[name] = took
    return [Row(dict(sizes), math.inf, times) for sizes, times in sorted(found.items())]


def tuned_name(config: Mapping[str, Any]) -> str:
    """What ``gemm_candidates.py`` calls a variant."""
    from gemm_candidates import tuned

    return tuned(config)


def times_of(name: str, rows: Sequence[Row]) -> dict[Sizes, float]:
    """The times of a variant where it is worth keeping one.

    >>> times_of("b", [Row({"m": 1}, 1.0, {"a": 1.0, "b": 1.2}), Row({"m": 2}, 1.0, {"a": 1.0, "b": 1.4})])
    {(('m', 1),): 1.2}
    """
    kept = ((row, row.times.get(name, math.inf)) for row in rows)
    return {sizes_of(row.problem): took for row, took in kept if took <= KEPT * min(row.times.values())}


def group_of(artifacts: Mapping[str, Artifact], cache: Cache, rows: Sequence[Row], gpu: Gpu, keys: set[str]) -> Group:
    """The group of a tuning file."""
    profile = profile_named("H200")  # also for an H100: the same die; its profile has no measured numbers of clusters
    candidates = []
    for name, artifact in artifacts.items():
        tile = gemm.tile_of(artifact.config, TARGET)
        candidates.append(
            Candidate(
                tuned={key: value for key, value in artifact.config.items() if key in keys},
                code=code_digest(cache.read(artifact.blob)),
                date=gpu.date,
                times=times_of(name, rows),
                tiling=tile.on(profile.answer) if tile else None,
            )
        )
    config = {key: value for key, value in next(iter(artifacts.values())).config.items() if key not in keys}
    ordered = tuple(sorted(candidates, key=lambda one: one.identity))
    return Group(op="gemm", config=config, target=TARGET, gpu=gpu.name, candidates=ordered)


def manifest_rows(configs: Sequence[Mapping[str, Any]]) -> str:
    """Variants as rows of ``include``, by library.

    >>> usual = {"swap": False, "cluster": [1, 1], "split": 1, "residents": 1, "pingpong": False}
    >>> print(manifest_rows([{"library": "quack", "tile": [128, 256], **usual, "pingpong": True}]))
    # quack
      - {tile: [128, 256], pingpong: true}
    """
    usual = {"swap": False, "cluster": [1, 1], "split": 1, "residents": 1, "pingpong": False, "swizzle": 0}
    lines = []
    for library in dict.fromkeys(str(config["library"]) for config in configs):
        lines.append(f"# {library}")
        for config in sorted((c for c in configs if c["library"] == library), key=lambda c: list(c["tile"])):
            words = [f"tile: {list(config['tile'])}"]
            for name, value in usual.items():
                given = list(config[name]) if name == "cluster" else config.get(name, value)
                words += [f"{name}: {json.dumps(given)}"] if given != value else []
            lines.append(f"  - {{{', '.join(words)}}}")
    return "\n".join(lines)


def main() -> int:
    """Choose, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("-o", dest="out", type=Path, metavar="TUNING", help="a tuning file: it keeps other groups")
    parser.add_argument("--add", action="store_true", help="further sizes for the variants that TUNING has")
    parser.add_argument("--count", type=int, default=90, help="variants of a dtype")
    parser.add_argument("--keep", action="store_true", help="the variants that TUNING has, and further ones")
    parser.add_argument("--first", nargs="*", default=FIRST, help="variants that the author prefers, where there are")
    parser.add_argument("--gpu", default="NVIDIA H200", help="the name of the GPU that measured")
    parser.add_argument("--driver", default="", help="of the GPU that measured")
    options = parser.parse_args()
    cache = Cache(options.cache)
    listed = cache.op("gemm")
    keys = {key.name for key in listed.keys if key.tuned}
    file = TuningFile.decode(options.out.read_bytes()) if options.out and options.out.is_file() else TuningFile()
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    gpu = Gpu(name=options.gpu, capability=Capability(9, 0), driver=options.driver, date=date)
    measured = [rows_of([one]) for one in options.files] if options.add else [rows_of(options.files)]
    for dtype, rows in (item for found in measured for item in found.items()):
        plain = {
            tuned_name(a.config): a
            for a in listed.artifacts
            if a.target == TARGET and a.kind == "object" and PLAIN.items() <= a.config.items()
            if (a.config["dtype"], a.config["out_dtype"]) == (dtype, "bfloat16")
        }
        if not plain:
            raise SystemExit(f"CACHE has no plain variants in {dtype}: build manifests/gemm.yaml for {TARGET}")
        rows = [one for row in rows if (one := row.of(plain)).times]
        if options.add:
            gpus = {one.name: one for one in (gpu, *file.gpus)}
            file = added(replace(file, gpus=tuple(gpus.values())), group_of(plain, cache, rows, gpu, keys))
            continue
        today = group_of(plain, cache, (), gpu, keys)
        old = next((one for one in file.groups if one.identity == today.identity), today)
        rows += few_rows(old, today, min(row.problem["m"] for row in rows))
        print(f"{dtype}: {len(plain)} variants, {len(rows)} sizes; all: {reached(rows, list(plain))}")
        kept = [tuned_name({**old.config, **one.tuned}) for one in old.candidates if options.keep]
        first = [name for name in dict.fromkeys([*options.first, *kept]) if name in plain]
        chosen = list(choose(rows, options.count, first))
        for count in range(10, len(chosen) + 10, 10):
            print(f"{min(count, len(chosen)):>5}  {reached(rows, chosen[:count])}")
        useful = {*options.first, *pruned(rows, chosen)}
        chosen = [name for name in chosen if name in useful]
        print(f"{len(chosen):>5}  useful: {reached(rows, chosen)}")
        print(manifest_rows([plain[name].config for name in chosen]))
        group = group_of({name: plain[name] for name in chosen}, cache, rows, gpu, keys)
        others = [one for one in file.groups if one.identity != group.identity]
        gpus = {one.name: one for one in (*file.gpus, gpu)}
        file = replace(file, gpus=tuple(gpus.values()), groups=(*others, group))
    if options.out:
        options.out.write_bytes(file.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
