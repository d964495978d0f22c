"""Rivals: kernels of other caches that would serve a request as well, where nobody gave an order of the caches.

Installing one more wheel, or a dependency of one, must not exchange a kernel in silence.
"""

from __future__ import annotations

from collections.abc import Iterable

from precast.loader.contract.format.config import config_text
from precast.loader.contract.values import replace
from precast.loader.errors import CacheError, ConfigError
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import CachedOp, Candidate, Request
from precast.loader.resolve.discover import ORDER_VARIABLE
from precast.loader.resolve.judge import resolve


def disagreement(request: Request, machine: Machine, sources: Iterable[CachedOp], chosen: Candidate) -> str:
    """What is wrong if another cache would serve a request with another kernel, and no order decides between the two;
    empty where nothing is. The same bytes in two caches are one kernel.
    """
    if chosen.source.ordered:
        return ""
    mine, op = chosen.source, request.op
    others = (s for s in sources if not s.ordered and s.index.ops[op].sha256 != mine.index.ops[op].sha256)
    kernels = ((other, _alone(request, machine, other)) for other in others)
    rivals = [other for other, kernel in kernels if kernel is not None and _content(kernel) != _content(chosen)]
    if not rivals:
        return ""
    names = [rival.index.name for rival in rivals]
    listed = " and ".join(repr(source.cache) for source in (mine, *rivals))
    return (
        f"op {op!r} {config_text(request.config)} is in the caches {listed}, with different kernels; that of"
        f" {mine.cache!r} is used, as no order was given: give one, such as"
        f" {ORDER_VARIABLE}={','.join((*names, mine.index.name))}, or uninstall what is not wanted"
    )


def _alone(request: Request, machine: Machine, source: CachedOp) -> Candidate | None:
    """What a request would be served with if there were no other cache."""
    try:
        return resolve(replace(request, memo_key=None), machine, [source], full=False).chosen
    except (ConfigError, CacheError):
        return None


def _content(candidate: Candidate) -> object:
    artifact = candidate.artifact
    return artifact.kind, artifact.blob.sha256, artifact.program
