// Happens-before. An agent is what executes in order: a warp, or one asynchronous operation (a bulk copy, a product).
// Vector clocks say what an agent has seen; shadows of shared, tensor and (where atomics and fences order it) global
// memory say who touched a byte last, and through which proxy.
#pragma once
#include "../memory/memory.h"

using Agent = u32;

class Races {
public:
  explicit Races(Machine &machine);
  ~Races();
  Agent warp_begins(Warp &warp);
  // An asynchronous operation: it has seen what `parent` has seen; through the async proxy only what was fenced for it.
  Agent fork(Agent parent, u32 line);
  void end(Agent agent); // nothing more is done by it; its clock lives on in what it released
  // Memory. `owner` is the block whose shared memory (or tensor memory) it is.
  void shared(Agent agent, Block &owner, u32 offset, u32 bytes, Access access, Proxy proxy, u32 line);
  void tensor(Agent agent, Block &owner, u32 lane, u32 column, u32 lanes, u32 columns, Access access, u32 line);
  void global(Agent agent, u64 address, u64 bytes, Access access, Proxy proxy, u32 line);
  // Synchronisation: `key` names the object (an mbarrier, a named barrier, a cluster's barrier, an atomic's address).
  void release(Agent agent, u64 key);
  void acquire(Agent agent, u64 key);
  void proxy_fence(Agent agent, Space space); // fence.proxy.async
  struct State;

private:
  std::unique_ptr<State> state_;
};
