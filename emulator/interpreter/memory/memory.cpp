// Where an address points, and whether it may be read or written there.
#include "memory.h"

#include <algorithm>

#include "../sync/effects.h"
#include "../sync/races.h"

Memory::Memory(Machine &machine, const Launch *launches, u32 count)
    : machine_(machine), launches_(launches), last_read_(count), last_written_(count) {}

// The range that holds an access, or null.
const Range *Memory::covering(const Launch &launch, u64 address, u64 bytes, bool write) {
  const Range *&last = (write ? last_written_ : last_read_)[size_t(&launch - launches_)];
  if (last && address >= last->begin && address + bytes <= last->end) return last;
  for (u32 i = 0; i < launch.range_count; ++i) {
    const Range &range = launch.ranges[i];
    if (range.copies || address < range.begin || address + bytes > range.end || (write && !range.writable)) continue;
    last = &range;
    return last;
  }
  return nullptr;
}

void Memory::refuse(const Launch &launch, u64 address, u64 bytes, Access access, u32 lane) const {
  const std::string what = std::string(!writes(access)           ? "a read"
                                       : access == Access::Write ? "a write"
                                                                 : "an atomic operation") +
                           " of " + std::to_string(bytes) + " bytes at " + hex(address);
  const Range *nearest = nullptr;
  u64 distance = ~0ull;
  bool behind = false;
  for (u32 i = 0; i < launch.range_count; ++i) {
    const Range &range = launch.ranges[i];
    if (address >= range.begin && address + bytes <= range.end && range.copies)
      throw Fault(fault::OUT_OF_BOUNDS, what + " of " + range.name + ", which is multicast memory: use multimem", lane);
    if (address >= range.begin && address + bytes <= range.end)
      throw Fault(fault::READ_ONLY,
                  what + ": byte " + std::to_string(address - range.begin) + " of " + range.name + ", an input", lane);
    const bool after = address + bytes > range.end;
    const u64 away = after ? address + bytes - range.end : range.begin - address;
    if (away >= distance) continue;
    distance = away;
    nearest = &range;
    behind = after;
  }
  if (!nearest) throw Fault(fault::OUT_OF_BOUNDS, what + ": the launch has no memory", lane);
  throw Fault(fault::OUT_OF_BOUNDS,
              what + ": it " + (behind ? "ends " : "begins ") + std::to_string(distance) + " bytes " +
                  (behind ? "after the end of " : "before ") + nearest->name + " (" +
                  std::to_string(nearest->end - nearest->begin) + " bytes)",
              lane);
}

u8 *Memory::global(const Launch &launch, u64 address, u64 bytes, Access access, u32 lane) {
  const auto parameters = u64(reinterpret_cast<uintptr_t>(launch.parameters));
  if (covering(launch, address, bytes, writes(access)) ||
      (!writes(access) && address >= parameters && address + bytes <= parameters + launch.program->parameter_bytes)) {
    if (access == Access::Write) ++machine_.changes;
    return reinterpret_cast<u8 *>(uintptr_t(address));
  }
  refuse(launch, address, bytes, access, lane);
}

const Range &Memory::multicast(const Launch &launch, u64 address, u64 bytes, u32 lane) const {
  for (u32 i = 0; i < launch.range_count; ++i) {
    const Range &range = launch.ranges[i];
    if (range.copies && address >= range.begin && address + bytes <= range.end) return range;
  }
  throw Fault(fault::OUT_OF_BOUNDS,
              "multimem of " + std::to_string(bytes) + " bytes at " + hex(address) +
                  ", where the launch has no multicast memory",
              lane);
}

Block &Memory::owner(Block &mine, u32 address, u32 lane) {
  const u32 rank = address >> RANK_SHIFT;
  if (rank >= mine.cluster->blocks.size())
    throw Fault(fault::OUT_OF_BOUNDS,
                "shared memory at " + hex(address) + ": the cluster has no block " + std::to_string(rank), lane);
  Block &block = *mine.cluster->blocks[rank];
  if (!block.started || block.live == 0)
    throw Fault(fault::OUT_OF_BOUNDS,
                "shared memory of block " + std::to_string(rank) + " of the cluster, which has " +
                    (block.started ? "ended" : "not begun"),
                lane);
  return block;
}

u8 *Memory::shared(Block &mine, u32 address, u32 bytes, u32 lane) {
  Block &block = owner(mine, address, lane);
  const u64 offset = address & ((1u << RANK_SHIFT) - 1);
  if (offset < SHARED_BASE || offset + bytes > block.shared.size())
    throw Fault(fault::OUT_OF_BOUNDS,
                std::to_string(bytes) + " bytes of shared memory at " + hex(offset) + ": the block has " +
                    hex(SHARED_BASE) + " to " + hex(block.shared.size()),
                lane);
  return block.shared.data() + offset;
}

