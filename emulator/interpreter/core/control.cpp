// Jumps, and the end of threads.
#include "machine.h"

// `immediate` is the instruction that active lanes continue with.
OPERATION(bra) {
  if (const u32 stay = warp.now.mask & ~active) {
    Group group;
    group.pc = warp.now.pc + 1;
    group.mask = stay;
    group.effect = warp.now.effect;
    warp.others.push_back(group);
    warp.now.mask = active;
  }
  warp.now.pc = u32(insn.immediate);
  return Outcome::Jumped;
}

// brx.idx: a[0] is the register of the index, a[1] and a[2] the list of instructions in the pool.
OPERATION(brx) {
  const u32 *index = warp.word(insn.a[0]);
  const s32 *targets = machine.grid_of(warp).launch->program->pool + insn.a[1];
  const u32 count = u32(insn.a[2]);
  const u32 stay = warp.now.mask & ~active;
  const auto part = [&](u32 pc, u32 mask) {
    Group group;
    group.pc = pc;
    group.mask = mask;
    group.effect = warp.now.effect;
    warp.others.push_back(group);
  };
  if (stay) part(warp.now.pc + 1, stay);
  u32 left = active;
  while (left) {
    const u32 lane = u32(__builtin_ctz(left)), choice = index[lane];
    if (choice >= count)
      throw Fault(fault::DIVERGENCE, "a jump to target " + std::to_string(choice) + " of " + std::to_string(count),
                  lane);
    u32 same = 0;
    for (u32 i = lane; i < LANES; ++i)
      if (left >> i & 1 && index[i] == choice) same |= 1u << i;
    left &= ~same;
    if (left) {
      part(u32(targets[choice]), same);
    } else {
      warp.now.pc = u32(targets[choice]);
      warp.now.mask = same;
    }
  }
  return Outcome::Jumped;
}

OPERATION(exit) {
  warp.exited |= active;
  EACH_LANE(lane) warp.effects[lane] = warp.now.effect;
  warp.now.mask &= ~active;
  ++machine.changes;
  if (!warp.now.mask) return Outcome::Ended;
  ++warp.now.pc;
  return Outcome::Jumped;
}

OPERATION(trap) { throw Fault(fault::TRAP, "the kernel executes trap", u32(__builtin_ctz(active))); }
OPERATION(nothing) { return Outcome::Next; }
OPERATION(nanosleep) { return Outcome::Yield; }

bool may_reach(const Program &program, u32 from, u32 to) {
  std::vector<bool> seen(program.instructions);
  std::vector<u32> pending{from};
  while (!pending.empty()) {
    const u32 at = pending.back();
    pending.pop_back();
    if (at >= program.instructions || seen[at]) continue;
    if (at == to) return true;
    seen[at] = true;
    const Insn &insn = program.code[at];
    const bool jumps = insn.run == bra_operation, chooses = insn.run == brx_operation;
    if (jumps) pending.push_back(u32(insn.immediate));
    for (s32 i = 0; chooses && i < insn.a[2]; ++i) pending.push_back(u32(program.pool[insn.a[1] + i]));
    if (insn.guard >= 0 || !(jumps || chooses || insn.run == exit_operation)) pending.push_back(at + 1);
  }
  return false;
}
