// Operations: each registers itself by the name that the lowering uses. `OPERATION(NAME) { ... return Outcome::Next; }`
#pragma once
#include <vector>

#include "program.h"

struct Operation {
  const char *name;
  Handler run;
};
std::vector<Operation> &operations(); // in the order of registration; Python asks for names and numbers

struct Registration {
  Registration(const char *name, Handler run) { operations().push_back({name, run}); }
};

#define OPERATION(NAME)                                                                                                \
  static Outcome NAME##_operation(Machine &, Warp &, const Insn &, u32);                                               \
  static const Registration NAME##_registration{#NAME, NAME##_operation};                                              \
  static Outcome NAME##_operation([[maybe_unused]] Machine &machine, [[maybe_unused]] Warp &warp,                      \
                                  [[maybe_unused]] const Insn &insn, [[maybe_unused]] u32 active)

// For each active lane.
#define EACH_LANE(lane)                                                                                                \
  for (u32 lane##_left = active, lane; lane##_left && ((lane = u32(__builtin_ctz(lane##_left))), true);                \
       lane##_left &= lane##_left - 1)
