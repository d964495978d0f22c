// Accesses of memory against those before: each must be in order with every other that touches the same byte, unless
// both read or both are atomic.
#include <cstring>

#include "races_state.h"

namespace {
constexpr u32 PAGE = 4096;

struct Accessor { // who touches memory now
  Races::State &state;
  const Knowledge &knows;
  const ClusterClock &cluster;
  Epoch mine;
  Access access;
  const char *memory; // its name, for messages
  u64 address;        // of the first byte of the shadow
  const u8 *bytes;    // that the shadow is of; null for tensor memory
  u32 parent;         // 0: a warp; else the source of the warp that started the operation, + 1

  Epoch write_in_order{}, read_in_order{}, read_from{}, read_to{};

  bool writes() const { return ::writes(access); }
  bool atomic() const { return ::atomic(access); }
  void visit(Cell &cell, u32 at, u32 size);
  bool may_be_redundant(const Epoch &before) const;
  bool in_order(const Epoch &before, bool wrote, bool &seen) const;
  void check(const Epoch &before, bool wrote, u32 at) const;
  void check_reads(const Epoch &reads, u32 at) const;
  void check_constant(const Epoch &before, u32 at) const;
  void add_read(Cell &cell);
  Fault race(const Epoch &before, bool wrote, bool seen, u32 at) const;
};

bool Accessor::in_order(const Epoch &before, bool wrote, bool &seen) const {
  seen = true;
  if (before.cluster == mine.cluster && before.source == mine.source) return true;
  Step step;
  if (before.cluster == knows.cluster) {
    if (before.source < knows.own.size()) step = knows.own[before.source];
  } else {
    const ClusterClock &other = *state.clusters[before.cluster - 1];
    if (other.grid < knows.grids && other.device == cluster.device) return true;
    step = knows.at(before.cluster, before.source);
  }
  seen = before.step <= step.seen;
  const bool asynchronous = mine.proxy == Proxy::Async || mine.proxy == Proxy::Tensor;
  const bool through_fence = wrote && before.proxy == Proxy::Generic && asynchronous;
  if (!through_fence) return seen;
  return before.step <= (*memory == 'g' ? step.fenced_global : step.fenced_shared);
}

void Accessor::check(const Epoch &before, bool wrote, u32 at) const {
  if ((before.marks & Epoch::ATOMIC) && atomic()) return;
  bool seen;
  if (!in_order(before, wrote, seen)) throw race(before, wrote, seen, at);
}

void Accessor::check_reads(const Epoch &reads, u32 at) const {
  if (!(reads.marks & Epoch::SET)) return check(reads, false, at);
  for (const Epoch &read : state.sets.of(reads)) check(read, false, at);
}

Fault Accessor::race(const Epoch &before, bool wrote, bool seen, u32 at) const {
  const auto name = [](bool atomic, bool write) {
    return std::string(atomic ? "an atomic operation" : write ? "a write" : "a read");
  };
  std::string text = name(atomic(), writes()) + " of " + memory + " memory at " + hex(address + at) + " by " +
                     state.describe(mine) + " and " + name(before.marks & Epoch::ATOMIC, wrote) + " by " +
                     state.describe(before) + " at line " + std::to_string(before.line);
  text += seen ? ": nothing makes it visible to the async proxy (fence.proxy.async)" : ": nothing orders them";
  Fault fault(fault::RACE, text);
  fault.line = mine.line;
  fault.other_line = before.line;
  return fault;
}

void Accessor::add_read(Cell &cell) {
  if (cell.read.same(mine)) return;
  if (cell.read.nobody()) {
    cell.read = mine;
    return;
  }
  if (cell.read.same(read_from)) {
    cell.read = read_to;
    return;
  }
  read_from = cell.read;
  bool seen;
  if (!(cell.read.marks & Epoch::SET) && cell.read.proxy == mine.proxy && in_order(cell.read, false, seen))
    cell.read = mine;
  else
    cell.read = state.sets.add(cell.read, mine);
  read_to = cell.read;
}

bool Accessor::may_be_redundant(const Epoch &before) const {
  return access == Access::Write && bytes && !parent && before.line == mine.line && !before.marks &&
         before.proxy == Proxy::Generic && mine.proxy == Proxy::Generic && !state.is_operation_source(before);
}

// The cache of .nc loads does not see what the kernel writes, whatever is between.
void Accessor::check_constant(const Epoch &before, u32 at) const {
  if (state.clusters[before.cluster - 1]->grid != cluster.grid) return;
  Fault fault(fault::RACE, "a read of " + std::string(memory) + " memory at " + hex(address + at) + " by " +
                               state.describe(mine) + " with .nc, and a write by " + state.describe(before) +
                               " at line " + std::to_string(before.line) +
                               " of the same launch: .nc is for what the kernel does not write");
  fault.line = mine.line;
  fault.other_line = before.line;
  throw fault;
}

void Accessor::visit(Cell &cell, u32 at, u32 size) {
  if (access == Access::ReadOnly && !cell.write.nobody()) check_constant(cell.write, at);
  if (!cell.write.nobody() && !cell.write.same(write_in_order)) {
    bool seen = true;
    if (may_be_redundant(cell.write) && !in_order(cell.write, true, seen)) {
      state.redundant.push_back({bytes + at, size, {}, race(cell.write, true, seen, at)});
      std::memcpy(state.redundant.back().before, bytes + at, size);
    } else {
      check(cell.write, true, at);
      write_in_order = cell.write;
    }
  }
  if (!writes()) {
    add_read(cell);
    return;
  }
  if (!cell.read.nobody() && !cell.read.same(read_in_order)) {
    check_reads(cell.read, at);
    read_in_order = cell.read;
  }
  cell.write = mine;
  cell.read = Epoch{};
}

void touch(Accessor &accessor, Shadow &shadow, u32 begin, u32 bytes) {
  shadow.cells(begin, bytes, accessor.writes(), [&](Cell &cell, u32 at, u32 size) { accessor.visit(cell, at, size); });
}

Accessor make(Races::State &state, Agent agent, Access access, Proxy proxy, u32 line, const char *memory) {
  if (!state.redundant.empty() && state.redundant.back().fault.line != line) state.check_redundant();
  Epoch mine;
  mine.line = line;
  mine.proxy = proxy;
  if (atomic(access)) mine.marks = Epoch::ATOMIC;
  if (!Races::State::is_operation(agent)) {
    WarpClock &warp = state.warp(agent);
    warp.touched = true;
    mine.cluster = warp.cluster->number;
    mine.source = u16(warp.source);
    mine.step = warp.step();
    return {state, warp.knows, *warp.cluster, mine, access, memory, 0, nullptr, 0};
  }
  OperationClock &operation = state.operation(agent);
  mine.cluster = operation.cluster->number;
  const bool reads = access == Access::Read && operation.reads;
  mine.source = u16(reads ? operation.reads : operation.source);
  mine.step = operation.mbarrier ? state.object(operation.mbarrier, mine.cluster).phases + 1 : operation.step;
  return {state, *operation.seen, *operation.cluster, mine, access, memory, 0, nullptr, operation.parent + 1};
}
} // namespace

