// The address of shared memory that an instruction has in its first operands: place, wide, and its offset in
// `immediate`.
#pragma once
#include "../core/machine.h"

inline u32 shared_address_at(Warp &warp, s32 place, bool wide, s64 offset, u32 lane) {
  u64 address = u64(offset);
  if (place >= 0) address += wide ? warp.wide(place)[lane] : warp.word(place)[lane];
  if (wide && address >= SHARED_WINDOW && address < LOCAL_WINDOW) address -= SHARED_WINDOW; // a generic address
  if (!wide) address = u32(address);
  if (address >> 32) throw Fault(fault::OUT_OF_BOUNDS, hex(address) + " is not an address of shared memory", lane);
  return u32(address);
}

inline u32 shared_address(Warp &warp, const Insn &insn, u32 lane) {
  return shared_address_at(warp, insn.a[0], insn.a[1] != 0, insn.immediate, lane);
}
