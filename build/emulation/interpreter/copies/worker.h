// An asynchronous copy or product, as the memory and the check of races see it.
#pragma once
#include "../memory/memory.h"
#include "../sync/effects.h"

struct Worker {
  Machine *machine;
  u32 agent;  // sync/races.h; 0 where races are not checked
  u32 line;   // of the instruction that started it
  Proxy proxy;
};

Worker start_worker(Machine &machine, Warp &warp, Proxy proxy);
void end_worker(const Worker &worker);  // what it did is known to whoever waits for it
void touches_shared(const Worker &worker, Block &owner, u32 offset, u64 bytes, Access access);
void touches_global(const Worker &worker, u64 address, u64 bytes, Access access);

// Arrives at an mbarrier: who waits there has seen what the worker did.
void worker_arrives(const Worker &worker, Block &mine, u32 address, s32 arrivals, s64 bytes);

inline u32 offset_of(u32 address) { return address & ((1u << RANK_SHIFT) - 1); }
inline u32 with_rank(u32 address, u32 rank) { return offset_of(address) | rank << RANK_SHIFT; }