namespace {
// A copy under way may write a region at any time, or read it.
void check_under_way(const Block &block, u32 offset, u32 bytes, Access access, u32 lane) {
  const auto touches = [=](const Effects::Region &region) {
    return offset < region.end && offset + bytes > region.begin;
  };
  for (const Effects::Region &region : block.effects->landing)
    if (touches(region))
      throw Fault(fault::COPY,
                  "shared memory at " + hex(offset) + " is touched, and a copy into it is under way: wait for it",
                  lane);
  if (!writes(access)) return;
  for (const Effects::Region &region : block.effects->leaving)
    if (touches(region))
      throw Fault(fault::COPY,
                  "shared memory at " + hex(offset) + " is written, and a copy out of it is under way: wait for it",
                  lane);
}
} // namespace

u8 *Memory::at(Warp &warp, Space space, u64 address, u32 bytes, Access access, u32 lane) {
  if (!(bytes & (bytes - 1)) && address & (bytes - 1))
    throw Fault(fault::MISALIGNED, std::to_string(bytes) + " bytes at " + hex(address), lane);
  if (space == Space::Generic && address >= SHARED_WINDOW) {
    space = address >= LOCAL_WINDOW ? Space::Local : Space::Shared;
    address &= SHARED_WINDOW - 1;
  }
  Block &block = *warp.block;
  if (space == Space::Shared) {
    if (address >> 32) throw Fault(fault::OUT_OF_BOUNDS, "shared memory at " + hex(address), lane);
    u8 *place = shared(block, u32(address), bytes, lane);
    Block &owned = owner(block, u32(address), lane);
    const u32 offset = u32(address) & ((1u << RANK_SHIFT) - 1);
    check_under_way(owned, offset, bytes, access, lane);
    if (Races *races = machine_.races()) {
      races->shared(warp.agent, owned, offset, bytes, access, Proxy::Generic, machine_.line_of(warp));
      races->lane(warp, owned, offset, bytes, access, lane);
    }
    if (access == Access::Write) ++machine_.changes;
    return place;
  }
  if (space == Space::Local) {
    const u64 size = machine_.grid_of(warp).launch->program->local_bytes;
    if (address + bytes > size)
      throw Fault(fault::OUT_OF_BOUNDS,
                  std::to_string(bytes) + " bytes of local memory at " + hex(address) + ": a thread has " +
                      std::to_string(size),
                  lane);
    return block.local.data() + (u64(warp.index) * LANES + lane) * size + address;
  }
  const Launch &launch = *machine_.grid_of(warp).launch;
  u8 *place = global(launch, address, bytes, access, lane);
  if (Races *races = machine_.races())
    races->global(warp.agent, address, bytes, access, Proxy::Generic, machine_.line_of(warp));
  return place;
}

// Global or the block's own shared memory, where nothing but bounds is to be checked, and at once for all lanes.
bool Memory::quick(Warp &warp, Space space, const u64 (&addresses)[LANES], u32 bytes, Access access, u32 active,
                   u8 *(&places)[LANES]) {
  u64 low = ~0ull, high = 0, bits = 0;
  for (u32 lane = 0; lane < LANES; ++lane) {
    const u64 taken = active >> lane & 1 ? ~0ull : 0;
    low = std::min(low, addresses[lane] | ~taken);
    high = std::max(high, addresses[lane] & taken);
    bits |= addresses[lane] & taken;
  }
  if (bytes & (bytes - 1) || bits & (bytes - 1)) return false;
  if (space == Space::Generic && high >= SHARED_WINDOW) {
    if (low < SHARED_WINDOW || high >= LOCAL_WINDOW) return false;
    space = Space::Shared;
    low &= SHARED_WINDOW - 1;
    high &= SHARED_WINDOW - 1;
  }
  const u8 *base = nullptr;
  if (space == Space::Shared) {
    Block &block = *warp.block;
    if (high >> RANK_SHIFT != block.rank || low >> RANK_SHIFT != block.rank || !block.effects->landing.empty() ||
        !block.effects->leaving.empty())
      return false;
    const u64 rank = u64(block.rank) << RANK_SHIFT;
    if (low - rank < SHARED_BASE || high - rank + bytes > block.shared.size()) return false;
    base = block.shared.data() - (addresses[u32(__builtin_ctz(active))] & (SHARED_WINDOW | LOCAL_WINDOW)) - rank;
  } else if (space == Space::Local) {
    return false;
  } else if (!covering(*machine_.grid_of(warp).launch, low, high - low + bytes, writes(access))) {
    return false;
  }
  for (u32 lane = 0; lane < LANES; ++lane) places[lane] = const_cast<u8 *>(base) + addresses[lane];
  if (access == Access::Write) ++machine_.changes;
  if (Races *races = machine_.races())
    races->lanes(warp, base ? warp.block : nullptr, addresses, bytes, access, active);
  return true;
}

void Memory::all(Warp &warp, Space space, const u64 (&addresses)[LANES], u32 bytes, Access access, u32 active,
                 u8 *(&places)[LANES]) {
  if (writes(access)) warp.now.effect = warp.now.pc + 1;
  if (quick(warp, space, addresses, bytes, access, active, places)) return;
  EACH_LANE(lane) places[lane] = at(warp, space, addresses[lane], bytes, access, lane);
}
