#include "worker.h"

#include "../sync/races.h"

Worker start_worker(Machine &machine, Warp &warp, Proxy proxy) {
  Worker worker{&machine, 0, 0, proxy};
  if (Races *races = machine.races()) {
    worker.line = machine.line_of(warp);
    worker.agent = races->fork(warp.agent, worker.line);
  }
  return worker;
}

void end_worker(const Worker &worker) {
  if (Races *races = worker.machine->races()) races->end(worker.agent);
}

void touches_shared(const Worker &worker, Block &owner, u32 offset, u64 bytes, Access access) {
  if (Races *races = worker.machine->races())
    races->shared(worker.agent, owner, offset, u32(bytes), access, worker.proxy, worker.line);
}

void touches_global(const Worker &worker, u64 address, u64 bytes, Access access) {
  if (Races *races = worker.machine->races())
    races->global(worker.agent, address, bytes, access, worker.proxy, worker.line);
}

void worker_arrives(const Worker &worker, Block &mine, u32 address, s32 arrivals, s64 bytes) {
  mbarrier_arrive(*worker.machine, mine, address, arrivals, bytes);
}
