"""A little library of compile functions of all kinds. Its compiler is a double, whose PTX is a text of all it got."""

from __future__ import annotations

from precast.attach.library import Library
from precast.attach.seams.hooks import CacheAttribute, CompileFunctions, Decorator
from precast.attach.seams.method_hooks import ClassMethods

NAME = "yardlib"
FILES = {
    f"{NAME}/jit.py": """
import functools

def jit_cache(function):
    cache, misses = {}, 0

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        nonlocal misses
        key = args + tuple(sorted(kwargs.items())) if kwargs else args
        if key not in cache:
            misses += 1
            cache[key] = function(*args, **kwargs)
        return cache[key]

    wrapper.cache_clear = cache.clear
    return wrapper


def logged(function):
    return function


def logging(function):
    @functools.wraps(function)
    def call():
        return function()

    return call
""",
    f"{NAME}/parts.py": """
import functools
import json
import os
import pathlib

import numpy

from yardlib.jit import logged

OFFSET = 1
BANKS = 32
SEEN = {}
CALLS = 0
FOLDER = pathlib.Path(__file__).parent


def scaled(by):
    def decorate(function):
        @functools.wraps(function)
        def call(*args):
            return by * function(*args)

        return call

    return decorate


@scaled(2)
def weight(n=3, *, more=1):
    return n + more + 10


def height():
    return 5


@logged
def ports():
    return 2


def width(n=int("2")):
    return n


def made(k):
    def inner():
        return k

    return inner


depth = made(4)


class Settings:
    hits = 0
    tile = 1
    tiles = [1, 2]

    def rows(self):
        return 7

    @staticmethod
    def cols():
        return 8

    @property
    def lanes(self):
        return 6

    @functools.cached_property
    def banks(self):
        return BANKS


class Options:
    def __init__(self):
        self.stages = 1


OPTIONS = Options()


def text():
    global CALLS
    CALLS += 1
    Settings.hits += 1
    SEEN[CALLS] = Settings.hits
    table = json.loads((FOLDER / "table.json").read_text())
    numbers = numpy.load(FOLDER / "numbers.npy").tolist()
    level = os.environ.get("YARDLIB_LEVEL", "0")
    made = Settings()
    of_classes = (Settings.tile, Settings.tiles, made.rows(), Settings.cols(), made.lanes, made.banks, OPTIONS.stages)
    return f"{OFFSET} {weight()} {height()} {width()} {ports()} {depth()} {of_classes} {table} {numbers} {level}"
""",
    f"{NAME}/base.py": """
import dataclasses
import enum

from yardlib.parts import scaled


class cute:
    @staticmethod
    def compile(*parts):
        return Compiled(" ".join(map(described, parts)))


class Compiled:
    def __init__(self, ptx):
        self.ptx = ptx


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass(frozen=True)
class Config:
    tile: object


def double(x=2):
    return 2 * x


@scaled(3)
def score():
    return 7


def described(value):
    kind = type(value).__qualname__
    if isinstance(value, enum.Enum):
        return f"{kind}.{value.name}"
    if isinstance(value, float):
        import struct

        return f"{kind}({struct.pack('d', value).hex()})"
    if isinstance(value, (tuple, list)):
        return f"{kind}[{', '.join(map(described, value))}]"
    if isinstance(value, dict):
        return f"{kind}{{{', '.join(f'{described(k)}: {described(v)}' for k, v in value.items())}}}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return f"{kind}({described(value.tile)}, {getattr(value, 'extra', 0)})"
    if isinstance(value, type):
        return f"class {value.__qualname__} {getattr(value, 'extra', 0)}"
    if callable(value):
        return f"{value.__qualname__}() = {value()}"
    return f"{kind}({value!r})"
""",
    f"{NAME}/decorated.py": """
from yardlib.base import cute
from yardlib.jit import jit_cache
from yardlib.parts import text


@jit_cache
def decorated(n, tile=64):
    return cute.compile("decorated", n, tile, text())
""",
    f"{NAME}/kernels.py": """
import functools

from yardlib.base import Compiled, Config, Level, cute, described, double, score
from yardlib.decorated import decorated
from yardlib.parts import text

_kept = {}


@functools.cache
def cached(n, tile=64, **more):
    return cute.compile("cached", n, tile, more, text())


@functools.lru_cache(maxsize=1, typed=True)
def bounded(n, tile=64):
    return cute.compile("bounded", n, tile, text())


def fresh(n, tile=64, **more):
    return cute.compile("fresh", n, tile, more, text())


def kept(n, tile=64):
    key = n, tile
    if key not in _kept:
        _kept[key] = cute.compile("kept", n, tile, text())
    return _kept[key]


def front(n, tile=64):
    key = n, tile
    if key not in front.compile_cache:
        front.compile_cache[key] = compiled_of("front", key)
    return front.compile_cache[key]


front.compile_cache = {}


def compiled_of(name, key):
    return Compiled(f"{name} {described(key)} {text()}")


class Operator:
    extra = 0

    @classmethod
    def of_class(cls, n, tile=64):
        return cute.compile("of_class", n, tile, cls, text())
""",
    f"{NAME}/later.py": "",
    f"{NAME}/table.json": '{"bias": 1}',
}
LIBRARY = Library(
    name=NAME,
    distribution=NAME,
    package=NAME,
    seams=(
        Decorator(f"{NAME}.jit", "jit_cache"),
        CompileFunctions(NAME, without=(f"{NAME}.decorated",)),
        ClassMethods(NAME),
        CacheAttribute(f"{NAME}.kernels", "compile_cache"),
    ),
    by_module=True,
)
