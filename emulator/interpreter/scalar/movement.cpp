// mov, and the parts of a register.
#include "elementwise.h"

UNARY(mov_32, u32, u32, a)
UNARY(mov_64, u64, u64, a)
UNARY(low_half, u32, u32, a & 0xffff)
UNARY(high_half, u32, u32, a >> 16)
BINARY(join_halves, u32, u32, u32, (a & 0xffff) | b << 16)
UNARY(low_word, u32, u64, u32(a))
UNARY(high_word, u32, u64, u32(a >> 32))
BINARY(join_words, u64, u32, u32, u64(b) << 32 | a)

// A field of a register: its offset in bits and its width, `immediate` = width << 8 | offset.
OPERATION(field_32) {
  const u32 offset = u32(insn.immediate) & 0xff, mask = (1u << (insn.immediate >> 8)) - 1;
  map<u32, u32>(warp, insn, active, [=](u32 a) { return a >> offset & mask; });
  return Outcome::Next;
}
OPERATION(field_64) {
  const u32 offset = u32(insn.immediate) & 0xff, mask = (1u << (insn.immediate >> 8)) - 1;
  map<u32, u64>(warp, insn, active, [=](u64 a) { return u32(a >> offset) & mask; });
  return Outcome::Next;
}
// a[1] with a[2]'s bits at an offset; likewise.
OPERATION(with_field_32) {
  const u32 offset = u32(insn.immediate) & 0xff, mask = (1u << (insn.immediate >> 8)) - 1;
  map<u32, u32, u32>(warp, insn, active, [=](u32 a, u32 b) { return (a & ~(mask << offset)) | (b & mask) << offset; });
  return Outcome::Next;
}
OPERATION(with_field_64) {
  const u64 offset = u32(insn.immediate) & 0xff, mask = (1ull << (insn.immediate >> 8)) - 1;
  map<u64, u64, u32>(warp, insn, active, [=](u64 a, u32 b) { return (a & ~(mask << offset)) | (b & mask) << offset; });
  return Outcome::Next;
}

// Registers of 128 bits: low double words of all lanes, then high ones.
OPERATION(low_double) {
  const u64 *a = warp.wide(insn.a[1]);
  compute<u64>(warp, insn.a[0], active, [=](u32 lane) { return a[lane]; });
  return Outcome::Next;
}
OPERATION(high_double) {
  const u64 *a = warp.wide(insn.a[1]) + LANES;
  compute<u64>(warp, insn.a[0], active, [=](u32 lane) { return a[lane]; });
  return Outcome::Next;
}
OPERATION(join_doubles) {
  const u64 *low = warp.wide(insn.a[1]), *high = warp.wide(insn.a[2]);
  compute<u64>(warp, insn.a[0], active, [=](u32 lane) { return low[lane]; });
  compute<u64>(warp, insn.a[0] + 2 * s32(LANES), active, [=](u32 lane) { return high[lane]; });
  return Outcome::Next;
}
OPERATION(mov_128) {
  for (s32 half = 0; half < 2; ++half) {
    const u64 *a = warp.wide(insn.a[1]) + half * s32(LANES);
    compute<u64>(warp, insn.a[0] + half * 2 * s32(LANES), active, [=](u32 lane) { return a[lane]; });
  }
  return Outcome::Next;
}

// Which window a generic address is in: `immediate` 0 global, 1 the block's shared memory, 2 the cluster's, 3 local.
OPERATION(isspacep) {
  const u64 *a = warp.wide(insn.a[1]), rank = warp.block->rank;
  const u32 result = bits([=](u32 lane) {
    const bool local = a[lane] >= LOCAL_WINDOW, shared = a[lane] >= SHARED_WINDOW && !local;
    switch (insn.immediate) {
    case 0:
      return a[lane] < SHARED_WINDOW;
    case 1:
      return shared && (a[lane] & (SHARED_WINDOW - 1)) >> RANK_SHIFT == rank;
    case 2:
      return shared;
    default:
      return local;
    }
  });
  set_predicate(warp, insn.a[0], result, active);
  return Outcome::Next;
}

// Addresses of shared memory have the block's rank from RANK_SHIFT on; a generic one is in the window besides.
template <class T> static T mapped(T address, u32 rank) {
  return T((address & ~(T(0xff) << RANK_SHIFT)) | T(rank) << RANK_SHIFT);
}
BINARY(mapa_shared_32, u32, u32, u32, mapped(a, b))
BINARY(mapa_shared_64, u64, u64, u32, mapped(a, b))
BINARY(mapa_64, u64, u64, u32, mapped(a, b))
UNARY(getctarank_32, u32, u32, a >> RANK_SHIFT)
UNARY(getctarank_64, u32, u64, u32(a >> RANK_SHIFT) & 0xff)
