"""A push of a cache on disk to a registry, a hub or a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from precast.build.cache.contents import CacheContents
from precast.fetch.distribution.reference import HubReference, ImageReference, read_reference
from precast.fetch.transport.credentials import Login, registry_login
from precast.fetch.transport.patience import PATIENCE, Patience
from precast.fetch.transport.progress import Progress
from precast.fetch.transport.registry import Registry
from precast.fetch.transport.web import Web
from precast.fetch.trust.bundle import BUNDLE_FILE
from precast.publish.push.folder_push import folder_files, push_to_folder, push_to_hub
from precast.publish.push.images import Images
from precast.publish.push.layering import layers_of
from precast.publish.push.push_result import PushResult
from precast.publish.push.registry_push import RegistryPush


def push_cache(
    cache: Path,
    reference: str,
    *,
    mount: str = "",
    patience: Patience = PATIENCE,
    progress: Progress | None = None,
    login: Callable[[str], Login | None] = registry_login,
) -> PushResult:
    """Check every byte of a cache, and push it to the destination of a reference.

    The same cache gives the same layers, and layers that the destination has are not sent again.

    Raises:
        IntegrityError: the cache is damaged.
        ConfigError: the reference is invalid, or cannot be pushed to.
        FetchError: the server refused, or could not be reached.
    """
    destination = read_reference(reference)
    contents = CacheContents.open(cache)
    layers = layers_of(contents.files())
    name, digest = contents.index.name, contents.cache.digest
    progress = progress or Progress()
    progress.expect(sum(layer.size for layer, _ in layers))
    if isinstance(destination, ImageReference):
        with Web(patience, progress.report) as web:
            push = RegistryPush(web, Registry(web, destination, login), mount, progress.advance)
            exact: object = push.images(layers, Images.of(contents, layers), contents.signature.get(BUNDLE_FILE))
        sent, kept = push.sent, push.kept
    else:
        files = folder_files(layers, contents.signature)
        if isinstance(destination, HubReference):
            endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
            message = f"precast cache {name} {digest[:12]}"
            commit, sent, kept = push_to_hub(destination, files, endpoint=endpoint, message=message)
            exact = HubReference(
                kind=destination.kind, name=destination.name, revision=commit, folder=destination.folder
            )
        else:
            sent, kept = push_to_folder(destination, files)
            exact = destination
    return PushResult(reference=str(exact), name=name, digest=digest, layers=len(layers), sent=sent, kept=kept)