void Races::State::check_redundant() {
  for (const Redundant &store : redundant)
    if (std::memcmp(store.place, store.before, store.bytes)) throw store.fault;
  redundant.clear();
}

bool Races::State::is_operation_source(const Epoch &epoch) const {
  return clusters[epoch.cluster - 1]->sources[epoch.source].what != Source::Warp;
}

void Races::shared(Agent agent, Block &owner, u32 offset, u32 bytes, Access access, Proxy proxy, u32 line) {
  if (!bytes) return;
  Accessor accessor = make(*state_, agent, access, proxy, line, "shared");
  accessor.bytes = owner.shared.data();
  touch(accessor, state_->blocks[&owner].shared, offset, bytes);
}

// A column of 16 lanes is a word.
void Races::tensor(Agent agent, Block &owner, u32 lane, u32 column, u32 lanes, u32 columns, Access access, u32 line) {
  if (!lanes || !columns) return;
  Accessor accessor = make(*state_, agent, access, Proxy::Tensor, line, "tensor");
  BlockShadows &shadows = state_->blocks[&owner];
  constexpr u32 ROWS = 16;
  if (!shadows.has_tensor) shadows.tensor = Shadow(TMEM_LANES / ROWS * TMEM_COLUMNS * 4);
  shadows.has_tensor = true;
  for (u32 row = lane / ROWS; row * ROWS < lane + lanes; ++row)
    touch(accessor, shadows.tensor, (row * TMEM_COLUMNS + column) * 4, columns * 4);
}

void Races::global(Agent agent, u64 address, u64 bytes, Access access, Proxy proxy, u32 line) {
  if (!bytes || !state_->is_written(address)) return;
  Accessor accessor = make(*state_, agent, access, proxy, line, "global");
  if (writes(access) && accessor.knows.grids < accessor.cluster.grid) {
    Fault fault(fault::RACE, "a write of global memory at " + hex(address) +
                                 ", which the grid before may still use: nothing waits for it (griddepcontrol.wait)");
    fault.line = line;
    throw fault;
  }
  for (u64 at = address, end = address + bytes; at < end;) {
    const u64 page = at / PAGE * PAGE, most = std::min(end, page + PAGE);
    Shadow *&last = state_->last_page;
    if (!last || state_->last_page_address != page) {
      last = &state_->pages.try_emplace(page, PAGE).first->second;
      state_->last_page_address = page;
    }
    accessor.address = page;
    accessor.bytes = reinterpret_cast<const u8 *>(uintptr_t(page));
    touch(accessor, *last, u32(at - page), u32(most - at));
    at = most;
  }
}

void Races::lane(Warp &warp, Block &owner, u32 offset, u32 bytes, Access access, u32 lane) {
  if (atomic(access)) return;
  std::vector<LaneCell> &cells = state_->blocks[&owner].lanes;
  cells.resize((owner.shared.size() + 3) / 4);
  const LaneClock &clock = state_->warp(warp.agent).lanes;
  const u32 line = state_->machine.line_of(warp);
  touch_lane(cells, {clock, warp.agent, state_->stamps, line, lane, writes(access)}, offset, bytes);
}

void Races::lanes(Warp &warp, Block *owner, const u64 (&addresses)[LANES], u32 bytes, Access access, u32 active) {
  const u32 line = state_->machine.line_of(warp);
  u64 begin = 0, end = 0;
  const auto flush = [&] {
    if (begin == end) return;
    if (owner)
      shared(warp.agent, *owner, u32(begin) & ((1u << RANK_SHIFT) - 1), u32(end - begin), access, Proxy::Generic, line);
    else
      global(warp.agent, begin, end - begin, access, Proxy::Generic, line);
  };
  if (owner) EACH_LANE(lane)
  this->lane(warp, *owner, u32(addresses[lane]) & ((1u << RANK_SHIFT) - 1), bytes, access, lane);
  EACH_LANE(lane) {
    const u64 address = addresses[lane];
    if (address >= begin && address + bytes <= end) continue;
    if (address == end) {
      end += bytes;
      continue;
    }
    flush();
    begin = address;
    end = address + bytes;
  }
  flush();
}
