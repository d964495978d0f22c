// Named barriers of a block, with votes, and barriers of a warp. A barrier counts warps: each has 32 threads for it,
// those that have exited or do not exist included.
#include "../memory/memory.h"
#include "races.h"

namespace {
enum What : s32 { Sync, Arrive, Popc, And, Or }; // in the order of lowering/barriers.py

constexpr u32 ALL_THREADS = ~0u; // what `expected` is of a barrier without a count

u64 key_of(const NamedBarrier &barrier) { return u64(reinterpret_cast<uintptr_t>(&barrier)); }

// The threads that have arrived. Lanes that are gone count with their warp, unless they arrived before they exited.
u32 arrived_of(const Block &block, const NamedBarrier &barrier) {
  u32 threads = barrier.arrived;
  for (const auto &[warp, lanes] : barrier.lanes)
    threads += u32(__builtin_popcount(block.warps[warp]->exited & ~lanes));
  return threads;
}

bool is_complete(const Block &block, const NamedBarrier &barrier) {
  if (barrier.arrived == 0) return false;
  const u32 arrived = arrived_of(block, barrier);
  if (barrier.expected != ALL_THREADS) return arrived == barrier.expected;
  u32 gone = 0; // warps that have ended without an arrival in this phase
  for (const auto &warp : block.warps)
    if (warp->done && !(barrier.arrivers >> warp->index & 1)) gone += LANES;
  return arrived + gone >= block.warps.size() * LANES;
}

// Threads that are gone need not arrive. But one that wrote memory behind a barrier at which others wait now went past
// it: `if t < n: sync_threads()`. A thread that returned early has not.
void check_skipped(const Warp &mine, const Block &block, const NamedBarrier &barrier) {
  const Program &program = *block.cluster->grid->launch->program;
  for (const auto &warp : block.warps) {
    const auto arrived = barrier.lanes.find(warp->index);
    const bool came = arrived != barrier.lanes.end();
    if (!came && barrier.expected != ALL_THREADS) continue;
    u32 last = 0; // the instruction that was looked at
    for (u32 gone = warp->exited & ~(came ? arrived->second : 0); gone; gone &= gone - 1) {
      const u32 lane = u32(__builtin_ctz(gone)), effect = warp->effects[lane];
      if (effect == last || effect == 0) continue;
      last = effect;
      if (!may_reach(program, mine.now.pc + 1, effect - 1)) continue;
      Fault fault(fault::BARRIER,
                  "lane " + std::to_string(lane) + " of warp " + std::to_string(warp->index) +
                      " went past this barrier to line " + std::to_string(program.lines[effect - 1]) +
                      " and ended, and others wait at it: all threads that it counts must execute it",
                  lane);
      fault.other_line = u32(program.lines[effect - 1]);
      throw fault;
    }
  }
}

bool try_complete(Machine &machine, const Warp &mine, const Block &block, NamedBarrier &barrier) {
  if (!is_complete(block, barrier)) return false;
  check_skipped(mine, block, barrier);
  barrier.result_and = barrier.votes_and;
  barrier.result_or = barrier.votes_or;
  barrier.result_count = barrier.votes_count;
  barrier.votes_and = ALL_LANES;
  barrier.votes_or = barrier.votes_count = 0;
  barrier.arrived = barrier.arrivers = 0;
  barrier.lanes.clear();
  ++barrier.phase;
  ++machine.changes;
  if (Races *races = machine.races()) races->complete(key_of(barrier));
  return true;
}

u32 expected_of(Warp &warp, const Insn &insn, u32 lane) {
  if (insn.a[1] < 0) return ALL_THREADS;
  const u32 count = warp.word(insn.a[1])[lane];
  if (count == 0 || count % LANES)
    throw Fault(fault::BARRIER, "a barrier for " + std::to_string(count) + " threads, which are not whole warps", lane);
  return count;
}

void arrive(Machine &machine, Warp &warp, const Insn &insn, NamedBarrier &barrier, u32 active, u32 lane) {
  const Block &block = *warp.block;
  const u32 whole = u32(block.warps.size()) * LANES;
  const auto threads = [&](u32 expected) { return expected == ALL_THREADS ? whole : expected; };
  const u32 expected = expected_of(warp, insn, lane);
  if (barrier.arrived && threads(barrier.expected) != threads(expected))
    throw Fault(fault::BARRIER, "it counts " + std::to_string(threads(expected)) + " threads, others that wait there " +
                                    std::to_string(threads(barrier.expected)));
  if (!barrier.arrived) barrier.expected = expected;
  barrier.arrived += u32(__builtin_popcount(active));
  barrier.arrivers |= 1u << warp.index;
  barrier.lanes[warp.index] |= active;
  if (const u32 arrived = arrived_of(block, barrier); arrived > threads(expected))
    throw Fault(fault::BARRIER,
                std::to_string(arrived) + " threads at a barrier for " + std::to_string(threads(expected)));
  const auto what = What(insn.a[2]);
  if (what >= Popc) {
    const u32 votes = warp.predicate(insn.a[5]) & active;
    barrier.votes_count += u32(__builtin_popcount(votes));
    barrier.votes_or |= votes;
    if (votes != active) barrier.votes_and = 0;
  }
  if (Races *races = machine.races()) races->arrive(warp.agent, key_of(barrier));
  ++machine.changes;
}

void give_result(Warp &warp, const Insn &insn, const NamedBarrier &barrier, u32 active) {
  const auto what = What(insn.a[2]);
  if (what < Popc) return;
  if (what == Popc) {
    EACH_LANE(lane) warp.word(insn.a[4])[lane] = barrier.result_count;
    return;
  }
  const bool yes = what == And ? barrier.result_and != 0 : barrier.result_or != 0;
  u32 &result = warp.predicate(insn.a[4]);
  result = yes ? result | active : result & ~active;
}

Outcome pass(Machine &machine, Warp &warp, const Insn &insn, NamedBarrier &barrier, u64 phase, u32 active) {
  if (What(insn.a[2]) >= Popc && barrier.phase != phase + 1)
    throw Fault(fault::UNSUPPORTED, "a vote at a barrier that others have used again");
  give_result(warp, insn, barrier, active);
  if (Races *races = machine.races()) races->acquire(warp.agent, key_of(barrier));
  warp.now.barrier = -1;
  if (insn.a[1] < 0) warp.now.effect = 0; // what it wrote before was not behind a barrier that it goes past later
  return Outcome::Next;
}
} // namespace

