"""The wheel: a cache as an ordinary package, ``precast-cache-<name>``, that pip installs and the loader finds."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from precast.build.cache.companion_files import keeping_companions
from precast.build.cache.contents import CacheContents
from precast.build.cache.index_writer import cache_files
from precast.build.disk.output_folder import check_output_folder
from precast.build.disk.scratch import write_output
from precast.build.errors import WheelError
from precast.build.link.toolchain import by_host
from precast.build.measurements.join import joined
from precast.loader.contract.format.artifact import Host
from precast.loader.contract.format.index import OpIndex
from precast.loader.version import compatible

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold
_ZSTD = b"\x28\xb5\x2f\xfd"  # the first bytes of a blob that is compressed
_ANY = "py3-none-any"
_LOADER = f"precast-loader{compatible()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """The names of a cache as a package.

    >>> Wheel(cache="my-norms", version=Version("1.0"), tag="py3-none-any").filename
    'precast_cache_my_norms-1.0-py3-none-any.whl'
    """

    cache: str
    version: Version
    tag: str

    @property
    def name(self) -> str:
        """The name of the distribution."""
        return canonicalize_name(f"precast-cache-{self.cache}")

    @property
    def module(self) -> str:
        """The folder in site-packages, and the module of that name."""
        return self.name.replace("-", "_")

    @property
    def filename(self) -> str:
        """The name of the wheel's file."""
        return f"{self.module}-{self.version}-{self.tag}.whl"

    @property
    def info(self) -> str:
        """The folder of the metadata."""
        return f"{self.module}-{self.version}.dist-info"


def write_wheels(cache: Path, folder: Path, *, version: str | None = None, host: str | None = None) -> tuple[Path, ...]:
    """Pack the cache at a path as wheels in a folder, one for each of its hosts, and return their paths.

    Every byte is read and checked first: a damaged cache is an IntegrityError, and no wheel is written. The wheels of
    one cache have the same name and version, and pip downloads only the one for its platform. ``host`` selects one of
    them. The default version is made from the time and the content of the cache (see ``default_version``).
    """
    check_output_folder(folder)
    contents = CacheContents.open(cache)
    files = contents.files()
    chosen = given_version(version) if version else default_version(content_time(cache), contents.cache.digest)
    every_host = contents.hosts if platform_tag(_needed(contents)) != _ANY else ()
    if host and host not in every_host:
        raise WheelError(f"{cache} has no libraries for {host}: it is for {', '.join(every_host) or 'any host'}")
    wheels: dict[Path, bytes] = {}
    for wheel_host in (host,) if host else every_host or (None,):
        wheel = Wheel(cache=contents.index.name, version=chosen, tag=platform_tag(_needed(contents, wheel_host)))
        wheels[folder / wheel.filename] = zipped(wheel_content(wheel, _files_for(contents, files, wheel_host)))
    for path, data in wheels.items():
        write_output(path, data)
    return tuple(wheels)


def _files_for(contents: CacheContents, files: Mapping[str, bytes], host: str | None) -> Mapping[str, bytes]:
    """The files of a wheel for one host: all files of the cache if it is for no other host, its signature too."""
    if host is None or contents.hosts == (host,):
        return {**files, **contents.signature}
    stored = {name.removeprefix("blobs/"): data for name, data in files.items() if name.startswith("blobs/")}
    return for_host(contents, stored, host)


def _needed(contents: CacheContents, host: str | None = None) -> list[Host]:
    """The hosts that the libraries of a cache need, or those of one host; none if it has only device code."""
    libraries = [a.host for a in contents.artifacts.values() if a.host]
    return [h for h in (*libraries, *(r.host for r in contents.index.runtimes)) if host in (None, h.arch)]


def platform_tag(needed: Iterable[Host]) -> str:
    """The tag of a wheel whose libraries need these hosts: for each processor, the newest glibc that one needs.

    >>> platform_tag([Host(arch="x86_64", glibc="2.17"), Host(arch="x86_64", glibc="2.28")])
    'py3-none-manylinux_2_28_x86_64'
    >>> platform_tag([])
    'py3-none-any'
    """
    minors: dict[str, int] = {}
    for host in needed:
        minors[host.arch] = max(minors.get(host.arch, 0), int(host.glibc.partition(".")[2]))
    return "py3-none-" + ".".join(f"manylinux_2_{m}_{arch}" for arch, m in sorted(minors.items())) if minors else _ANY


