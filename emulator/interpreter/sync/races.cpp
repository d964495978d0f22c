// Agents: warps, and the operations that they start.
#include "mbarriers.h"
#include "races_state.h"

#include <algorithm>

namespace {
const char *name_of(Kind kind) {
  switch (kind) {
  case Kind::Copies:
    return "cp.async";
  case Kind::Bulk:
    return "cp.async.bulk";
  case Kind::Products:
    return "wgmma";
  case Kind::Tensor:
    return "tcgen05";
  case Kind::TensorStores:
    return "tcgen05.st";
  default:
    return "?";
  }
}

u32 add_source(ClusterClock &cluster, Source source) {
  cluster.sources.push_back(source);
  return u32(cluster.sources.size()) - 1;
}
} // namespace

Races::Races(Machine &machine, const Launch *launches, u32 count)
    : state_(std::make_unique<State>(machine, launches, count)) {}
Races::~Races() = default;

Races::State::State(Machine &machine, const Launch *launches, u32 count) : machine(machine), launches(launches) {
  for (u32 i = 0; i < count; ++i)
    for (u32 k = 0; k < launches[i].range_count; ++k)
      if (const Range &range = launches[i].ranges[k]; range.writable) written.push_back({range.begin, range.end});
  std::sort(written.begin(), written.end());
  written.erase(std::unique(written.begin(), written.end()), written.end());
}

// Memory that is only read has no races.
bool Races::State::is_written(u64 address) {
  if (last_range < written.size() && address >= written[last_range].first && address < written[last_range].second)
    return true;
  for (last_range = 0; last_range < written.size(); ++last_range)
    if (address >= written[last_range].first && address < written[last_range].second) return true;
  return false;
}

std::string Races::State::describe(const Epoch &epoch) const {
  const ClusterClock &cluster = *clusters[epoch.cluster - 1];
  const Source &source = cluster.sources[epoch.source];
  std::string text;
  if (source.what == Source::Mbarrier)
    text = "a copy or store that completes at the mbarrier at " + hex(source.index);
  else
    text = (source.what == Source::Operations ? std::string(name_of(source.kind)) + " of " : std::string()) + "warp " +
           std::to_string(source.index);
  text += " of block ";
  if (clusters.size() > 1)
    for (int i = 0; i < 3; ++i) text += (i ? "," : "(") + std::to_string(cluster.id[i]);
  if (clusters.size() > 1) text += ")+";
  return text + std::to_string(source.rank);
}

Agent Races::warp_begins(Warp &warp) {
  Block &block = *warp.block;
  const Cluster &cluster = *block.cluster;
  const Grid &grid = *cluster.grid;
  State &state = *state_;
  if (block.rank == 0 && warp.index == 0) {
    auto clock = std::make_unique<ClusterClock>();
    clock->number = u32(state.clusters.size()) + 1;
    clock->grid = grid.number + 1;
    clock->device = grid.launch->device;
    std::copy(std::begin(cluster.id), std::end(cluster.id), clock->id);
    state.resident[&cluster] = clock->number;
    state.clusters.push_back(std::move(clock));
  }
  if (warp.index == 0) {
    BlockShadows &shadows = state.blocks[&block];
    if (shadows.bytes != block.shared.size()) shadows.shared = Shadow(u32(block.shared.size()));
    shadows.bytes = block.shared.size();
    shadows.shared.clear();
    if (shadows.has_tensor) shadows.tensor.clear();
  }
  u32 index;
  if (state.free_warps.empty()) {
    index = u32(state.warps.size());
    state.warps.emplace_back();
  } else {
    index = state.free_warps.back();
    state.free_warps.pop_back();
  }
  auto clock = std::make_unique<WarpClock>();
  clock->cluster = state.clusters[state.resident[&cluster] - 1].get();
  clock->warp = &warp;
  clock->source = add_source(*clock->cluster, {Source::Warp, Kind::Count, false, block.rank, warp.index});
  clock->knows.cluster = clock->cluster->number;
  clock->knows.grids = state.known_grids(grid.number);
  clock->knows.of(clock->source).seen = 1;
  clock->lanes.all(state.stamps);
  state.warps[index] = std::move(clock);
  return (index + 1) << 1;
}

// Everything before a grid of its device has ended, unless it may overlap with the grid before it: for the first of a
// call that is one which is not there, and has the number 0.
u32 Races::State::known_grids(u32 number) const {
  if (!launches[number].overlap) return number + 1;
  for (u32 i = number; i-- > 0;)
    if (launches[i].device == launches[number].device) return known_grids(i);
  return 0;
}

