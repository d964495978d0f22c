// One turn of a warp: instructions of its groups of lanes, which part at jumps and join where they meet.
//
// The group at the lowest place goes first, so that lanes that parted meet again where their paths do. A group that is
// blocked is left until the warp's next turn; a turn that was spent while lanes are apart is followed by one of another
// group, so that a lane which waits for another lane of its warp does not wait permanently.
#include <algorithm>

#include "machine.h"

namespace {
constexpr u32 NOWHERE = ~0u;

bool may_join(const Group &a, const Group &b) { return a.pc == b.pc && a.barrier < 0 && b.barrier < 0; }

void join(Warp &warp) { // the others that are where the running group is
  for (size_t i = 0; i < warp.others.size();) {
    if (!may_join(warp.now, warp.others[i])) {
      ++i;
      continue;
    }
    warp.now.mask |= warp.others[i].mask;
    warp.now.waits = false;
    warp.others[i] = warp.others.back();
    warp.others.pop_back();
  }
}

// Lets the group at the lowest place run that is not blocked; false if all are.
bool choose_lowest(Warp &warp) {
  Group *best = warp.now.waits ? nullptr : &warp.now;
  for (Group &group : warp.others)
    if (!group.waits && (!best || group.pc < best->pc)) best = &group;
  if (best && best != &warp.now) std::swap(*best, warp.now);
  if (best) join(warp);
  return best != nullptr;
}

u32 next_meeting(const Warp &warp) { // the lowest place after the running group's at which others are
  u32 place = NOWHERE;
  for (const Group &group : warp.others)
    if (group.pc > warp.now.pc) place = std::min(place, group.pc);
  return place;
}
} // namespace

bool together(Machine &, Warp &warp, u32 members, u32 active) {
  const u32 needed = members & ~warp.exited;
  if (const u32 skipping = needed & warp.now.mask & ~active)
    throw Fault(fault::DIVERGENCE, "lanes " + hex(skipping) + " are members and do not execute it: its guard is false",
                u32(__builtin_ctz(skipping)));
  warp.now.parted = needed & ~warp.now.mask;
  return !warp.now.parted;
}

// Instructions of the running group, until it jumps while lanes are apart, reaches `stop`, is blocked, or has spent
// the turn (Next).
Outcome Machine::straight(Warp &warp, u64 &budget, u32 stop) {
  const Insn *const code = warp.code, *const end = stop == NOWHERE ? nullptr : code + stop;
  const Insn *insn = code + warp.now.pc;
  const u32 *const registers = warp.registers;
  u32 mask = warp.now.mask;
  u64 left = budget;
  Outcome outcome = Outcome::Next;
  do {
    u32 active = mask;
    if (insn->guard >= 0) {
      const u32 predicate = registers[insn->guard >> 1];
      active &= insn->guard & 1 ? ~predicate : predicate;
      if (!active) {
        ++insn;
        continue;
      }
    }
    warp.now.pc = u32(insn - code);
    outcome = insn->run(*this, warp, *insn, active);
    if (__builtin_expect(outcome == Outcome::Next, 1)) {
      ++insn;
      continue;
    }
    if (outcome == Outcome::Yield) {
      ++insn;
      --left;
      break;
    }
    if (outcome != Outcome::Jumped) {
      budget = left;
      return outcome;
    }
    insn = code + warp.now.pc;
    mask = warp.now.mask;
    if (!warp.others.empty()) {
      --left;
      break;
    }
  } while (--left && insn != end);
  warp.now.pc = u32(insn - code);
  budget = left;
  return outcome;
}

Machine::Turn Machine::execute(Warp &warp, u64 budget) {
  const u64 whole = budget;
  const Turn result = take_turn(warp, budget);
  counts.instructions += whole - budget + (result == Turn::Done);
  return result;
}

Machine::Turn Machine::take_turn(Warp &warp, u64 &budget) {
  bool lowest_first = true;
  if (!warp.others.empty()) {
    warp.now.waits = false;
    for (Group &group : warp.others) group.waits = false;
    lowest_first = !warp.spun && !(adversarial() && random() % 4 == 0);
    if (lowest_first)
      choose_lowest(warp);
    else
      std::swap(warp.now, warp.others[warp.turns % warp.others.size()]);
  }
  ++warp.turns;
  warp.spun = false;
  const u64 whole = budget;
  for (;;) {
    const u32 stop = warp.others.empty() ? NOWHERE : next_meeting(warp);
    const Outcome outcome = straight(warp, budget, stop);
    if (outcome == Outcome::Yield) {
      warp.spun = !warp.others.empty();
      return Turn::Polled;
    }
    if (outcome == Outcome::Ended) {
      if (warp.others.empty()) {
        warp.done = true;
        return Turn::Done;
      }
      warp.now = warp.others.back();
      warp.others.pop_back();
    } else if (outcome == Outcome::Blocked) {
      warp.now.waits = true;
    }
    if (budget == 0) {
      warp.spun = !warp.others.empty();
      return Turn::Spent;
    }
    if (warp.now.waits || outcome == Outcome::Ended || lowest_first) {
      if (!choose_lowest(warp)) return budget == whole ? Turn::Blocked : Turn::Spent;
    } else {
      join(warp);
    }
  }
}
