"""A recording as a manifest: one entry a key, sorted, a value a line, so that people can review, merge and edit it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from precast.loader.attach.library import library_named
from precast.loader.attach.recording import Recorded, merged
from precast.loader.format.config import value_text


def manifest_of(recorded: Iterable[Recorded], *, name: str, targets: Iterable[str]) -> str:
    """The text of a manifest that builds every recorded key.

    >>> from precast.loader.attach.recording import Recorded
    >>> one = Recorded(library="quack", compile="quack.softmax:Softmax.compile", config={"N": 4096})
    >>> print(manifest_of([one], name="mine", targets=["sm_90a"]))
    version: 1
    name: mine
    targets: [sm_90a]
    kernels:
      - compile: "quack.softmax:Softmax.compile@quack"
        op: attach.quack.softmax_softmax_compile_a52ea753
        config:
          N: 4096
    <BLANKLINE>
    """
    lines = ["version: 1", f"name: {name}", f"targets: {value_text(list(targets))}", "kernels:"]
    for one in merged(recorded):
        lines += [
            f"  - compile: {value_text(f'{one.compile}@{one.library}')}",
            f"    op: {library_named(one.library).op(one.compile)}",
            "    config:",
            *_values(one.config),
        ]
        if one.call is not None:
            call = [[argument, form] for argument, form in sorted(one.call.items())]
            lines += ["    tuned:", *_values({"call": call})]
    return "\n".join(lines) + "\n"


def _values(config: Mapping[str, Any]) -> list[str]:
    """A line each. A list is one value here, and a list of values in a manifest: so it stands in a list."""
    wrapped = ((name, [form] if isinstance(form, list) else form) for name, form in sorted(config.items()))
    return [f"      {name}: {value_text(form)}" for name, form in wrapped]
