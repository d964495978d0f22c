// Which grids and clusters are on the GPU, and how their blocks begin.
#include <algorithm>
#include <cstring>

#include "../sync/async_state.h"
#include "../sync/effects.h"
#include "../sync/races.h"
#include "machine.h"
#include "registers.h"

Warp::Warp() : async(std::make_unique<AsyncState>()) {}
Warp::~Warp() = default;
Block::Block() : effects(std::make_unique<Effects>()) {}
Block::~Block() = default;

namespace {
u32 blocks_of(const u32 (&size)[3]) { return size[0] * size[1] * size[2]; }
// The clusters of a launch, the largest of them where there are two sizes.
const u32 (&largest(const Launch &launch))[3] { return launch.preferred[0] ? launch.preferred : launch.cluster; }
u32 threads_of(const Launch &launch) { return launch.block[0] * launch.block[1] * launch.block[2]; }
u32 shared_of(const Launch &launch) {
  return SHARED_BASE + std::max(launch.program->dynamic_offset, launch.program->static_shared) + launch.dynamic_shared;
}

std::unique_ptr<Cluster> make_cluster(const Launch &launch, const u32 (&size)[3]) {
  auto cluster = std::make_unique<Cluster>();
  std::copy_n(size, 3, cluster->size);
  const u32 threads = threads_of(launch), warps = (threads + LANES - 1) / LANES;
  for (u32 rank = 0; rank < blocks_of(size); ++rank) {
    auto block = std::make_unique<Block>();
    block->cluster = cluster.get();
    block->rank = rank;
    block->registers.resize(size_t(warps) * launch.program->register_words + 16);
    block->local.resize(size_t(launch.program->local_bytes) * warps * LANES);
    for (u32 i = 0; i < warps; ++i) {
      auto warp = std::make_unique<Warp>();
      warp->block = block.get();
      warp->index = i;
      block->warps.push_back(std::move(warp));
    }
    cluster->blocks.push_back(std::move(block));
  }
  return cluster;
}

void begin_warp(Warp &warp, const Launch &launch, Races *races) {
  const u32 threads = threads_of(launch), first = warp.index * LANES;
  warp.exited = threads - first >= LANES ? 0 : ~((1u << (threads - first)) - 1);
  warp.code = launch.program->code;
  warp.now = Group{};
  warp.now.mask = ~warp.exited;
  warp.others.clear();
  warp.done = warp.spun = warp.cluster_arrived = false;
  warp.cluster_phase = warp.resumes = warp.locks = 0;
  std::fill(std::begin(warp.effects), std::end(warp.effects), 0);
  *warp.async = AsyncState();
  if (races) warp.agent = races->warp_begins(warp);
}

void begin_block(Machine &machine, Block &block, const Launch &launch) {
  block.shared.resize(shared_of(launch));
  machine.schedule.fill.put(reinterpret_cast<u32 *>(block.shared.data()), block.shared.size() / 4);
  machine.schedule.fill.put(reinterpret_cast<u32 *>(block.local.data()), block.local.size() / 4);
  block.tensor_memory.clear();
  block.column_taken.clear();
  for (NamedBarrier &barrier : block.barriers) barrier = NamedBarrier{};
  block.mbarriers.clear();
  block.allocation_relinquished = block.triggered = false;
  block.started = !machine.adversarial();
  block.starts = machine.adversarial() ? machine.turn + machine.random() % (machine.schedule.delay / 4 + 2) : 0;
  block.pairs = 0;
  block.pairing = nullptr;
  block.live = u32(block.warps.size());
  *block.effects = Effects();
  set_registers(block, launch, machine.schedule.fill);
  for (auto &warp : block.warps) begin_warp(*warp, launch, machine.races());
}
// Where number n of clusters of one size stands that fill a box of blocks, from a first block on.
Place place_of(u64 n, const u32 (&size)[3], const u32 (&box)[3], const u32 (&first)[3]) {
  const u64 x = box[0] / size[0], y = box[1] / size[1], at[3] = {n % x, n / x % y, n / x / y};
  Place place;
  for (int i = 0; i < 3; ++i) place.size[i] = size[i], place.first[i] = first[i] + u32(at[i]) * size[i];
  return place;
}

// Divides a grid into clusters of the preferred size, and some of these into smaller ones: the GPU may do so with any.
// Without a seed it is every second one.
void place_clusters(Machine &machine, Grid &grid) {
  const Launch &launch = *grid.launch;
  const u64 wide = grid.blocks / blocks_of(launch.preferred),
            pieces = blocks_of(launch.preferred) / blocks_of(launch.cluster);
  for (u64 n = 0; n < wide; ++n) {
    const Place whole = place_of(n, launch.preferred, launch.grid, {0, 0, 0});
    if (machine.adversarial() ? machine.random() % 2 : n % 2 == 0) {
      grid.places.push_back(whole);
      continue;
    }
    for (u64 i = 0; i < pieces; ++i) grid.places.push_back(place_of(i, launch.cluster, launch.preferred, whole.first));
  }
  grid.clusters = grid.places.size();
}
} // namespace

