"""What attached kernels carry beside their arguments: the guards in their keys, and their entries in the provenance of
an artifact.
"""

from __future__ import annotations

from typing import Any

from precast.loader.errors import FormatError

DSL_DISTRIBUTION = "nvidia-cutlass-dsl"

VERSION, SOURCE, COMPILER = "library_version", "library_source", "dsl_version"
"""The names in a config: the version and the source digest of the library, and the version of the DSL."""

RETURNS = "returns"
"""The name in the provenance: the structure that a compile function returned (``return_structure``)."""

FACTS = "facts"
"""The name in the provenance: what decided the kernel beside its key (``kernel_facts``)."""

NATIVE_CALL = "native_call"
"""The name in the provenance: the defaults of the arguments, where the library compiles without TVM-FFI."""


def parse_defaults(value: object) -> dict[str, Any] | None:
    """Check the defaults of a native call; None where the library compiles for TVM-FFI.

    >>> parse_defaults({"scale": 1.0}), parse_defaults(None)
    ({'scale': 1.0}, None)
    """
    if value is None:
        return None
    plain = (type(None), bool, int, float)
    if isinstance(value, dict) and all(isinstance(n, str) and isinstance(v, plain) for n, v in value.items()):
        return value
    raise FormatError(f"{value!r:.80} are not the defaults of a call: rebuild the cache")
