// What all bulk copies share: how they are delayed, and where they report that they are done.
#pragma once
#include "addresses.h"
#include "groups.h"
#include "regions.h"

// Shared memory of one block that a copy writes or reads.
struct SharedPart {
  Block *owner;
  u32 offset, bytes;
  u8 *data() const { return owner->shared.data() + offset; }
};
SharedPart shared_part(Machine &machine, Warp &warp, u32 address, u32 bytes, u32 alignment, u32 lane);

// Ranks whose bits are set, or the address's own rank where `mask_place` is -1.
u32 ranks_of(Warp &warp, s32 mask_place, u32 address, u32 lane);

// The mbarrier that hears of a copy to block `rank`: at the same offset, in that block or, for pairs of blocks, in the
// block of its pair whose parity the address has.
u32 mbarrier_for(u32 address, u32 rank, bool multicast, bool pairs, u32 to, u32 lane);

// Copies that write shared memory and complete `bytes` of an mbarrier. `perform` moves the data.
void into_shared(const Worker &worker, Block &mine, const SharedPart &part, u32 mbarrier, Effect perform);
// Copies that read shared memory, in a group of the thread's.
void out_of_shared(const Worker &worker, Warp &warp, const SharedPart &part, u32 lane, Effect perform);
