"""The environment of child processes: what they inherit, and the variables that precast sets for each of them."""

from __future__ import annotations

import site
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from precast.loader.contract.diagnostics.variables import VARIABLES as WATCHING
from precast.loader.contract.format.patterns import NAME
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError

# What a process that compiles or describes inherits: where the interpreter, its modules and the libraries of the system
# are. Any other variable could change what is compiled on one machine and not on another: it must be passed by the
# manifest's env: or inputs:, or by --pass-env, which a variant's key covers.
_OF_INTERPRETER = frozenset(
    {
        "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE",
        "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PRECAST_CLOSED_BY",
    }
)  # fmt: skip
_SAME_EVERYWHERE: Mapping[str, str] = MappingProxyType(
    {"PATH": "/usr/bin:/bin", "HOME": "/home/precast", "USER": "precast", "LOGNAME": "precast"}
)
# What other child processes inherit.
_INHERITED = frozenset(
    {
        "PATH", "LD_LIBRARY_PATH",  # where programs and libraries are found
        "HOME", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP",  # who it is, and where it may write
        "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "VIRTUAL_ENV", "CONDA_PREFIX",  # its modules
        "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX",  # its byte code
        "CUDA_HOME", "CUDA_PATH",  # where the toolkit is
        "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",  # what it may take of the machine
    }
)  # fmt: skip
_INHERITED_PREFIXES = ("XDG_", "PRECAST_")  # folders of the user, and precast's own in programs
_GPU_PREFIXES = ("CUDA_", "NVIDIA_")  # which GPU to measure

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
        # How text is encoded and sorted, and the zone of local times: nothing else shows when they change a kernel.
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
)
"""Variables set in every child process unless the manifest's ``env:`` sets them. The caller's values are ignored."""

FIXED: Mapping[str, str] = MappingProxyType(
    {
        "PYTHONHASHSEED": "0",  # an author's set or dict must not order the generated code
        "PYTHONUNBUFFERED": "1",  # what a process prints before it crashes must arrive
        "PYTHONSAFEPATH": "1",  # modules are never imported from the current folder
    }
)
"""Variables set in every child process. Nothing overrides them."""

_SAME = "builds must be reproducible: remove it"
_RESERVED: Mapping[str, str] = MappingProxyType(
    {
        "CUTE_DSL_ARCH": "precast sets it to the target: write the target under targets:, or pass --target",
        "CUTE_DSL_ENABLE_TVM_FFI": "every object is compiled for TVM-FFI: remove it",
        "CUDA_VISIBLE_DEVICES": "builds must not depend on this machine's GPU: name the GPU under profiles:",
        **dict.fromkeys(FIXED, _SAME),
    }
)


def why_reserved(name: str) -> str | None:
    """The reason why a variable cannot be set for a child process, with advice; None if it can be set.

    >>> why_reserved("PYTHONHASHSEED"), why_reserved("ACME_TILE")
    ('builds must be reproducible: remove it', None)
    """
    return _RESERVED.get(name)


def passed_variables(names: Iterable[str], base: Mapping[str, str], by: str = "--pass-env") -> dict[str, str]:
    """The variables of ``--pass-env`` or ``inputs:`` with their values, where they are set.

    >>> passed_variables(["ACME_TILE", "OTHER"], {"ACME_TILE": "64", "UNASKED": "1"})
    {'ACME_TILE': '64'}
    """
    for name in names:
        if not NAME.admits(name):
            raise FormatError(f"{by}: {name[:80]!r} is not the name of a variable")
        if reason := why_reserved(name):
            raise FormatError(f"{by}: {name} cannot be passed: {reason}")
        if "${" in base.get(name, ""):
            raise FormatError(f"{by}: the value of {name} holds '${{': set it by env: in the manifest")
    return {name: base[name] for name in names if name in base}


def child_environment(
    base: Mapping[str, str],
    *,
    target: Target | None = None,
    env: Mapping[str, str] | None = None,
    gpu: bool = False,
    closed: bool = True,
) -> dict[str, str]:
    """The environment of a child process: what it inherits from ``base``, then the defaults, then ``env``.

    With a ``target``, the process compiles or describes kernels for it: it inherits only where Python and libraries
    are, if it is ``closed``. It sees no GPU unless ``gpu`` is True: the result must not depend on the machine.

    >>> from precast.loader.contract.format.target import Target
    >>> made = child_environment({"HOME": "/h", "ACME_TILE": "1"}, target=Target.parse("sm_90a"), env={"A": "b"})
    >>> made["CUTE_DSL_ARCH"], made["A"], made["HOME"], made["CUDA_VISIBLE_DEVICES"], "ACME_TILE" in made
    ('sm_90a', 'b', '/home/precast', '-1', False)
    """
    if target is not None and closed:
        variables = {name: value for name, value in base.items() if name in _OF_INTERPRETER}
        variables |= _SAME_EVERYWHERE
        if site.ENABLE_USER_SITE:  # where it is depends on HOME
            variables.setdefault("PYTHONUSERBASE", site.getuserbase())
    else:
        prefixes = _INHERITED_PREFIXES + (_GPU_PREFIXES if gpu else ())
        variables = {name: value for name, value in base.items() if name in _INHERITED or name.startswith(prefixes)}
    for name in WATCHING:  # for services: a log must not be an input of a compilation
        variables.pop(name, None)
    variables |= DEFAULTS
    variables |= env or {}
    variables |= FIXED
    if target is not None:
        variables |= {"CUTE_DSL_ARCH": str(target), "CUTE_DSL_ENABLE_TVM_FFI": "1"}
    if not gpu:
        variables["CUDA_VISIBLE_DEVICES"] = "-1"
    return variables
