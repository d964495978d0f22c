// Signs, the smaller and the larger of floats, and their classes.
#include "elementwise.h"
#include "rounding.h"

namespace {
template <class T> struct Bits;
template <> struct Bits<f32> {
  using U = u32;
  static constexpr u32 SIGN = 0x80000000u, NOT_A_NUMBER = NAN_F32;
};
template <> struct Bits<f64> {
  using U = u64;
  static constexpr u64 SIGN = 1ull << 63, NOT_A_NUMBER = 0x7fffffffffffffffull;
};
template <class T> T of(typename Bits<T>::U bits) { return __builtin_bit_cast(T, bits); }
template <class T> typename Bits<T>::U raw(T value) { return __builtin_bit_cast(typename Bits<T>::U, value); }

// -0 is less than +0. One NaN is passed over, unless .NaN says that it decides.
template <class T, bool NAN_DECIDES> T smaller(T a, T b) {
  T result = a < b ? a : b;
  result = a == b ? of<T>(raw(a) | raw(b)) : result;
  result = b != b ? a : result;
  result = a != a ? b : result;
  const bool none = NAN_DECIDES ? a != a || b != b : a != a && b != b;
  return none ? of<T>(Bits<T>::NOT_A_NUMBER) : result;
}
template <class T, bool NAN_DECIDES> T larger(T a, T b) {
  T result = a > b ? a : b;
  result = a == b ? of<T>(raw(a) & raw(b)) : result;
  result = b != b ? a : result;
  result = a != a ? b : result;
  const bool none = NAN_DECIDES ? a != a || b != b : a != a && b != b;
  return none ? of<T>(Bits<T>::NOT_A_NUMBER) : result;
}

f32 absolute(f32 a) { return f32_of(bits_of(a) & 0x7fffffff); }

// .xorsign.abs: of the magnitudes, with the product's sign.
template <class F> f32 with_sign(f32 a, f32 b, F f) {
  const u32 sign = (bits_of(a) ^ bits_of(b)) & 0x80000000u;
  return f32_of((bits_of(f(absolute(a), absolute(b))) & 0x7fffffff) | sign);
}

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
