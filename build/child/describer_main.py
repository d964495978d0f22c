"""The describer: a process that imports kernels' modules and reads their declarations.

``precast.build.plan.describer`` starts it. Modules that query the GPU while they are imported get the facts of the
target's default GPU, as in a worker, and find only what their closures have.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.build.child.author_traceback import author_frames
from precast.build.child.closed.refusals import explained
from precast.build.child.closed.world import World
from precast.build.child.serve import Answer, serve
from precast.build.child.source_only import SourceOnly
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.child.stand_in.fake_gpu import install_fake_gpu
from precast.build.child.stand_in.need import replace_cuda
from precast.build.gpu.profile import profile_of
from precast.build.ipc.message import Message
from precast.kernels.authoring.adapter import read_installed
from precast.kernels.authoring.declare import Declaration, declaration_of, is_declared
from precast.kernels.authoring.extras import extra_hint
from precast.kernels.authoring.registry import FunctionRef, find, load
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.index import key_to_json
from precast.loader.contract.format.target import Target
from precast.loader.errors import PrecastError

_FRAMES = 3
_DOC = 2000


def main() -> None:
    """Serve requests of a plan."""
    serve(start)


def start(settings: Mapping[str, Any]) -> Answer:
    """Install the default GPU of a target, and return the function that describes kernels and checks variants."""
    world = World.begin(settings["search"])
    facts = FactRecorder("", {})
    _use_gpu_of(Target.parse(settings["target"]), facts)
    install_fake_gpu(facts)
    read_installed()  # here, since a closed process sees only the distributions of its kernels
    SourceOnly().install()
    world.close(settings["closure"])

    def answer(request: Mapping[str, Any]) -> Message:
        rows: Sequence[Any]
        if "describe" in request:
            rows = [describe(**row) for row in request["describe"]]
        elif "sizes" in request:
            rows = [size_names(row) for row in request["sizes"]]
        else:
            rows = refusals(request["check"], facts)
        return Message({"rows": rows})

    return answer


def describe(op: str | None, source: str | None) -> dict[str, Any]:
    """One kernel's declaration, or the reason why there is none."""
    try:
        ref = FunctionRef.parse(source) if source else find(op or "")
        function = _loaded(ref)
        declared = declaration_of(function, op)
        return {
            "op": declared.op,
            "source": str(ref),
            "keys": [key_to_json(k) for k in declared.keys],
            "targets": list(declared.targets),
            "doc": _first_paragraph(function),
            "parts": list(declared.parts),
            "speed_only": list(declared.speed_only),
            "imports": list(declared.imports),
            "declared": is_declared(function),
            "has_supports": declared.supports is not None,
        }
    except PrecastError as error:
        return {"error": f"{error}{extra_hint(error)}{_frames(error.__cause__)}"}
    except (Exception, SystemExit) as error:
        reason = explained(error)
        text = f"{type(reason).__name__}: {reason}: correct it{extra_hint(reason)}"
        return {"error": f"reading the declaration failed with {text}{_frames(reason)}"}


def _loaded(ref: FunctionRef) -> Callable[..., Any]:
    replace_cuda(ref)
    return load(ref)


def size_names(row: dict[str, Any]) -> list[str] | str:
    """The names of the sizes in a kernel's problems, none if it declares no problems; or an error."""
    declared = declaration_of(_loaded(FunctionRef.parse(row["source"])), row["op"])
    if declared.problems is None:
        return []
    try:
        problems = declared.problems(complete(declared.keys, row["config"], op=declared.op))
        return sorted({str(name) for problem in problems for name in problem})
    except (Exception, SystemExit) as error:
        return (
            f"the problems() of {declared.op} failed with {type(error).__name__}: {error}: correct it{_frames(error)}"
        )


def refusals(rows: list[dict[str, Any]], facts: FactRecorder) -> list[str | None]:
    """For each variant, the reason why its kernel's ``supports`` refuses it, or None."""
    declarations: dict[tuple[str, str], Declaration] = {}
    reasons: list[str | None] = []
    for row in rows:
        name = (row["op"], row["source"])
        if name not in declarations:
            declarations[name] = declaration_of(_loaded(FunctionRef.parse(row["source"])), row["op"])
        reasons.append(_refusal(declarations[name], row, facts))
    return reasons


def _refusal(declared: Declaration, row: dict[str, Any], facts: FactRecorder) -> str | None:
    supports: Callable[[Any, Any], Any] | None = declared.supports
    if supports is None:
        return None
    target = Target.parse(row["target"])
    _use_gpu_of(target, facts)
    try:
        reason = supports(complete(declared.keys, row["config"], op=declared.op), target)
    except (Exception, SystemExit) as error:
        return f"its supports() failed with {type(error).__name__}: {error}: correct it{_frames(error)}"
    if reason is None or (isinstance(reason, str) and reason):
        return reason
    return f"its supports() returned {reason!r}: return None, or a reason as text"


def _use_gpu_of(target: Target, facts: FactRecorder) -> None:
    facts.use_profile(**profile_of(target).to_json())


def _first_paragraph(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, on one line."""
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n", 1)[0].split())[:_DOC]


def _frames(error: BaseException | None) -> str:
    """The last frames of the author's code, on a line each."""
    frames = author_frames(error)[-_FRAMES:] if error else []
    return "".join(f"\n    {f.filename}:{f.lineno} in {f.name}: {f.line}" for f in frames)


if __name__ == "__main__":
    main()
