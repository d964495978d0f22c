"""Provenance: what a cache says of how it was built, as a statement that is signed. It has only what the cache records,
and the files whose digests follow from the index have all of it, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from precast.build.cache.contents import CacheContents
from precast.build.cache.freshness import CLOSED, INPUTS
from precast.build.link.toolchain import PROGRAMS
from precast.fetch.trust.statement import BUILD_TYPE, INDEX, PREDICATE_TYPE, STATEMENT_TYPE
from precast.loader.contract.format.index import encode
from precast.publish.push.images import Images
from precast.publish.push.layering import layers_of

_NO_PACKAGES = (*PROGRAMS, "cuda")  # names in a toolchain that are not those of distributions


def statement(contents: CacheContents, written: int) -> bytes:
    """The statement about a cache that was written at a time, in seconds since 1970.

    Its subjects are the index, and the image that a push makes of the cache, so that one signature serves both.
    """
    image = Images.of(contents, layers_of(contents.files())).top
    subjects = {INDEX: contents.cache.digest, contents.index.name: image.sha256}
    companions = contents.cache.companions()
    provenances = list(_provenances(contents))
    request = {
        "name": contents.index.name,
        "ops": {op: len(reader.artifacts) for op, reader in contents.ops.items()},
        "functions": _texts(provenance.get("function") for provenance in provenances),
        "targets": _texts(str(artifact.target) for artifact in contents.artifacts.values()),
        **({"start": list(companions.command)} if companions else {}),
    }
    build = {
        "toolchain": contents.index.toolchain,
        "closed": _texts(provenance.get(CLOSED) for provenance in provenances),
        "inputs": _texts(_object(provenance.get(INPUTS)).get("digest") for provenance in provenances),
        **({"companions": {state.name: state.facts for state in companions.companions}} if companions else {}),
    }
    details = {
        "builder": {"id": "pkg:pypi/precast"},
        "metadata": {"finishedOn": f"{datetime.fromtimestamp(written, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"},
    }
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": request,
        "internalParameters": build,
        "resolvedDependencies": [{"uri": f"pkg:pypi/{name}@{version}"} for name, version in packages(contents)],
    }
    return encode(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {"sha256": sha256}} for name, sha256 in subjects.items()],
            "predicateType": PREDICATE_TYPE,
            "predicate": {"buildDefinition": definition, "runDetails": details},
        }
    )


def packages(contents: CacheContents) -> list[tuple[str, str]]:
    """The distributions that a cache was built with, as far as it records them, with their versions."""
    tools = {item for item in contents.index.toolchain.items() if item[0].partition("[")[0] not in _NO_PACKAGES}
    others = {
        (str(package["distribution"]), str(package["version"]))
        for provenance in _provenances(contents)
        for package in _object(provenance.get("facts")).get("packages", ())
        if isinstance(package, Mapping) and package.keys() >= {"distribution", "version"}
    }
    return sorted({(name.partition("[")[0], version) for name, version in tools} | others)


def programs(contents: CacheContents) -> list[tuple[str, str]]:
    """The programs of the hosts that a cache was built on, with their versions."""
    versions = contents.index.toolchain.items()
    return sorted({(name.partition("[")[0], version) for name, version in versions} - set(packages(contents)))


def _provenances(contents: CacheContents) -> Iterator[Mapping[str, Any]]:
    return (artifact.provenance for artifact in contents.artifacts.values())


def _object(value: object) -> Mapping[str, Any]:
    """A value in a provenance, which readers accept in any form."""
    return value if isinstance(value, Mapping) else {}


def _texts(values: Iterator[object]) -> list[str]:
    return sorted({value for value in values if isinstance(value, str)})
