// What the check of races holds: its agents, the objects they synchronise by, and shadows of memory.
#pragma once
#include <deque>
#include <unordered_map>

#include "lanes.h"
#include "races.h"
#include "shadow.h"

struct Source { // of accesses, for messages
  enum What : u8 { Warp, Operations, Mbarrier } what;
  Kind kind;
  bool reads; // Bulk has two: for what it reads and for what it writes
  u32 rank, index;
};

struct ClusterClock { // kept after the cluster's end: epochs have its number
  u32 number = 0, grid = 0;
  u32 device = 0;
  u32 id[3] = {};
  std::vector<Source> sources;
};

struct GroupClock { // operations of a kind that a warp has started
  u32 source = 0, reads = 0;
  u32 step = 0;            // of those that are started now; 0: none has been
  u32 started = 0;         // the step of the last one
  u32 line = 0;            // of the last one
  std::deque<u32> commits; // the last step of each of the latest groups
};

struct WarpClock {
  ClusterClock *cluster = nullptr;
  const Warp *warp = nullptr;
  u32 source = 0;
  bool touched = false; // memory was touched since `snapshot`
  Knowledge knows;
  std::shared_ptr<const Knowledge> snapshot; // what operations that it starts have seen
  std::shared_ptr<const Knowledge> fenced;   // by the last fence that releases
  Scope fence_scope = Scope::Block;
  std::unique_ptr<Knowledge> pending; // what relaxed reads have seen, until a fence that acquires
  GroupClock groups[int(Kind::Count)];
  LaneClock lanes;

  u32 step() { return knows.of(source).seen; }
  void advance() {
    ++knows.of(source).seen;
    snapshot.reset();
  }
};

struct OperationClock {
  ClusterClock *cluster = nullptr;
  std::shared_ptr<const Knowledge> seen;
  u64 mbarrier = 0; // at whose phase's end it is done; 0: with a group
  u32 source = 0, reads = 0, step = 0;
  bool arrival = false; // it only arrives, when the operations of its source are done
  u32 parent = 0;       // the warp's source
};

struct SyncObject { // a barrier of a cluster: all arrivals of a phase are given to those who wait for its end
  u32 cluster = 0;
  u32 phases = 0;
  u32 source = 0; // of operations that complete bytes of it
  bool has_source = false;
  Epoch begun; // by mbarrier.init
  Knowledge gathered, given;
};

struct StrongObject { // an address of atomics
  Knowledge everywhere;
  std::map<u64, Knowledge> within; // a block, a cluster
};

class EpochSets { // of reads that are not in order
public:
  Epoch add(const Epoch &to, const Epoch &read);
  const std::vector<Epoch> &of(const Epoch &set) const { return sets_[set.step]; }

private:
  static constexpr size_t MOST = 1 << 21;
  std::vector<std::vector<Epoch>> sets_;
  std::unordered_map<u64, std::vector<u32>> by_hash_;
};

// Warps that execute one store may write the same value to the same place, unordered. Whether it is the same shows when
// the store is done: what was there before must still be there.
struct Redundant {
  const u8 *place;
  u32 bytes;
  u8 before[16];
  Fault fault;
};

struct BlockShadows {
  Shadow shared, tensor;
  std::vector<LaneCell> lanes;
  size_t bytes = 0;
  bool has_tensor = false;
};

struct Races::State {
  State(Machine &machine, const Launch *launches, u32 count);

  Machine &machine;
  const Launch *launches;
  std::vector<std::unique_ptr<ClusterClock>> clusters; // by number - 1
  std::unordered_map<const Cluster *, u32> resident;
  std::vector<std::unique_ptr<WarpClock>> warps;
  std::vector<u32> free_warps;
  std::vector<OperationClock> operations;
  std::vector<u32> free_operations;
  std::unordered_map<u64, SyncObject> objects;
  std::unordered_map<u64, StrongObject> strong;
  std::unordered_map<const Block *, BlockShadows> blocks;
  std::unordered_map<u64, Shadow> pages; // of global memory
  u64 last_page_address = 0;
  Shadow *last_page = nullptr;
  std::vector<std::pair<u64, u64>> written; // global memory that one of the launches may write: sorted ranges
  size_t last_range = 0;
  EpochSets sets;
  std::vector<Redundant> redundant; // of the store under way
  u32 stamps = 0;                   // of what orders lanes

  void check_redundant();
  bool is_operation_source(const Epoch &epoch) const;
  static bool is_operation(Agent agent) { return agent & 1; }
  WarpClock &warp(Agent agent) { return *warps[(agent >> 1) - 1]; }
  OperationClock &operation(Agent agent) { return operations[(agent >> 1) - 1]; }
  Agent start(WarpClock &parent, OperationClock clock);
  std::shared_ptr<const Knowledge> snapshot(WarpClock &warp);
  GroupClock &group(WarpClock &warp, Kind kind);
  SyncObject &object(u64 key, u32 cluster);
  u32 known_grids(u32 number) const;
  bool is_written(u64 address);
  std::string describe(const Epoch &epoch) const;
};
