"""Wheels: only intact caches become one, under a version that pip puts in the order of time."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from precast.build.errors import WheelError
from precast.build.wheel.wheel import write_wheels
from precast.loader.errors import IntegrityError
from precast.loader.resolve.cache import Cache
from tests.helpers.packed_caches import RUNTIMES, X86, Built, code_of, damage

DAY = 86400


def version_of(wheel: Path) -> Version:
    return parse_wheel_filename(wheel.name)[1]


def written_at(path: Path, seconds: int) -> Path:
    """The cache, as if its index had been written then."""
    os.utime(path / "index.json", (seconds, seconds))
    return path


@pytest.fixture(autouse=True)
def _no_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


@pytest.mark.parametrize("content", [code_of("float16"), RUNTIMES[X86].code], ids=["artifact", "runtime"])
def test_a_flipped_byte_becomes_no_wheel(tmp_path: Path, content: bytes) -> None:
    cache = Built().write(tmp_path / "cache")
    blob = damage(cache, content)
    with pytest.raises(IntegrityError, match=f"{blob} is damaged"):
        write_wheels(cache, tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_the_wheel_holds_the_cache_byte_for_byte(tmp_path: Path) -> None:
    cache = Built().write(tmp_path / "cache")
    (cache / "stranger").write_text("not named by the index")
    (wheel,) = write_wheels(cache, tmp_path / "dist")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    packed = tmp_path / "site" / "precast_cache_demo"
    names = {str(p.relative_to(packed)) for p in packed.rglob("*") if p.is_file()} - {"__init__.py"}
    assert names == {str(p.relative_to(cache)) for p in cache.rglob("*") if p.is_file()} - {"stranger"}
    assert all((packed / name).read_bytes() == (cache / name).read_bytes() for name in names)


def test_what_was_written_later_has_the_higher_version(tmp_path: Path) -> None:
    """For many contents, because digests alone would be in order in half of the cases."""
    versions = []
    for day in range(8):
        cache = written_at(Built(dtypes=(f"d{day}",)).write(tmp_path / f"{day}"), 1_700_000_000 + day * DAY)
        (wheel,) = write_wheels(cache, tmp_path / "dist")
        versions.append(version_of(wheel))
        assert str(versions[-1].local) == Cache(cache).digest[:12]
    assert versions == sorted(versions)
    assert versions[0].release == (0, 20231114, 221320)
    assert versions[-1] < Version("0.99999999") < Version("1.0"), "a release number that is given later is an upgrade"


def test_the_same_cache_gives_the_same_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = written_at(Built().write(tmp_path / "cache"), 1_700_000_000)
    one, again = (write_wheels(cache, tmp_path / folder)[0] for folder in ("a", "b"))
    assert one.name == again.name and one.read_bytes() == again.read_bytes()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1600000000")
    copies = [written_at(Built().write(tmp_path / f"copy{n}"), 1_700_000_000 + n) for n in range(2)]
    first, second = (write_wheels(copy, tmp_path / f"dist{n}")[0] for n, copy in enumerate(copies))
    assert first.name == second.name and first.read_bytes() == second.read_bytes()
    assert version_of(first).release == (0, 20200913, 122640)


@pytest.mark.parametrize("said", ["", "tomorrow", "1e9", "99999999999999999"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", said)
    with pytest.raises(WheelError, match=r"SOURCE_DATE_EPOCH is .*set it to a number of seconds"):
        write_wheels(Built().write(tmp_path / "cache"), tmp_path / "dist")


def test_what_a_killed_one_left_is_removed(tmp_path: Path) -> None:
    cache = Built().write(tmp_path / "cache")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / ".writing-killed").touch()
    wheels = write_wheels(cache, tmp_path / "dist")
    assert list((tmp_path / "dist").iterdir()) == list(wheels)


@pytest.mark.parametrize(("given", "normal"), [("1.4.0", "1.4.0"), ("1.4-RC1+GB200", "1.4rc1+gb200"), ("v2", "2")])
def test_a_given_version_is_put_in_normal_form(tmp_path: Path, given: str, normal: str) -> None:
    (wheel,) = write_wheels(Built(name="my-norms").write(tmp_path / "cache"), tmp_path / "dist", version=given)
    assert wheel.name == f"precast_cache_my_norms-{normal}-py3-none-manylinux_2_28_x86_64.whl"
    metadata = zipfile.ZipFile(wheel).read(f"precast_cache_my_norms-{normal}.dist-info/METADATA").decode()
    assert f"Name: precast-cache-my-norms\nVersion: {normal}\n" in metadata


def test_what_is_no_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WheelError, match=r"'1\.x' is not a version: write it like"):
        write_wheels(Built().write(tmp_path / "cache"), tmp_path / "dist", version="1.x")


@pytest.mark.slow
def test_pip_takes_the_newer_build(tmp_path: Path) -> None:
    """Of two builds whose digests are in the other order."""
    caches = [Built(dtypes=(f"d{n}",)).write(tmp_path / f"{n}") for n in range(8)]
    low, *_, high = sorted(caches, key=lambda path: Cache(path).digest)
    (old,) = write_wheels(written_at(high, 1_700_000_000), tmp_path / "dist")
    (new,) = write_wheels(written_at(low, 1_700_000_000 + DAY), tmp_path / "dist")
    assert old.name != new.name
    done = subprocess.run(
        [
            sys.executable, "-m", "pip", "download", "--no-deps", "--no-index", "--disable-pip-version-check",
            "--platform", "manylinux_2_28_x86_64", "--only-binary=:all:",
            "--find-links", tmp_path / "dist", "-d", tmp_path / "got", "precast-cache-demo",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [p.name for p in (tmp_path / "got").iterdir()] == [new.name]
