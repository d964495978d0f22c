// An asynchronous copy or product, as memory and the check of races see it.
#pragma once
#include "../memory/memory.h"
#include "../sync/effects.h"
#include "../sync/races.h"

struct Worker {
  Machine *machine;
  Agent agent; // 0 where races are not checked
  u32 line;    // of the instruction that started it
  Proxy proxy;
};

// What completes bytes of an mbarrier.
Worker worker_at_mbarrier(Machine &machine, Warp &warp, u32 mbarrier);
// What the warp waits for, in groups or by an arrival.
Worker worker_in_group(Machine &machine, Warp &warp, Kind kind);
// What arrives when all operations of a kind are done that the warp has started.
Worker worker_after(Machine &machine, Warp &warp, Kind kind);
void end_worker(const Worker &worker);

void touches_shared(const Worker &worker, Block &owner, u32 offset, u64 bytes, Access access);
void touches_tensor(const Worker &worker, Block &owner, u32 lane, u32 lanes, u32 column, u32 columns, Access access);
void touches_global(const Worker &worker, u64 address, u64 bytes, Access access);

inline void worker_arrives(const Worker &worker, Block &mine, u32 address, s32 arrivals, s64 bytes) {
  mbarrier_arrive(*worker.machine, mine, address, arrivals, bytes, worker.agent);
}

inline u32 offset_of(u32 address) { return address & ((1u << RANK_SHIFT) - 1); }
inline u32 with_rank(u32 address, u32 rank) { return offset_of(address) | rank << RANK_SHIFT; }
