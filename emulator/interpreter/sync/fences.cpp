// Fences order nothing here: memory is the same for all. They matter to the check of races.
#include "races.h"

// a: order, scope
OPERATION(FENCE) {
  if (Races *races = machine.races()) races->fence(warp.agent, Order(insn.a[0]), Scope(insn.a[1]));
  return Outcome::Next;
}

// a: whether it covers shared memory, and global memory
OPERATION(FENCE_PROXY_ASYNC) {
  if (Races *races = machine.races()) races->proxy_fence(warp.agent, insn.a[0], insn.a[1]);
  return Outcome::Next;
}

OPERATION(FENCE_MBARRIER_INIT) {
  if (Races *races = machine.races()) races->mbarrier_fence(warp.agent);
  return Outcome::Next;
}

// What only performance or the registers of the assembler's making depend on.
OPERATION(NO_EFFECT) { return Outcome::Next; }

// What a whole warp executes together, without an effect here.
OPERATION(NO_EFFECT_ALIGNED) { return together(machine, warp, ALL_LANES, active) ? Outcome::Next : Outcome::Blocked; }

OPERATION(NANOSLEEP) { return Outcome::Yield; }
