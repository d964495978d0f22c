"""A wheel of a cache, read as what ``precast wheel`` writes and nothing else: what an installer would put beside the
cache, such as a module or a ``.pth`` file, runs without anyone asking for a kernel."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from precast.build.cache.contents import CacheContents
from precast.build.disk.scratch import temporary_folder
from precast.build.errors import WheelError
from precast.build.wheel.wheel import Wheel, wheel_content
from precast.fetch.distribution.layers import CACHE_FILE
from precast.fetch.trust.bundle import BUNDLE_FILE
from precast.loader.errors import IntegrityError

_RATIO = 200  # blobs are compressed already: a wheel that grows more than this is made to fill the memory
_LEAST = 1 << 20


@contextmanager
def opened_wheel(path: Path) -> Iterator[tuple[Wheel, CacheContents]]:
    """The names of a wheel, and its cache in a folder that is removed at the end.

    Raises:
        WheelError: it is not a wheel.
        IntegrityError: it has other files than the wheel of this cache, or the cache is damaged.
    """
    files, time = _read(path), path.stat().st_mtime
    folder = next((name.removesuffix("index.json") for name in files if name.partition("/")[2] == "index.json"), "")
    if not folder:
        raise WheelError(f"{path} has no cache: give a wheel that 'precast wheel' wrote")
    with temporary_folder() as scratch:
        for name, data in files.items():
            inner = name.removeprefix(folder)
            if name.startswith(folder) and (CACHE_FILE.admits(inner) or inner == BUNDLE_FILE):
                (scratch / inner).parent.mkdir(exist_ok=True)
                (scratch / inner).write_bytes(data)
                os.utime(scratch / inner, (time, time))
        contents = CacheContents.open(scratch)
        wheel = _named(path, contents.index.name)
        expected = wheel_content(wheel, {**contents.files(), **contents.signature})
        wrong = sorted(name for name in {*files, *expected} if files.get(name) != expected.get(name))
        if wrong:
            more = f" and {len(wrong) - 1} more" if wrong[1:] else ""
            raise IntegrityError(
                f"{path} differs from the wheel that this version of precast makes of its cache, in"
                f" {wrong[0][:200]!r}{more}: pack the cache again with 'precast wheel'"
            )
        yield wheel, contents


def _named(path: Path, cache: str) -> Wheel:
    """The names of the wheel of a cache, by the version and the tag in the name of its file."""
    try:
        version = parse_wheel_filename(path.name)[1]
    except InvalidWheelFilename as error:
        raise WheelError(f"{path}: {error}: give it the name that 'precast wheel' gave it") from None
    wheel = Wheel(cache=cache, version=version, tag="-".join(path.stem.split("-")[-3:]))
    if wheel.filename != path.name:
        raise WheelError(f"{path} is the wheel of the cache {cache!r}: name it {wheel.filename}")
    return wheel


def _read(path: Path) -> dict[str, bytes]:
    """The files in a wheel by their names. Each follows the one before, so that every installer finds the same."""
    raw = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
            if sum(entry.file_size for entry in entries) > _RATIO * len(raw) + _LEAST:
                raise WheelError(f"{path} has more than {_RATIO} times its size in it: it is not from 'precast wheel'")
            end = 0
            for entry in entries:
                header = entry.FileHeader()
                if entry.header_offset != end or raw[end : end + len(header)] != header:
                    raise WheelError(f"{path} has bytes between its files: it is not from 'precast wheel'")
                end += len(header) + entry.compress_size
            names = {entry.filename for entry in entries}
            if end != archive.start_dir or len(names) != len(entries) or not names:
                raise WheelError(f"{path} has files twice, or none, or bytes between: it is not from 'precast wheel'")
            return {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise WheelError(f"{path} is not a wheel that can be read ({error}): pack the cache again") from None
