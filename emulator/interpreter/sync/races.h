// Happens-before. An agent is what executes in order: a warp, or one asynchronous operation that a warp has started.
// Vector clocks hold what an agent has seen; shadows of shared, tensor and global memory hold who touched a byte last,
// and through which proxy. docs/emulation.md has the rules.
#pragma once
#include "../memory/memory.h"

using Agent = u32; // 0: nobody

// Asynchronous operations of a warp, by what it waits with. Those of one kind are in order among each other.
enum class Kind : u8 {
  Copies,       // cp.async: commit_group and wait_group, or an arrival
  Bulk,         // cp.async.bulk out of shared memory: commit_group and wait_group; wait_group.read for what it reads
  Products,     // wgmma.mma_async: commit_group and wait_group
  Tensor,       // tcgen05.mma, cp, shift: tcgen05.commit is an arrival
  TensorStores, // tcgen05.st: wait::st
  Count
};

enum class Order : u8 { Relaxed, Acquire, Release, AcquireRelease };
enum class Scope : u8 { Block, Cluster, Gpu, System };

class Races {
public:
  Races(Machine &machine, const Launch *launches, u32 count);
  ~Races();
  Agent warp_begins(Warp &warp); // in the order of the cluster's blocks and warps
  void warp_ends(Warp &warp);    // a Fault if a copy that it started may still read shared memory
  void cluster_ends(Cluster &cluster);

  // Asynchronous operations have seen what the warp has seen when it started them. Their accesses are done
  // at the end of the mbarrier's phase that they complete bytes of (or arrive at): `mbarrier_arrive` takes the agent;
  Agent at_mbarrier(Agent warp, Block &mine, u32 mbarrier);
  // or when the warp has waited for them.
  Agent in_group(Agent warp, Kind kind);
  void commit(Agent warp, Kind kind); // what was started is a group; once for an instruction
  void wait(Agent warp, Kind kind, u32 left, bool reads = false); // all but the latest `left` groups are done
  // What arrives at an mbarrier when all operations of a kind are done that the warp has started (tcgen05.commit,
  // cp.async.mbarrier.arrive). Give it to `mbarrier_arrive`.
  Agent arrival(Agent warp, Kind kind);
  void end(Agent agent); // of an asynchronous operation, when it has taken effect and arrived

  // Memory. `owner` is the block whose shared memory (or tensor memory) it is. A Fault if it is a race.
  void shared(Agent agent, Block &owner, u32 offset, u32 bytes, Access access, Proxy proxy, u32 line);
  void tensor(Agent agent, Block &owner, u32 lane, u32 column, u32 lanes, u32 columns, Access access, u32 line);
  void global(Agent agent, u64 address, u64 bytes, Access access, Proxy proxy, u32 line);
  // The same for the lanes of a warp, through the generic proxy; global, or shared memory of `owner`.
  void lanes(Warp &warp, Block *owner, const u64 (&addresses)[LANES], u32 bytes, Access access, u32 active);
  // Shared memory, one lane against the others of its warp; and what orders them.
  void lane(Warp &warp, Block &owner, u32 offset, u32 bytes, Access access, u32 lane);
  void lanes_meet(Warp &warp, u32 members);

  // Synchronisation. Barriers: what arrives is kept under `key`, and given to waiters when the phase is complete.
  void arrive(Agent agent, u64 key, Order order = Order::Release);
  void complete(u64 key);
  void acquire(Agent agent, u64 key);
  void forget(u64 key);
  // Atomics and strong loads and stores of memory.
  void strong(Agent warp, u64 address, bool reads, bool writes, Order order, Scope scope);
  void fence(Agent warp, Order order, Scope scope);       // fence.acq_rel, fence.sc, membar
  void proxy_fence(Agent warp, bool shared, bool global); // fence.proxy.async
  void mbarrier_fence(Agent warp);                        // fence.mbarrier_init
  void mbarrier_begins(Agent warp, Block &owner, u32 offset, u32 line);
  void mbarrier_used(Agent agent, Block &owner, u32 offset);
  void earlier_grids(Agent warp); // griddepcontrol.wait
  struct State;

private:
  std::unique_ptr<State> state_;
};
