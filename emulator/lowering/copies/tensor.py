"""``cp.async.bulk.tensor`` and its reductions: boxes of tensors, by tensor maps."""

from __future__ import annotations

from dataclasses import dataclass

from precast.emulator.lowering.copies.bulk import REDUCTIONS
from precast.emulator.lowering.copies.hints import take_cache_hint
from precast.emulator.lowering.lowering import ABSENT, Address, Lowering, Operand, Unsupported

_TILE, _IM2COL, _ROWS = range(3)
_SHARED = ("shared::cta", "shared::cluster")


@dataclass(frozen=True, slots=True)
class _Box:
    map: Address
    coordinates: list[Operand]


def _box(to: Lowering, text: str) -> _Box:
    """``[map, {coordinates}]``."""
    begin, end = text.find("{"), text.rfind("}")
    if not text.startswith("[") or begin < 0:
        raise Unsupported(f"{text} is not a tensor map with coordinates")
    pointer = text[1:begin].strip().rstrip(",").strip()
    coordinates = [to.source(item) for item in to.items(text[begin : end + 1])]
    return _Box(to.address(f"[{pointer}]"), coordinates)


def _dimension(to: Lowering) -> int:
    return int(to.modifiers.choose("1d", "2d", "3d", "4d", "5d")[0])


def _mode(to: Lowering, dimension: int, coordinates: int) -> int:
    word = to.modifiers.option("tile", "tile::gather4", "tile::scatter4", "im2col", "im2col_no_offs")
    if word in ("tile::gather4", "tile::scatter4"):
        if dimension != 2 or coordinates != 5:
            raise Unsupported("four rows of a tensor that has not two dimensions")
        return _ROWS
    if coordinates != dimension:
        raise Unsupported(f"{coordinates} coordinates in {dimension} dimensions")
    return _IM2COL if word.startswith("im2col") else _TILE


def _form(mode: int, coordinates: int, offsets: int = 0, pairs: bool = False) -> int:
    return coordinates | offsets << 8 | mode << 16 | int(pairs) << 24


def tensor_load(to: Lowering) -> None:
    """``cp.async.bulk.tensor`` into shared memory."""
    words = to.modifiers
    dimension = _dimension(to)
    words.choose(*_SHARED)
    words.choose("global")
    words.choose("mbarrier::complete_tx::bytes")
    pairs = words.option("cta_group::1", "cta_group::2") == "cta_group::2"
    take_cache_hint(to)
    mask = to.source(to.operands.pop()) if words.take("multicast::cluster") else ABSENT
    to.expect(3, 4)
    box = _box(to, to.operands[1])
    mode = _mode(to, dimension, len(box.coordinates))
    offsets = [to.source(item) for item in to.items(to.operands[3])] if len(to.operands) == 4 else []
    if len(offsets) != (dimension - 2 if mode == _IM2COL else 0):
        raise Unsupported(f"{len(offsets)} offsets of a box in {dimension} dimensions")
    to.emit(
        "tensor_load",
        *(to.address(to.operands[0]), box.map, to.address(to.operands[2]), mask),
        to.pool(box.coordinates + offsets),
        immediate=_form(mode, len(box.coordinates), len(offsets), pairs),
    )


def tensor_store(to: Lowering, reduces: bool) -> None:
    """``cp.async.bulk.tensor`` and ``cp.reduce.async.bulk.tensor`` out of shared memory."""
    words = to.modifiers
    dimension = _dimension(to)
    words.choose("global")
    words.choose("shared::cta")
    words.choose("bulk_group")
    take_cache_hint(to)
    operation = REDUCTIONS[words.choose(*REDUCTIONS)] if reduces else -1
    to.expect(2)
    box = _box(to, to.operands[0])
    mode = _mode(to, dimension, len(box.coordinates))
    if mode == _IM2COL:
        raise Unsupported("stores by tensor maps for im2col")
    to.emit(
        "tensor_store",
        *(box.map, to.address(to.operands[1]), operation),
        to.pool(box.coordinates),
        immediate=_form(mode, len(box.coordinates)),
    )


def prefetch_tensor(to: Lowering) -> None:
    """Prefetches into L2 change nothing; their modifiers must be known all the same."""
    words = to.modifiers
    if words.take("tensor"):
        _dimension(to)
        words.option("tile", "tile::gather4", "im2col", "im2col::w", "im2col::w::128")
    words.choose("L2")
    words.choose("global")
    take_cache_hint(to)