// a: number (place), threads (place or -1), what, aligned, result (place or -1), vote (predicate or -1)
OPERATION(BARRIER) {
  const u32 lane = u32(__builtin_ctz(active)), number = warp.word(insn.a[0])[lane];
  if (number >= NAMED_BARRIERS)
    throw Fault(fault::BARRIER, "a barrier with the number " + std::to_string(number), lane);
  Block &block = *warp.block;
  NamedBarrier &barrier = block.barriers[number];
  Group &group = warp.now;
  if (group.barrier == s32(number)) {
    if (barrier.phase == group.barrier_phase && !try_complete(machine, warp, block, barrier)) return Outcome::Blocked;
    return pass(machine, warp, insn, barrier, group.barrier_phase, active);
  }
  const auto what = What(insn.a[2]);
  if (insn.a[3] && !together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const u64 phase = barrier.phase;
  arrive(machine, warp, insn, barrier, active, lane);
  const bool complete = try_complete(machine, warp, block, barrier);
  if (what == Arrive) return Outcome::Next;
  if (complete) return pass(machine, warp, insn, barrier, phase, active);
  if (const u32 rest = group.mask & ~active) { // those whose guard is false go on
    Group other = group;
    other.mask = rest;
    ++other.pc;
    group.mask = active;
    warp.others.push_back(other);
  }
  warp.now.barrier = s32(number);
  warp.now.barrier_phase = phase;
  return Outcome::Blocked;
}

// a: members (place)
OPERATION(BARRIER_WARP) {
  const u32 *members = warp.word(insn.a[0]); // lanes that are together may be members of several barriers
  u32 all = 0;
  EACH_LANE(lane) {
    if (!(members[lane] >> lane & 1))
      throw Fault(fault::DIVERGENCE, "a lane that is not a member executes bar.warp.sync", lane);
    all |= members[lane];
  }
  if (!together(machine, warp, all, active)) return Outcome::Blocked;
  Races *races = machine.races();
  for (u32 rest = races ? active : 0; rest;) {
    const u32 meeting = members[__builtin_ctz(rest)];
    races->lanes_meet(warp, meeting);
    rest &= ~meeting;
  }
  return Outcome::Next;
}
