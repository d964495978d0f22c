// How an operation on floats rounds: bits of `immediate`, and the processor's rounding mode while it runs.
#pragma once
#include <cfenv>

#include "formats.h"

constexpr s64 MODE_MASK = 3, MODE_FTZ = 4, MODE_SAT = 8; // modes: 0 nearest even, 1 zero, 2 down, 3 up

class RoundingMode {
public:
  explicit RoundingMode(s64 mode) {
    static constexpr int MODES[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(MODES[mode & MODE_MASK]);
  }
  ~RoundingMode() { std::fesetround(FE_TONEAREST); }
  RoundingMode(const RoundingMode &) = delete;
};

constexpr u32 NAN_F32 = 0x7fffffff; // the NaN that GPUs give

inline f32 canonical(f32 value) { return value != value ? f32_of(NAN_F32) : value; }
inline f64 canonical(f64 value) { return value; }
inline f32 flushed(f32 value) { // subnormal numbers become zero
  const u32 bits = bits_of(value);
  return f32_of(bits & 0x7f800000 ? bits : bits & 0x80000000);
}
inline f32 saturated(f32 value) { return value >= 1 ? 1.0f : value > 0 ? value : 0.0f; } // a NaN becomes 0
inline f64 saturated(f64 value) { return value >= 1 ? 1.0 : value > 0 ? value : 0.0; }
