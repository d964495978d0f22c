// Asynchronous effects: what copies, products and commits do later. Without a seed they happen at once.
#pragma once
#include <deque>
#include <functional>

#include "../core/machine.h"

using Effect = std::function<void()>;

enum class Pipe : u8 { Tensor, Count }; // units whose effects come in order, for each block

struct Effects { // of one block
  struct Step {
    u64 due;
    Effect effect;
  };
  std::vector<Step> unordered;
  std::deque<Step> pipes[int(Pipe::Count)];
  struct Region {
    u32 begin, end;
  };
  std::vector<Region> landing; // shared memory that a copy under way will write
  std::vector<Region> leaving; // shared memory that a copy under way will read
  bool idle() const;
};

void later(Machine &machine, Block &block, Effect effect); // in any order
void in_order(Machine &machine, Block &block, Pipe pipe, Effect effect);
void run_due(Machine &machine, Block &block); // all effects whose turn has come

// mbarriers, also for units: `arrive` counts arrivals and bytes; a phase that is complete lets waiters go on. `agent`
// is the asynchronous operation that arrives (sync/races.h), if one does.
void mbarrier_arrive(Machine &machine, Block &mine, u32 address, s32 arrivals, s64 bytes, u32 agent = 0);
void mbarrier_check(Machine &machine, Block &mine, u32 address); // a Fault unless it is initialised
