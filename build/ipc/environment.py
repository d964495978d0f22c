"""The environment of child processes: what they inherit, and the variables that precast sets for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from precast.loader.format.target import Target

# The compiler's own variables are not inherited: they change the bytes, and are not in a variant's key.
_DROPPED = ("CUTE_DSL_", "CUTE_EXPERIMENTAL_DSL_")

DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        # The experimental front end has its own switch for TVM-FFI. Without it, its objects cannot be called.
        "CUTE_EXPERIMENTAL_DSL_ENABLE_TVM_FFI": "1",
        # The compiler's cache on disk: a hit compiles nothing, so there is no object to collect.
        "CUTE_DSL_DISABLE_FILE_CACHING": "1",
        "CUTE_EXPERIMENTAL_DSL_DISABLE_FILE_CACHING": "1",
        # quack's cache on disk has no architecture in its keys: it would return an object of another target.
        "QUACK_CACHE_ENABLED": "0",
        # FlashAttention's cache on disk returns loaded functions, which cannot be exported.
        "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "0",
        # FlashInfer's tuned tactics on disk were measured on whatever GPU this machine has or had.
        "FLASHINFER_AUTOTUNER_LOAD_FROM_FILE": "0",
    }
)
"""Variables set in every child process unless the manifest's ``env:`` sets them. The caller's own do not count."""

FIXED: Mapping[str, str] = MappingProxyType(
    {
        "PYTHONHASHSEED": "0",  # an author's set or dict must not order the generated code
        "PYTHONUNBUFFERED": "1",  # what a process prints before it crashes must arrive
        "PYTHONSAFEPATH": "1",  # modules are never imported from the current folder
    }
)
"""Variables set in every child process. Nothing overrides them."""


def child_environment(
    base: Mapping[str, str], *, target: Target | None = None, env: Mapping[str, str] | None = None, gpu: bool = False
) -> dict[str, str]:
    """The environment of a child process: ``base`` without the compiler's variables, the defaults, then ``env``.

    With a ``target``, the process compiles, or describes kernels, for it. It sees no GPU unless ``gpu`` is True: what
    it compiles must not depend on the machine.

    >>> from precast.loader.format.target import Target
    >>> made = child_environment({"CUTE_DSL_LINEINFO": "1"}, target=Target.parse("sm_90a"), env={"A": "b"})
    >>> made["CUTE_DSL_ARCH"], made["A"], made["CUDA_VISIBLE_DEVICES"], "CUTE_DSL_LINEINFO" in made
    ('sm_90a', 'b', '-1', False)
    """
    made = {name: value for name, value in base.items() if not name.startswith(_DROPPED)}
    made |= DEFAULTS
    made |= env or {}
    made |= FIXED
    if target is not None:
        made |= {"CUTE_DSL_ARCH": str(target), "CUTE_DSL_ENABLE_TVM_FFI": "1"}
    if not gpu:
        made["CUDA_VISIBLE_DEVICES"] = "-1"
    return made
