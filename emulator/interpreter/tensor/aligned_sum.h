// Sums of many products as an adder with a common exponent gives them: each term is cut off to a number of bits below
// the greatest exponent of all terms, and the exact sum of what is left is rounded once.
#pragma once
#include <vector>

#include "accumulate.h"

// Numbers as integers: value = significand * 2^(exponent - digits), with the exponent of a normal number, or the least.
struct Terms {
  std::vector<f32> significand; // whole numbers
  std::vector<s32> exponent;
  bool special = false; // infinities or NaNs are among them
  void decode(const f32 *values, u32 count, int digits, int least);
};

constexpr s32 NO_EXPONENT = -20000; // of a zero, which does not take part in the alignment

enum class Result : u8 { F32, E8m13, F16 }; // float32 cut off; float32 cut off to 13 bits; float16, nearest even

struct Adder {
  int bits;   // that are kept below the greatest exponent
  int digits; // of the significands of A and B
  int least_a, least_b;
  Result result;
};

// D = A * B + D with all of a step's products in one sum, or with those of every fourth pair of K: see `Take`.
struct Take {
  u32 period = 1, first = 0, count = 1; // of each `period` elements along K, those from `first` on
};
struct Scales { // powers of two, one for each row of A and one for each column of B; null: none
  const f32 *rows = nullptr, *columns = nullptr;
};
void aligned_sum(const Step &step, const Adder &adder, Take take = {}, Scales scales = {});

inline f64 two_to(int exponent) { return f64_of(u64(1023 + exponent) << 52); } // for exponents of normal float64

// The value of float32 next to `sum` * 2^`exponent` towards zero, with `digits` bits of fraction; a zero is positive.
// The sum is whole and has less than 53 bits.
inline f32 cut_off(f64 sum, int exponent, int digits) {
  const f64 value = sum * two_to(exponent < -1000 ? -1000 : exponent);
  const f64 normal = f64_of(bits_of(value) & ~0ull << (52 - digits));
  const f64 denormal = __builtin_trunc(value * two_to(126 + digits)) * two_to(-126 - digits);
  return f32(__builtin_fabs(value) < two_to(-126) ? denormal : normal) + 0.0f;
}
