// Addresses of shared memory in other blocks of the cluster.
#include "../core/machine.h"

namespace {
// Kernels compute addresses of blocks that the cluster lacks, and do not use them: an access there is the error.
constexpr u64 RANK_MASK = 0xffull << RANK_SHIFT;
} // namespace

// a: result, address, rank (places), generic
OPERATION(MAPA_32) {
  EACH_LANE(lane) {
    const u32 rank = warp.word(insn.a[2])[lane] & 0xff;
    warp.word(insn.a[0])[lane] = (warp.word(insn.a[1])[lane] & ~u32(RANK_MASK)) | rank << RANK_SHIFT;
  }
  return Outcome::Next;
}

OPERATION(MAPA_64) {
  EACH_LANE(lane) {
    const u32 rank = warp.word(insn.a[2])[lane] & 0xff;
    const u64 address = warp.wide(insn.a[1])[lane];
    if (insn.a[3] && (address < SHARED_WINDOW || address >= LOCAL_WINDOW))
      throw Fault(fault::OUT_OF_BOUNDS, hex(address) + " is not an address of shared memory", lane);
    warp.wide(insn.a[0])[lane] = (address & ~RANK_MASK) | u64(rank) << RANK_SHIFT;
  }
  return Outcome::Next;
}

// a: result, address (places)
OPERATION(CTA_RANK_32) {
  EACH_LANE(lane) warp.word(insn.a[0])[lane] = warp.word(insn.a[1])[lane] >> RANK_SHIFT;
  return Outcome::Next;
}

OPERATION(CTA_RANK_64) {
  EACH_LANE(lane) warp.word(insn.a[0])[lane] = u32(warp.wide(insn.a[1])[lane]) >> RANK_SHIFT;
  return Outcome::Next;
}
