"""The wheel: a cache as an ordinary package, ``precast-cache-<name>``, that pip installs and the loader finds."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from precast.build.disk.scratch import write_atomically
from precast.build.errors import WheelError
from precast.build.wheel.host_filter import for_host, hosts_of
from precast.loader.errors import FormatError
from precast.loader.format.artifact import Blob
from precast.loader.format.index import Index, OpIndex, digest

_VERSION = re.compile(
    r"[0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc)[0-9]+)?(?:\.post[0-9]+)?(?:\.dev[0-9]+)?(?:\+[a-z0-9]+(?:\.[a-z0-9]+)*)?"
)
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can say
_ZSTD = b"\x28\xb5\x2f\xfd"  # how a blob that is compressed already begins
_ANY = "py3-none-any"
_LOADER = "precast-loader>=0.1,<0.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """The names a cache goes by as a package."""

    name: str
    version: str
    tag: str

    @property
    def module(self) -> str:
        """The folder in site-packages, and the module of that name."""
        return f"precast_cache_{self.name.replace('-', '_')}"

    @property
    def filename(self) -> str:
        return f"{self.module}-{self.version}-{self.tag}.whl"

    @property
    def info(self) -> str:
        return f"{self.module}-{self.version}.dist-info"


def write_wheels(cache: Path, folder: Path, *, version: str | None = None, host: str | None = None) -> tuple[Path, ...]:
    """Pack the cache at a path as wheels in a folder, one for each host it is for, and give their paths.

    The wheels of one cache have the same name and version, and pip takes the one of its platform, so that no machine
    downloads what it cannot run. ``host`` asks for one of them. The version is, unless stated, ``0.0.0+`` and the
    beginning of the index's digest: other content, other version.
    """
    files, index = _read(cache)
    version = version or f"0.0.0+{digest(files['index.json'])[:12]}"
    if _VERSION.fullmatch(version) is None:
        raise WheelError(f"{version!r} is not a version in normal form: write it like '1.4.0' or '1.4.0+gb200'")
    hosts = () if platform_tag(index, files) == _ANY else hosts_of(index)
    if host and host not in hosts:
        raise WheelError(f"{cache} holds nothing for {host}: it is for {', '.join(hosts) or 'any host'}")
    wheels: dict[Path, bytes] = {}
    for one in (host,) if host else hosts or (None,):
        mine = files if one is None or hosts == (one,) else for_host(files, one)
        tag = platform_tag(Index.decode(mine["index.json"]), mine)
        wheel = Wheel(name=index.name, version=version, tag=tag)
        wheels[folder / wheel.filename] = _zip(wheel, mine)
    for path, data in wheels.items():
        write_atomically(path, data)
    return tuple(wheels)


def platform_tag(index: Index, files: dict[str, bytes]) -> str:
    """The tag of what the libraries really need: the hosts of the runtime libraries, and the newest glibc among all.

    A cache without host code is for any platform.
    """
    needed: dict[str, set[int]] = {}
    for runtime in index.runtimes:
        needed.setdefault(runtime.host.arch, set()).add(_minor(runtime.host.glibc))
    objects = 0
    for op in index.ops:
        for artifact in OpIndex.decode(files[f"ops/{op}.json"], op=op).artifacts:
            if artifact.host is not None:
                objects += 1
                needed.setdefault(artifact.host.arch, set()).add(_minor(artifact.host.glibc))
    if not objects:
        return _ANY
    platforms = ".".join(f"manylinux_2_{max(minors)}_{arch}" for arch, minors in sorted(needed.items()))
    return f"py3-none-{platforms}"


def _minor(glibc: str) -> int:
    return int(glibc.partition(".")[2])


def _read(cache: Path) -> tuple[dict[str, bytes], Index]:
    """The files of a cache, each checked against what the index says of it: a wheel must not ship damage."""
    try:
        files = {"index.json": (cache / "index.json").read_bytes()}
        index = Index.decode(files["index.json"])
        blobs: dict[str, Blob] = {b.sha256: b for r in index.runtimes for b in r.blobs}
        if index.dictionary:
            blobs[index.dictionary.sha256] = index.dictionary
        for op, entry in index.ops.items():
            data = files[f"ops/{op}.json"] = (cache / "ops" / f"{op}.json").read_bytes()
            if digest(data) != entry.sha256:
                raise WheelError(f"{cache}/ops/{op}.json is not the file that the index names: build the cache again")
            blobs.update({a.blob.sha256: a.blob for a in OpIndex.decode(data, op=op).artifacts})
        for name, blob in blobs.items():
            data = files[f"blobs/{name}"] = (cache / "blobs" / name).read_bytes()
            if len(data) != blob.stored:
                raise WheelError(
                    f"{cache}/blobs/{name} has {len(data)} bytes, not {blob.stored}: build the cache again"
                )
    except FileNotFoundError as error:
        raise WheelError(
            f"{error.filename} is missing: name a folder that 'precast build' made, or build it again"
        ) from None
    except FormatError as error:
        raise WheelError(f"{cache} is not a cache this version reads: {error}") from None
    return files, index


def _zip(wheel: Wheel, files: dict[str, bytes]) -> bytes:
    import io

    content = {f"{wheel.module}/{name}": data for name, data in files.items()}
    content[f"{wheel.module}/__init__.py"] = (
        b'"""A precast cache: data for precast.loader; there is nothing to import here."""\n'
    )
    content.update(_metadata(wheel))
    record = "".join(f"{name},sha256={_hash(data)},{len(data)}\n" for name, data in _ordered(content))
    content[f"{wheel.info}/RECORD"] = f"{record}{wheel.info}/RECORD,,\n".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in _ordered(content):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3  # as on Unix, so that the modes below count
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_STORED if data.startswith(_ZSTD) else zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=9)
    return buffer.getvalue()


def _metadata(wheel: Wheel) -> dict[str, bytes]:
    texts = {
        "METADATA": (
            "Metadata-Version: 2.1\n"
            f"Name: precast-cache-{wheel.name}\nVersion: {wheel.version}\n"
            "Summary: Prebuilt kernels for precast.loader\n"
            f"Requires-Python: >=3.10\nRequires-Dist: {_LOADER}\n"
        ),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: precast\nRoot-Is-Purelib: false\n"
        + "".join(f"Tag: py3-none-{platform}\n" for platform in wheel.tag.removeprefix("py3-none-").split(".")),
        "entry_points.txt": f"[precast.caches]\n{wheel.name} = {wheel.module}\n",
    }
    return {f"{wheel.info}/{name}": text.encode() for name, text in texts.items()}


def _ordered(content: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """By name, with the metadata at the end, where an installer looks first."""
    return iter(sorted(content.items(), key=lambda item: (".dist-info/" in item[0], item[0])))


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