def wheel_content(wheel: Wheel, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Every file of a wheel by its name, in its order: those of the cache, an empty module, and the metadata."""
    content = {f"{wheel.module}/{name}": data for name, data in files.items()}
    content[f"{wheel.module}/__init__.py"] = (
        b'"""A precast cache: data for precast.loader; there is nothing to import here."""\n'
    )
    content.update(_metadata(wheel))
    record = "".join(f"{name},sha256={_hash(data)},{len(data)}\n" for name, data in _ordered(content))
    content[f"{wheel.info}/RECORD"] = f"{record}{wheel.info}/RECORD,,\n".encode()
    return dict(_ordered(content))


def zipped(content: Mapping[str, bytes]) -> bytes:
    """The bytes of a wheel with these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in content.items():
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.create_system = 3  # Unix, so that the mode below is used
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_STORED if data.startswith(_ZSTD) else zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=9)
    return buffer.getvalue()


def _metadata(wheel: Wheel) -> dict[str, bytes]:
    texts = {
        "METADATA": (
            "Metadata-Version: 2.1\n"
            f"Name: {wheel.name}\nVersion: {wheel.version}\n"
            "Summary: Prebuilt kernels for precast.loader\n"
            f"Requires-Python: >=3.10\nRequires-Dist: {_LOADER}\n"
        ),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: precast\nRoot-Is-Purelib: false\n"
        + "".join(f"Tag: py3-none-{platform}\n" for platform in wheel.tag.removeprefix("py3-none-").split(".")),
        "entry_points.txt": f"[precast.caches]\n{wheel.cache} = {wheel.module}\n",
    }
    return {f"{wheel.info}/{name}": text.encode() for name, text in texts.items()}


def _ordered(content: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Files by name, with the metadata at the end, as the wheel format recommends."""
    return iter(sorted(content.items(), key=lambda item: (".dist-info/" in item[0], item[0])))


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def for_host(cache: CacheContents, stored: Mapping[str, bytes], host: str) -> Mapping[str, bytes]:
    """The files of the cache without those for other hosts. ``stored`` has the bytes of its blobs' files.

    Device code is for every host and is kept.
    """
    index = cache.index
    runtimes = tuple(r for r in index.runtimes if r.host.arch == host)
    needed = {runtime.blob.sha256 for runtime in runtimes}
    needed.update([index.dictionary.sha256] if index.dictionary else [])
    ops = {}
    for op, listed in cache.ops.items():
        artifacts = tuple(a for a in listed.artifacts if a.host is None or a.host.arch == host)
        if artifacts:
            needed.update(blob.sha256 for a in artifacts for blob in a.blobs)
            tuning = joined([listed.tuning], {a.key for a in artifacts})
            ops[op] = OpIndex.of(op=op, keys=listed.keys, doc=listed.doc, artifacts=artifacts, tuning=tuning)
    files = cache_files(
        name=index.name,
        toolchain=by_host(index).get(host, {}),
        runtimes=runtimes,
        ops=ops,
        dictionary=index.dictionary,
        blobs={sha256: stored[sha256] for sha256 in sorted(needed)},
    )
    return keeping_companions(files, [cache])


EPOCH = "SOURCE_DATE_EPOCH"
_DIGITS = 12


def given_version(text: str) -> Version:
    """A version that a user wrote, in normal form.

    >>> str(given_version("1.4-rc1+GB200"))
    '1.4rc1+gb200'
    """
    try:
        return Version(text)
    except InvalidVersion:
        raise WheelError(f"{text!r} is not a version: write it like '1.4.0' or '1.4.0+gb200'") from None


def default_version(seconds: int, digest: str) -> Version:
    """The version for content of a time, in seconds since 1970.

    It is ``0.YYYYMMDD.HHMMSS+DIGEST``, in UTC. pip compares the time first, so that it upgrades to later builds. The
    leading 0 keeps it below any release number that a user may give with ``--version``. The digest of the index
    identifies the content.

    >>> str(default_version(1767571259, "97f7fe1f180b2c"))
    '0.20260105.59+97f7fe1f180b'
    """
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return Version(f"0.{moment:%Y%m%d}.{int(moment.strftime('%H%M%S'))}+{digest[:_DIGITS]}")


def content_time(cache: Path) -> int:
    """The time of a cache's content: ``SOURCE_DATE_EPOCH`` if it is set, otherwise when its index was written.

    A build with nothing to do does not write the index, so that the same cache packed twice has the same version.
    """
    setting = os.environ.get(EPOCH)
    if setting is None:
        return int((cache / "index.json").stat().st_mtime)
    try:
        seconds = int(setting)
        datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise WheelError(f"{EPOCH} is {setting!r}: set it to a number of seconds since 1970, or unset it") from None
    return seconds
