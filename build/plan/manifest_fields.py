"""The fields of a manifest, each with its description: the reference of the format."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ROOT_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "version": "The version of this format: 1. Required.",
        "name": "The name of the cache, in lower-case letters, digits and single dashes. Required.",
        "targets": "The targets of every entry that has no `targets` itself: one, such as `sm_90a`, or a list.",
        "profiles": (
            "The GPUs whose facts a kernel gets if it queries the GPU while it compiles: one, such as `H200`, or a "
            "list. A kernel for which several GPUs of one compute capability have different facts is built for each. "
            "Every capability without one has its default GPU."
        ),
        "path": (
            "Folders of the user's own modules, relative to the manifest: one, or a list. Modules are imported from "
            "them first. `${NAME}` in one is a variable of the environment."
        ),
        "inputs": ("What the kernels of all entries read beside their modules, as in an entry."),
        "tuning": (
            "Files of measurements, relative to the manifest: one, or a list. Every build puts the measurements of its "
            "variants into the cache. `precast tune measure` writes such files."
        ),
        "kernels": "The entries: a list with at least one. Required.",
    }
)
"""The fields at the top of a manifest."""

ENTRY_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "kernel": (
            "An op that an installed distribution registers. An entry has one of `kernel`, `compile`, `call` and "
            "`script`."
        ),
        "compile": "`module:function`: any function that ends in `cute.compile`.",
        "call": (
            "`module:function`: a function that is called with sample tensors. Every kernel that the call requests "
            "from an attached library is built."
        ),
        "with": (
            "The arguments of `call` by name: plain values, lists, and tensors. A tensor is a mapping with `dtype` and "
            "`shape` (and `strides`), or with `dtype` and `values`, and `requires_grad` if it is true. In it a name "
            "stands for a key of `config`; in other arguments it is written `${name}`."
        ),
        "backward": "`true` also runs the backward pass of what `call` returns. `false` if left out.",
        "script": (
            "A Python file, relative to the manifest, that is run. Every kernel that it requests from an attached "
            "library is built."
        ),
        "arguments": "The arguments of `script`: a list of texts and numbers.",
        "libraries": (
            "The libraries to attach for `call` or `script`: one, such as `quack`, or a list. If left out, all "
            "installed libraries that precast supports."
        ),
        "op": "The name of the op, with `compile` only. Required unless the function declares an op.",
        "config": (
            "The values of the keys that a caller must match, or of the names in `with`: a mapping from key to value, "
            "or to a list of values. Lists multiply. A key that is left out has the function's default."
        ),
        "tuned": (
            "The values of the keys among which the loader chooses, the preferred value first. Lists multiply, also "
            "with those of `config`."
        ),
        "include": (
            "More configs beside the product of the lists: a list of mappings from key to value. A key that is left "
            "out takes the value of `config` or `tuned` where they have one value, else the function's default."
        ),
        "exclude": (
            "Configs to leave out of the product of the lists: a list of mappings from key to value, or to a list of "
            "values. A config is left out if it matches every key of an item. An item that matches nothing is an "
            "error, and so is an entry of which nothing is left. Rows of `include` are never left out."
        ),
        "targets": "The targets of this entry, in place of those at the top.",
        "emit": (
            "The kinds of artifact: `object`, `cubin`, or a list of both. The loader can launch a `cubin` only if its "
            "kernel declares its launch. `object` if left out."
        ),
        "env": (
            "Variables to set while the kernel is imported and compiled: a mapping from name to value. "
            "`${target.sm_count}`, `${target.arch}`, `${target.name}` and other facts of the target are filled in. "
            "Variables that precast sets for every child process cannot be set here, except the switches of caches."
        ),
        "inputs": (
            "What the kernel reads, while it is imported and compiled, beside the modules that import statements "
            "name: a mapping from `files` (files and folders, relative to the manifest), `variables` (of the "
            "environment of the build), `programs` (by name) or `packages` (installed distributions that no import "
            "statement names) to one or a list. Nothing else is there."
        ),
        "parts": (
            "Names for the objects, in the order in which they are compiled or returned, of a function that compiles "
            "more than one. The object `part` is stored under the op `op.part`."
        ),
        "speed_only": (
            "With `compile` only, of a function that declares nothing: the facts of the GPU that may be another "
            "GPU's where the kernel runs, since a wrong number only costs speed: one, such as `multiprocessor_count` "
            "or `max_active_clusters`, or a list. Never for a kernel whose blocks wait for each other."
        ),
        "problems": (
            "The problems at which `precast tune measure` times the variants: a list of mappings from size names to "
            'a number, or to a list. Lists multiply. A key such as `"n,k"` takes lists of sizes that go together. '
            "Those that the kernel declares if left out."
        ),
        "skip_unsupported": (
            "`true` lists the variants that a kernel refuses, or that its targets rule out, instead of failing. "
            "With `call` and `script` it leaves out the kernels whose keys no manifest can hold. "
            "`false` if left out."
        ),
    }
)
"""The fields of an entry of `kernels`."""

_SHARED = ("targets", "env", "inputs", "skip_unsupported")
_ROWS = ("config", "include", "exclude")
_BUILT = (*_ROWS, "tuned", "emit", "parts", "problems", *_SHARED)
FIELDS_OF_KIND: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kernel": ("kernel", *_BUILT),
        "compile": ("compile", "op", "speed_only", *_BUILT),
        "call": ("call", "with", "backward", "libraries", *_ROWS, *_SHARED),
        "script": ("script", "arguments", "libraries", *_SHARED),
    }
)
"""The kinds of entries, by the field that makes an entry one, each with all fields that it may have."""
