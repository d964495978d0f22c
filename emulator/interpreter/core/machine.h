// The machine: it schedules the warps of all resident clusters, and gives operations what they share.
#pragma once
#include <random>

#include "fault.h"
#include "operations.h"
#include "state.h"

class Memory; // memory/memory.h: checked accesses to all spaces
class Races;  // sync/races.h: happens-before; absent where it is not checked

class Machine {
public:
  Machine(const Launch *launches, u32 count, const Schedule &schedule);
  ~Machine();
  void run(); // throws Fault
  FaultRecord describe(const Fault &fault) const;

  const Schedule schedule;
  Counts counts{};
  u64 turn = 0;    // of a warp: the clock of everything that is delayed
  u64 changes = 0; // count up for whatever may let another warp go on
  std::mt19937_64 random;
  Memory &memory() { return *memory_; }
  Races *races() { return races_.get(); }
  Grid &grid_of(const Warp &warp) { return *warp.block->cluster->grid; }
  bool adversarial() const { return schedule.seed != 0; }
  u64 some_turn() { return turn + random() % (u64(schedule.delay) + 1); } // when a delayed effect happens
  Warp *current() { return current_; }                                    // null while delayed effects happen
  u32 line_of(const Warp &warp) const;                                    // of the instruction under way
  bool earlier_grids_ended(const Grid &grid) const;                       // griddepcontrol.wait may go on
  void let_others_run(Warp &warp);                                        // with a seed, after it has taken a lock

private:
  enum class Turn { Spent, Polled, Blocked, Done };

  // schedule.cpp
  bool round();
  bool random_turns();
  Turn turn_of(Warp &warp, u64 budget);
  bool effects_pending() const;
  void let_effects_happen();
  void end_clusters();
  void find_way_out(bool moved);
  [[noreturn]] void hang();
  void check_parted();
  // residency.cpp
  bool may_begin(u32 number, bool stuck) const;
  void start_grids(bool stuck);
  bool start_clusters(bool stuck);
  bool has_room(const Grid &grid) const;
  Cluster &start_cluster(Grid &grid);
  // execution.cpp
  Turn execute(Warp &warp, u64 budget);
  Turn take_turn(Warp &warp, u64 &budget);
  Outcome straight(Warp &warp, u64 &budget, u32 stop);

  const Launch *launches_;
  u32 launch_count_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Races> races_;
  std::vector<std::unique_ptr<Grid>> grids_; // those that have begun and not ended, in order
  std::vector<Warp *> live_;                 // of all resident clusters
  std::vector<std::unique_ptr<Cluster>> spare_;
  std::vector<bool> begun_; // of each launch
  u32 first_launch_ = 0, devices_ = 1, resident_blocks_ = 0, resident_clusters_ = 0, wanted_clusters_ = 1;
  u64 unchanged_rounds_ = 0, changes_seen_ = 0, instructions_at_change_ = 0, tried_at_ = 0;
  bool ended_some_ = false;
  Warp *current_ = nullptr;
};

// Whether a thread that is at one instruction may come to another one.
bool may_reach(const Program &program, u32 from, u32 to);

// What an instruction of a whole warp needs: all lanes of `members` that have not exited in one group. If some are
// elsewhere, the group waits for them (Blocked). `active` are the lanes for which the guard holds: a Fault if a member
// of the group is not among them.
bool together(Machine &machine, Warp &warp, u32 members, u32 active = ALL_LANES);
