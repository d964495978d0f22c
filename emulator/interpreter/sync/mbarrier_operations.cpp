// mbarrier.*: what warps do with mbarriers.
#include <algorithm>

#include "effects.h"
#include "mbarriers.h"
#include "races.h"
#include "shared_address.h"

namespace {
enum What : s32 { Arrive, ArriveDrop, ExpectTransfer, CompleteTransfer }; // in the order of lowering/mbarriers.py

// What one lane does to the mbarrier at an address, and its state before.
u64 apply(Machine &machine, Warp &warp, u32 address, What what, u32 count, s64 bytes, bool completes, u32 agent,
          u32 lane) {
  Block &block = *warp.block;
  const Mbarrier state = read_mbarrier(mbarrier_place(machine, block, address, lane));
  const u64 before = state.pack();
  if (!completes && state.pending == s32(count))
    throw Fault(fault::MBARRIER, "an arrival with .noComplete completes the phase", lane);
  mbarrier_drop(machine, block, address, s32(count), what == ArriveDrop ? s32(count) : 0, bytes, agent);
  return before;
}

u32 awaited(Warp &warp, const Insn &insn, bool parity, u32 lane) { // the phase whose end a lane waits for
  if (parity) {
    const u32 phase = warp.word(insn.a[3])[lane];
    if (phase > 1) throw Fault(fault::MBARRIER, "a wait for the parity " + std::to_string(phase), lane);
    return phase;
  }
  const u64 state = warp.wide(insn.a[3])[lane];
  if (!Mbarrier::is_one(state)) throw Fault(fault::MBARRIER, "a wait for the state " + hex(state), lane);
  return Mbarrier::unpack(state).phase;
}

void seen(Machine &machine, Warp &warp, u32 address, bool acquire, u32 lane) { // the phase is complete
  Races *races = machine.races();
  if (!races) return;
  races->mbarrier_used(warp.agent, machine.memory().owner(*warp.block, address, lane),
                       address & ((1u << RANK_SHIFT) - 1));
  if (acquire) races->acquire(warp.agent, key_of(mbarrier_place(machine, *warp.block, address, lane)));
}
} // namespace

// a: address (place, wide), count (place)
OPERATION(MBARRIER_INIT) {
  EACH_LANE(lane) {
    const u32 address = shared_address(warp, insn, lane), offset = address & ((1u << RANK_SHIFT) - 1);
    const u32 count = warp.word(insn.a[2])[lane];
    if (address % 8) throw Fault(fault::MISALIGNED, "an mbarrier at " + hex(address), lane);
    if (count == 0 || count > u32(Mbarrier::MOST_ARRIVALS))
      throw Fault(fault::MBARRIER, "an mbarrier for " + std::to_string(count) + " arrivals", lane);
    u8 *place = machine.memory().at(warp, Space::Shared, address, 8, Access::Write, lane);
    Mbarrier state;
    state.pending = state.expected = s32(count);
    write_mbarrier(place, state);
    Block &owner = machine.memory().owner(*warp.block, address, lane);
    auto &all = owner.mbarriers;
    const auto at = std::lower_bound(all.begin(), all.end(), offset);
    if (at == all.end() || *at != offset) all.insert(at, offset);
    if (Races *races = machine.races()) races->mbarrier_begins(warp.agent, owner, offset, machine.line_of(warp));
  }
  ++machine.changes;
  return Outcome::Next;
}

// a: address (place, wide)
OPERATION(MBARRIER_INVAL) {
  EACH_LANE(lane) {
    const u32 address = shared_address(warp, insn, lane);
    u8 *place = mbarrier_place(machine, *warp.block, address, lane);
    auto &all = machine.memory().owner(*warp.block, address, lane).mbarriers;
    all.erase(std::lower_bound(all.begin(), all.end(), address & ((1u << RANK_SHIFT) - 1)));
    machine.schedule.fill.put(reinterpret_cast<u32 *>(place), 2);
    if (Races *races = machine.races()) races->forget(key_of(place));
  }
  return Outcome::Next;
}

// a: address (place, wide), state before (place or -1), what, count (place or -1), bytes (place or -1), release,
// completes
OPERATION(MBARRIER_ARRIVE) {
  const auto what = What(insn.a[3]);
  const bool transfers = what == ExpectTransfer || what == CompleteTransfer, release = insn.a[6], completes = insn.a[7];
  u64 last = ~0ull;
  EACH_LANE(lane) {
    const u32 address = shared_address(warp, insn, lane);
    const u32 count = insn.a[4] >= 0 ? warp.word(insn.a[4])[lane] : transfers ? 0 : 1;
    if (!transfers && (count == 0 || count > u32(Mbarrier::MOST_ARRIVALS)))
      throw Fault(fault::MBARRIER, "an arrival that counts " + std::to_string(count), lane);
    s64 bytes = insn.a[5] >= 0 ? warp.word(insn.a[5])[lane] : 0;
    if (what == CompleteTransfer) bytes = -bytes;
    // Lanes that arrive at the same mbarrier release the same.
    const u32 agent = release && address != last ? warp.agent : 0;
    const u64 before = apply(machine, warp, address, what, count, bytes, completes, agent, lane);
    last = address;
    if (insn.a[2] >= 0) warp.wide(insn.a[2])[lane] = before;
  }
  return Outcome::Next;
}

// a: address (place, wide), result (predicate), parity (place) or state (place), whether it is a parity, acquire,
// whether it may wait
OPERATION(MBARRIER_WAIT) {
  const bool parity = insn.a[4], acquire = insn.a[5];
  const bool declines = machine.adversarial() && machine.random() % 8 == 0;
  u32 yes = 0, now = 0;
  u64 last = ~0ull;
  EACH_LANE(lane) {
    const u32 address = shared_address(warp, insn, lane);
    const u32 phase = awaited(warp, insn, parity, lane);
    const bool same = address == last; // most often all lanes wait for one
    if (!same) now = read_mbarrier(mbarrier_place(machine, *warp.block, address, lane)).phase;
    last = address;
    if (now == phase || declines) continue;
    if (!same || !yes) seen(machine, warp, address, acquire, lane);
    yes |= 1u << lane;
  }
  u32 &result = warp.predicate(insn.a[2]);
  result = (result & ~active) | yes;
  if (yes == active) return Outcome::Next;
  return Outcome::Yield;
}

// a: count (place), state (place)
OPERATION(MBARRIER_PENDING_COUNT) {
  EACH_LANE(lane) {
    const u64 state = warp.wide(insn.a[1])[lane];
    if (!Mbarrier::is_one(state)) throw Fault(fault::MBARRIER, "the pending count of the state " + hex(state), lane);
    warp.word(insn.a[0])[lane] = u32(Mbarrier::unpack(state).pending);
  }
  return Outcome::Next;
}
