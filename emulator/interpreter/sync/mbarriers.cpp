// What arrivals and bytes do to an mbarrier.
#include "mbarriers.h"

#include <algorithm>
#include <cstring>

#include "effects.h"
#include "races.h"

namespace {
constexpr u64 FIELD = (1u << 20) - 1, MARK = 1ull << 63, PHASE = 1ull << 62;
constexpr u32 OFFSET = (1u << RANK_SHIFT) - 1;
} // namespace

u64 Mbarrier::pack() const {
  return MARK | (phase ? PHASE : 0) | u64(u32(bytes) & 0x3fffff) << 40 | u64(expected) << 20 | u64(pending);
}

Mbarrier Mbarrier::unpack(u64 word) {
  Mbarrier state;
  state.phase = word & PHASE ? 1 : 0;
  state.pending = s32(word & FIELD);
  state.expected = s32(word >> 20 & FIELD);
  state.bytes = s32(u32(word >> 40 & 0x3fffff) << 10) >> 10;
  return state;
}

bool Mbarrier::is_one(u64 word) { return (word & MARK) && (word & FIELD) <= (word >> 20 & FIELD); }

Mbarrier read_mbarrier(const u8 *place) {
  u64 word;
  std::memcpy(&word, place, 8);
  return Mbarrier::unpack(word);
}

void write_mbarrier(u8 *place, const Mbarrier &state) {
  const u64 word = state.pack();
  std::memcpy(place, &word, 8);
}

u8 *mbarrier_place(Machine &machine, Block &mine, u32 address, u32 lane) {
  if (address % 8) throw Fault(fault::MISALIGNED, "an mbarrier at " + hex(address), lane);
  u8 *place = machine.memory().shared(mine, address, 8, lane);
  const Block &owner = machine.memory().owner(mine, address, lane);
  const auto &all = owner.mbarriers;
  if (!std::binary_search(all.begin(), all.end(), address & OFFSET))
    throw Fault(fault::MBARRIER, "the mbarrier at " + hex(address) + " is not initialised", lane);
  u64 word;
  std::memcpy(&word, place, 8);
  if (!Mbarrier::is_one(word))
    throw Fault(fault::MBARRIER, "the memory of the mbarrier at " + hex(address) + " was overwritten", lane);
  return place;
}

void mbarrier_check(Machine &machine, Block &mine, u32 address) { mbarrier_place(machine, mine, address); }

void mbarrier_arrive(Machine &machine, Block &mine, u32 address, s32 arrivals, s64 bytes, u32 agent) {
  mbarrier_drop(machine, mine, address, arrivals, 0, bytes, agent);
}

void mbarrier_drop(Machine &machine, Block &mine, u32 address, s32 arrivals, s32 drops, s64 bytes, u32 agent) {
  u8 *place = mbarrier_place(machine, mine, address);
  Mbarrier state = read_mbarrier(place);
  Races *races = machine.races();
  if (races && agent) {
    races->mbarrier_used(agent, machine.memory().owner(mine, address), address & OFFSET);
    races->arrive(agent, key_of(place));
  }
  const s64 total = state.bytes + bytes;
  if (arrivals > state.pending)
    throw Fault(fault::MBARRIER, std::to_string(arrivals) + " arrivals at the mbarrier at " + hex(address) +
                                     ", whose phase expects " + std::to_string(state.pending) + " more of " +
                                     std::to_string(state.expected));
  if (state.pending - arrivals > Mbarrier::MOST_ARRIVALS || total > Mbarrier::MOST_BYTES ||
      total < -Mbarrier::MOST_BYTES)
    throw Fault(fault::MBARRIER, "the mbarrier at " + hex(address) + " counts " +
                                     std::to_string(state.pending - arrivals) + " arrivals and " +
                                     std::to_string(total) + " bytes, more than it can");
  state.pending -= arrivals;
  state.expected -= drops;
  state.bytes = s32(total);
  if (state.complete()) {
    state.pending = state.expected;
    state.phase ^= 1;
    if (races) races->complete(key_of(place));
  }
  write_mbarrier(place, state);
  ++machine.changes;
}
