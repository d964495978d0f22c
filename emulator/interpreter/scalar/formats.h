// Short float formats: what a code means, and rounding to a code. Everything is exact: a value is rounded once.
#pragma once
#include <array>
#include <cstring>

#include "../core/program.h"

enum class Specials : u8 { Infinity, NanOnly, None }; // what the largest exponent codes mean
enum class Rounding : u8 { NearestEven, Zero, Down, Up, NearestAway, Stochastic };

struct Format {
  int exponent_bits, mantissa_bits, bias;
  Specials specials;
  bool sign;
  u32 largest; // the code of the largest finite value
  u32 nan;     // the code to which a NaN is rounded; the largest value where the format has no NaN
};

namespace format {
constexpr Format BF16{8, 7, 127, Specials::Infinity, true, 0x7f7f, 0x7fff};
constexpr Format F16{5, 10, 15, Specials::Infinity, true, 0x7bff, 0x7fff};
constexpr Format TF32{8, 10, 127, Specials::Infinity, true, 0x3fbff, 0x3ffff};
constexpr Format F32{8, 23, 127, Specials::Infinity, true, 0x7f7fffff, 0x7fffffff};
constexpr Format E4M3{4, 3, 7, Specials::NanOnly, true, 0x7e, 0x7f};
constexpr Format E5M2{5, 2, 15, Specials::Infinity, true, 0x7b, 0x7f};
constexpr Format E3M2{3, 2, 3, Specials::None, true, 0x1f, 0x1f};
constexpr Format E2M3{2, 3, 1, Specials::None, true, 0x1f, 0x1f};
constexpr Format E2M1{2, 1, 1, Specials::None, true, 0x7, 0x7};
constexpr Format UE8M0{8, 0, 127, Specials::NanOnly, false, 0xfe, 0xff}; // has no zero: its code 0 is 2^-127
constexpr Format UE4M3{4, 3, 7, Specials::NanOnly, false, 0x7e, 0x7f};
} // namespace format

constexpr int least_exponent(const Format &f) { return 1 - f.bias; } // of its smallest normal number

