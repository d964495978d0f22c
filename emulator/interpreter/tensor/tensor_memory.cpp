// tcgen05.alloc, dealloc, relinquish_alloc_permit, and the checks of tensor memory.
#include "tensor_memory.h"

#include <algorithm>

#include "../copies/addresses.h"
#include "../scalar/formats.h"
#include "../sync/races.h"

namespace {

constexpr u32 UNIT = 32; // columns are allocated in powers of two from here

u32 columns_in(Warp &warp, s32 place, u32 active) {
  const u32 count = warp.word(place)[__builtin_ctz(active)];
  if (count < UNIT || count > TMEM_COLUMNS || count & (count - 1))
    throw Fault(fault::TENSOR_MEMORY, "an allocation of " + std::to_string(count) + " columns");
  return count;
}

void prepare(Block &block) {
  if (block.tensor_memory.empty()) block.tensor_memory.assign(size_t(TMEM_LANES) * TMEM_COLUMNS, 0);
  if (block.column_taken.empty()) block.column_taken.assign(TMEM_COLUMNS, 0);
}

u32 first_free(const Block &block, u32 count) {
  u32 at = 0;
  for (; at + count <= TMEM_COLUMNS; at += count) {
    const auto begin = block.column_taken.begin() + at;
    if (std::none_of(begin, begin + count, [](u8 taken) { return taken != 0; })) break;
  }
  return at;
}

void poison_columns(const Unwritten &fill, Block &block, u32 at, u32 count) {
  for (u32 lane = 0; lane < TMEM_LANES; ++lane) fill.put(tensor_row(block, lane) + at, count);
}

} // namespace

void check_tensor_memory(Block &block, u32 lane, u32 lanes, u32 column, u32 columns) {
  if (lane + lanes > TMEM_LANES || column + columns > TMEM_COLUMNS)
    throw Fault(fault::TENSOR_MEMORY, "lanes " + std::to_string(lane) + " to " + std::to_string(lane + lanes - 1) +
                                          ", columns " + std::to_string(column) + " to " +
                                          std::to_string(column + columns - 1) + " are not all in tensor memory");
  if (block.column_taken.empty()) throw Fault(fault::TENSOR_MEMORY, "no tensor memory is allocated");
  for (u32 i = column; i < column + columns; ++i)
    if (!block.column_taken[i]) throw Fault(fault::TENSOR_MEMORY, "column " + std::to_string(i) + " is not allocated");
}

u32 columns_taken(const Block &block) {
  return u32(std::count_if(block.column_taken.begin(), block.column_taken.end(), [](u8 taken) { return taken != 0; }));
}

Block &peer_of(Block &block) {
  const u32 rank = block.rank ^ 1;
  if (rank >= block.cluster->blocks.size()) throw Fault(fault::TENSOR_MEMORY, "cta_group::2 in a block without a peer");
  return *block.cluster->blocks[rank];
}
Block &leader_of(Block &block) { return block.rank & 1 ? peer_of(block) : block; }

namespace {
// Takes columns and stores the address of the first; false where too few are free.
bool allocate(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  Block &block = *warp.block;
  const u32 count = columns_in(warp, insn.a[2], active), lane = u32(__builtin_ctz(active));
  if (insn.a[3] == 2) peer_of(block);
  if (block.allocation_relinquished)
    throw Fault(fault::TENSOR_MEMORY, "an allocation after the block has relinquished its permit");
  prepare(block);
  const u32 at = first_free(block, count);
  if (at + count > TMEM_COLUMNS) return false;
  std::fill_n(block.column_taken.begin() + at, count, u8(insn.a[3]));
  poison_columns(machine.schedule.fill, block, at, count);
  const u32 to = shared_in(warp, insn.a[0], insn.a[1], insn.immediate, lane);
  u8 *place = machine.memory().at(warp, Space::Shared, to, 4, Access::Write, lane);
  std::memcpy(place, &at, 4);
  return true;
}
} // namespace

// With cta_group::2 a warp of each of the two blocks executes this, and each block takes the columns in its own memory:
// both make the same requests in the same order, and none goes on before the other has come to it. So products of a
// pair may count on the memory of the other block without a further barrier, and the libraries' do.
// a: where the address goes (place, wide), columns, group; immediate: offset
OPERATION(tcgen05_alloc) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  Block &block = *warp.block;
  const u32 group = insn.a[3];
  if (block.pairing && block.pairing != &warp) return Outcome::Blocked;
  if (!block.pairing) {
    if (!allocate(machine, warp, insn, active)) return Outcome::Blocked;
    if (group == 2) ++block.pairs, block.pairing = &warp;
    ++machine.changes;
  }
  if (group == 2) {
    if (peer_of(block).pairs < block.pairs) return Outcome::Blocked;
    block.pairing = nullptr;
    ++machine.changes;
  }
  if (Races *races = machine.races()) races->lanes_meet(warp, ALL_LANES); // the whole warp has written it
  return Outcome::Next;
}

// a: address, columns, group
OPERATION(tcgen05_dealloc) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  Block &block = *warp.block;
  const TensorAddress address(warp.word(insn.a[0])[__builtin_ctz(active)]);
  const u32 count = columns_in(warp, insn.a[1], active);
  check_tensor_memory(block, address.lane, 1, address.column, count);
  for (u32 i = address.column; i < address.column + count; ++i) {
    if (block.column_taken[i] != u32(insn.a[2]))
      throw Fault(fault::TENSOR_MEMORY, "columns are given back with another cta_group than they were allocated with");
    block.column_taken[i] = 0;
  }
  ++machine.changes;
  return Outcome::Next;
}

OPERATION(tcgen05_relinquish) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  warp.block->allocation_relinquished = true;
  return Outcome::Next;
}
