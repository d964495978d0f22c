// Which warp goes on: in order without a seed, at random with one.
#include <algorithm>

#include "../memory/memory.h"
#include "../sync/effects.h"
#include "../sync/races.h"
#include "../tensor/tensor_memory.h"
#include "machine.h"

namespace {
constexpr u64 QUANTUM = 1 << 16;     // instructions of a turn without a seed
constexpr u64 POLLING_ROUNDS = 1000; // without a change: what they wait for does not come
constexpr u64 PATIENCE = 100'000;    // instructions without a change, until others get a chance
constexpr u64 SPINNING_INSTRUCTIONS = 20'000'000;

// What a block leaves allocated, no later block of its multiprocessor gets.
void check_tensor_memory(const Block &block) {
  const auto &taken = block.column_taken;
  const auto place = std::find_if(taken.begin(), taken.end(), [](u8 column) { return column != 0; });
  if (place == taken.end()) return;
  throw Fault(fault::TENSOR_MEMORY, "block (" + std::to_string(block.id[0]) + ", " + std::to_string(block.id[1]) +
                                        ", " + std::to_string(block.id[2]) + ") ends, and column " +
                                        std::to_string(place - taken.begin()) +
                                        " of its tensor memory is still allocated (tcgen05.dealloc)");
}
} // namespace

void Machine::run() {
  for (;;) {
    start_grids(false);
    if (grids_.empty()) return;
    start_clusters(false);
    const bool in_order = !adversarial() || counts.instructions - instructions_at_change_ > PATIENCE;
    const bool moved = in_order ? round() : random_turns() || round();
    if (ended_some_) end_clusters();
    if (changes != changes_seen_) {
      changes_seen_ = changes;
      instructions_at_change_ = tried_at_ = counts.instructions;
      unchanged_rounds_ = 0;
    } else if (!moved || counts.instructions - tried_at_ > PATIENCE) {
      find_way_out(moved);
    }
  }
}

// A turn of each warp, in order; whether one of them did more than wait.
bool Machine::round() {
  const u64 before = changes;
  bool spent = false, polled = false;
  for (size_t i = 0; i < live_.size(); ++i) {
    if (live_[i]->done) continue;
    const Turn result = turn_of(*live_[i], QUANTUM);
    spent |= result == Turn::Spent || result == Turn::Done;
    polled |= result == Turn::Polled;
  }
  let_effects_happen();
  if (polled && !spent && ++unchanged_rounds_ < POLLING_ROUNDS) return true;
  return spent || changes != before;
}

bool Machine::random_turns() {
  const u64 before = changes;
  bool spent = false;
  for (size_t i = live_.size(); i; --i) {
    const u64 choice = random();
    Warp &warp = *live_[choice % live_.size()];
    if (warp.done) continue;
    const u64 budget = 1 + (choice >> 40) % (1ull << (choice >> 32 & 0xff) % 11);
    spent |= turn_of(warp, budget) == Turn::Spent;
    if (!warp.block->effects->idle()) run_due(*this, *warp.block);
  }
  let_effects_happen();
  return spent || changes != before;
}

Machine::Turn Machine::turn_of(Warp &warp, u64 budget) {
  ++turn;
  ++counts.turns;
  Block &block = *warp.block;
  if (!block.started) {
    if (turn < block.starts) return Turn::Spent;
    block.started = true;
    ++changes;
  }
  if (turn < warp.resumes) return Turn::Spent;
  current_ = &warp;
  warp.polled.count = 0;
  const u64 before = counts.instructions;
  const Turn result = execute(warp, budget);
  if (result == Turn::Blocked) ++counts.spins;
  if (schedule.limit && counts.instructions > schedule.limit && counts.instructions != before)
    throw Fault(fault::LIMIT, "the limit of " + std::to_string(schedule.limit) + " warp instructions is reached");
  if (result == Turn::Done) {
    ++changes;
    ended_some_ = true;
    if (races_) races_->warp_ends(warp);
    if (--block.live == 0) {
      if (const u32 columns = columns_taken(block))
        throw Fault(fault::TENSOR_MEMORY, "the block ends, and " + std::to_string(columns) + " columns are allocated");
      --block.cluster->live;
      Grid &grid = *block.cluster->grid;
      ++grid.blocks_ended;
      if (!block.triggered) ++grid.blocks_triggered;
      block.triggered = true;
    }
  }
  current_ = nullptr;
  return result;
}

