#include "approximate.h"

#include <cmath>

#include "parabola.h"

s64 parabola(const Segment &segment, u32 place) {
  static const TruncatedSquares squares;
  return segment.base + s64(segment.slope) * place + s64(segment.curve) * squares[place];
}

namespace {

constexpr u32 PLACE = (1 << 17) - 1, MANTISSA = 0x7fffff, INFINITE = 0x7f800000, NOT_A_NUMBER = 0x7fffffff;

f32 infinity() { return f32_of(INFINITE); }
f32 nan() { return f32_of(NOT_A_NUMBER); }
f32 with_sign(f32 magnitude, u32 of) { return f32_of(bits_of(magnitude) | (of & 0x80000000)); }
u32 magnitude(f32 a) { return bits_of(a) & 0x7fffffff; }

// The units themselves: arguments are normal numbers, and results are never subnormal.

f32 ex2_unit(f32 a) {
  if (a >= 128) return infinity();
  if (a < -126) return 0.0f;
  const u32 whole = u32(std::fabs(a) * 0x1p23);
  int exponent = int(whole >> 23);
  u32 part = whole & MANTISSA;
  if (a < 0) { // the fraction is inverted, not negated
    exponent = part ? -exponent - 1 : -exponent;
    part = part ? MANTISSA - part : 0;
  }
  return towards_zero(u64(parabola(segments::EX2[part >> 17], part & PLACE)), exponent - 40);
}

f32 lg2_unit(f32 a) {
  const u32 bits = bits_of(a), mantissa = bits & MANTISSA;
  const s64 exponent = s64(bits >> 23) - 127;
  if (mantissa == 0 && exponent == 0) return 0.0f;
  const s64 fraction = parabola(segments::LG2[mantissa >> 17], mantissa & PLACE) >> 5; // in units of 2^-36
  const s64 sum = exponent * (1ll << 36) + fraction;
  const f32 result = towards_zero(u64(sum < 0 ? ~sum : sum), -36);
  return sum < 0 ? -result : result;
}

f32 rcp_unit(f32 a) {
  const u32 bits = bits_of(a), mantissa = bits & MANTISSA;
  const s64 sum = parabola(segments::RCP[mantissa >> 16], mantissa << 1 & PLACE);
  return with_sign(towards_zero(u64(sum), 127 - int(bits >> 23 & 0xff) - 41), bits);
}

f32 rsqrt_unit(f32 a) {
  const u32 bits = bits_of(a), mantissa = bits & MANTISSA;
  const int exponent = int(bits >> 23) - 127, half = exponent >> 1;
  const u32 index = (exponent & 1 ? 64 : 0) + (mantissa >> 17);
  if (index == 0 && mantissa == 0) return towards_zero(1, -half);
  return towards_zero(u64(parabola(segments::RSQRT[index], mantissa & PLACE)), -half - 41);
}

f32 sqrt_unit(f32 a) {
  const u32 bits = bits_of(a), mantissa = bits & MANTISSA;
  const int exponent = int(bits >> 23) - 127, half = exponent >> 1;
  const u32 index = (exponent & 1 ? 64 : 0) + (mantissa >> 17);
  return towards_zero(u64(parabola(segments::SQRT[index], mantissa & PLACE)), half - 40);
}

f32 quarter_wave(u64 place, bool falling) { // of 2^23 places
  if (falling) place = MANTISSA - place;
  return towards_zero(u64(parabola(segments::SIN[place >> 17], u32(place) & PLACE)), -41);
}

// Turns of 2^25 places, of the magnitude of an angle; the product with 1 / (2 pi) is cut off.
u64 turns(f32 a) {
  const f32 angle = std::fabs(a);
  f64 product = f64(angle) * f64(0.15915494f);
  product = f64_of(bits_of(product) & ~((1ull << 29) - 1));
  return u64(std::fmod(product, 1.0) * 0x1p25);
}

f32 wave(u64 place) {
  const u64 quarter = place >> 23 & 3;
  const f32 value = quarter_wave(place & MANTISSA, quarter & 1);
  return quarter & 2 ? -value : value;
}

// The unit's answer for zero, infinity and NaN, too; small results are zero.
f32 unscaled_rcp(f32 a) {
  if (magnitude(a) == 0 || magnitude(a) >= INFINITE) return approximate::rcp(a);
  return rcp_unit(a);
}

// float64 goes through the same tables by its 20 upper bits of mantissa, and so do results.
f32 short_mantissa(u64 bits, u32 exponent) { return f32_of(exponent << 23 | (u32(bits >> 32) & 0xfffff) << 3); }

f64 upper_half(f64 a) { return f64_of(bits_of(a) & ~0xffffffffull); }

f64 widened(f32 a, int exponent) {
  const u64 bits = bits_of(f64(a)) & ~0xffffffffull;
  const int field = int(bits >> 52) + exponent;
  return field <= 0 ? 0.0 : f64_of(u64(field) << 52 | (bits & 0xfffffffffffffull));
}

} // namespace

