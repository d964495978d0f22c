#include "aligned_sum.h"

#include <algorithm>
#include <cmath>

namespace {

constexpr u32 CHUNK = 16; // so many terms of less than 2^27 fit 32 bits

struct Row { // of results, while it is summed
  std::vector<s32> greatest, part;
  std::vector<f64> sum;
  explicit Row(u32 columns) : greatest(columns), part(columns), sum(columns) {}
};

// The greatest exponent of the products of a row of A with each column of B, and of the accumulators.
void align(const Step &step, const Terms &a, const Terms &b, const Terms &c, const std::vector<u32> &ks, u32 row,
           Row &to) {
  std::copy(c.exponent.begin(), c.exponent.end(), to.greatest.begin());
  for (u32 k : ks) {
    const s32 left = a.exponent[row * step.depth + k];
    const s32 *right = b.exponent.data() + k * step.columns;
    s32 *greatest = to.greatest.data();
    for (u32 j = 0; j < step.columns; ++j) greatest[j] = std::max(greatest[j], left + right[j]);
  }
}

// A whole number times a power of two, cut off to a whole number.
inline s32 cut(f32 whole, int lift) { return s32(whole * f32_of(u32(127 + std::max(lift, -60)) << 23)); }

void add_products(const Step &step, const Terms &a, const Terms &b, int lift, const std::vector<u32> &ks, u32 row,
                  Row &to) {
  const u32 columns = step.columns;
  for (size_t begin = 0; begin < ks.size(); begin += CHUNK) {
    std::fill(to.part.begin(), to.part.end(), 0);
    for (size_t i = begin; i < std::min(ks.size(), begin + CHUNK); ++i) {
      const f32 left = a.significand[row * step.depth + ks[i]];
      const s32 exponent = a.exponent[row * step.depth + ks[i]] + lift;
      if (left == 0) continue;
      const f32 *right = b.significand.data() + size_t(ks[i]) * columns;
      const s32 *exponents = b.exponent.data() + size_t(ks[i]) * columns, *greatest = to.greatest.data();
      s32 *part = to.part.data();
      for (u32 j = 0; j < columns; ++j) part[j] += cut(left * right[j], exponent + exponents[j] - greatest[j]);
    }
    for (u32 j = 0; j < columns; ++j) to.sum[j] += to.part[j];
  }
}

// The accumulator's significand has 23 digits; it is cut off like a product.
void begin_with(const Terms &c, int bits, Row &to) {
  f64 *__restrict sum = to.sum.data();
  const f32 *__restrict whole = c.significand.data();
  const s32 *__restrict exponent = c.exponent.data(), *__restrict greatest = to.greatest.data();
  const size_t columns = to.sum.size();
  for (size_t j = 0; j < columns; ++j) sum[j] = cut(whole[j], bits - 23 + exponent[j] - greatest[j]);
}

// Infinities and NaNs: what the sum is in exact arithmetic. A NaN has one value.
f32 special_sum(const Step &step, const std::vector<u32> &ks, u32 row, u32 column, f32 c, bool f16) {
  f64 sum = c;
  for (u32 k : ks) sum += f64(step.a[row * step.depth + k]) * f64(step.b[k * step.columns + column]);
  if (std::isnan(sum)) return f16 ? f16_value(0x7fff) : f32_of(0x7fffffff);
  return f32(sum);
}

// A power of two moves the exponents of a row or a column.
void scale(Terms &terms, const f32 *scales, u32 lines, u32 length, u32 line_step, u32 step) {
  for (u32 line = 0; line < lines; ++line) {
    const int shift = std::isnan(scales[line]) ? 0 : std::ilogb(scales[line]);
    for (u32 i = 0; i < length; ++i) terms.exponent[line * line_step + i * step] += shift;
  }
}

void nans_of_scales(const Step &step, Scales scales) {
  for (u32 row = 0; row < step.rows; ++row)
    for (u32 j = 0; j < step.columns; ++j)
      if (std::isnan(scales.rows[row]) || std::isnan(scales.columns[j]))
        step.d[size_t(row) * step.pitch + j] = f32_of(0x7fffffff);
}

bool is_special(f32 value) { return (bits_of(value) & 0x7f800000) == 0x7f800000; }

void finish(const Step &step, const Adder &adder, u32 row, const Row &sums) {
  f32 *__restrict d = step.d + size_t(row) * step.pitch;
  const f64 *__restrict sum = sums.sum.data();
  const s32 *__restrict greatest = sums.greatest.data();
  const u32 columns = step.columns;
  const int digits = adder.result == Result::F32 ? 23 : 13, bits = adder.bits;
  if (adder.result == Result::F16)
    for (u32 j = 0; j < columns; ++j)
      d[j] = f16_value(code_of(format::F16, sum[j] * two_to(std::max(greatest[j] - bits, -1000)))) + 0.0f;
  else
    for (u32 j = 0; j < columns; ++j) d[j] = cut_off(sum[j], greatest[j] - bits, digits);
}

// What is infinite or a NaN, after the sums of finite terms.
void finish_special(const Step &step, const std::vector<u32> &ks, u32 row, const std::vector<f32> &before, bool f16) {
  for (u32 j = 0; j < step.columns; ++j) {
    bool special = is_special(before[j]);
    for (u32 k : ks) special |= is_special(step.a[row * step.depth + k]) || is_special(step.b[k * step.columns + j]);
    if (special) step.d[size_t(row) * step.pitch + j] = special_sum(step, ks, row, j, before[j], f16);
  }
}

} // namespace