bool Machine::effects_pending() const {
  for (const auto &grid : grids_)
    for (const auto &cluster : grid->resident)
      for (const auto &block : cluster->blocks)
        if (!block->effects->idle()) return true;
  return false;
}

void Machine::let_effects_happen() {
  if (live_.empty()) ++turn; // nobody else counts turns
  for (const auto &grid : grids_)
    for (const auto &cluster : grid->resident)
      for (const auto &block : cluster->blocks)
        if (!block->effects->idle()) {
          run_due(*this, *block);
          ended_some_ = true; // the last of a cluster may be past
        }
}

// Takes away warps, clusters and grids that have ended.
void Machine::end_clusters() {
  ended_some_ = false;
  live_.erase(std::remove_if(live_.begin(), live_.end(), [](const Warp *warp) { return warp->done; }), live_.end());
  for (auto &grid : grids_)
    for (size_t i = 0; i < grid->resident.size();) {
      auto &cluster = grid->resident[i];
      const bool idle = std::all_of(cluster->blocks.begin(), cluster->blocks.end(),
                                    [](const auto &block) { return block->effects->idle(); });
      if (cluster->live || !idle) {
        ended_some_ |= !cluster->live;
        ++i;
        continue;
      }
      for (const auto &block : cluster->blocks) check_tensor_memory(*block);
      if (races_) races_->cluster_ends(*cluster);
      resident_blocks_ -= u32(cluster->blocks.size());
      --resident_clusters_;
      if (spare_.size() < 16) spare_.push_back(std::move(cluster));
      grid->resident.erase(grid->resident.begin() + s64(i));
    }
  while (!grids_.empty() && grids_.front()->resident.empty() &&
         grids_.front()->next_cluster == grids_.front()->clusters)
    grids_.erase(grids_.begin());
}

// Nothing goes on: further clusters or the next grid may have what is waited for. Warps that only compute are given
// more time than those that wait.
void Machine::find_way_out(bool moved) {
  tried_at_ = counts.instructions;
  if (effects_pending() || ended_some_ || live_.empty() || start_clusters(true)) return;
  const size_t before = grids_.size();
  start_grids(true);
  if (grids_.size() != before) return;
  if (!moved || counts.instructions - instructions_at_change_ > SPINNING_INSTRUCTIONS) hang();
}

// A warp that has taken a lock lets others run long enough to take theirs: where two are taken in opposite orders, each
// warp then waits for the other one. More clusters than one have to be there.
void Machine::let_others_run(Warp &warp) {
  constexpr u32 TIMES = 4, TURNS = 256, CLUSTERS = 4;
  if (warp.locks == TIMES) return;
  ++warp.locks;
  warp.resumes = turn + TURNS + 2 * schedule.delay;
  wanted_clusters_ = std::max(wanted_clusters_, CLUSTERS);
}

// Lanes of a warp that wait for each other, at several instructions.
void Machine::check_parted() {
  for (Warp *warp : live_) {
    if (warp->done || warp->others.empty()) continue;
    std::vector<Group> groups = warp->others;
    groups.push_back(warp->now);
    if (!std::all_of(groups.begin(), groups.end(), [](const Group &group) { return group.parted; })) continue;
    const Group &group = groups.back(), &other = groups[0];
    const s32 *lines = warp->block->cluster->grid->launch->program->lines;
    Fault fault(fault::DIVERGENCE,
                "lanes " + hex(group.mask) + " wait for lanes " + hex(other.mask) + ", which are at line " +
                    std::to_string(lines[other.pc]) + ": all lanes of the warp must execute the same instruction",
                u32(__builtin_ctz(group.mask)));
    fault.line = u32(lines[group.pc]);
    fault.other_line = u32(lines[other.pc]);
    current_ = warp;
    throw fault;
  }
}

void Machine::hang() {
  check_parted();
  std::string text;
  u32 listed = 0, waiting = 0;
  for (Warp *warp : live_) {
    if (warp->done) continue;
    ++waiting;
    if (!current_) current_ = warp;
    if (++listed > 8) continue;
    const Block &block = *warp->block;
    text += (text.empty() ? "" : ", ") + ("warp " + std::to_string(warp->index)) + " of block (" +
            std::to_string(block.id[0]) + ", " + std::to_string(block.id[1]) + ", " + std::to_string(block.id[2]) +
            ") at line " + std::to_string(line_of(*warp)) + (warp->others.empty() ? "" : ", in parts");
  }
  throw Fault(fault::HANG, std::to_string(waiting) + " warps wait for what does not come: " + text +
                               (waiting > 8 ? ", and others" : ""));
}