void Races::warp_ends(Warp &warp) {
  state_->check_redundant();
  WarpClock &clock = state_->warp(warp.agent);
  const GroupClock &bulk = clock.groups[int(Kind::Bulk)];
  if (!bulk.started || clock.knows.of(bulk.reads).seen >= bulk.started) return;
  Fault fault(fault::COPY, "the warp ends, and a copy that it started at line " + std::to_string(bulk.line) +
                               " may still read shared memory (cp.async.bulk.wait_group.read)");
  fault.other_line = bulk.line;
  throw fault;
}

void Races::cluster_ends(Cluster &cluster) {
  for (auto &block : cluster.blocks)
    for (auto &warp : block->warps) {
      state_->warps[(warp->agent >> 1) - 1].reset();
      state_->free_warps.push_back((warp->agent >> 1) - 1);
    }
}

std::shared_ptr<const Knowledge> Races::State::snapshot(WarpClock &warp) {
  if (warp.snapshot && !warp.touched) return warp.snapshot;
  auto now = std::make_shared<const Knowledge>(warp.knows);
  warp.advance(); // what the warp does from here on is not seen
  warp.touched = false;
  warp.snapshot = now;
  return now;
}

GroupClock &Races::State::group(WarpClock &warp, Kind kind) {
  GroupClock &group = warp.groups[int(kind)];
  if (group.step) return group;
  const u32 rank = warp.warp->block->rank;
  group.source = add_source(*warp.cluster, {Source::Operations, kind, false, rank, warp.warp->index});
  if (kind == Kind::Bulk)
    group.reads = add_source(*warp.cluster, {Source::Operations, kind, true, rank, warp.warp->index});
  group.step = 1;
  return group;
}

Agent Races::State::start(WarpClock &parent, OperationClock clock) {
  clock.cluster = parent.cluster;
  clock.parent = parent.source;
  clock.seen = snapshot(parent);
  u32 index;
  if (free_operations.empty()) {
    index = u32(operations.size());
    operations.emplace_back();
  } else {
    index = free_operations.back();
    free_operations.pop_back();
  }
  operations[index] = std::move(clock);
  return (index + 1) << 1 | 1;
}

Agent Races::at_mbarrier(Agent warp, Block &mine, u32 mbarrier) {
  State &state = *state_;
  WarpClock &clock = state.warp(warp);
  OperationClock operation;
  operation.mbarrier = key_of(mbarrier_place(state.machine, mine, mbarrier));
  SyncObject &object = state.object(operation.mbarrier, clock.cluster->number);
  if (!object.has_source) {
    const u32 rank = mbarrier >> RANK_SHIFT, offset = mbarrier & ((1u << RANK_SHIFT) - 1);
    object.source = add_source(*clock.cluster, {Source::Mbarrier, Kind::Count, false, rank, offset});
    object.has_source = true;
  }
  operation.source = object.source;
  return state.start(clock, std::move(operation));
}

Agent Races::in_group(Agent warp, Kind kind) {
  WarpClock &clock = state_->warp(warp);
  GroupClock &group = state_->group(clock, kind);
  group.started = group.step;
  group.line = state_->machine.line_of(*clock.warp);
  OperationClock operation;
  operation.source = group.source;
  operation.reads = group.reads;
  operation.step = group.step;
  return state_->start(clock, std::move(operation));
}

Agent Races::arrival(Agent warp, Kind kind) {
  WarpClock &clock = state_->warp(warp);
  GroupClock &group = state_->group(clock, kind);
  OperationClock operation;
  operation.source = group.source;
  operation.step = group.step++;
  operation.arrival = true;
  return state_->start(clock, std::move(operation));
}

void Races::end(Agent agent) {
  if (!State::is_operation(agent)) return;
  state_->operation(agent) = OperationClock();
  state_->free_operations.push_back((agent >> 1) - 1);
}

void Races::commit(Agent warp, Kind kind) {
  GroupClock &group = state_->group(state_->warp(warp), kind);
  group.commits.push_back(group.step++);
}

void Races::wait(Agent warp, Kind kind, u32 left, bool reads) {
  WarpClock &clock = state_->warp(warp);
  GroupClock &group = state_->group(clock, kind);
  if (group.commits.size() <= left) return;
  const u32 step = group.commits[group.commits.size() - 1 - left];
  const auto know = [&](u32 source) {
    u32 &seen = clock.knows.of(source).seen;
    seen = std::max(seen, step);
  };
  if (group.reads) know(group.reads);
  if (!reads) know(group.source);
  clock.snapshot.reset();
  if (reads) return;
  while (group.commits.size() > left) group.commits.pop_front();
}
