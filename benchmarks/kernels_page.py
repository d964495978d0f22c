"""The page docs/kernels.md, made of what is shipped and of results: the same files give the same bytes.

``shipped`` is what ``benchmarks/kernel_list.py`` keeps of the plans of all manifests: the ops, and how many variants of
each a manifest has for each target. ``results`` are those of docs/performance.md, and what was verified where.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from math import exp, log
from typing import Any

from performance_tables import counted, fastest, library_of

HEAD = """# Kernels

- *shipped*: the manifests, and their variants for each target; two manifests may list the same variant.
- *emulated*: the variants of each target that were right when they ran without a GPU, from their PTX
  ([emulation](emulation.md)). The others are wrong, *refused* with an instruction that is not emulated, or *too large*.
- *verified*: the variants that were launched on this GPU and compared with their reference ([verifying](verifying.md)),
  or the tests that launch them. An empty cell means that no result is stored.
- *ratio*: the time of the fastest peer over ours, in the geometric mean of all problems: above 1, ours is faster.
- Ops that begin with `attach.` are served to programs that call the library itself ([attach](attach.md)).

```sh
precast build manifests/norms.yaml -o cache         # anywhere
precast verify cache --op rmsnorm                   # on a GPU, with precast[torch]
precast bench cache --op rmsnorm                    # compared with its peer
```

To build `manifests/cutlass-examples.yaml`, set `CUTLASS_EXAMPLES` to the examples of the CuTe DSL in a clone.
`python benchmarks/kernel_list.py --verified FILE` adds results of `precast verify --json`, and `make emulate-all` those
of all emulations.

## Layers of a language model

`manifests/llama.yaml` lists the kernels of a layer of Llama 3 and Qwen 3, as few as possible. `help(kernel)` describes
the call and each argument.

| op | replaces |
| --- | --- |
| `gemm_gated` | a product with `cat(gate, up)`, SiLU or GELU, a multiplication |
| `gemm_act` | a linear layer and its activation |
| `act_and_mul` | SiLU or GELU, and a multiplication, after a product |
| `rotary_paged` | norms of heads, rotary embedding, the copy into the cache, its quantisation |
| `fused_add_rmsnorm`; in place: `flashinfer.fused_add_rmsnorm` | an addition and a norm |
| `rmsnorm_fp8` | an addition, a norm, and quantisation with a scale for each token |

`gemm_gated` and `gemm_act` need `precast[quack]`. With few rows a better tile and `act_and_mul` may be faster than
`gemm_gated`: measure both.

**Weights** stay as in checkpoints. A linear layer is `gemm(x, weight.T, y)` with `weight` (n, k). `gemm_gated` takes
`cat(gate, up)`, (2 n, k), in layout `halves`; weights with alternating rows (gpt-oss) use `interleaved`, and
`precast.kernels.adapters.quack.activated_gemm.interleave` converts one into the other. `rotary_paged` takes the rows of
one product of queries, keys and values.

**Programmatic dependent launch.** Most of precast's own kernels, quack's GEMMs, and FlashInfer's norms with `pdl: true`
start while the previous kernel ends, and wait for it before they read or write. For GPUs before sm_90, precast's are
compiled without. With `weights: true`, precast's `gemm` loads `b` without waiting: the caller promises that `b` was
written long before. It helps with few rows.

`examples/llama.py` runs layers of Llama 3 8B and compares them with torch. Exit status 1 means that a result is farther
from float32 than torch's bfloat16 allows. The kernels for sm_100a were never run.

