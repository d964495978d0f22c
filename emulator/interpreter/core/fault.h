// What a kernel does wrong, thrown where it is seen. The machine adds block, warp and line.
#pragma once
#include <stdexcept>
#include <string>

#include "program.h"

struct Fault : std::runtime_error {
  const char *kind;   // one of the names below
  u32 lane;           // ~0: not one lane's
  u32 line = 0;       // where it is not the line of the instruction under way
  u32 other_line = 0; // of the access that a race is with
  Fault(const char *kind, const std::string &text, u32 lane = ~0u) : std::runtime_error(text), kind(kind), lane(lane) {}
};

namespace fault {
constexpr const char *OUT_OF_BOUNDS = "out of bounds", *MISALIGNED = "misaligned", *READ_ONLY = "write to an input",
                     *RACE = "race", *BARRIER = "barrier", *MBARRIER = "mbarrier", *HANG = "hang",
                     *TENSOR_MEMORY = "tensor memory", *COPY = "copy", *DIVERGENCE = "divergence",
                     *DESCRIPTOR = "descriptor", *LIMIT = "limit", *TRAP = "trap", *UNSUPPORTED = "not emulated";
}

std::string hex(u64 value);
