// What a warp has started and not waited for: groups of copies, products of wgmma, stores to tensor memory.
#pragma once
#include <deque>
#include <functional>
#include <memory>

#include "../core/program.h"

struct CopyGroup {
  u32 under_way = 0; // copies that have not taken effect
};

struct CopyGroups { // of one thread and one kind of copy: those without a group yet, and the groups in order
  std::shared_ptr<CopyGroup> open = std::make_shared<CopyGroup>();
  std::deque<std::shared_ptr<CopyGroup>> committed;
};

struct AsyncState {
  std::unique_ptr<CopyGroups> copies[LANES]; // cp.async
  std::unique_ptr<CopyGroups> bulk[LANES];   // cp.async.bulk that writes global memory or another block

  struct Product {
    u64 group;
    std::function<void()> effect;
  };
  std::deque<Product> products; // wgmma.mma_async, in order
  u64 product_group = 0;        // that the next product is in
  bool products_fenced = false; // wgmma.fence, which the first product needs

  std::deque<std::function<void()>> tensor_stores; // tcgen05.st, until tcgen05.wait::st

  u32 at_cluster_barrier[2] = {}; // lanes that have arrived and not waited, by the parity of the barrier's phase
};