```sh
precast build manifests/llama.yaml -t sm_90a -o cache                          # no GPU needed
PRECAST_CACHE_PATH=cache python examples/llama.py --dry-run --target sm_90a    # finds and opens every kernel
PRECAST_CACHE_PATH=cache python examples/llama.py                              # on an H100 or H200
```
"""
NOTHING: Mapping[str, Any] = {"variants": {}}
LONGEST = 72
"""Characters of a description."""
ORIGINS = (
    ("This project", lambda op, source: source.startswith("precast.kernels.own.")),
    (
        "Several libraries under one name",
        lambda op, source: source.startswith(("precast.kernels.gemm", "precast.kernels.attention")),
    ),
    ("CUTLASS's operators", lambda op, source: ".adapters.operators." in source),
    ("CUTLASS's examples", lambda op, source: op.startswith("cutlass.")),
    ("quack", lambda op, source: "quack" in source or op.startswith("attach.quack")),
    (
        "FlashAttention-4",
        lambda op, source: ".adapters.attention." in source or op.startswith("attach.flash_attention"),
    ),
    ("FlashInfer", lambda op, source: "flashinfer" in source or "flashinfer" in op),
    ("Others", lambda op, source: True),
)


def page(
    shipped: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]], emulated: Mapping[str, Any] = NOTHING
) -> str:
    """The page of what is shipped, some results, by machine and part, and what was emulated."""
    lines = [HEAD]
    ops = shipped["ops"]
    for title, _ in ORIGINS:
        mine = [op for op in sorted(ops) if _origin(op, ops[op]["source"]) == title]
        if mine:
            lines += [
                f"\n## {title}\n",
                *_table(_heads(results), [_row(op, shipped, results, emulated) for op in mine]),
            ]
    lines.append("\n`make kernels` writes this page from the manifests and from `benchmarks/results`.")
    return "\n".join(lines) + "\n"


def _origin(op: str, source: str) -> str:
    return next(title for title, belongs in ORIGINS if belongs(op, source))


def _heads(results: Mapping[str, Any]) -> list[str]:
    names = [_machine(found) for _, found in sorted(results.items())]
    runs = [head for name in names for head in (f"verified on {name}", f"ratio on {name}")]
    return ["op", "what it computes", "for", "shipped", "emulated", *runs]


def _machine(found: Mapping[str, Any]) -> str:
    return str(next(part["machine"]["name"] for part in found.values())).removeprefix("NVIDIA ")


def _row(
    op: str, shipped: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]], emulated: Mapping[str, Any]
) -> list[str]:
    facts = shipped["ops"][op]
    runs = [cell for _, found in sorted(results.items()) for cell in (verified(op, found), beside(op, found))]
    return [
        f"`{op}`",
        _description(facts["doc"]),
        ", ".join(facts["targets"]) or "any",
        _shipped(op, shipped),
        without_gpu(op, emulated, shipped["ops"]),
        *runs,
    ]


def without_gpu(op: str, emulated: Mapping[str, Any], shipped: Container[str] = ()) -> str:
    """How many variants of an op were emulated and right, of how many, for each target; and what the others are.

    The parts of an op count one by one, unless they are shipped under a name of their own.

    >>> one = {"op": "a", "target": "sm_100a", "result": "right", "detail": ""}
    >>> other = {**one, "result": "refused", "detail": "bar.red"}
    >>> without_gpu("a", {"variants": {"1": one, "2": other}})
    'sm_100a 1 of 2; refused: `bar.red`'
    >>> without_gpu("a", {"variants": {"1": {**one, "op": "a.first"}, "2": {**one, "op": "a.second"}}}, {"a.first"})
    'sm_100a 1 part'
    """
    every = emulated["variants"].values()
    mine = [one for one in every if one["op"] == op]
    parts = [one for one in every if one["op"].startswith(f"{op}.") and one["op"] not in shipped]
    mine += parts
    texts = []
    for target in sorted({one["target"] for one in mine}):
        results = [one["result"] for one in mine if one["target"] == target]
        right = results.count("right")
        of = f" of {len(results)}" if right != len(results) else ""
        texts.append(f"{target} {right}{of}" + (f" part{'s' * (len(results) > 1)}" if parts else ""))
    wrong = sum(one["result"] == "wrong" for one in mine)
    others = [f"**{wrong} wrong**"] if wrong else []
    opcodes = sorted({one["detail"] for one in mine if one["result"] == "refused"})
    others += [f"refused: {', '.join(f'`{name}`' for name in opcodes)}"] if opcodes else []
    others += [name for name in ("too large", "left out") if any(one["result"] == name for one in mine)]
    return "; ".join([", ".join(texts), *others]) if mine else ""


def _description(doc: str) -> str:
    """The first clause of a docstring, without the call that it begins with.

    >>> _description("``norm(x, out)``: the norm of rows. It is exact.")
    'the norm of rows'
    >>> _description("m:f of lib, as its own front ends ask for it")
    '`f` of lib'
    """
    text = re.sub(r"^``[^`]*``[:.]?\s*", "", doc).replace("``", "`").split(". ")[0].rstrip(".").rstrip(":")
    if front_end := re.fullmatch(r"[\w.]+:(\w+) of ([\w-]+), .*", text):
        return f"`{front_end[1]}` of {front_end[2]}"
    for mark in (": `", ", with ", "; ", " with ", ", ", " on "):
        shorter = text.partition(mark)[0]
        whole = shorter.count("(") == shorter.count(")") and shorter.count("`") % 2 == 0
        if len(text) > LONGEST and whole:
            text = shorter
    return text


def _shipped(op: str, shipped: Mapping[str, Any]) -> str:
    manifests = {name: found[op] for name, found in sorted(shipped["manifests"].items()) if op in found}
    counts: Counter[str] = sum((Counter(found) for found in manifests.values()), Counter())
    targets = ", ".join(f"{target} {number}" for target, number in sorted(counts.items()))
    names = ", ".join(name.removesuffix(".yaml") for name in manifests)
    return f"{names}: {targets}" if manifests else "none: name it in a manifest of your own"


def verified(op: str, found: Mapping[str, Any]) -> str:
    """How many variants of an op were launched and compared; and how many of these were wrong.

    >>> verified("a", {"verify": {"data": {"a": {"1": {"problems": 4, "failed": [], "date": "2026-11-22"}}}}})
    '1'
    """
    keys = found.get("verify", {}).get("data", {}).get(op, {})
    tests = found.get("tests", {}).get("data", {}).get(op)
    if not keys and tests:
        gpus = f" on {tests['gpus']} GPUs" if tests["gpus"] > 1 else ""
        return f"{counted(tests['passed'], 'test')}{gpus} ({', '.join(f'`{file}`' for file in tests['files'])})"
    if not keys:
        return ""
    wrong = sum(bool(one["failed"]) for one in keys.values())
    return str(len(keys) - wrong) + (f"; **{wrong} wrong**" if wrong else "")


def beside(op: str, found: Mapping[str, Any]) -> str:
    """The peers' time over ours in the geometric mean, of the fastest variant for each problem."""
    ratios, peers = [], set()
    for part in found.values():
        data = part["data"]
        rows = [row for row in data.get("rows", ()) if row.get("op") == op]
        timed = [(one["timing"]["microseconds"], one["timing"]["peers"]) for one in fastest(_timed(rows))]
        timed += [(row["us"], row["peers"]) for row in rows if "us" in row]
        for us, taken in timed:
            if taken:
                name, least = min(taken.items(), key=lambda item: (item[1], item[0]))
                ratios.append(least / us)
                peers.add(library_of(name))
    products = {"bfloat16": "gemm-bfloat16", "float8": "gemm-float8"} if op == "gemm" else {}
    texts = [f"{_mean(ratios):.2f} ({', '.join(sorted(peers))})"] if ratios else []
    for dtype, part in products.items():
        if part in found:
            summary = found[part]["data"]["summary"]
            texts.append(f"{dtype} {summary['geometric_mean']:.2f} (torch)")
    return ", ".join(texts)


def _timed(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row.get("timing")]


def _mean(ratios: Sequence[float]) -> float:
    return exp(sum(log(ratio) for ratio in ratios) / len(ratios))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def shipped_by(plan: Mapping[str, Any]) -> tuple[dict[str, dict[str, int]], dict[str, Any]]:
    """Of the JSON of a plan: the variants of each op by target, and what is said of each op.

    >>> shipped_by({"variants": [{"op": "a", "target": "sm_90a", "source": "m:f"}], "ops": {"a": {"doc": "x"}}})
    ({'a': {'sm_90a': 1}}, {'a': {'doc': 'x', 'source': 'm:f', 'targets': ['sm_90a']}})
    """
    counts: dict[str, dict[str, int]] = {}
    facts: dict[str, Any] = {}
    for variant in plan["variants"]:
        op, target = variant["op"], variant["target"]
        counts.setdefault(op, {})[target] = counts.get(op, {}).get(target, 0) + 1
        doc = plan["ops"].get(op, {}).get("doc", "")
        facts[op] = {"doc": doc, "source": variant["source"], "targets": sorted(counts[op])}
    return counts, facts
