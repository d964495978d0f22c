// barrier.cluster: all threads of a cluster that have not exited arrive, and wait for each other.
#include "async_state.h"
#include "../memory/memory.h"
#include "races.h"

namespace {
u64 key_of(const Cluster &cluster) { return u64(reinterpret_cast<uintptr_t>(&cluster)); }

bool all_arrived(const Cluster &cluster) {
  const u64 phase = cluster.phase & 1;
  for (const auto &block : cluster.blocks)
    for (const auto &warp : block->warps)
      if (!warp->done && (warp->async->at_cluster_barrier[phase] | warp->exited) != ALL_LANES) return false;
  return true;
}

void try_complete(Machine &machine, Cluster &cluster) {
  if (!all_arrived(cluster)) return;
  ++cluster.phase;
  ++machine.changes;
  if (Races *races = machine.races()) races->complete(key_of(cluster));
}
} // namespace

// a: release, aligned
OPERATION(CLUSTER_ARRIVE) {
  if (insn.a[1] && !together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  Cluster &cluster = *warp.block->cluster;
  u32(&waiting)[2] = warp.async->at_cluster_barrier;
  if (const u32 again = active & (waiting[0] | waiting[1]))
    throw Fault(fault::BARRIER, "a second arrival at the cluster's barrier without a wait", u32(__builtin_ctz(again)));
  waiting[cluster.phase & 1] |= active;
  if (Races *races = machine.races())
    races->arrive(warp.agent, key_of(cluster), insn.a[0] ? Order::Release : Order::Relaxed);
  ++machine.changes;
  try_complete(machine, cluster);
  return Outcome::Next;
}

// a: acquire, aligned
OPERATION(CLUSTER_WAIT) {
  if (insn.a[1] && !together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  Cluster &cluster = *warp.block->cluster;
  u32(&waiting)[2] = warp.async->at_cluster_barrier;
  if (const u32 without = active & ~(waiting[0] | waiting[1]))
    throw Fault(fault::BARRIER, "a wait at the cluster's barrier without an arrival", u32(__builtin_ctz(without)));
  if (waiting[cluster.phase & 1] & active) {
    try_complete(machine, cluster); // others may have exited
    if (waiting[cluster.phase & 1] & active) return Outcome::Blocked;
  }
  waiting[~cluster.phase & 1] &= ~active;
  if (insn.a[0])
    if (Races *races = machine.races()) races->acquire(warp.agent, key_of(cluster));
  return Outcome::Next;
}
