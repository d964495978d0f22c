// The machine: it schedules the warps of all resident clusters, and gives operations what they share.
#pragma once
#include <functional>
#include <random>

#include "fault.h"
#include "operations.h"
#include "state.h"

class Memory;   // memory/memory.h: checked accesses to all spaces
class Races;    // sync/races.h: happens-before; absent where it is not checked

class Machine {
 public:
  Machine(const Launch *launches, u32 count, const Schedule &schedule);
  ~Machine();
  void run();  // throws Fault
  FaultRecord describe(const Fault &fault) const;

  const Schedule &schedule;
  Counts counts{};
  u64 turn = 0;     // of a warp: the clock of everything that is delayed
  u64 changes = 0;  // count up for whatever may let another warp go on
  std::mt19937_64 random;
  Memory &memory() { return *memory_; }
  Races *races() { return races_.get(); }
  Grid &grid_of(const Warp &warp) { return *warp.block->cluster->grid; }
  bool adversarial() const { return schedule.seed != 0; }
  u64 some_turn() { return turn + random() % (u64(schedule.delay) + 1); }  // when a delayed effect happens

 private:
  const Launch *launches_;
  u32 launch_count_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Races> races_;
  std::vector<std::unique_ptr<Grid>> grids_;
  Warp *current_ = nullptr;
  // schedule.cpp, clusters.cpp, divergence.cpp
};

// What an instruction of a whole warp needs: all lanes of `members` in one group. If some are elsewhere, the group waits
// for them (Blocked); if they have exited, that is a fault.
bool together(Machine &machine, Warp &warp, u32 members);