inline u32 bits_of(f32 value) {
  u32 bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline f32 f32_of(u32 bits) {
  f32 value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline u64 bits_of(f64 value) {
  u64 bits;
  std::memcpy(&bits, &value, 8);
  return bits;
}
inline f64 f64_of(u64 bits) {
  f64 value;
  std::memcpy(&value, &bits, 8);
  return value;
}

constexpr f64 power_of_two(int exponent) {
  f64 value = 1;
  for (; exponent > 0; --exponent) value *= 2;
  for (; exponent < 0; ++exponent) value /= 2;
  return value;
}

// The value of a code, for formats of up to 19 bits. It fits float32 exactly.
constexpr f32 value_of(const Format &f, u32 code) {
  const u32 mantissa = code & ((1u << f.mantissa_bits) - 1), top = (1u << f.exponent_bits) - 1;
  const u32 exponent = code >> f.mantissa_bits & top;
  const bool negative = f.sign && (code >> (f.mantissa_bits + f.exponent_bits) & 1);
  const u32 magnitude = code & ((1u << (f.mantissa_bits + f.exponent_bits)) - 1);
  if (f.specials != Specials::None && magnitude > f.largest) {
    if (f.specials == Specials::Infinity && mantissa == 0) return negative ? -__builtin_inff() : __builtin_inff();
    return __builtin_nanf("");
  }
  if (f.mantissa_bits == 0) return f32(power_of_two(int(exponent) - f.bias));
  const u32 significand = exponent ? mantissa | 1u << f.mantissa_bits : mantissa;
  const f64 value = significand * power_of_two((exponent ? int(exponent) : 1) - f.bias - f.mantissa_bits);
  return f32(negative ? -value : value);
}

template <int CODES> constexpr std::array<f32, CODES> values_of(const Format &f) {
  std::array<f32, CODES> values{};
  for (u32 code = 0; code < CODES; ++code) values[code] = value_of(f, code);
  return values;
}

// The values of all codes, for the formats of 8 bits and less.
namespace values {
inline constexpr std::array<f32, 256> E4M3 = values_of<256>(format::E4M3), E5M2 = values_of<256>(format::E5M2),
                                      UE8M0 = values_of<256>(format::UE8M0), UE4M3 = values_of<256>(format::UE4M3);
inline constexpr std::array<f32, 64> E3M2 = values_of<64>(format::E3M2), E2M3 = values_of<64>(format::E2M3);
inline constexpr std::array<f32, 16> E2M1 = values_of<16>(format::E2M1);
} // namespace values

struct Rounded { // how a conversion rounds
  Rounding rounding = Rounding::NearestEven;
  bool satfinite = false; // what is too large, infinities too, becomes the largest finite value
  bool relu = false;      // what is negative, -0 too, becomes 0; a NaN stays one
  u32 random = 0;         // Stochastic: is added to the bits that are cut off, `random_bits` of it from their top
  int random_bits = 16;
};

// The code of the nearest (or next) value. For integers of 64 bits, convert to odd first (`to_odd`).
inline u32 code_of(const Format &f, f64 value, const Rounded &how = {}) {
  const u64 bits = bits_of(value);
  bool negative = bits >> 63;
  const int biased = int(bits >> 52 & 0x7ff);
  u64 significand = bits & ((1ull << 52) - 1);
  if (biased == 0x7ff && significand) return f.nan;
  if (how.relu && negative) return 0;
  const u32 sign = f.sign && negative ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
  if (!f.sign) negative = false;
  const bool up = how.rounding == Rounding::Up, down = how.rounding == Rounding::Down;
  const auto overflow = [&](bool infinite) -> u32 {
    const bool inward = how.rounding == Rounding::Zero || (up && negative) || (down && !negative);
    if (how.satfinite || f.specials == Specials::None || (inward && !infinite)) return sign | f.largest;
    if (f.specials == Specials::NanOnly) return sign | f.nan;
    return sign | (f.largest + 1);
  };
  if (biased == 0x7ff) return overflow(true);
  if (biased == 0 && significand == 0) return sign;
  int exponent = biased ? biased - 1023 : -1022;
  if (biased) significand |= 1ull << 52;
  const int smallest = f.mantissa_bits ? 1 - f.bias : -f.bias;
  if (exponent > (1 << f.exponent_bits)) return overflow(false);
  int shift = 52 - f.mantissa_bits + (exponent < smallest ? smallest - exponent : 0);
  if (shift > 62) { // less than any quarter of the smallest value: only whether there is something matters
    significand = 1;
    shift = 62;
  }
  const u64 kept = significand >> shift, rest = significand & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  u64 code = exponent < smallest ? kept
                                 : (u64(exponent - smallest + (f.mantissa_bits ? 1 : 0)) << f.mantissa_bits) + kept -
                                       (1ull << f.mantissa_bits);
  bool more = false;
  switch (how.rounding) {
  case Rounding::NearestEven:
    more = rest > half || (rest == half && (code & 1));
    break;
  case Rounding::NearestAway:
    more = rest >= half;
    break;
  case Rounding::Zero:
    break;
  case Rounding::Down:
    more = rest && negative;
    break;
  case Rounding::Up:
    more = rest && !negative;
    break;
  case Rounding::Stochastic:
    more = (rest + (u64(how.random) << (shift - how.random_bits))) >> shift;
    break;
  }
  if (f.mantissa_bits == 0 && exponent < smallest) return 0; // UE8M0: what is below 2^-127 becomes it
  code += more;
  return code > f.largest ? overflow(false) : sign | u32(code);
}

// Integers that float64 does not hold: cut off, with the last bit set if something was. Rounding that is then right.
inline f64 to_odd(u64 magnitude, bool negative = false) {
  const int spare = magnitude >> 53 ? 64 - __builtin_clzll(magnitude) - 53 : 0;
  u64 kept = magnitude >> spare;
  if (kept << spare != magnitude) kept |= 1;
  const f64 value = f64(kept) * f64(1ull << spare);
  return negative ? -value : value;
}

// The conversions that kernels do most, without branches, so that loops over lanes vectorise.
inline u32 bf16_nearest(f32 value) {
  const u32 bits = bits_of(value), nan = (bits & 0x7fffffff) > 0x7f800000;
  return nan ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline f32 bf16_value(u32 code) { return f32_of(code << 16); }
inline u32 f16_nearest(f32 value) {
  const u32 bits = bits_of(value), magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
  const u32 small = bits_of(f32_of(magnitude) + 0.5f) - 0x3f000000; // the last bit of 0.5 is that of subnormals
  const u32 normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
  u32 code = magnitude < 0x38800000 ? small : normal;
  code = magnitude >= 0x47800000 ? 0x7c00 : code;
  return magnitude > 0x7f800000 ? 0x7fff : code | sign;
}
inline f32 f16_value(u32 code) {
  const u32 magnitude = (code & 0x7fff) << 13;
  const f32 finite = f32_of(magnitude) * 0x1p112f;
  const u32 special = magnitude > 0x0f800000 ? 0x7fffffffu : 0x7f800000u;
  const u32 bits = magnitude >= 0x0f800000 ? special : bits_of(finite);
  return f32_of(magnitude > 0x0f800000 ? bits : bits | (code & 0x8000) << 16);
}
