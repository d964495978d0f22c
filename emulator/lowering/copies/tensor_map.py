"""``tensormap.replace`` and ``tensormap.cp_fenceproxy``."""

from __future__ import annotations

from precast.emulator.lowering.lowering import Lowering, Unsupported, lowers

_PLAIN = {"global_address": 0, "rank": 1}
_OF_DIMENSION = {"box_dim": 2, "global_dim": 3, "global_stride": 4, "element_stride": 5}
_NUMBERS = {"elemtype": 6, "interleave_layout": 7, "swizzle_mode": 8, "swizzle_atomicity": 9, "fill_mode": 10}
_SPACES = {"": 0, "global": 1, "shared::cta": 2}


@lowers("tensormap")
def lower_tensor_map(to: Lowering) -> None:
    """Changes of tensor maps."""
    if to.modifiers.take("replace"):
        _replace(to)
    else:
        _copy(to)


def _replace(to: Lowering) -> None:
    words = to.modifiers
    words.choose("tile")
    field = words.choose(*_PLAIN, *_OF_DIMENSION, *_NUMBERS)
    space = _SPACES[words.option("global", "shared::cta")]
    words.choose("b1024")
    bits = 64 if words.type("b32", "b64") == "b64" else 32
    address = to.address(to.operands[0])
    dimension = 0
    if field in _OF_DIMENSION:
        to.expect(3)
        dimension = int(to.operands[1], 0)
    else:
        to.expect(2)
    if (field in ("global_address", "global_stride")) != (bits == 64):
        raise Unsupported(f"a value of {bits} bits for .{field}")
    number = (_PLAIN | _OF_DIMENSION | _NUMBERS)[field]
    value = to.source(to.operands[-1], bits)
    to.emit("tensormap_replace", address, space, number, dimension, value, int(bits == 64))


def _copy(to: Lowering) -> None:
    words = to.modifiers
    for word in ("cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release"):
        words.choose(word)
    words.choose("cta", "cluster", "gpu", "sys")
    words.choose("sync")
    words.choose("aligned")
    to.expect(3)
    if to.operands[2] != "128":
        raise Unsupported(f"a copy of {to.operands[2]} bytes of a tensor map")
    to.emit("tensormap_copy", to.address(to.operands[0]), to.address(to.operands[1]))
