"""The child process of ``precast.build.plan.describer``: imports kernels' modules and says what they declare.

One request a line on standard input, one answer a line on the pipe whose number is the first argument. Both are moved
out of the reach of the modules it imports, which may print and read as they like. Those that ask for the GPU while
they are imported hear of the target's usual one, the second argument, as in a worker.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from precast.build.child.fact_recorder import FactRecorder
from precast.build.child.fake_gpu import install_fake_gpu
from precast.build.gpu.profile import profile_of
from precast.kernels.authoring.declare import Declaration, declaration_of
from precast.kernels.authoring.registry import FunctionRef, find, load
from precast.loader.errors import PrecastError
from precast.loader.format.config import complete
from precast.loader.format.index import key_to_json
from precast.loader.format.target import Target

_FRAMES = 3
_DOC = 2000


def main() -> None:
    """Answer requests until there are no more."""
    answers = int(sys.argv[1])
    os.set_inheritable(answers, False)
    requests = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if not getattr(sys.flags, "safe_path", False):  # Python 3.10 puts the current folder first
        del sys.path[0]
    sys.path[:0] = sys.argv[3:]
    _speak_for(Target.parse(sys.argv[2]))
    install_fake_gpu(_answers)
    with os.fdopen(answers, "wb") as pipe:
        for line in requests:
            request = json.loads(line)
            rows = (
                [describe(**row) for row in request["describe"]] if "describe" in request else judge(request["judge"])
            )
            pipe.write(json.dumps(rows).encode() + b"\n")
            pipe.flush()
    sys.stdout.flush()
    os._exit(0)  # threads that a module has started must not hold it up


def describe(op: str | None, source: str | None) -> dict[str, Any]:
    """One kernel's declaration, or why there is none."""
    try:
        place = FunctionRef.parse(source) if source else find(op or "")
        function = load(place)
        declared = declaration_of(function, op)
        return {
            "op": declared.op,
            "source": str(place),
            "keys": [key_to_json(k) for k in declared.keys],
            "targets": list(declared.targets),
            "outputs": list(declared.outputs),
            "doc": _first(function),
            "declared": _is_declared(function),
            "judges": declared.supports is not None,
        }
    except PrecastError as error:
        return {"error": f"{error}{_frames(error.__cause__)}"}
    except (Exception, SystemExit) as error:
        return {
            "error": f"reading the declaration failed with {type(error).__name__}: {error}: correct it{_frames(error)}"
        }


def judge(rows: list[dict[str, Any]]) -> list[str | None]:
    """For each variant, the reason of its kernel's ``supports``, or None."""
    declarations: dict[tuple[str, str], Declaration] = {}
    reasons: list[str | None] = []
    for row in rows:
        who = (row["op"], row["source"])
        if who not in declarations:
            declarations[who] = declaration_of(load(FunctionRef.parse(row["source"])), row["op"])
        reasons.append(_judged(declarations[who], row))
    return reasons


_answers = FactRecorder("", {})


def _speak_for(target: Target) -> None:
    _answers.speak_for(**profile_of(target).to_json())


def _judged(declared: Declaration, row: dict[str, Any]) -> str | None:
    supports: Callable[[Any, Any], Any] | None = declared.supports
    if supports is None:
        return None
    target = Target.parse(row["target"])
    _speak_for(target)
    try:
        reason = supports(complete(declared.keys, row["config"], op=declared.op), target)
    except (Exception, SystemExit) as error:
        return f"its supports() failed with {type(error).__name__}: {error}: correct it{_frames(error)}"
    if reason is None or (isinstance(reason, str) and reason):
        return reason
    return f"its supports() gave {reason!r}: return None, or a reason as text"


def _is_declared(function: Callable[..., Any]) -> bool:
    try:
        declaration_of(function)
    except PrecastError:
        return False
    return True


def _first(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, on one line."""
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n", 1)[0].split())[:_DOC]


def _frames(error: BaseException | None) -> str:
    """The last frames of a traceback: where in the author's code it went wrong."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:] if error else []
    return "".join(f"\n    {f.filename}:{f.lineno} in {f.name}: {f.line}" for f in frames)


if __name__ == "__main__":
    main()