namespace approximate {

f32 ex2(f32 a) {
  if (a != a) return nan();
  if (a >= -126) return ex2_unit(a);
  const f32 root = ex2_unit(a * 0.5f);
  return root * root;
}

f32 lg2(f32 a) {
  if (magnitude(a) == 0) return -infinity();
  if (a != a || a < 0) return nan();
  if (a == infinity()) return a;
  return magnitude(a) < 0x800000 ? lg2_unit(a * 0x1p24f) - 24 : lg2_unit(a);
}

f32 rcp(f32 a) {
  if (a != a) return nan();
  if (magnitude(a) == INFINITE) return with_sign(0.0f, bits_of(a));
  if (magnitude(a) == 0) return with_sign(infinity(), bits_of(a));
  if (magnitude(a) < 0x800000) return rcp_unit(a * 0x1p24f) * 0x1p24f;
  if (magnitude(a) > 0x7e800000) return rcp_unit(a * 0.25f) * 0.25f;
  return rcp_unit(a);
}

f32 rsqrt(f32 a) {
  if (magnitude(a) == 0) return with_sign(infinity(), bits_of(a));
  if (a != a || a < 0) return nan();
  if (a == infinity()) return 0.0f;
  return magnitude(a) < 0x800000 ? rsqrt_unit(a * 0x1p24f) * 0x1p12f : rsqrt_unit(a);
}

f32 sqrt(f32 a) {
  if (magnitude(a) == 0) return a;
  if (a != a || a < 0) return nan();
  if (a == infinity()) return a;
  return magnitude(a) < 0x800000 ? sqrt_unit(a * 0x1p24f) * 0x1p-12f : sqrt_unit(a);
}

f32 sin(f32 a) {
  if (a != a || magnitude(a) == INFINITE) return nan();
  return with_sign(1.0f, bits_of(a)) * wave(turns(a));
}

f32 cos(f32 a) {
  if (a != a || magnitude(a) == INFINITE) return nan();
  return wave(turns(a) + (1u << 23));
}

f32 tanh(f32 a) {
  if (a != a) return nan();
  const u32 bits = bits_of(a), mantissa = bits & MANTISSA;
  const int exponent = int(bits >> 23 & 0xff) - 127;
  if (exponent < -8) return a;
  if (exponent > 2) return with_sign(1.0f, bits);
  // For exponents from -8 on: how many bits of the mantissa choose the segment, and which is the first one.
  constexpr struct {
    u8 bits, first;
  } CHOICES[] = {{0, 0}, {0, 1}, {0, 2}, {1, 3}, {1, 5}, {2, 7}, {2, 11}, {2, 15}, {3, 19}, {4, 27}, {3, 43}};
  const auto choice = CHOICES[exponent + 8];
  const u32 index = choice.first + (mantissa >> (23 - choice.bits)), place = mantissa >> (6 - choice.bits) & PLACE;
  const int unit = exponent < 0 ? exponent - 23 : -24;
  return with_sign(towards_zero(u64(parabola(segments::TANH[index], place)), unit - 17), bits);
}

f32 div(f32 a, f32 b) {
  if (magnitude(b) < 0x800000) return a * 0x1p24f * unscaled_rcp(b * 0x1p24f);
  return a * unscaled_rcp(b);
}

f32 div_full(f32 a, f32 b) {
  if (magnitude(b) > 0x7e800000) return a * 0.25f * unscaled_rcp(b * 0.25f);
  return div(a, b);
}

f64 rcp_wide(f64 whole) {
  const f64 a = upper_half(whole);
  const u64 bits = bits_of(a), sign = bits & 1ull << 63;
  const int exponent = int(bits >> 52 & 0x7ff);
  if (a != a) return f64_of(u64(NOT_A_NUMBER) << 32);
  if (exponent == 0x7ff) return f64_of(sign);
  if (exponent == 0) return f64_of(sign | 0x7ffull << 52);
  return f64_of(sign | bits_of(widened(rcp_unit(short_mantissa(bits, 127)), 1023 - exponent)));
}

f64 rsqrt_wide(f64 whole) {
  const f64 a = upper_half(whole);
  const u64 bits = bits_of(a);
  const int exponent = int(bits >> 52 & 0x7ff);
  if (exponent == 0 && a == a) return f64_of((bits & 1ull << 63) | 0x7ffull << 52);
  if (a != a || a < 0) return f64_of(u64(NOT_A_NUMBER) << 32);
  if (exponent == 0x7ff) return 0.0;
  const int odd = (exponent - 1023) & 1;
  return widened(rsqrt_unit(short_mantissa(bits, u32(127 + odd))), -((exponent - 1023 - odd) / 2));
}

u32 f16_cut_off(f32 a) {
  if (a >= 65536) return 0x7c00;
  return code_of(format::F16, a, {Rounding::Zero, false, false});
}
u32 bf16_cut_off(f32 a) { return a != a ? 0x7fff : bits_of(a) >> 16; }

} // namespace approximate
