// The state of an mbarrier: in its 8 bytes of shared memory, as on a GPU, in an order of our own.
#pragma once
#include "../memory/memory.h"

struct Mbarrier {
  u32 phase = 0;    // its parity
  s32 pending = 0;  // arrivals that are missing
  s32 expected = 0; // arrivals of each phase
  s32 bytes = 0;    // that are expected and not complete; below zero: complete and not yet expected

  static constexpr s32 MOST_ARRIVALS = (1 << 20) - 1, MOST_BYTES = (1 << 20) - 1;

  bool complete() const { return pending == 0 && bytes == 0; }
  u64 pack() const;
  static Mbarrier unpack(u64 word);
  static bool is_one(u64 word); // no other value has these marks, unless by chance
};

// The bytes of an mbarrier that is initialised; a Fault otherwise.
u8 *mbarrier_place(Machine &machine, Block &mine, u32 address, u32 lane = ~0u);
Mbarrier read_mbarrier(const u8 *place);
void write_mbarrier(u8 *place, const Mbarrier &state);

// `mbarrier_arrive` (effects.h), where later phases expect fewer arrivals, too.
void mbarrier_drop(Machine &machine, Block &mine, u32 address, s32 arrivals, s32 drops, s64 bytes, u32 agent);

// The name of an mbarrier in the check of races.
inline u64 key_of(const u8 *place) { return u64(reinterpret_cast<uintptr_t>(place)); }
