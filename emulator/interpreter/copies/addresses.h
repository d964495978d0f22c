// Addresses in operands of copies and of tensor cores.
#pragma once
#include "../memory/memory.h"
#include "../sync/async_state.h"

// The operand is a register's place (-1: none) and whether it has 64 bits.
inline u64 address_in(Warp &warp, s32 place, s32 wide, s64 offset, u32 lane) {
  const u64 base = place < 0 ? 0 : wide ? warp.wide(place)[lane] : warp.word(place)[lane];
  return base + u64(offset);
}

// An address of shared memory, with the block's rank; it may be a generic one.
inline u32 shared_in(Warp &warp, s32 place, s32 wide, s64 offset, u32 lane) {
  u64 address = address_in(warp, place, wide, offset, lane);
  if (address >= SHARED_WINDOW && address < LOCAL_WINDOW) address -= SHARED_WINDOW;
  if (address >> 32) throw Fault(fault::OUT_OF_BOUNDS, hex(address) + " is no address of shared memory", lane);
  return u32(address);
}

inline AsyncState &async_of(Warp &warp) {
  if (!warp.async) warp.async = std::make_unique<AsyncState>();
  return *warp.async;
}

inline const Launch &launch_of(const Warp &warp) { return *warp.block->cluster->grid->launch; }
