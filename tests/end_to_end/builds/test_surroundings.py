"""Builds in other surroundings: none of them changes a byte of a cache.

Packages that patch the compiler are another test: ``tests/build/child/test_patches.py``.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial, reduce
from operator import or_
from pathlib import Path

import pytest

from tests.helpers.builds import HEAD, command, environment, tree

pytestmark = pytest.mark.slow

# What it compiles depends on data beside it, a helper, a variable, the order of a set, and a file that it makes.
TILES = """
import os
from pathlib import Path
from adding import compile_add
from shapes import SIZES

HERE = Path(__file__).parent
NAMES = ("tile", "stage", "warp", "cluster", "swizzle", "epilogue")


def tiles(n: int):
    table = dict(line.split("=") for line in (HERE / "tiles.txt").read_text(encoding="utf-8").splitlines())
    first = NAMES.index(next(iter(set(NAMES))))
    return compile_add(int(table["größe"]) + int(os.environ.get("TILE", "0")) + 100 * first + n)


def made(n: int):
    import tempfile

    with tempfile.NamedTemporaryFile("w+") as file:
        file.write(str(SIZES[n]))
        file.seek(0)
        return compile_add(int(file.read()))
"""
FILES = {
    "adding.py": HEAD,
    "tiles.py": TILES,
    "shapes.py": "SIZES = {number: 64 << number for number in range(4)}\n",
    "tiles.txt": "größe=64\nstages=3\n",
}
OPS = ("tiles", "made")


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What is unusual about a build. ``place`` is where its files are, ``through`` a program that starts it."""

    jobs: int = 1
    backwards: bool = False
    place: str = "project"
    folder: str = "."
    variables: Mapping[str, str] = field(default_factory=dict)
    before: tuple[Callable[[], object], ...] = ()
    through: tuple[str, ...] = ()

    def __or__(self, other: Surroundings) -> Surroundings:
        """Both at once: what they both set is that of the other."""
        usual = Surroundings()
        changed = {
            name: value
            for name, value in ((one.name, getattr(other, one.name)) for one in fields(other))
            if value != getattr(usual, name)
        }
        together = {
            "variables": {**self.variables, **other.variables},
            "before": self.before + other.before,
            "through": self.through + other.through,  # the first starts the second
        }
        return replace(self, **{**changed, **together})


def low_limits() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, 4 << 20))


def one_processor() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


# Each variable may name the folder of the test as @.
SURROUNDINGS = {
    "the manifest in another order": Surroundings(backwards=True),
    "two workers": Surroundings(jobs=2),
    "four workers": Surroundings(jobs=4, backwards=True),
    "another home": Surroundings(variables={"HOME": "@/home", "XDG_CACHE_HOME": "@/home/.caches"}),
    "another locale": Surroundings(variables={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}),
    "another time zone": Surroundings(variables={"TZ": "Asia/Kathmandu"}),
    "a strict umask": Surroundings(before=(partial(os.umask, 0o077),)),
    "low limits": Surroundings(before=(low_limits,)),
    "a checkout elsewhere": Surroundings(place="deeper/with a space/and ünicode"),
    "another working directory": Surroundings(folder="deeper"),
    "another user": Surroundings(
        variables={"USER": "builder", "LOGNAME": "builder"},
        through=("unshare", "--user", "--map-user=1234", "--map-group=1234"),
    ),
    "another host name": Surroundings(
        through=("unshare", "--user", "--map-root-user", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"),
    ),
    "another folder of temporary files": Surroundings(variables={"TMPDIR": "@/temporary"}),
    "another hash seed": Surroundings(variables={"PYTHONHASHSEED": "123"}),
    "a further folder that Python searches": Surroundings(variables={"PYTHONPATH": "@/further:$PYTHONPATH"}),
    "no byte code": Surroundings(variables={"PYTHONDONTWRITEBYTECODE": "1"}),
    "one processor": Surroundings(before=(one_processor,)),
}

# Several at once, since each build takes seconds: PRECAST_SURROUNDINGS=each builds in each of them alone.
TOGETHER = (
    (
        "the manifest in another order", "four workers", "another home", "another time zone",
        "a strict umask", "a checkout elsewhere", "another hash seed", "no byte code",
    ),
    (
        "two workers", "another locale", "another host name", "another user", "another folder of temporary files",
        "one processor", "low limits", "another working directory", "a further folder that Python searches",
    ),
)  # fmt: skip
EACH = [(name,) for name in SURROUNDINGS]
CHOSEN = EACH if os.environ.get("PRECAST_SURROUNDINGS") == "each" else TOGETHER
assert sorted(name for names in TOGETHER for name in names) == sorted(SURROUNDINGS)


def project(folder: Path, *, backwards: bool = False) -> Path:
    """The user's modules, and a manifest of two ops for two targets."""
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    turn = -1 if backwards else 1
    entries = "".join(
        f"  - {{compile: 'tiles:{op}', op: user.{op}, config: {{n: 1}}, inputs: {{files: tiles.txt}}}}\n"
        for op in OPS[::turn]
    )
    path = folder / "mine.yaml"
    targets = ", ".join(("sm_90a", "sm_100a")[::turn])
    path.write_text(f"version: 1\nname: mine\ntargets: [{targets}]\npath: .\nkernels:\n{entries}")
    return path


def build(folder: Path, one: Surroundings) -> Path:
    """Build from scratch, as a process that is started as usual; the cache."""
    manifest = project(folder / one.place, backwards=one.backwards)
    for name in ("home", "temporary", "further", "deeper"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "further" / "unrelated.py").write_text("x = 1\n")
    variables = {
        name: value.replace("@", str(folder)).replace("$PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        for name, value in one.variables.items()
    }
    cache = folder / one.place / "cache"

    def prepare() -> None:
        for step in one.before:
            step()

    done = subprocess.run(
        [*one.through, *command("build", manifest, "-o", cache, "-j", one.jobs)],
        env=environment(folder / "store", **variables),
        cwd=folder / one.folder,
        preexec_fn=prepare,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return cache


@cache
def can_run(through: tuple[str, ...]) -> bool:
    """Whether this machine lets this user have such surroundings."""
    if shutil.which(through[0]) is None:
        return False
    return subprocess.run([*through, "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory, without_torch: None) -> Path:
    """A cache that was built with nothing unusual."""
    made = build(tmp_path_factory.mktemp("usual"), Surroundings())
    assert len([name for name in tree(made) if name.startswith("blobs/")]) >= len(OPS) * 2
    return made


@pytest.mark.parametrize("names", CHOSEN, ids=", ".join)
def test_the_cache_has_the_same_bytes(names: tuple[str, ...], usual: Path, tmp_path: Path) -> None:
    one = reduce(or_, (SURROUNDINGS[name] for name in names))
    if one.through and not can_run(one.through):
        pytest.skip(f"{' '.join(one.through[:3])} does not work here")
    files, expected = tree(build(tmp_path, one)), tree(usual)
    assert files.keys() == expected.keys()
    assert [name for name in files if files[name] != expected[name]] == []
