// Addresses of shared memory in other blocks of the cluster.
#include "../core/machine.h"

namespace {
void check(const Warp &warp, u32 rank, u32 lane) {
  const size_t blocks = warp.block->cluster->blocks.size();
  if (rank >= blocks)
    throw Fault(fault::OUT_OF_BOUNDS, "block " + std::to_string(rank) + " of a cluster of " + std::to_string(blocks),
                lane);
}
constexpr u64 RANK_MASK = 0xffull << RANK_SHIFT;
} // namespace

// a: result, address, rank (places), generic
OPERATION(MAPA_32) {
  EACH_LANE(lane) {
    const u32 rank = warp.word(insn.a[2])[lane];
    check(warp, rank, lane);
    warp.word(insn.a[0])[lane] = (warp.word(insn.a[1])[lane] & ~u32(RANK_MASK)) | rank << RANK_SHIFT;
  }
  return Outcome::Next;
}

OPERATION(MAPA_64) {
  EACH_LANE(lane) {
    const u32 rank = warp.word(insn.a[2])[lane];
    const u64 address = warp.wide(insn.a[1])[lane];
    check(warp, rank, lane);
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