void Terms::decode(const f32 *values, u32 count, int digits, int least) {
  significand.resize(count);
  exponent.resize(count);
  f32 *__restrict whole_to = significand.data();
  s32 *__restrict exponent_to = exponent.data();
  u32 largest = 0;
  for (u32 i = 0; i < count; ++i) {
    const u32 bits = bits_of(values[i]), field = bits >> 23 & 0xff, mantissa = bits & 0x7fffff;
    largest = std::max(largest, field);
    const s32 own = s32(std::max(field, 1u)) - 127, place = std::max(own, least);
    const s32 whole = s32((mantissa | (field ? 0x800000u : 0u)) >> std::min(23 - digits + place - own, 31));
    whole_to[i] = f32_of(bits_of(f32(whole)) | (bits & 0x80000000));
    exponent_to[i] = whole ? place : NO_EXPONENT;
  }
  special = largest == 0xff;
}

void aligned_sum(const Step &step, const Adder &adder, Take take, Scales scales) {
  std::vector<u32> ks;
  for (u32 k = 0; k < step.depth; ++k)
    if (k % take.period - take.first < take.count) ks.push_back(k);
  Terms a, b, c;
  a.decode(step.a, step.rows * step.depth, adder.digits, adder.least_a);
  b.decode(step.b, step.depth * step.columns, adder.digits, adder.least_b);
  if (scales.rows) {
    scale(a, scales.rows, step.rows, step.depth, step.depth, 1);
    scale(b, scales.columns, step.columns, step.depth, 1, step.columns);
  }
  Row sums(step.columns);
  std::vector<f32> before;
  const bool f16 = adder.result == Result::F16;
  for (u32 row = 0; row < step.rows; ++row) {
    const f32 *d = step.d + size_t(row) * step.pitch;
    c.decode(d, step.columns, 23, f16 ? -14 : -126);
    align(step, a, b, c, ks, row, sums);
    begin_with(c, adder.bits, sums);
    add_products(step, a, b, adder.bits - 2 * adder.digits, ks, row, sums);
    const bool special = a.special || b.special || c.special;
    if (special) before.assign(d, d + step.columns);
    finish(step, adder, row, sums);
    if (special) finish_special(step, ks, row, before, f16);
  }
  if (scales.rows) nans_of_scales(step, scales);
}
