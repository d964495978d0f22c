// Arithmetic of float16 and bfloat16: exact, then rounded once.
#pragma once
#include "extremes.h"

// A float32 of which rounding to 16 bits gives what rounding `value` would: cut off, with the last bit set if something
// was.
inline f32 to_odd_f32(f64 value) {
  const f32 near = f32(value);
  const f64 back = near;
  const u32 bits = bits_of(near);
  const bool inexact = back < value || back > value;
  const bool below = __builtin_fabs(back) < __builtin_fabs(value);
  return f32_of(inexact && !(bits & 1) ? (below ? bits + 1 : bits - 1) : bits);
}

// a + b, likewise as a float64.
inline f64 sum_to_odd(f64 a, f64 b) {
  const f64 sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
  const u64 bits = bits_of(sum);
  const bool inexact = error < 0 || error > 0;
  const bool below = (error > 0) == (sum > 0);
  return f64_of(inexact && !(bits & 1) ? (below ? bits + 1 : bits - 1) : bits);
}

struct F16 {
  static constexpr u32 ONE = 0x3c00;
  static f32 value(u32 code) { return f16_value(code & 0xffff); }
  static u32 code(f32 value) { return f16_nearest(value); }
  static u32 flushed(u32 code) { return code & 0x7c00 ? code : code & 0x8000; }
};
struct BF16 {
  static constexpr u32 ONE = 0x3f80;
  static f32 value(u32 code) { return bf16_value(code & 0xffff); }
  static u32 code(f32 value) { return bf16_nearest(value); }
  static u32 flushed(u32 code) { return code & 0x7f80 ? code : code & 0x8000; }
};

template <class H> inline u32 half_add(u32 a, u32 b) { return H::code(H::value(a) + H::value(b)); }
template <class H> inline u32 half_sub(u32 a, u32 b) { return H::code(H::value(a) - H::value(b)); }
template <class H> inline u32 half_mul(u32 a, u32 b) {
  return H::code(to_odd_f32(f64(H::value(a)) * f64(H::value(b))));
}
template <class H> inline u32 half_fma(u32 a, u32 b, u32 c) {
  return H::code(to_odd_f32(sum_to_odd(f64(H::value(a)) * f64(H::value(b)), f64(H::value(c)))));
}
template <class H, bool LARGER> inline u32 half_extreme(u32 a, u32 b, bool nan_decides, bool xorsign) {
  const u32 sign = xorsign ? (a ^ b) & 0x8000 : 0, keep = xorsign ? 0x7fff : 0xffff;
  const f32 x = H::value(a & keep), y = H::value(b & keep);
  const f32 result = nan_decides ? extreme<f32, true, LARGER>(x, y) : extreme<f32, false, LARGER>(x, y);
  return (H::code(result) & keep) | sign;
}
