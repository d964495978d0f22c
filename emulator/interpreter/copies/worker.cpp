#include "worker.h"

Worker worker_at_mbarrier(Machine &machine, Warp &warp, u32 mbarrier) {
  Races *races = machine.races();
  if (!races) return {&machine, 0, 0, Proxy::Async};
  return {&machine, races->at_mbarrier(warp.agent, *warp.block, mbarrier), machine.line_of(warp), Proxy::Async};
}

Worker worker_in_group(Machine &machine, Warp &warp, Kind kind) {
  Races *races = machine.races();
  const Proxy proxy = kind == Kind::Copies ? Proxy::Copy : Proxy::Async;
  if (!races) return {&machine, 0, 0, proxy};
  return {&machine, races->in_group(warp.agent, kind), machine.line_of(warp), proxy};
}

Worker worker_after(Machine &machine, Warp &warp, Kind kind) {
  Races *races = machine.races();
  if (!races) return {&machine, 0, 0, Proxy::Generic};
  return {&machine, races->arrival(warp.agent, kind), machine.line_of(warp), Proxy::Generic};
}

void end_worker(const Worker &worker) {
  if (Races *races = worker.machine->races()) races->end(worker.agent);
}

void touches_shared(const Worker &worker, Block &owner, u32 offset, u64 bytes, Access access) {
  if (Races *races = worker.machine->races())
    races->shared(worker.agent, owner, offset, u32(bytes), access, worker.proxy, worker.line);
}

void touches_tensor(const Worker &worker, Block &owner, u32 lane, u32 lanes, u32 column, u32 columns, Access access) {
  if (Races *races = worker.machine->races())
    races->tensor(worker.agent, owner, lane, column, lanes, columns, access, worker.line);
}

void touches_global(const Worker &worker, u64 address, u64 bytes, Access access) {
  if (Races *races = worker.machine->races())
    races->global(worker.agent, address, bytes, access, worker.proxy, worker.line);
}
