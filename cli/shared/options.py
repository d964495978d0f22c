"""Arguments and options that several commands have, each declared once.

A command annotates its parameters with these types: ``as_json: options.Json = False``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

Cache = Annotated[Path, Argument(help="The folder of the cache.", metavar="CACHE")]
CacheOrProject = Annotated[
    Path | None, Argument(help="The folder of the cache; if left out, precast.toml names it.", metavar="CACHE")
]
ManifestsOrProject = Annotated[
    list[Path] | None, Argument(help="The manifests; if left out, precast.toml names them.", metavar="MANIFEST...")
]
ManifestsAndCache = Annotated[
    list[Path] | None,
    Argument(help="The manifests, then the cache; if left out, precast.toml names them.", metavar="MANIFEST... CACHE"),
]

Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
OutputCache = Annotated[Path, Option("--output", "-o", help="The folder of the new cache.", metavar="CACHE")]
OutputOrProject = Annotated[
    Path | None,
    Option("--output", "-o", help="The folder of the new cache; if left out, precast.toml names it.", metavar="CACHE"),
]
OutputFolder = Annotated[Path, Option("--output", "-o", help="The folder for the files.", metavar="DIR")]
Store = Annotated[
    Path | None,
    Option("--store", help="The folder in which builds keep compiled variants.", envvar="PRECAST_STORE", metavar="DIR"),
]

# What manifests are planned for.
CacheName = Annotated[
    str, Option("--name", help="The name of the cache; by default the first manifest's.", metavar="NAME")
]
Target = Annotated[
    list[str] | None, Option("--target", "-t", help="Only this target; may be repeated.", metavar="TARGET")
]
Retarget = Annotated[
    list[str] | None,
    Option(
        "--retarget",
        help="Build for NEW what the manifests list for OLD, such as sm_100a=sm_103a; may be repeated.",
        metavar="OLD=NEW",
    ),
]
Engine = Annotated[
    str | None,
    Option(
        "--engine",
        help="In place of a program: an engine, whose kernels for --model are recorded: vllm or sglang.",
        metavar="NAME",
    ),
]
Model = Annotated[
    Path | None,
    Option("--model", help="The engine's model: its config.json. No weights are read.", metavar="FILE"),
]
TensorParallel = Annotated[
    int, Option("--tensor-parallel", help="Over how many GPUs the engine spreads each layer.", min=1, metavar="N")
]
EngineOption = Annotated[
    list[str] | None,
    Option(
        "--engine-option",
        help="An option as the engine's server gets it, such as kv_cache_dtype=fp8; may be repeated.",
        metavar="NAME=VALUE",
    ),
]
Profile = Annotated[
    list[str] | None,
    Option(
        "--profile",
        help="A GPU to build for, where kernels query its properties, such as H200; may be repeated.",
        metavar="GPU",
    ),
]
PassEnv = Annotated[
    list[str] | None,
    Option("--pass-env", help="Pass this environment variable to compilations; may be repeated.", metavar="NAME"),
]
Emit = Annotated[
    list[str] | None,
    Option(
        "--emit", help="Build this kind, object or cubin, not those of the manifests; may be repeated.", metavar="KIND"
    ),
]

# Processes and their limits.
Jobs = Annotated[
    int | None,
    Option("--jobs", "-j", min=0, max=1024, help="Worker processes; 0 chooses a number for this machine.", metavar="N"),
]
Timeout = Annotated[float, Option("--timeout", min=1, help="Time limit for one variant, in seconds.", metavar="SEC")]
