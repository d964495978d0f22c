// What orders agents: barriers, mbarriers, atomics, fences, the ends of grids.
#include "mbarriers.h"
#include "races_state.h"

SyncObject &Races::State::object(u64 key, u32 cluster) {
  SyncObject &object = objects[key];
  if (object.cluster == cluster) return object;
  object = SyncObject();
  object.cluster = object.gathered.cluster = object.given.cluster = cluster;
  return object;
}

void Races::arrive(Agent agent, u64 key, Order order) {
  State &state = *state_;
  if (!State::is_operation(agent)) {
    WarpClock &warp = state.warp(agent);
    SyncObject &object = state.object(key, warp.cluster->number);
    if (order == Order::Relaxed) {
      object.gathered.join_begun(warp.knows);
      return;
    }
    object.gathered.join(warp.knows);
    warp.advance();
    return;
  }
  const OperationClock &operation = state.operation(agent);
  SyncObject &object = state.object(key, operation.cluster->number);
  object.gathered.join(*operation.seen);
  if (!operation.arrival) return;
  u32 &seen = object.gathered.of(operation.source).seen;
  seen = std::max(seen, operation.step);
}

void Races::complete(u64 key) {
  const auto place = state_->objects.find(key);
  if (place == state_->objects.end()) return;
  SyncObject &object = place->second;
  ++object.phases;
  if (object.has_source) object.gathered.of(object.source).seen = object.phases;
  object.given = object.gathered;
}

void Races::acquire(Agent agent, u64 key) {
  WarpClock &warp = state_->warp(agent);
  warp.knows.join(state_->object(key, warp.cluster->number).given);
  warp.snapshot.reset();
  warp.lanes.all(state_->stamps);
}

void Races::forget(u64 key) { state_->objects.erase(key); }

void Races::mbarrier_begins(Agent agent, Block &owner, u32 offset, u32 line) {
  WarpClock &warp = state_->warp(agent);
  const u64 key = key_of(owner.shared.data() + offset);
  const auto old = state_->objects.find(key);
  const u32 phases = old == state_->objects.end() ? 0 : old->second.phases;
  state_->objects.erase(key);
  SyncObject &object = state_->object(key, warp.cluster->number);
  object.phases = phases;
  object.begun.cluster = warp.cluster->number;
  object.begun.source = u16(warp.source);
  object.begun.step = warp.step();
  object.begun.line = line;
}

void Races::mbarrier_used(Agent agent, Block &owner, u32 offset) {
  const auto place = state_->objects.find(key_of(owner.shared.data() + offset));
  if (place == state_->objects.end()) return;
  const Epoch &begun = place->second.begun;
  bool seen;
  if (State::is_operation(agent)) {
    const OperationClock &operation = state_->operation(agent);
    const Step step = operation.seen->at(begun.cluster, begun.source);
    seen = begun.step <= std::max(step.begun, step.fenced_shared);
  } else {
    const WarpClock &warp = state_->warp(agent);
    const Step step = warp.knows.at(begun.cluster, begun.source);
    seen = begun.source == warp.source || begun.step <= std::max(step.seen, step.begun);
  }
  if (seen) return;
  Fault fault(fault::RACE, "an mbarrier is used at " + hex(offset) + " of block " + std::to_string(owner.rank) +
                               ", and nothing makes its initialisation at line " + std::to_string(begun.line) +
                               " visible (fence.mbarrier_init, then a barrier)");
  fault.other_line = begun.line;
  throw fault;
}

namespace {
u64 within(const WarpClock &warp, Scope scope) { // whom a narrow scope has
  const Block *block = warp.warp->block;
  return u64(reinterpret_cast<uintptr_t>(scope == Scope::Block ? static_cast<const void *>(block) : block->cluster));
}

void know(Knowledge &to, const Knowledge &what) {
  if (!to.cluster) to.cluster = what.cluster;
  to.join(what);
}
} // namespace

void Races::strong(Agent agent, u64 address, bool reads, bool writes, Order order, Scope scope) {
  WarpClock &warp = state_->warp(agent);
  warp.lanes.all(state_->stamps); // lanes may order each other by it: which ones is not tracked
  const bool acquires = order == Order::Acquire || order == Order::AcquireRelease;
  const bool releases = order == Order::Release || order == Order::AcquireRelease;
  const bool narrow = scope == Scope::Block || scope == Scope::Cluster;
  const auto object = state_->strong.find(address);
  if (reads && object != state_->strong.end()) {
    const auto read = [&](const Knowledge &what) {
      if (acquires) {
        know(warp.knows, what);
        warp.snapshot.reset();
        return;
      }
      if (!warp.pending) warp.pending = std::make_unique<Knowledge>();
      warp.pending->cluster = warp.knows.cluster;
      know(*warp.pending, what);
    };
    if (!narrow) read(object->second.everywhere);
    for (const Scope each : {Scope::Block, Scope::Cluster}) {
      const auto inside = object->second.within.find(within(warp, each));
      if (each <= scope && inside != object->second.within.end()) read(inside->second);
    }
  }
  if (!writes || !(releases || warp.fenced)) return;
  const auto wrote = releases ? std::make_shared<const Knowledge>(warp.knows) : warp.fenced;
  const Scope reach = releases ? scope : std::min(scope, warp.fence_scope);
  StrongObject &target = state_->strong[address];
  know(target.within[within(warp, Scope::Block)], *wrote);
  if (reach != Scope::Block) know(target.within[within(warp, Scope::Cluster)], *wrote);
  if (reach == Scope::Gpu || reach == Scope::System) know(target.everywhere, *wrote);
  if (releases) warp.advance();
}

void Races::fence(Agent agent, Order order, Scope scope) {
  WarpClock &warp = state_->warp(agent);
  warp.lanes.all(state_->stamps);
  if (order != Order::Release && warp.pending) {
    warp.knows.join(*warp.pending);
    warp.pending.reset();
    warp.snapshot.reset();
  }
  if (order == Order::Acquire) return;
  warp.fenced = std::make_shared<const Knowledge>(warp.knows);
  warp.fence_scope = scope;
  warp.advance();
}

void Races::proxy_fence(Agent agent, bool shared, bool global) {
  WarpClock &warp = state_->warp(agent);
  warp.knows.fence_proxy(shared, global);
  warp.advance();
}

void Races::mbarrier_fence(Agent agent) {
  WarpClock &warp = state_->warp(agent);
  warp.knows.fence_mbarriers();
  warp.advance();
}

void Races::earlier_grids(Agent agent) {
  WarpClock &warp = state_->warp(agent);
  warp.knows.grids = std::max(warp.knows.grids, state_->machine.grid_of(*warp.warp).number + 1);
  warp.snapshot.reset();
}

void Races::lanes_meet(Warp &warp, u32 members) {
  LaneClock &clock = state_->warp(warp.agent).lanes;
  if ((members | warp.exited) == ALL_LANES)
    clock.all(state_->stamps);
  else
    clock.some(state_->stamps, members);
}
