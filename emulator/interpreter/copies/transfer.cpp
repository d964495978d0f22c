#include "transfer.h"

SharedPart shared_part(Machine &machine, Warp &warp, u32 address, u32 bytes, u32 alignment, u32 lane) {
  if (address % alignment)
    throw Fault(fault::MISALIGNED,
                "a bulk copy with shared memory at " + hex(address) + ", which needs " + std::to_string(alignment) +
                    " bytes of alignment",
                lane);
  machine.memory().shared(*warp.block, address, bytes, lane);
  return {&machine.memory().owner(*warp.block, address, lane), offset_of(address), bytes};
}

u32 ranks_of(Warp &warp, s32 mask_place, u32 address, u32 lane) {
  if (mask_place < 0) return 1u << (address >> RANK_SHIFT);
  const u32 mask = warp.word(mask_place)[lane] & 0xffff;
  if (!mask) throw Fault(fault::COPY, "a multicast to no block", lane);
  if (mask >> warp.block->cluster->blocks.size())
    throw Fault(fault::COPY, "a multicast to blocks that the cluster does not have: " + hex(mask), lane);
  return mask;
}

u32 mbarrier_for(u32 address, u32 rank, bool multicast, bool pairs, u32 to, u32 lane) {
  const u32 own = address >> RANK_SHIFT;
  if (pairs) {
    if (!multicast && own >> 1 != to >> RANK_SHIFT >> 1)
      throw Fault(fault::COPY, "a copy whose mbarrier is in another pair of blocks", lane);
    return with_rank(address, (rank & ~1u) | (own & 1));
  }
  if (!multicast && own != to >> RANK_SHIFT)
    throw Fault(fault::COPY,
                "a copy to block " + std::to_string(to >> RANK_SHIFT) + " of the cluster with an mbarrier of block " +
                    std::to_string(own),
                lane);
  return with_rank(address, rank);
}

void into_shared(const Worker &worker, Block &mine, const SharedPart &part, u32 mbarrier, Effect perform) {
  Machine &machine = *worker.machine;
  mbarrier_check(machine, mine, mbarrier);
  machine.counts.copied_bytes += part.bytes;
  const auto finish = [worker, block = &mine, part, mbarrier] {
    touches_shared(worker, *part.owner, part.offset, part.bytes, Access::Write);
    worker_arrives(worker, *block, mbarrier, 0, -s64(part.bytes));
    end_worker(worker);
  };
  if (!machine.adversarial()) {
    perform();
    finish();
    return;
  }
  nothing_lands(*part.owner, part.offset, part.bytes);
  nothing_leaves(*part.owner, part.offset, part.bytes);
  poison(part.data(), part.bytes);
  begins(part.owner->effects->landing, part.offset, part.bytes);
  later(machine, mine, [part, perform = std::move(perform), finish] {
    perform();
    ends(part.owner->effects->landing, part.offset, part.bytes);
    finish();
  });
}

void out_of_shared(const Worker &worker, Warp &warp, const SharedPart &part, u32 lane, Effect perform) {
  Machine &machine = *worker.machine;
  machine.counts.copied_bytes += part.bytes;
  auto group = join_group(async_of(warp).bulk[lane]);
  const auto finish = [worker, part, group] {
    touches_shared(worker, *part.owner, part.offset, part.bytes, Access::Read);
    leave_group(*worker.machine, *group);
    end_worker(worker);
  };
  if (!machine.adversarial()) {
    perform();
    finish();
    return;
  }
  nothing_lands(*part.owner, part.offset, part.bytes);
  begins(part.owner->effects->leaving, part.offset, part.bytes);
  later(machine, *warp.block, [part, perform = std::move(perform), finish] {
    perform();
    ends(part.owner->effects->leaving, part.offset, part.bytes);
    finish();
  });
}
