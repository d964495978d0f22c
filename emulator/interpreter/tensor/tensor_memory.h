// Tensor memory of a block: 128 lanes of 512 columns of 32 bits.
#pragma once
#include "../memory/memory.h"

struct TensorAddress {
  u32 lane, column;
  explicit TensorAddress(u32 bits) : lane(bits >> 16), column(bits & 0xffff) {}
};

inline u32 *tensor_row(Block &block, u32 lane) { return block.tensor_memory.data() + size_t(lane) * TMEM_COLUMNS; }

// Faults unless the lanes exist and the columns are allocated.
void check_tensor_memory(Block &block, u32 lane, u32 lanes, u32 column, u32 columns);
// Columns that are still allocated; 0 at the end of a block that has given all of them back.
u32 columns_taken(const Block &block);
// The other block of a pair (cta_group::2), and its even one.
Block &peer_of(Block &block);
Block &leader_of(Block &block);