Place Grid::take() {
  const u64 number = next_cluster++;
  return places.empty() ? place_of(number, launch->cluster, launch->grid, {0, 0, 0}) : places[number];
}

// With programmatic dependent launch a grid may begin when all blocks of the one before it let it, or have ended.
// Devices do not wait for each other.
bool Machine::may_begin(u32 number, bool stuck) const {
  const Launch &launch = launches_[number];
  for (u32 i = 0; i < number; ++i)
    if (!begun_[i] && launches_[i].device == launch.device) return false;
  const Grid *last = nullptr;
  for (const auto &grid : grids_)
    if (grid->launch->device == launch.device && !grid->over()) last = grid.get();
  return !last || (launch.overlap && (adversarial() || stuck) && last->blocks_triggered == last->blocks);
}

void Machine::start_grids(bool stuck) {
  for (u32 number = first_launch_; number < launch_count_; ++number) {
    if (begun_[number] || !may_begin(number, stuck)) continue;
    const Launch &launch = launches_[number];
    auto grid = std::make_unique<Grid>();
    grid->launch = &launch;
    grid->number = number;
    grid->blocks = u64(launch.grid[0]) * launch.grid[1] * launch.grid[2];
    for (int i = 0; i < 3; ++i)
      if (launch.cluster[i] == 0 || launch.grid[i] % largest(launch)[i] || largest(launch)[i] % launch.cluster[i])
        throw Fault(fault::UNSUPPORTED, "the grid is not a multiple of the cluster");
    grid->clusters = grid->blocks / blocks_of(launch.cluster);
    if (launch.preferred[0]) place_clusters(*this, *grid);
    if (grid->clusters == 0) throw Fault(fault::UNSUPPORTED, "the grid has no blocks");
    grids_.push_back(std::move(grid));
    begun_[number] = true;
    ++changes;
  }
  while (first_launch_ < launch_count_ && begun_[first_launch_]) ++first_launch_;
}

bool Machine::has_room(const Grid &grid) const {
  return resident_blocks_ + blocks_of(largest(*grid.launch)) <= grid.launch->resident * devices_;
}

// As many clusters as are wanted, or as many again where all others wait; whether one began.
bool Machine::start_clusters(bool stuck) {
  bool began = false;
  if (stuck) wanted_clusters_ = 2 * resident_clusters_;
  for (auto &grid : grids_)
    while (grid->next_cluster < grid->clusters && (resident_clusters_ < wanted_clusters_ || grid->resident.empty()) &&
           (resident_clusters_ == 0 || grid->resident.empty() || has_room(*grid))) {
      if (resident_clusters_ == 0) wanted_clusters_ = adversarial() ? 1 + u32(random() % 4) : 1;
      start_cluster(*grid);
      began = true;
    }
  return began;
}

Cluster &Machine::start_cluster(Grid &grid) {
  const Launch &launch = *grid.launch;
  const Place place = grid.take();
  std::unique_ptr<Cluster> cluster;
  while (!cluster && !spare_.empty()) {
    if (spare_.back()->blocks[0]->prepared == &launch && std::equal(place.size, place.size + 3, spare_.back()->size))
      cluster = std::move(spare_.back());
    spare_.pop_back();
  }
  if (!cluster) cluster = make_cluster(launch, place.size);
  std::copy_n(place.first, 3, cluster->id);
  cluster->grid = &grid;
  cluster->arrived = 0;
  cluster->phase = 0;
  cluster->live = u32(cluster->blocks.size());
  cluster->threads = threads_of(launch) * cluster->live;
  for (auto &block : cluster->blocks) {
    const u32 rank = block->rank;
    block->id[0] = cluster->id[0] + rank % place.size[0];
    block->id[1] = cluster->id[1] + rank / place.size[0] % place.size[1];
    block->id[2] = cluster->id[2] + rank / place.size[0] / place.size[1];
    begin_block(*this, *block, launch);
    for (auto &warp : block->warps) live_.push_back(warp.get());
  }
  ++resident_clusters_;
  resident_blocks_ += u32(cluster->blocks.size());
  counts.blocks += cluster->blocks.size();
  ++changes;
  grid.resident.push_back(std::move(cluster));
  return *grid.resident.back();
}
