// tensormap.replace and tensormap.cp_fenceproxy: kernels that change tensor maps.
#include <cstring>

#include "addresses.h"

namespace {

enum class Field : s32 { Address, Rank, Box, Size, Stride, Step, Type, Interleave, Swizzle, Atomicity, Fill };

void set_bits(u32 &word, u32 first, u32 bits, u32 value) {
  const u32 mask = ((1u << bits) - 1) << first;
  word = (word & ~mask) | (value << first & mask);
}

u32 checked(u64 value, u64 low, u64 high, const char *what, u32 lane) {
  if (value < low || value > high)
    throw Fault(fault::DESCRIPTOR, std::string(what) + " " + std::to_string(value) + " of a tensor map", lane);
  return u32(value);
}

void set_stride(u32 *words, u32 dimension, u64 stride, u32 lane) {
  if (dimension > 3 || stride % 16 || stride >> 40)
    throw Fault(fault::DESCRIPTOR, "the stride " + std::to_string(stride) + " of a tensor map", lane);
  words[3 + dimension] = u32(stride / 16);
  set_bits(words[7], 4 * dimension, 4, u32(stride / 16 >> 32));
}

void replace(u32 *words, Field field, u32 dimension, u64 value, u32 lane) {
  if (dimension > 4)
    throw Fault(fault::DESCRIPTOR, "dimension " + std::to_string(dimension) + " of a tensor map", lane);
  switch (field) {
  case Field::Address:
    if (value % 16) throw Fault(fault::MISALIGNED, "a tensor map of a tensor at " + hex(value), lane);
    words[0] = u32(value);
    words[1] = u32(value >> 32);
    return;
  case Field::Rank:
    return set_bits(words[2], 4, 3, checked(value, 0, 4, "the rank", lane));
  case Field::Box: {
    const u32 box = checked(value, 1, 256, "the box", lane) - 1;
    return dimension ? set_bits(words[14], 8 * (dimension - 1), 8, box) : set_bits(words[13], 24, 8, box);
  }
  case Field::Size:
    words[8 + dimension] = checked(value, 1, ~0u, "the size", lane) - 1;
    return;
  case Field::Stride:
    return set_stride(words, dimension, value, lane);
  case Field::Step:
    return set_bits(words[13], 3 * dimension, 3, checked(value, 1, 8, "the step", lane) - 1);
  case Field::Type:
    return set_bits(words[2], 7, 4, checked(value, 0, 10, "the type", lane));
  case Field::Interleave:
    return set_bits(words[2], 11, 2, checked(value, 0, 2, "the interleaving", lane));
  case Field::Swizzle:
    return set_bits(words[2], 13, 2, checked(value, 0, 3, "the swizzle", lane));
  case Field::Fill:
    return set_bits(words[2], 15, 1, checked(value, 0, 1, "the fill", lane));
  case Field::Atomicity:
    if (value) throw Fault(fault::UNSUPPORTED, "atoms of a swizzle other than 16 bytes", lane);
  }
}

// The bytes of a map, which is aligned to 64.
u8 *map_at(Machine &machine, Warp &warp, Space space, u64 address, Access access, u32 lane) {
  machine.memory().at(warp, space, address + 64, 64, access, lane);
  return machine.memory().at(warp, space, address, 64, access, lane);
}

} // namespace

// a: tensor map (place, wide), space, field, dimension, value, whether it has 64 bits; immediate: offset
OPERATION(tensormap_replace) {
  EACH_LANE(lane) {
    const u64 address = address_in(warp, insn.a[0], insn.a[1], insn.immediate, lane);
    u8 *bytes = map_at(machine, warp, Space(insn.a[2]), address, Access::Write, lane);
    u32 words[32];
    std::memcpy(words, bytes, sizeof words);
    replace(words, Field(insn.a[3]), u32(insn.a[4]),
            insn.a[6] ? warp.wide(insn.a[5])[lane] : warp.word(insn.a[5])[lane], lane);
    std::memcpy(bytes, words, sizeof words);
  }
  return Outcome::Next;
}

// a: to (place, wide), from (place, wide): 128 bytes of shared memory to global memory, by a whole warp
OPERATION(tensormap_copy) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const u64 to = address_in(warp, insn.a[0], insn.a[1], 0, 0), from = address_in(warp, insn.a[2], insn.a[3], 0, 0);
  const u8 *source = map_at(machine, warp, Space::Shared, from, Access::Read, 0);
  u8 *target = map_at(machine, warp, Space::Global, to, Access::Write, 0);
  std::memcpy(target, source, 128);
  return Outcome::Next;
}
