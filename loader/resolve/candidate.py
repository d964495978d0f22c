"""Requests, and candidates for them: artifacts, each in one cache."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import (
    Key,
    Value,
    canonical,
    config_order,
    config_text,
    dtype_name,
    normalise,
    to_json,
)
from precast.loader.contract.format.index import Index
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.contract.format.signature import Signature, outputs_of
from precast.loader.contract.format.target import Target
from precast.loader.contract.values import Immutable, replace
from precast.loader.errors import ConfigError


class CachedOp(Immutable, kw_only=True):
    """An op as one cache has it; ``precedence`` is the cache's position in the search order, from 0. ``ordered`` unless
    only its name gave it that position."""

    cache: str
    precedence: int
    ordered: bool = True
    index: Index = field(repr=False)
    op: OpReader = field(repr=False)


Verified = bool | Literal["emulated"]
"""Which evidence is required: none; that of a GPU; or that of a GPU, or else of an emulation."""


class Request(Immutable, kw_only=True):
    """The arguments of a ``get`` or an ``explain``, in one value.

    ``problem`` is the size at hand, for a choice by measurements; with ``verified``, only an artifact that was verified
    on a GPU like the one at hand serves, or with ``"emulated"`` also one that was emulated. ``get`` keeps the kernel
    under ``memo_key``, and keeps none where it is None.
    """

    op: str
    config: Mapping[str, object] = field(default_factory=dict)
    device: object = None
    target: str | None = None
    problem: Mapping[str, int] | None = None
    verified: Verified = False
    memo_key: tuple[Any, ...] | None = field(default=None, repr=False, compare=False)

    def checked(self) -> Request:
        """The same request, with a problem of its own that the caller cannot change.

        >>> Request(op="scale", config={"n": 8}, problem={"m": 4}).checked().problem
        {'m': 4}
        """
        if not isinstance(self.config, Mapping):
            raise ConfigError(
                f"{self.config!r} is not a config: give each value by the name of its key, such as"
                f" loader.get({self.op!r}, {{'dtype': 'bfloat16'}})"
            )
        problem: object = self.problem
        if problem is None:
            return self
        if not isinstance(problem, Mapping) or not all(
            isinstance(name, str) and type(size) is int and size >= 0 for name, size in problem.items()
        ):
            raise ConfigError(f"{problem!r} is not a problem: give sizes by name, such as {{'m': 4096}}")
        return replace(self, problem=dict(problem))

    def __str__(self) -> str:
        config = config_text(self.config) if isinstance(self.config, Mapping) else self.config
        optional = {"device": self.device, "target": self.target, "problem": self.problem}
        optional |= {"verified": self.verified} if self.verified else {}
        arguments = [f", {name} {value}" for name, value in optional.items() if value is not None]
        return f"{self.op} {config}{''.join(arguments)}"


def checked_verified(value: object) -> Verified:
    """Which evidence is required, as a caller writes it.

    >>> checked_verified(1), checked_verified("emulated")
    (True, 'emulated')
    """
    if isinstance(value, str):
        if value != "emulated":
            raise ConfigError(f"verified is {value[:80]!r}: give True, False or 'emulated'")
        return "emulated"
    return bool(value)


class Requirements(Immutable):
    """A request in the terms of one source: what each meaning key must be, and each tuned key that is pinned."""

    keys: tuple[Key, ...]
    values: dict[str, Value]
    verified: Verified = False

    @classmethod
    def of(cls, request: Request, keys: tuple[Key, ...]) -> Requirements:
        """The caller's values in their one form, and the defaults of the meaning keys it leaves out."""
        values = normalise(keys, in_op_terms(keys, request.config), op=request.op)
        for key in keys:
            if key.name not in values and not key.tuned:
                if not key.has_default:
                    raise ConfigError(f"op {request.op!r} needs the config key {key.name!r} ({key.type}): add it")
                values[key.name] = key.default
        return cls(keys, {key.name: values[key.name] for key in keys if key.name in values}, request.verified)

    @property
    def sign(self) -> tuple[str, Value] | None:
        """A key and its value that every config which serves has in this very form; None if no key is sure to."""
        sure = [k.name for k in self.keys if not (k.tuned or k.may_be_output or _of_dtype(k.name))]
        return next(((n, self.values[n]) for n in sure if type(self.values[n]) in (str, int)), None)

    def differing(self, config: object, signature: object = None) -> tuple[str, ...]:
        """The keys in which a config, raw or parsed, differs from the required values.

        With the signature of its kernel, raw or parsed, those are left out that only say that the kernel has one more
        output: it serves a request without that, too.
        """
        if not isinstance(config, Mapping):
            return tuple(self.values)
        names = tuple(
            name for name, value in self.values.items() if not _matches(name, config.get(name, _NOTHING), value)
        )
        if not names or signature is None:
            return names
        outputs = outputs_of(signature) & {key.name for key in self.keys if key.may_be_output}
        return tuple(n for n in names if not (n in outputs and config.get(n) is True))

    def literal(self, config: Mapping[str, Value]) -> bool:
        """Whether a config that serves also writes every dtype as the request does."""
        return all(same(config.get(name, _NOTHING), value) for name, value in self.values.items())


