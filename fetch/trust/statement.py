"""Statements: what a signer says of a cache, in in-toto's form, with SLSA's provenance. Read after its signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.fetch.trust.bundle import BUNDLE_LIMIT
from precast.loader.contract.format import fields
from precast.loader.contract.format.patterns import SHA256, Pattern
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "pkg:pypi/precast#build/v1"
INDEX = "index.json"
TIME = Pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


class Statement(Immutable, kw_only=True):
    """A statement about a cache: the digests of its subjects by name, when it was written, and all of its provenance.

    Subjects are the index, and the image that ``precast push`` makes of the cache. Times have one form, so that texts
    are in the order of the times.
    """

    subjects: Mapping[str, str]
    written: str
    predicate: Mapping[str, Any]

    @classmethod
    def parse(cls, payload: bytes) -> Statement:
        """Read a statement. Further fields are ignored, as in-toto requires. Another kind of statement is an error: the
        same signer may say that a cache was scanned, or is withdrawn."""
        root = fields.as_object(fields.read_json(payload, limit=BUNDLE_LIMIT))
        fields.one_of(root, "_type", (STATEMENT_TYPE,))
        fields.one_of(root, "predicateType", (PREDICATE_TYPE,))
        predicate = fields.parsed(root, "predicate", fields.as_object)
        definition = fields.parsed(predicate, "buildDefinition", fields.as_object)
        fields.one_of(definition, "buildType", (BUILD_TYPE,))
        details = fields.parsed(predicate, "runDetails", fields.as_object)
        metadata = fields.parsed(details, "metadata", fields.as_object)
        subjects = fields.items(root, "subject", _subject, most=16)
        if len(dict(subjects)) != len(subjects):
            raise FormatError("two subjects have one name", "subject")
        return cls(
            subjects=dict(subjects),
            written=fields.matching(metadata, "finishedOn", TIME, "a time such as 2026-11-28T09:30:00Z"),
            predicate=predicate,
        )


def _subject(value: object) -> tuple[str, str]:
    data = fields.as_object(value)
    digests = fields.parsed(data, "digest", fields.as_object)
    return fields.get(data, "name", str), fields.matching(digests, "sha256", SHA256, "a SHA-256 digest")
