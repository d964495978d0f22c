"""Example lines of each command, as ``precast COMMAND --help`` prints them. A test parses every one."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "init": ("precast init", "precast init acme-norms --name norm"),
    "new": ("precast new rope -o rope", "precast new server --attach quack"),
    "plan": (
        "precast plan manifest.yaml",
        "precast plan manifest.yaml -t sm_100a --json",
        "precast plan manifest.yaml --explain",
    ),
    "requests": (
        "precast requests requests.jsonl -o requested.yaml",
        "precast requests requests.jsonl --only missing -o missing.yaml",
        "precast requests requests.jsonl --grid",
    ),
    "build": (
        "precast build",
        "precast build --watch",
        "precast build manifest.yaml -o cache",
    ),
    "check": ("precast check manifest.yaml cache",),
    "reproduce": ("precast reproduce manifest.yaml cache --sample 20",),
    "record": (
        "precast record -o recorded.yaml -- python warmup.py",
        "precast record -o recorded.yaml -t sm_100a -- python -m mine.warmup -b 8",
        "precast record -o recorded.yaml --append -- python more.py",
    ),
    "start record": ("precast start record -o cache -- python warmup.py",),
    "start check": ("precast start check cache -- python warmup.py",),
    "wheel": ("precast wheel cache -o dist",),
    "sign": ("precast sign cache --key key.pem", "precast sign dist/precast_cache_demo-1.0-py3-none-any.whl --keyless"),
    "verify-signature": (
        "precast verify-signature cache --key key.pub --pin pins.txt",
        "precast verify-signature cache --identity ci@acme.example --issuer https://accounts.example.com",
    ),
    "sbom": ("precast sbom cache -o cache.cdx.json",),
    "bundle": ("precast bundle dist/*.whl -o bundle --python 3.12",),
    "push": (
        "precast push cache oci://registry.example.com/kernels/llama:v3",
        "precast push cache hf://acme/kernels@main",
    ),
    "fetch": (
        "precast fetch oci://registry.example.com/kernels/llama:v3 -o cache",
        "precast fetch hf://acme/kernels@v1.0/h200 -o cache",
    ),
    "merge": ("precast merge part1 part2 -o cache",),
    "native": (
        "precast native -o libprecast",
        "precast native cache --requests requests.yaml -t sm_90a -o kernels",
    ),
    "list": ("precast list cache", "precast list cache --op scale --where dtype=bf16", "precast list"),
    "show": ("precast show cache 3f2a91c0", "precast show cache rmsnorm"),
    "explain": (
        "precast explain rmsnorm dtype=bf16 hidden=4096",
        "precast explain cache scale dtype=float32 -t sm_90a",
    ),
    "caches": ("precast caches",),
    "diff": ("precast diff old new",),
    "report": ("precast report cache -o report.html", "precast report cache -o report.html --against old"),
    "export": ("precast export cache 3f2a91c0 -o files",),
    "store": ("precast store", "precast store --stats", "precast store --prune --older-than 30d --keep 20G"),
    "doctor": ("precast doctor",),
    "error": ("precast error", "precast error PCL07", "precast error VariantNotFound"),
    "schema": ("precast schema manifest > manifest.schema.json",),
    "verify": (
        "precast verify cache",
        "precast verify cache --op rmsnorm --record --junit report.xml",
        "precast verify cache --sanitizer racecheck",
    ),
    "bench": (
        "precast bench cache -o times.json --svg roofline.svg",
        "precast bench cache --op gemm --where dtype=bf16 --problem m=8,n=4096,k=64",
        "precast bench cache --json > report.json",
    ),
    "tune measure": ("precast tune measure manifest.yaml --cache cache -o tuning/gemm-h200.json",),
    "tune model": ("precast tune model manifest.yaml --cache cache --gpu B200 -o b200.json",),
    "tune prune": (
        "precast tune prune manifest.yaml --cache cache",
        "precast tune prune manifest.yaml --cache cache --times h200.json --cover",
    ),
    "tune apply": ("precast tune apply cache times.json",),
}


def epilog(name: str) -> str:
    """The examples of a command, as the last lines of its help.

    >>> print(epilog("merge"))
    Examples:
      precast merge part1 part2 -o cache
    """
    return "\n".join(["Examples:", *(f"  {line}" for line in EXAMPLES.get(name, ()))])
