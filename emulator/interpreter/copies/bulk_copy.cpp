// cp.async.bulk and cp.reduce.async.bulk: runs of bytes between global memory, shared memory and other blocks.
#include <cstring>

#include "reduction.h"
#include "transfer.h"

namespace {

u32 bytes_in(Warp &warp, s32 place, u32 lane) {
  const u32 bytes = warp.word(place)[lane];
  if (bytes % 16) throw Fault(fault::COPY, "a bulk copy of " + std::to_string(bytes) + " bytes", lane);
  return bytes;
}

u64 aligned(u64 address, u32 lane) {
  if (address % 16) throw Fault(fault::MISALIGNED, "a bulk copy with global memory at " + hex(address), lane);
  return address;
}

void combine(s32 operation, s32 type, u8 *to, const u8 *from, u32 bytes) {
  if (operation < 0)
    std::memcpy(to, from, bytes);
  else
    reduce(Reduction(operation), DataType(type), to, from, bytes);
}

} // namespace

// a: to (place, wide), from (place, wide), bytes, mbarrier (place, wide), mask (place or -1)
OPERATION(bulk_load) {
  EACH_LANE(lane) {
    const u32 to = shared_in(warp, insn.a[0], insn.a[1], 0, lane), bytes = bytes_in(warp, insn.a[4], lane);
    const u64 from = aligned(address_in(warp, insn.a[2], insn.a[3], 0, lane), lane);
    const u32 mbarrier = shared_in(warp, insn.a[5], insn.a[6], 0, lane);
    const bool multicast = insn.a[7] >= 0;
    const u32 ranks = ranks_of(warp, insn.a[7], to, lane);
    const Launch *launch = &launch_of(warp);
    for (u32 rank = 0; rank < 16; ++rank) {
      if (!(ranks >> rank & 1)) continue;
      const SharedPart part = shared_part(machine, warp, with_rank(to, rank), bytes, 16, lane);
      const u32 target = mbarrier_for(mbarrier, rank, multicast, false, to, lane);
      const Worker worker = worker_at_mbarrier(machine, warp, target);
      into_shared(worker, *warp.block, part, target, [=] {
        std::memcpy(part.data(), worker.machine->memory().global(*launch, from, part.bytes, Access::Read, lane),
                    part.bytes);
        touches_global(worker, from, part.bytes, Access::Read);
      });
    }
  }
  return Outcome::Next;
}

// From shared memory to another block's. a: to (place, wide), from (place, wide), bytes, mbarrier (place, wide),
// reduction (-1: a copy), type
OPERATION(bulk_to_block) {
  EACH_LANE(lane) {
    const u32 to = shared_in(warp, insn.a[0], insn.a[1], 0, lane), bytes = bytes_in(warp, insn.a[4], lane);
    const u32 from = shared_in(warp, insn.a[2], insn.a[3], 0, lane);
    const u32 mbarrier = shared_in(warp, insn.a[5], insn.a[6], 0, lane);
    const SharedPart target = shared_part(machine, warp, to, bytes, 16, lane);
    const SharedPart source = shared_part(machine, warp, from, bytes, 16, lane);
    const u32 signalled = mbarrier_for(mbarrier, to >> RANK_SHIFT, false, false, to, lane);
    const Worker worker = worker_at_mbarrier(machine, warp, signalled);
    const s32 operation = insn.a[7], type = insn.a[8];
    if (machine.adversarial()) {
      nothing_lands(*source.owner, source.offset, source.bytes);
      begins(source.owner->effects->leaving, source.offset, source.bytes);
    }
    std::vector<u8> kept; // into_shared poisons its target, whose bytes a reduction needs
    if (operation >= 0) kept.assign(target.data(), target.data() + bytes);
    into_shared(worker, *warp.block, target, signalled, [=] {
      if (operation >= 0) std::memcpy(target.data(), kept.data(), kept.size());
      combine(operation, type, target.data(), source.data(), source.bytes);
      if (worker.machine->adversarial()) ends(source.owner->effects->leaving, source.offset, source.bytes);
      touches_shared(worker, *source.owner, source.offset, source.bytes, Access::Read);
    });
  }
  return Outcome::Next;
}

// From shared to global memory. a: to (place, wide), from (place, wide), bytes, reduction (-1: a copy), type,
// byte mask (place or -1)
OPERATION(bulk_store) {
  EACH_LANE(lane) {
    const u64 to = aligned(address_in(warp, insn.a[0], insn.a[1], 0, lane), lane);
    const u32 from = shared_in(warp, insn.a[2], insn.a[3], 0, lane), bytes = bytes_in(warp, insn.a[4], lane);
    const SharedPart part = shared_part(machine, warp, from, bytes, 16, lane);
    const Worker worker = worker_in_group(machine, warp, Kind::Bulk);
    const Launch *launch = &launch_of(warp);
    const s32 operation = insn.a[5], type = insn.a[6];
    const u32 mask = insn.a[7] < 0 ? 0xffff : warp.word(insn.a[7])[lane] & 0xffff;
    out_of_shared(worker, warp, part, lane, [=] {
      u8 *place = worker.machine->memory().global(*launch, to, part.bytes,
                                                  operation < 0 ? Access::Write : Access::Atomic, lane);
      if (mask == 0xffff)
        combine(operation, type, place, part.data(), part.bytes);
      else
        for (u32 i = 0; i < part.bytes; ++i)
          if (mask >> (i % 16) & 1) place[i] = part.data()[i];
      touches_global(worker, to, part.bytes, operation < 0 ? Access::Write : Access::Atomic);
    });
  }
  return Outcome::Next;
}

OPERATION(bulk_commit) {
  EACH_LANE(lane) commit_group(async_of(warp).bulk[lane]);
  if (Races *races = machine.races()) races->commit(warp.agent, Kind::Bulk);
  return Outcome::Next;
}

// immediate: how many groups may be under way; a: 1 if only their sources are waited for
OPERATION(bulk_wait) {
  bool done = true;
  EACH_LANE(lane) done &= groups_done(async_of(warp).bulk[lane], u64(insn.immediate));
  if (!done) return Outcome::Blocked;
  if (Races *races = machine.races()) races->wait(warp.agent, Kind::Bulk, u32(insn.immediate), insn.a[0] != 0);
  return Outcome::Next;
}
