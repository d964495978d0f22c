// The state of what runs: warps and their groups of lanes, blocks, clusters, grids.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "program.h"

constexpr u32 POISON = 0x7fff7fffu;       // what a special register holds that the emulator does not know
constexpr u32 SHARED_BASE = 1024;         // the first kilobyte of shared memory belongs to the system
constexpr u32 RANK_SHIFT = 24;            // an address of shared memory has the block's rank in the cluster from here
constexpr u64 SHARED_WINDOW = 1ull << 60; // where shared memory is among generic addresses; local memory is above
constexpr u64 LOCAL_WINDOW = 1ull << 61;
constexpr u32 TMEM_LANES = 128, TMEM_COLUMNS = 512;
constexpr u32 NAMED_BARRIERS = 16;

struct Group { // lanes of a warp at one instruction
  u32 pc = 0;
  u32 mask = ALL_LANES;
  bool waits = false;  // it was tried since the warp's turn began, and is blocked
  bool parted = false; // it is blocked, since other lanes of the warp must come to its instruction
  u32 effect = 0;      // the instruction that wrote memory last, + 1
  s32 barrier = -1;    // the named barrier at which it waits
  u64 barrier_phase = 0;
};

struct Block;

// The addresses that loads which may wait for another thread have read in a turn: one that comes again polls.
struct Polled {
  static constexpr u32 MOST = 8;
  u64 addresses[MOST];
  u32 count = 0;
  bool again(u64 address) {
    for (u32 i = 0; i < count && i < MOST; ++i)
      if (addresses[i] == address) return true;
    addresses[count++ % MOST] = address;
    return false;
  }
};

struct Warp {
  Block *block = nullptr;
  u32 index = 0; // in its block
  u32 agent = 0; // in the check of races
  u32 *registers = nullptr;
  const Insn *code = nullptr;
  Group now; // that runs; its program counter is that of the instruction under way
  std::vector<Group> others;
  u32 exited = 0;          // lanes; also those that the block does not have
  u32 effects[LANES] = {}; // of each lane that has exited: as in its group
  u64 resumes = 0;         // the turn from which it goes on after it has taken a lock
  u32 locks = 0;           // how often it has waited so
  bool done = false;
  bool spun = false; // its last turn was spent while lanes were apart
  u64 turns = 0;
  Polled polled;
  u64 cluster_phase = 0;
  bool cluster_arrived = false;
  std::unique_ptr<struct AsyncState> async; // sync/async_state.h: groups of copies and products under way

  u32 *word(s32 place) { return registers + place; }
  u64 *wide(s32 place) { return reinterpret_cast<u64 *>(registers + place); }
  f32 *real(s32 place) { return reinterpret_cast<f32 *>(registers + place); }
  f64 *real_wide(s32 place) { return reinterpret_cast<f64 *>(registers + place); }
  u32 &predicate(s32 place) { return registers[place]; }

  Warp();
  ~Warp();
};

struct NamedBarrier {
  u32 arrived = 0, expected = 0;
  u32 arrivers = 0;         // the warps that have arrived
  std::map<u32, u32> lanes; // those of each of them
  u64 phase = 0;
  u32 votes_and = ALL_LANES, votes_or = 0, votes_count = 0, result_and = 0, result_or = 0, result_count = 0;
};

struct Cluster;

struct Block {
  Cluster *cluster = nullptr;
  u32 rank = 0; // in its cluster
  u32 id[3] = {};
  std::vector<u8> shared;         // from address 0: the system's first kilobyte, static, dynamic
  std::vector<u32> tensor_memory; // lane * TMEM_COLUMNS + column; empty until a block allocates
  std::vector<u8> column_taken;   // likewise
  std::vector<u8> local;          // of all threads, one after the other
  NamedBarrier barriers[NAMED_BARRIERS];
  std::vector<u32> mbarriers; // sorted addresses of those that are initialised
  bool allocation_relinquished = false;
  bool triggered = false;  // griddepcontrol.launch_dependents
  u32 pairs = 0;           // allocations of tensor memory with cta_group::2
  Warp *pairing = nullptr; // that waits for the other block's allocation
  bool started = false;
  u64 starts = 0; // the turn from which it may begin
  u32 live = 0;   // warps that have not ended
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<u32> registers;              // of all warps
  const struct Launch *prepared = nullptr; // whose constants the registers hold
  std::unique_ptr<struct Effects> effects; // sync/effects.h: what is under way

  Block();
  ~Block();
};

struct Grid;

struct Cluster {
  Grid *grid = nullptr;
  u32 id[3] = {}; // of its first block
  u32 size[3] = {};
  std::vector<std::unique_ptr<Block>> blocks;
  u32 arrived = 0, threads = 0;
  u64 phase = 0;
  u32 live = 0; // blocks that have not ended
};

// A cluster that has not begun: its first block, and how many it has.
struct Place {
  u32 first[3], size[3];
};

struct Grid {
  const Launch *launch = nullptr;
  u32 number = 0; // of the launch in its call
  u64 next_cluster = 0, clusters = 0;
  u64 blocks = 0, blocks_ended = 0, blocks_triggered = 0; // griddepcontrol.launch_dependents, or their end
  std::vector<std::unique_ptr<Cluster>> resident;
  std::vector<Place> places; // of all clusters, where they are not all of one size

  Place take(); // the next cluster
  bool over() const { return resident.empty() && next_cluster == clusters; }
};
