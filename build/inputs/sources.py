"""Sources: the digest of the Python code that a kernel function can reach within its own package.

Files are read, never imported. The digest covers the content of modules by the names they are imported by, so that a
checkout may move. It follows import statements anywhere in a file, also inside functions, and ``import_module`` with a
text; ``version`` and the like with the name of a distribution count as an import of that. What is imported by a name
that is made at run time is not there when the kernel is compiled, unless it is declared. Installed packages count by
the version of their distribution; modules that no distribution has are followed like the package's own. An adapter
(``precast.kernels.authoring.adapter``) that may turn what the source names into a kernel counts with it: no import
statement of the source names it.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from precast.build.disk.memo import Memo, memo_key
from precast.build.errors import ObjectError
from precast.build.inputs.compiled_source import COMPUTING
from precast.build.inputs.contents import stamp_of
from precast.build.inputs.import_statements import DISTRIBUTION, ParsedFile, absolute_names
from precast.build.inputs.installation import Installation
from precast.build.inputs.module_finder import FoundModule, ModuleFinder, is_own
from precast.build.interpreter import version_of
from precast.kernels.authoring.adapter import adapter_sources

_Stamp = tuple[int, int, int]
PRECAST = "precast"
_KIND = "reached"
_RULES = 2  # a note counts only for the rules that made it: raise it when imports_of or compiled_source change
_STAR = ".*"
_NAMED = re.compile(rb"^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Read:
    """A file when it was read: the digests of its content and of its compiled source, by what that may read files, the
    names that the file imports, the distributions that it names, and its stamp."""

    digest: str
    compiled: str
    outside: frozenset[str]
    names: tuple[str, ...]
    distributions: tuple[str, ...]
    stamp: _Stamp


@dataclass(frozen=True, slots=True)
class _Source:
    digest: str
    whole: str
    files: tuple[tuple[Path, _Read], ...]
    owners: tuple[str, ...]
    with_checks: frozenset[Path]
    """The files that count by their compiled source."""


def source_digest(source: str, search: Sequence[Path]) -> str:
    """The digest over every module that ``module:function`` reaches by imports inside its own package.

    For a module in a search folder, all search folders are its package, except environments in them.

    >>> len(source_digest("precast.kernels.authoring.registry:load", []))
    64
    """
    return SourceDigests(search).digest(source)


class SourceDigests:
    """The sources of one build: each file is read once, so that all keys use the same moment."""

    def __init__(self, search: Sequence[Path], memo: Memo | None = None) -> None:
        importlib.invalidate_caches()
        self._finder = ModuleFinder(tuple(search), filter(None, sys.path))
        self._installation = Installation([os.path.realpath(folder) for folder in sys.path if folder], memo)
        self._memo = memo
        self._read: dict[FoundModule, _Read] = {}
        self._sources: dict[str, _Source] = {}
        self._adapted: dict[str, tuple[str, ...]] = {}  # keys are requested for each variant

    def digest(self, source: str) -> str:
        """The digest of ``module:function`` for keys: an edit of what only checks a kernel does not change it."""
        return self._with_adapters(source, self._source(source).digest)

    def whole_digest(self, source: str) -> str:
        """The same of all that the files have."""
        return self._with_adapters(source, self._source(source).whole)

    def with_checks(self, source: str) -> frozenset[Path]:
        """The files that it reaches of which not everything is compiled. No other file imports them, so that nothing
        but the kernel's own module can use what is left out."""
        return self._source(source).with_checks

    def files(self, source: str) -> tuple[Path, ...]:
        """The files in the search folders that it reaches."""
        files = (file for file, _ in self._source(source).files)
        return tuple(sorted(f for f in files if any(is_own(f, root) for root in self._finder.roots)))

    def reached(self, source: str) -> tuple[Path, ...]:
        """All files that it reaches."""
        return tuple(sorted(file for file, _ in self._source(source).files))

    def distributions(self, source: str) -> tuple[str, ...]:
        """The installed distributions of which it reaches a module."""
        return self._source(source).owners

    def named(self, package: str) -> set[str]:
        """The distribution of an installed package, and those of which any of its files names a module.

        Its imports are not followed, which takes half a minute for torch.
        """
        chain = self._finder.chain(package)
        owner = self._installation.owner(str(chain[0].file)) if chain else None
        if owner is None:
            return set()
        key = memo_key(package, str(chain[0].file), stamp_of(self._installation.metadata_file(owner)))
        tops = self._memo.get(_KIND, key) if self._memo else None
        if not isinstance(tops, list):
            sources = chain[0].file.parent.rglob("*.py")
            tops = sorted({top.decode() for source in sources for top in _NAMED.findall(source.read_bytes())})
            if self._memo:
                self._memo.put(_KIND, key, tops)
        files = (part.file for top in tops for part in self._finder.chain(str(top)))
        return {owner, *filter(None, (self._installation.owner(str(file)) for file in files))}

    def find(self, module: str) -> tuple[Path, ...]:
        """The files of a module and of its packages; none if there is no such module."""
        chain = self._finder.chain(module)
        return tuple(part.file for part in chain) if chain and chain[-1].name == module else ()

    def links(self, file: str) -> frozenset[str]:
        """The paths with links by which imports find a file."""
        return frozenset(self._finder.links.get(file, ()))

    def changed(self, source: str) -> Path | None:
        """A file that has changed since its digest was computed, or None."""
        read = (each for part in (source, *self._adapters(source)) for each in self._source(part).files)
        return next((file for file, read in read if _has_changed(file, read)), None)

    def _with_adapters(self, source: str, digest: str) -> str:
        adapters = [self._source(adapter).whole for adapter in self._adapters(source)]
        return memo_key(digest, adapters) if adapters else digest

    def _adapters(self, source: str) -> tuple[str, ...]:
        """The installed adapters that may take what a source names: those of its function's name, and those of classes
        of a distribution that it reaches. Attached libraries have digests of their own."""
        if source not in self._adapted:
            function = source.partition("@")[0].partition(":")[2]
            adapters = (
                adapter
                for name, adapter in adapter_sources()
                if name == function or ("." in name and self._reaches(source, name.rpartition(".")[0]))
            )
            self._adapted[source] = tuple(adapter for adapter in adapters if self.find(adapter.partition(":")[0]))
        return self._adapted[source]

    def _reaches(self, source: str, module: str) -> bool:
        """Whether a source may have a class that derives from one of a module."""
        files = self.find(module)
        if not files:
            return False
        owner = self._installation.owner(str(files[-1]))
        if owner is None:
            return files[-1] in self.reached(source)
        return owner in self.distributions(source)

    def _source(self, source: str) -> _Source:
        name = source.partition(":")[0]
        if name not in self._sources:
            self._sources[name] = self._reach(name)
        return self._sources[name]

    def _reach(self, name: str) -> _Source:
        finder = self._finder
        chain = finder.chain(name)
        if not chain or chain[-1].name != name:
            raise ObjectError(
                f"there is no module {name!r}: install its distribution, add its folder to 'path:' in the manifest, or "
                "to PYTHONPATH"
            )
        homes = finder.homes(chain)
        reached: dict[str, FoundModule] = {}
        owners: set[str] = set()
        pending = list(chain)
        while pending:
            module = pending.pop()
            if module.name in reached:
                continue
            owner = PRECAST if is_below(module.name, PRECAST) else self._installation.owner(str(module.file))
            if owner is not None:
                owners.add(owner)
                if not any(is_own(module.file, home) for home in homes):
                    continue
            reached[module.name] = module
            owners.update(self._file(module).distributions)
            for imported in self._file(module).names:
                pending.extend(finder.chain(imported.removesuffix(_STAR)))
                if imported.endswith(_STAR):
                    pending.extend(part for name in self._members(imported) for part in finder.chain(name))
        read = {module: self._file(module) for module in reached.values()}
        versions = {name: self._installation.version(name) or version_of(name) for name in sorted(owners)}
        alone = {m for m, file in read.items() if file.compiled != file.digest and not _is_imported(m, read)}
        own = {module.name.partition(".")[0] for module in reached.values()}
        if alone and any(file.outside - own - COMPUTING for m, file in read.items() if not is_below(m.name, PRECAST)):
            alone = set()  # a text or a digest of the whole file could become a part of the kernel
        whole = sorted([m.name, file.digest] for m, file in read.items())
        compiled = sorted([m.name, file.compiled if m in alone else file.digest] for m, file in read.items())
        return _Source(
            digest=memo_key(compiled, versions),
            whole=memo_key(whole, versions),
            files=tuple((m.file, file) for m, file in read.items()),
            owners=tuple(sorted(owners)),
            with_checks=frozenset(m.file for m in alone),
        )

    def _members(self, star: str) -> Iterator[str]:
        """The modules of a package of which all names are imported: its ``__all__`` may have any of them."""
        package = star.removesuffix(_STAR)
        for module in self._finder.chain(package)[-1:]:
            if module.package and module.name == package:
                yield from (f"{package}.{path.stem}" for path in sorted(module.file.parent.glob("*.py")))

    def _file(self, module: FoundModule) -> _Read:
        read = self._read.get(module)
        if read is None:
            stamp = _stamp(module.file)
            content, suffix = module.file.read_bytes(), module.file.suffix
            digest = hashlib.sha256(content).hexdigest()
            # A module that is not Python's text may read any file.
            parsed = self._parsed(content, digest) if suffix == ".py" else ParsedFile([], digest, frozenset((suffix,)))
            rows = parsed.imports
            read = self._read[module] = _Read(
                digest=digest,
                compiled=parsed.compiled,
                outside=parsed.outside,
                names=tuple(sorted({name for row in rows if row[0] >= 0 for name in absolute_names(module, *row)})),
                distributions=tuple(sorted({base for level, base, _ in rows if level == DISTRIBUTION})),
                stamp=stamp,
            )
        return read

    def _parsed(self, content: bytes, digest: str) -> ParsedFile:
        """The memo keeps it by content, because parsing a large package takes seconds."""
        key = memo_key(digest, _RULES)
        parsed = ParsedFile.noted(self._memo.get(_KIND, key)) if self._memo else None
        if parsed is None:
            parsed = ParsedFile.of(content, digest)
            if self._memo:
                self._memo.put(_KIND, key, [parsed.imports, parsed.compiled, sorted(parsed.outside)])
        return parsed


def is_below(name: str, package: str) -> bool:
    """Whether a module is a package or belongs to it.

    >>> is_below("precast.kernels", "precast"), is_below("precasting", "precast")
    (True, False)
    """
    return name == package or name.startswith(f"{package}.")


def _is_imported(module: FoundModule, read: Mapping[FoundModule, _Read]) -> bool:
    """Whether another of the files imports a module, or a name of it."""
    return any(is_below(name, module.name) for other, file in read.items() if other != module for name in file.names)


def _has_changed(file: Path, read: _Read) -> bool:
    """A generator may write the same content again for each process that runs it."""
    if _stamp(file) == read.stamp:
        return False
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() != read.digest
    except OSError:
        return True


def _stamp(file: Path) -> _Stamp:
    try:
        facts = file.stat()
    except OSError:
        return (0, 0, 0)
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino)
