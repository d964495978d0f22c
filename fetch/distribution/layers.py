"""Layers: a cache as a few tar files of bounded size, and the table with the position of each of its files in them.

Tar headers are never used to unpack: a file of the cache is a range of bytes of a layer, by this
table, and its name comes from the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.patterns import SHA256, Pattern
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

FORMAT = "precast-layers"
TABLE_FILE = "layers.json"
LAYER_FILES = "layers/{}.tar"
TABLE_LIMIT = 16 << 20
LAYER_LIMIT = 16 << 30
MOST_LAYERS = 10_000
_MOST_FILES = 2_000_000
CACHE_FILE = Pattern(
    r"index\.json|ops/[a-z][a-z0-9_.]{0,255}\.json|blobs/[0-9a-f]{64}",
    lambda text: len(text) == 70 and text[:6] == "blobs/" and not text[6:].strip("0123456789abcdef"),
)
GAP = 1 << 16
"""Bytes between two files that are read and thrown away: a separate request takes about as long."""


class Member(Immutable):
    """A file of the cache, and its range in the layer."""

    name: str
    offset: int
    size: int


class Layer(Immutable, kw_only=True):
    """A tar file, by its digest, and the files in it, by their offsets."""

    sha256: str
    size: int
    files: tuple[Member, ...]

    def to_json(self) -> dict[str, Any]:
        files = [[m.name, m.offset, m.size] for m in self.files]
        return {"sha256": self.sha256, "size": self.size, "files": files}

    @classmethod
    def parse(cls, value: object) -> Layer:
        """Read a layer; every file must be inside it, after the previous one."""
        data = fields.known(fields.as_object(value), ("sha256", "size", "files"))
        size = fields.count(data, "size", most=LAYER_LIMIT)
        files = fields.items(data, "files", _member, most=_MOST_FILES)
        end = 0
        for position, member in enumerate(files):
            if member.offset < end or member.offset + member.size > size:
                raise (
                    FormatError("the file is outside its layer, or overlaps the previous one")
                    .within(position)
                    .within("files")
                )
            end = member.offset + member.size
        return cls(sha256=fields.matching(data, "sha256", SHA256, "a SHA-256 digest"), size=size, files=files)


class Transfer(Immutable, kw_only=True):
    """Bytes to fetch at once: a range of a file of the source, and the files of the cache in it."""

    source: str
    offset: int
    size: int
    members: tuple[Member, ...]

    @property
    def whole(self) -> bool:
        """Whether it is one file of the cache and nothing else."""
        return len(self.members) == 1 and self.members[0].offset == 0 and self.members[0].size == self.size


def layers_to_json(layers: Iterable[Layer]) -> dict[str, Any]:
    """The table of layers as a file holds it."""
    return {"format": FORMAT, "version": 1, "layers": [layer.to_json() for layer in layers]}


def parse_layers(value: object) -> tuple[Layer, ...]:
    """Read a table of layers. No file may be in it twice.

    >>> parse_layers({"format": "precast-layers", "version": 2, "layers": []})
    Traceback (most recent call last):
    precast.loader.errors.FormatError: the layers have version 2; this loader reads version 1: ...
    """
    data = fields.known(fields.as_object(value), ("format", "version", "layers"))
    if fields.get(data, "format", str) != FORMAT:
        raise FormatError(f"it is not {FORMAT!r}", "format")
    version = fields.get(data, "version", int)
    if version != 1:
        raise FormatError(
            f"the layers have version {version}; this loader reads version 1: upgrade precast-loader", "version"
        )
    layers = fields.items(data, "layers", Layer.parse, most=MOST_LAYERS)
    names = [member.name for layer in layers for member in layer.files]
    if len(names) != len(set(names)):
        raise FormatError("a file occurs twice", "layers")
    return layers


def plan_transfers(layers: Iterable[Layer], sizes: Mapping[str, int], source: str = "{}") -> tuple[Transfer, ...]:
    """What to fetch of the layers to get some files, given with their sizes.

    A layer is fetched whole where half of it is needed. Otherwise ranges of it are, several files in each where they
    are near to each other. A file of another size is skipped.

    >>> layer = Layer(sha256="0" * 64, size=10**6, files=(Member("index.json", 512, 9), Member("ops/a.json", 10**5, 9)))
    >>> [(one.offset, one.size) for one in plan_transfers([layer], {"ops/a.json": 9})]
    [(100000, 9)]
    """
    transfers: list[Transfer] = []
    for layer in layers:
        chosen = [m for m in layer.files if sizes.get(m.name) == m.size]
        if not chosen:
            continue
        name = source.format(layer.sha256)
        if 2 * sum(m.size for m in chosen) >= layer.size:
            transfers.append(Transfer(source=name, offset=0, size=layer.size, members=tuple(chosen)))
            continue
        runs: list[list[Member]] = []
        for member in chosen:
            if runs and member.offset - (runs[-1][-1].offset + runs[-1][-1].size) <= GAP:
                runs[-1].append(member)
            else:
                runs.append([member])
        for run in runs:
            begin, end = run[0].offset, run[-1].offset + run[-1].size
            members = tuple(Member(m.name, m.offset - begin, m.size) for m in run)
            transfers.append(Transfer(source=name, offset=begin, size=end - begin, members=members))
    return tuple(transfers)


def _member(value: object) -> Member:
    if not isinstance(value, list) or len(value) != 3:
        raise FormatError("expected a name, an offset and a size")
    name, offset, size = value
    if not isinstance(name, str) or not CACHE_FILE.admits(name):
        raise FormatError(f"{str(name)[:80]!r} is not a file of a cache")
    if type(offset) is not int or type(size) is not int or offset < 0 or size < 0:
        raise FormatError("expected an offset and a size of at least 0")
    return Member(name, offset, size)
