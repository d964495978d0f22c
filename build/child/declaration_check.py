"""Checks of a declaration against what was compiled: the names that it uses, and its functions, run once on the CPU.

A GPU would find the same mistakes later. What needs a GPU, or much memory or time, is left to ``precast verify``.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from precast.build.child.author_traceback import author_frames
from precast.build.ipc.message import TimedPipe
from precast.build.ipc.process_tree import end_with_parent, waited_for_processor
from precast.kernels.authoring.declare import Declaration
from precast.loader.contract.format.config import Config, suggest
from precast.loader.contract.format.signature import Signature

MOST = 1 << 20  # the product of a problem's sizes
SECONDS = 5.0
NO_REFERENCE = "it declares no reference: 'precast verify' cannot check its numbers"
_NOT_HERE = ("not implemented for", "cuda", "nvidia driver", "not supported on cpu")
_LONGEST = 2000


def wrong_names(declaration: Declaration, signature: Signature, part: int = 0) -> str:
    """What a declaration names that the compiled kernel does not take; empty where all is right.

    >>> from precast.loader.contract.format.signature import Argument
    >>> takes = Signature(arguments=(Argument(name="out", kind="tensor", dtype="float32", shape=(8,)),))
    >>> wrong_names(Declaration(op="scale", keys=(), outputs=("outt",)), takes)
    "outputs: the kernel takes no argument 'outt'; did you mean 'out'?"
    """
    if declaration.passes is not None:
        return ""  # it may name what is reached through an address
    names = [argument.name for argument in signature.arguments]
    declared = {
        "outputs": tuple(declaration.parts.values())[part] if declaration.parts else declaration.outputs,
        "in_place": () if declaration.parts else declaration.in_place,
        "workspace": () if declaration.parts else declaration.workspace,
    }
    for field, listed in declared.items():
        for name in listed:
            if name not in names:
                return f"{field}: the kernel takes no argument {name!r}{suggest(name, names)}"
    return ""


def advice(declaration: Declaration, config: Config, signature: Signature) -> str:
    """What an author should correct or add; empty where nothing was found.

    The author's functions run in a process of their own, which may print, hang, crash and import modules: nothing of
    that affects the variant.
    """
    if declaration.parts:
        return ""
    if declaration.reference is None:
        return NO_REFERENCE
    return _in_own_process(lambda: trial(declaration, config, signature))


def trial(declaration: Declaration, config: Config, signature: Signature) -> str:
    """What is wrong with a declaration's ``problems``, ``inputs`` and ``reference``, run for its smallest problem.

    Empty where nothing was found. A function that needs a GPU is not a mistake.
    """
    if declaration.problems is None or declaration.inputs is None or declaration.parts:
        return ""
    try:
        problems = declaration.problems(config)
        sizes = [math.prod(problem.values()) for problem in problems]
    except (Exception, SystemExit) as error:
        return _failed("problems", error)
    if not problems or min(sizes) > MOST:
        return ""
    return _inputs_and_reference(declaration, config, problems[sizes.index(min(sizes))], signature)


def _inputs_and_reference(
    declaration: Declaration, config: Config, problem: Mapping[str, int], signature: Signature
) -> str:
    inputs, reference = declaration.inputs, declaration.reference
    assert inputs is not None
    values, fault = _tried("inputs", lambda: inputs(config, problem, device="cpu", seed=0))
    if values is None or fault:
        return fault
    if declaration.passes is not None:
        passes = declaration.passes
        passed, fault = _tried("passes", lambda: passes(config, values))
        if passed is None or fault:
            return fault
        passed = passed if isinstance(passed, Mapping) else passed[0]
        taken = {argument.name for argument in signature.arguments}
        arguments = {n: v for n, v in {**values, **passed}.items() if n in taken or n in passed}
    else:
        arguments = values
    if fault := wrong_inputs(arguments, signature):
        return fault
    if reference is None:
        return ""
    expected, fault = _tried("reference", lambda: reference(config, values))
    return fault if expected is None or fault else wrong_results(expected, values, declaration.outputs)


def wrong_inputs(values: object, signature: Signature) -> str:
    """Why a kernel cannot be called with what ``inputs`` returned; empty where it can."""
    if not isinstance(values, Mapping):
        return f"inputs() returned {type(values).__name__}: return a dict of the arguments by name"
    names = [argument.name for argument in signature.arguments]
    taken = [a.name for a in signature.passed if not a.always_none and a.kind != "stream"]
    missing, extra = [n for n in taken if n not in values], [n for n in values if n not in names]
    if missing and extra:
        return f"inputs() makes {extra[0]!r}, which the kernel does not take{suggest(str(extra[0]), missing)}"
    if missing:
        return f"inputs() makes no {missing[0]!r}, which the kernel takes: add it"
    return ""


def wrong_results(expected: object, values: Mapping[str, Any], outputs: tuple[str, ...]) -> str:
    """Why the results of a reference cannot be compared with the outputs; empty where they can."""
    if not isinstance(expected, Mapping):
        return f"reference() returned {type(expected).__name__}: return a dict of the outputs by name"
    for name in outputs:
        if values.get(name) is None:
            continue
        if name not in expected:
            listed = ", ".join(map(str, expected)) or "nothing"
            return f"reference() returns {listed}, and not {name!r}, which is an output: add it"
        shapes = [tuple(getattr(value, "shape", ())) for value in (expected[name], values[name])]
        if shapes[0] != shapes[1]:
            return f"reference() returns {name!r} of shape {shapes[0]}, and the output has {shapes[1]}"
    return ""


def _tried(name: str, call: Callable[[], Any]) -> tuple[Any, str]:
    """The result of an author's function, and what is wrong with it; neither where it cannot run here."""
    try:
        return call(), ""
    except (NotImplementedError, MemoryError, ImportError):
        return None, ""
    except (Exception, SystemExit) as error:
        needs_gpu = any(word in str(error).lower() for word in _NOT_HERE)
        return None, "" if needs_gpu else _failed(name, error)


def _failed(name: str, error: BaseException) -> str:
    frames = author_frames(error)[-1:]
    where = f" ({frames[0].filename}:{frames[0].lineno})" if frames else ""
    return f"{name}() failed with {type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}{where}"


def _in_own_process(call: Callable[[], str]) -> str:
    """The result of a call in a forked process; empty if that crashes, or takes longer than some seconds, without those
    for which it waits for a processor."""
    answer, theirs = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            end_with_parent(parent)
            os.close(answer)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            os.write(theirs, call().encode("utf-8", "replace")[:_LONGEST])
        os._exit(0)
    os.close(theirs)
    text = b""
    with os.fdopen(answer, "rb", buffering=0) as pipe, suppress(TimeoutError):
        text = TimedPipe(pipe, SECONDS, lambda: None, lambda: waited_for_processor(pid)).read(_LONGEST)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return text.decode("utf-8", "replace")
