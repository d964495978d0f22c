// How loads, stores and atomic operations are packed.
#pragma once
#include "memory.h"

// a[0], a[1]: the register of the address and whether it has 64 bits; a[2]: the space and flags; a[3], a[4]: the
// registers of the values in the pool. The offset is in `immediate`.
constexpr s32 SPACE_MASK = 0xff;
constexpr s32 STRONG = 1 << 8;                   // .relaxed, .volatile and what is stronger: it may race with its like
constexpr s32 READ_ONLY = 1 << 13;               // .nc
constexpr s32 ORDER_SHIFT = 9, SCOPE_SHIFT = 11; // two bits each: Order and Scope of sync/races.h

inline Space space_of(s32 flags) { return Space(flags & SPACE_MASK); }

inline void addresses_of(Warp &warp, s32 place, bool wide, s64 offset, u64 (&addresses)[LANES]) {
  if (place < 0) {
    for (u64 &address : addresses) address = u64(offset);
  } else if (wide) {
    const u64 *base = warp.wide(place);
    for (u32 lane = 0; lane < LANES; ++lane) addresses[lane] = base[lane] + u64(offset);
  } else {
    const u32 *base = warp.word(place);
    for (u32 lane = 0; lane < LANES; ++lane) addresses[lane] = u32(base[lane] + u32(offset));
  }
}

inline void addresses_of(Warp &warp, const Insn &insn, u64 (&addresses)[LANES]) {
  addresses_of(warp, insn.a[0], insn.a[1], insn.immediate, addresses);
}

// An access that orders others: `Order` and `Scope` are in the flags.
void order_accesses(Machine &machine, Warp &warp, s32 flags, const u64 (&addresses)[LANES], bool reads, bool writes,
                    u32 active);
