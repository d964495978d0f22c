// The smaller and the larger of two floats.
#pragma once
#include "rounding.h"

template <class T> struct FloatBits;
template <> struct FloatBits<f32> {
  using U = u32;
  static constexpr u32 NOT_A_NUMBER = NAN_F32;
};
template <> struct FloatBits<f64> {
  using U = u64;
  static constexpr u64 NOT_A_NUMBER = 0x7fffffffffffffffull;
};
template <class T> inline T float_of(typename FloatBits<T>::U bits) { return __builtin_bit_cast(T, bits); }
template <class T> inline typename FloatBits<T>::U raw_bits(T value) {
  return __builtin_bit_cast(typename FloatBits<T>::U, value);
}

// -0 is less than +0. One NaN is passed over, unless .NaN says that it decides.
template <class T, bool NAN_DECIDES, bool LARGER> inline T extreme(T a, T b) {
  T result = (LARGER ? a > b : a < b) ? a : b;
  result = a == b ? float_of<T>(LARGER ? raw_bits(a) & raw_bits(b) : raw_bits(a) | raw_bits(b)) : result;
  result = b != b ? a : result;
  result = a != a ? b : result;
  const bool none = NAN_DECIDES ? a != a || b != b : a != a && b != b;
  return none ? float_of<T>(FloatBits<T>::NOT_A_NUMBER) : result;
}
template <class T, bool NAN_DECIDES> inline T smaller(T a, T b) { return extreme<T, NAN_DECIDES, false>(a, b); }
template <class T, bool NAN_DECIDES> inline T larger(T a, T b) { return extreme<T, NAN_DECIDES, true>(a, b); }

inline f32 absolute(f32 a) { return f32_of(bits_of(a) & 0x7fffffff); }

// .xorsign.abs: of the magnitudes, with the product's sign.
template <class F> inline f32 with_sign(f32 a, f32 b, F f) {
  const u32 sign = (bits_of(a) ^ bits_of(b)) & 0x80000000u;
  return f32_of((bits_of(f(absolute(a), absolute(b))) & 0x7fffffff) | sign);
}
