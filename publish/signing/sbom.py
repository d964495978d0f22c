"""A bill of materials of a cache, in CycloneDX's JSON: its index and runtime libraries, and what it was built with."""

from __future__ import annotations

import uuid
from datetime import datetime, timezone
from pathlib import Path

from precast.build.errors import OutputError
from precast.build.wheel.wheel import content_time
from precast.loader.contract.format.index import Index
from precast.publish.signing.provenance import packages, programs
from precast.publish.signing.signed import opened

_NAMESPACE = uuid.UUID("7b1f0a9e-2f5e-5c0d-9a57-3f6f6d2f7c11")


def bill(path: Path) -> str:
    """The bill of the cache in a folder or a wheel. The same cache, written at the same time, gives the same text."""
    try:
        from cyclonedx.model import HashAlgorithm, HashType
        from cyclonedx.model.bom import Bom
        from cyclonedx.model.component import Component, ComponentScope, ComponentType
        from cyclonedx.output.json import JsonV1Dot6
        from packageurl import PackageURL
    except ImportError:
        raise OutputError("cyclonedx-python-lib is not installed: pip install 'precast[sign]'") from None

    def component(name: str, version: str, *, kind: str = "pypi", sha256: str = "", **more: object) -> Component:
        return Component(
            type=ComponentType.LIBRARY,
            name=name,
            version=version,
            bom_ref=f"{kind}/{name}@{version}",
            purl=PackageURL(kind, name=name, version=version),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else None,
            **more,
        )

    with opened(path) as (_, contents):
        index: Index = contents.index
        sha256, written = contents.cache.digest, content_time(contents.cache.path)
        root = component(f"precast-cache-{index.name}", sha256[:12], sha256=sha256)
        libraries = [
            component(runtime.soname, runtime.host.arch, kind="generic", sha256=runtime.blob.sha256)
            for runtime in index.runtimes
        ]
        distributions = [component(name, version) for name, version in packages(contents)]
        tools = [
            component(name, version, kind="generic", scope=ComponentScope.EXCLUDED)
            for name, version in programs(contents)
        ]
    parts = [*libraries, *distributions, *tools]
    bom = Bom(components=parts, serial_number=uuid.uuid5(_NAMESPACE, sha256))
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(written, timezone.utc)
    bom.register_dependency(root, parts)
    return f"{JsonV1Dot6(bom).output_as_string(indent=1)}\n"