def in_op_terms(keys: tuple[Key, ...], config: Mapping[str, object]) -> Mapping[str, object]:
    """The request, with a dtype given by its name where a plain function's key for it takes a text or anything.

    >>> in_op_terms((Key(name="dtype", type="str", choices=("bf16", "fp16")),), {"dtype": "bfloat16"})
    {'dtype': 'bf16'}
    """
    table = {key.name: key for key in keys}
    return {n: _in_key_terms(table[n], value) if n in table and _of_dtype(n) else value for n, value in config.items()}


def _in_key_terms(key: Key, value: object) -> object:
    if key.type.rstrip("?") not in ("str", "any") or value is None:
        return value
    name = _dtype(value)
    if name is None:
        return value
    if key.choices and value not in key.choices:
        return next((choice for choice in key.choices if _dtype(choice) == name), value)
    return value if isinstance(value, str) else name


def _matches(name: str, value: object, required: object) -> bool:
    """Whether a value is the required one; under a key for dtypes, two names of one dtype are the same."""
    if same(value, required):
        return True
    if not (_of_dtype(name) and isinstance(value, str) and isinstance(required, str)):
        return False
    dtype = _dtype(value)
    return dtype is not None and dtype == _dtype(required)


def bucketing(keys: tuple[Key, ...]) -> Callable[[Mapping[str, object]], tuple[object, ...]]:
    """A function from a config to its bucket. Configs that agree in every meaning key share one, and so do those that
    differ in a key that may stand for an output, so all variants that may serve one request are in one bucket.

    >>> bucketing((Key(name="dtype", type="str"),))({"dtype": "bf16"})
    ('bfloat16',)
    """
    names = [(key.name, _of_dtype(key.name)) for key in keys if not (key.tuned or key.may_be_output)]

    def bucket(config: Mapping[str, object]) -> tuple[object, ...]:
        values = [(config.get(name, _NOTHING), of_dtype) for name, of_dtype in names]
        return tuple([_token(*pair) if isinstance(pair[0], (list, tuple)) else _scalar_token(*pair) for pair in values])

    return bucket


def _token(value: object, of_dtype: bool) -> object:
    if isinstance(value, str):
        return (_dtype(value) or value) if of_dtype else value
    if isinstance(value, (list, tuple)):
        return tuple([_token(item, False) for item in value])
    return type(value), value


_scalar_token = functools.lru_cache(maxsize=4096, typed=True)(_token)  # an op has thousands of rows, and a few values


@functools.lru_cache(maxsize=1024)
def _of_dtype(name: str) -> bool:
    return "dtype" in name.lower()


def _dtype(value: object) -> str | None:
    """The canonical name of a dtype; None for other values. Python's own types have none: libraries differ."""
    if any(value is kind for kind in (int, float, bool, complex)):
        return None
    return _dtype_of_text(value) if isinstance(value, str) else _dtype_of(value)


def _dtype_of(value: object) -> str | None:
    try:
        return dtype_name(value)
    except ConfigError:
        return None


@functools.lru_cache(maxsize=1024)
def _dtype_of_text(value: str) -> str | None:
    return _dtype_of(value)


_NOTHING = object()


def same(first: object, second: object) -> bool:
    """Equal in value and type; a list and a tuple of the same values are the same.

    >>> same([1, 2], (1, 2)), same(1, True)
    (True, False)
    """
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    return type(first) is type(second) and first == second


class Candidate(Immutable):
    """An artifact in one cache."""

    source: CachedOp
    artifact: Artifact

    def __repr__(self) -> str:
        artifact = self.artifact
        what = f"{self.source.op.op} {config_text(artifact.config)} for {artifact.target}"
        return f"<Candidate {what}, {artifact.kind} {artifact.key[:12]} in cache {self.cache!r}>"

    @property
    def cache(self) -> str:
        """The name of its cache."""
        return self.source.cache

    @property
    def config(self) -> Mapping[str, Value]:
        """Its full config."""
        return self.artifact.config

    @property
    def target(self) -> Target:
        """The target that it is built for."""
        return self.artifact.target

    @property
    def signature(self) -> Signature:
        """The signature of its kernel."""
        return self.artifact.signature

    @property
    def variant(self) -> tuple[bytes, Target]:
        """The config and the target. Several candidates with the same were built for different GPUs, or as several
        kinds, or stand in several caches."""
        return canonical({name: to_json(value) for name, value in self.config.items()}), self.target

    @property
    def rank(self) -> tuple[Any, ...]:
        """Its ``sort_key``, which no other candidate of one resolution has: the order of the input does not matter."""
        artifact = self.artifact
        return sort_key(artifact.target, self.source.precedence, artifact.rank, artifact.kind, artifact.key)

    @property
    def listed(self) -> tuple[Any, ...]:
        """Its sort key in a list for people: its rank, but in the order of configs where only the keys decide,
        which are others with every version of a tool."""
        *rank, key = self.rank
        return *rank, config_order(self.config), key


def sort_key(target: Target, precedence: int, rank: int, kind: str, key: str) -> tuple[Any, ...]:
    """The preferred candidate has the lowest: exact, family, plain target; the cache's precedence; the author's order;
    object before cubin; then the artifact's key."""
    return (*target.rank, precedence, rank, kind != "object", key)
