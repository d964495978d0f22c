"""A push to a folder on this machine, or to a repository on the hub. Both get the same files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from precast.build.disk.scratch import write_output
from precast.fetch.distribution.layers import LAYER_FILES, TABLE_FILE, Layer, layers_to_json
from precast.fetch.distribution.reference import FolderReference, HubReference
from precast.fetch.transport.credentials import hub_token
from precast.fetch.trust.bundle import BUNDLE_FILE
from precast.loader.contract.format.index import encode
from precast.loader.errors import FetchError
from precast.loader.regular_file import read_regular
from precast.publish.errors import PushError

_LAYER = re.compile(re.escape(LAYER_FILES).replace(r"\{\}", "[0-9a-f]{64}"))


def folder_files(layers: Sequence[tuple[Layer, bytes]], signature: Mapping[str, bytes] = {}) -> dict[str, bytes]:
    """The files of a folder with a cache in layers, and with its signature; the last one is the table of the layers."""
    files = {LAYER_FILES.format(layer.sha256): data for layer, data in layers}
    return {**files, **signature, TABLE_FILE: encode(layers_to_json([layer for layer, _ in layers]))}


def push_to_folder(reference: FolderReference, files: dict[str, bytes]) -> tuple[int, int]:
    """Write the files that a folder lacks, and return how many bytes were written and how many it had already.

    Layers of earlier pushes are kept: they may be in use.
    """
    root = Path(reference.path)
    if not reference.path:
        raise PushError(f"{reference} is read-only: push to file:///FOLDER, and copy the folder to the web server")
    if root.is_dir() and any(root.iterdir()) and not (root / TABLE_FILE).is_file():
        raise PushError(f"{root} has files that are not layers of caches: choose an empty or a new folder")
    kept = 0
    for name, data in files.items():
        path = root / name
        if name != TABLE_FILE and _has(path, data):
            kept += len(data)
            continue
        write_output(path, data)
    if BUNDLE_FILE not in files:
        (root / BUNDLE_FILE).unlink(missing_ok=True)  # of an earlier push
    return sum(map(len, files.values())) - kept, kept


def _has(path: Path, data: bytes) -> bool:
    try:
        return read_regular(path, len(data)) == data
    except OSError:
        return False


def push_to_hub(
    reference: HubReference, files: dict[str, bytes], *, endpoint: str | None, message: str
) -> tuple[str, int, int]:
    """Commit the files that a folder of the hub lacks, and return the commit, the number of bytes that were sent, and
    the number that it had already. The repository and the branch must exist.

    Layers of the previous cache are deleted: its readers use an older commit, which still has them.
    """
    try:
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError:
        raise PushError("huggingface_hub is not installed: pip install 'precast[hub]'") from None
    api: Any = HfApi(endpoint=endpoint, token=hub_token() or None)
    repository = {"repo_id": reference.name, "repo_type": reference.kind.removesuffix("s")}
    prefix = f"{reference.folder}/" if reference.folder else ""
    try:
        before = api.repo_info(**repository, revision=reference.revision)
        there = {file.rfilename.removeprefix(prefix) for file in before.siblings if file.rfilename.startswith(prefix)}
        kept = {name for name in files if name in there and _LAYER.fullmatch(name)}
        old = {name for name in there - files.keys() if _LAYER.fullmatch(name) or name == BUNDLE_FILE}
        done = api.create_commit(
            **repository,
            revision=reference.revision,
            parent_commit=before.sha,
            operations=[
                *(CommitOperationAdd(f"{prefix}{name}", data) for name, data in files.items() if name not in kept),
                *(CommitOperationDelete(f"{prefix}{name}") for name in sorted(old)),
            ],
            commit_message=message,
        )
    except HfHubHTTPError as error:
        detail = " ".join(str(error).split())[:300]
        raise FetchError(
            f"{reference}: the hub refused ({detail}): check the name, the revision and HF_TOKEN"
        ) from None
    except Exception as error:  # any exception that the library, or what it sends with, raises
        detail = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        raise FetchError(f"{reference}: the push failed ({detail}): try again") from None
    there_already = sum(len(files[name]) for name in kept)
    return str(done.oid), sum(map(len, files.values())) - there_already, there_already
