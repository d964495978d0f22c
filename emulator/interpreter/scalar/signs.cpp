// Signs, the smaller and the larger of floats, and their classes.
#include "elementwise.h"
#include "extremes.h"

namespace {
bool in_class(f64 value, u64 magnitude, bool subnormal, s64 which) {
  switch (which) {
  case 0:
    return __builtin_isfinite(value);
  case 1:
    return __builtin_isinf(value);
  case 2:
    return !__builtin_isnan(value);
  case 3:
    return __builtin_isnan(value);
  case 4:
    return __builtin_isfinite(value) && magnitude && !subnormal;
  default:
    return subnormal;
  }
}
} // namespace

#define EXTREMES(SUFFIX, T)                                                                                            \
  BINARY(min_##SUFFIX, T, T, T, (smaller<T, false>(a, b)))                                                             \
  BINARY(max_##SUFFIX, T, T, T, (larger<T, false>(a, b)))                                                              \
  BINARY(min_nan_##SUFFIX, T, T, T, (smaller<T, true>(a, b)))                                                          \
  BINARY(max_nan_##SUFFIX, T, T, T, (larger<T, true>(a, b)))
EXTREMES(f32, f32)
EXTREMES(f64, f64)
#define FLUSHED_EXTREMES(NAME, F, NAN)                                                                                 \
  BINARY(NAME##_ftz_f32, f32, f32, f32, (F<f32, NAN>(flushed(a), flushed(b))))                                         \
  BINARY(NAME##_xorsign_f32, f32, f32, f32, with_sign(a, b, F<f32, NAN>))                                              \
  BINARY(NAME##_ftz_xorsign_f32, f32, f32, f32, with_sign(flushed(a), flushed(b), F<f32, NAN>))
FLUSHED_EXTREMES(min, smaller, false)
FLUSHED_EXTREMES(max, larger, false)
FLUSHED_EXTREMES(min_nan, smaller, true)
FLUSHED_EXTREMES(max_nan, larger, true)

UNARY(neg_f32, u32, u32, a ^ 0x80000000u)
UNARY(abs_f32, u32, u32, a & 0x7fffffffu)
UNARY(neg_ftz_f32, f32, f32, -flushed(a))
UNARY(abs_ftz_f32, f32, f32, absolute(flushed(a)))
UNARY(neg_f64, u64, u64, a ^ 1ull << 63)
UNARY(abs_f64, u64, u64, a & ~(1ull << 63))
UNARY(flush_f32, f32, f32, flushed(a))
UNARY(saturate_f32, f32, f32, saturated(a))
BINARY(copysign_f32, u32, u32, u32, (a & 0x80000000u) | (b & 0x7fffffffu)) // the sign of a, the rest of b
BINARY(copysign_f64, u64, u64, u64, (a & 1ull << 63) | (b & ~(1ull << 63)))

// testp: finite, infinite, number, notanumber, normal, subnormal, by `immediate`.
OPERATION(testp_f32) {
  const u32 *a = warp.word(insn.a[1]);
  const u32 result = bits([=](u32 lane) {
    const u32 magnitude = a[lane] & 0x7fffffff;
    return in_class(f64(f32_of(a[lane])), magnitude, magnitude && magnitude < 0x00800000, insn.immediate);
  });
  set_predicate(warp, insn.a[0], result, active);
  return Outcome::Next;
}
OPERATION(testp_f64) {
  const u64 *a = warp.wide(insn.a[1]);
  const u32 result = bits([=](u32 lane) {
    const u64 magnitude = a[lane] & ~(1ull << 63);
    return in_class(f64_of(a[lane]), magnitude, magnitude && magnitude < 1ull << 52, insn.immediate);
  });
  set_predicate(warp, insn.a[0], result, active);
  return Outcome::Next;
}
