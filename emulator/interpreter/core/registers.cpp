// Constants, parameters and special registers are registers that no instruction writes: they are set when a block's
// buffers are made, and those that differ between blocks whenever one begins.
#include "fault.h"
#include "registers.h"

#include <algorithm>
#include <cstring>

namespace {
bool differs_between_blocks(u64 special) {
  return (special >= CTAID_X && special <= CTAID_Z) || (special >= CLUSTERID_X && special <= CLUSTERID_Z) ||
         special == SMID;
}

// Where clusters of two sizes stand side by side, they have no numbers that are documented.
void refuse_sizes(const Launch &launch) {
  if (launch.preferred[0])
    throw Fault(fault::UNSUPPORTED, "the number of a cluster, with a preferred size of clusters");
}

u32 special_of(const Block &block, const Launch &launch, u64 special, u32 thread) {
  const u32 lane = thread % LANES;
  const u32 *const size = launch.block, *const cluster = block.cluster->size, rank = block.rank;
  const u32 inside[3] = {rank % cluster[0], rank / cluster[0] % cluster[1], rank / cluster[0] / cluster[1]};
  switch (special) {
  case TID_X:
    return thread % size[0];
  case TID_Y:
    return thread / size[0] % size[1];
  case TID_Z:
    return thread / size[0] / size[1];
  case NTID_X:
  case NTID_Y:
  case NTID_Z:
    return size[special - NTID_X];
  case CTAID_X:
  case CTAID_Y:
  case CTAID_Z:
    return block.id[special - CTAID_X];
  case NCTAID_X:
  case NCTAID_Y:
  case NCTAID_Z:
    return launch.grid[special - NCTAID_X];
  case CLUSTER_CTARANK:
    return rank;
  case CLUSTER_NCTARANK:
    return cluster[0] * cluster[1] * cluster[2];
  case CLUSTER_CTAID_X:
  case CLUSTER_CTAID_Y:
  case CLUSTER_CTAID_Z:
    return inside[special - CLUSTER_CTAID_X];
  case CLUSTER_NCTAID_X:
  case CLUSTER_NCTAID_Y:
  case CLUSTER_NCTAID_Z:
    return cluster[special - CLUSTER_NCTAID_X];
  case CLUSTERID_X:
  case CLUSTERID_Y:
  case CLUSTERID_Z:
    refuse_sizes(launch);
    return block.id[special - CLUSTERID_X] / cluster[special - CLUSTERID_X];
  case NCLUSTERID_X:
  case NCLUSTERID_Y:
  case NCLUSTERID_Z:
    refuse_sizes(launch);
    return launch.grid[special - NCLUSTERID_X] / cluster[special - NCLUSTERID_X];
  case LANEID:
    return lane;
  case WARPID:
    return thread / LANES;
  case DYNAMIC_SHARED:
    return launch.dynamic_shared;
  case SMID:
    return u32((block.id[0] + u64(launch.grid[0]) * (block.id[1] + u64(launch.grid[1]) * block.id[2])) %
               launch.multiprocessors);
  case NSMID:
    return launch.multiprocessors;
  case NWARPID:
    return 64;
  case TOTAL_SHARED:
  case AGGREGATE_SHARED:
    return launch.program->static_shared + launch.dynamic_shared;
  case LANEMASK_EQ:
    return 1u << lane;
  case LANEMASK_LT:
    return (1u << lane) - 1;
  case LANEMASK_LE:
    return (2u << lane) - 1;
  case LANEMASK_GT:
    return ~((2u << lane) - 1);
  case LANEMASK_GE:
    return ~((1u << lane) - 1);
  default:
    return POISON;
  }
}

u64 value_of(const Block &block, const Launch &launch, const Constant &constant) {
  const u64 mine = (u64(block.rank) << RANK_SHIFT) + SHARED_BASE + constant.value;
  switch (constant.kind) {
  case Initial::ParameterAddress:
    return u64(reinterpret_cast<uintptr_t>(launch.parameters)) + constant.value;
  case Initial::SharedAddress:
  case Initial::SharedAddressWide:
    return mine;
  case Initial::DynamicAddress:
  case Initial::DynamicAddressWide:
    return mine + launch.program->dynamic_offset;
  case Initial::Predicate:
    return constant.value ? ~0u : 0;
  default:
    return constant.value;
  }
}

void set_constant(Warp &warp, const Block &block, const Launch &launch, const Constant &constant) {
  switch (constant.kind) {
  case Initial::Special:
    for (u32 lane = 0; lane < LANES; ++lane)
      warp.word(constant.place)[lane] = special_of(block, launch, constant.value, warp.index * LANES + lane);
    return;
  case Initial::Predicate:
    warp.predicate(constant.place) = u32(value_of(block, launch, constant));
    return;
  case Initial::DoubleWord:
  case Initial::ParameterAddress:
  case Initial::SharedAddressWide:
  case Initial::DynamicAddressWide:
    std::fill_n(warp.wide(constant.place), LANES, value_of(block, launch, constant));
    return;
  default:
    std::fill_n(warp.word(constant.place), LANES, u32(value_of(block, launch, constant)));
  }
}
} // namespace

void set_registers(Block &block, const Launch &launch, const Unwritten &fill) {
  const Program &program = *launch.program;
  auto address = reinterpret_cast<uintptr_t>(block.registers.data());
  u32 *registers = reinterpret_cast<u32 *>((address + 63) & ~uintptr_t(63));
  const bool anew = block.prepared != &launch;
  for (auto &warp : block.warps) {
    warp->registers = registers;
    registers += program.register_words;
    for (u32 i = 0; i < program.constant_count; ++i) {
      const Constant &constant = program.constants[i];
      if (anew || (constant.kind == Initial::Special && differs_between_blocks(constant.value)))
        set_constant(*warp, block, launch, constant);
    }
    for (u32 i = 0; i < program.poisoned_count; ++i)
      std::fill_n(warp->registers + program.poisoned[2 * i], program.poisoned[2 * i + 1], fill.of(i));
  }
  block.prepared = &launch;
}
