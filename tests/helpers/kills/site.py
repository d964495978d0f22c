"""Where builds are killed: a small project, its store, an old cache, and the bytes that the new one must have."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from precast.build.store.store import Store
from precast.loader.errors import PrecastError
from precast.loader.resolve.cache import Cache
from tests.helpers.builds import command, manifest, module, tree
from tests.helpers.kills.supervised import Ended, Supervised

VARIANTS = 4
SECONDS = 8
"""The limit of a variant, as its build is given it."""
LIMIT = 90.0
"""Seconds after which a build hangs: those of a stopped variant, some retries, and a slow machine."""
MAKE = "def make(n: int):\n    return compile_add(n)\n"


class Site:
    """A folder with all that a build reads and writes; its temporary files have a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store, self.cache = folder, folder / "store", folder / "caches" / "cache"
        self.temporary = folder / "temporary"
        self.temporary.mkdir(parents=True)
        module(folder / "old", "mine", MAKE)
        module(folder / "src", "mine", MAKE)
        module(folder / "src", "other", MAKE.replace("make", "other"))
        self.manifest = manifest(
            folder / "src", {"mine:make": list(range(VARIANTS // 2)), "other:other": list(range(VARIANTS // 2))}
        )
        self._whole(manifest(folder / "old", {"mine:make": [7]}), folder / "old cache", folder / "other store")
        self._whole(self.manifest, folder / "new cache", folder / "full store")
        self._usual = set(self.temporary.iterdir())  # the compiler makes a folder for each user
        self.old, self.new = tree(folder / "old cache"), tree(folder / "new cache")
        shutil.copytree(folder / "full store", self.store)
        self._forget(list(self.store.glob("??/*.record")))
        self.whole_build = self.build(1).end(LIMIT).seconds  # without the description of the kernels
        self.blobs = {row["blob"]["sha256"] for row in _rows(self.old)} | {r["blob"]["sha256"] for r in _rows(self.new)}

    def start(self, *arguments: object, store: Path | None = None) -> Supervised:
        """Start ``precast`` with this site's store and temporary files."""
        variables = {"PRECAST_STORE": str(store or self.store), "TMPDIR": str(self.temporary)}
        return Supervised(command(*arguments), {**os.environ, **variables})

    def build(self, jobs: int = 2) -> Supervised:
        """Start the build."""
        return self.start("build", self.manifest, "-o", self.cache, "-j", jobs, "--timeout", SECONDS, "--json")

    def undo(self, chances: random.Random, *, described: bool = True) -> None:
        """Restore the old cache, and a store with some of the records, or with none."""
        shutil.rmtree(self.cache, ignore_errors=True)
        shutil.copytree(self.folder / "old cache", self.cache)
        shutil.rmtree(self.store, ignore_errors=True)
        if described:
            shutil.copytree(self.folder / "full store", self.store)
        if not described or chances.random() < 0.7:
            self._forget(list(self.store.glob("??/*.record")))
        else:
            self._forget(chances.sample(sorted(self.store.glob("??/*.record")), 1))

    def problems(self) -> Iterator[str]:
        """What is not whole: a cache that cannot be read or has other bytes, half a record, half a note."""
        if self.cache.exists():
            try:
                cache = Cache(self.cache)
                for op in cache.index.ops:
                    for artifact in cache.op(op).artifacts:
                        cache.read(artifact.blob)
                        if artifact.blob.sha256 not in self.blobs:
                            yield f"the cache has other bytes: {op} {dict(artifact.config)}"
            except (PrecastError, OSError) as error:
                yield f"the cache is not whole: {error}"
        else:
            yield "the old cache is gone"
        store = Store(self.store)
        for record in self.store.glob("??/*.record"):
            if store.read(record.stem) is None:
                yield f"{record.name} is half written"
        for note in store.notes.path.glob("*/*.json"):
            if store.notes.get(note.parent.name, note.stem) is None:
                yield f"the note {note.parent.name}/{note.name} is half written"

    def next_build(self) -> Iterator[str]:
        """Run a build that nothing disturbs, and report what it does not make good."""
        self._forget(list(self.store.glob("??/*.record"))[:1])  # a build that compiles removes what killed ones left
        ended = self.build().end(LIMIT)
        if ended.code != 0:
            yield f"the next build ends with {ended.code}: {ended.errors[-800:]}"
        elif tree(self.cache) != self.new:
            yield "the next build gives other bytes"
        yield from (f"left behind: {path.relative_to(self.folder)}" for path in self._leftovers())
        yield from (f"the next build left running: {line}" for line in ended.orphans)

    def _leftovers(self) -> Iterator[Path]:
        yield from set(self.temporary.iterdir()) - self._usual
        yield from (path for path in self.store.rglob(".*"))
        yield from (path for path in self.cache.parent.iterdir() if path != self.cache)

    def _whole(self, manifest: Path, cache: Path, store: Path) -> Ended:
        ended = self.start("build", manifest, "-o", cache, "-j", 1, store=store).end(LIMIT)
        assert ended.code == 0, ended.errors
        return ended

    def _forget(self, records: list[Path]) -> None:
        for record in records:
            record.unlink()


def _rows(files: dict[str, bytes]) -> Iterator[dict[str, dict[str, str]]]:
    for name, data in files.items():
        if name.startswith("ops/"):
            yield from json.loads(data)["artifacts"]
