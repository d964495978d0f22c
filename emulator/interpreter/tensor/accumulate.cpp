#include "accumulate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "aligned_sum.h"
#include "scaled_groups.h"

namespace {

constexpr int WIDE = 25, NARROW = 13; // bits that are kept below the greatest exponent
constexpr int LEAST_F16 = -14, LEAST_F32 = -126;

// float8 as mma.sync gives it on Hopper: two products of float16, of the first and of the second pair of every four
// elements, the sum of which is added to the accumulator.
void converted_to_f16(const Step &step, Result result) {
  std::vector<f32> sums(size_t(step.rows) * step.columns, 0.0f);
  Step inner = step;
  inner.d = sums.data();
  inner.pitch = step.columns;
  const Adder adder{WIDE, 10, LEAST_F16, LEAST_F16, result};
  aligned_sum(inner, adder, {4, 0, 2});
  aligned_sum(inner, adder, {4, 2, 2});
  for (u32 row = 0; row < step.rows; ++row)
    for (u32 j = 0; j < step.columns; ++j) {
      f32 &d = step.d[size_t(row) * step.pitch + j];
      const f32 sum = d + sums[size_t(row) * step.columns + j];
      if (result == Result::F16)
        d = f16_value(f16_nearest(sum));
      else
        d = std::isnan(sum) ? f32_of(0x7fffffff) : sum;
    }
}

void float8(const Step &step, Result wide, Result narrow) {
  if (step.unit == Unit::Mma) return converted_to_f16(step, wide);
  const bool hopper = step.unit == Unit::Wgmma;
  aligned_sum(step, {hopper ? NARROW : WIDE, 3, step.least_a, step.least_b, hopper ? narrow : wide});
}

} // namespace

void accumulate_f16(const Step &step) { aligned_sum(step, {WIDE, 10, LEAST_F16, LEAST_F16, Result::F32}); }
void accumulate_bf16(const Step &step) { aligned_sum(step, {WIDE, 7, LEAST_F32, LEAST_F32, Result::F32}); }
void accumulate_tf32(const Step &step) { aligned_sum(step, {WIDE, 10, LEAST_F32, LEAST_F32, Result::F32}); }
void accumulate_to_f16(const Step &step) { aligned_sum(step, {WIDE, 10, LEAST_F16, LEAST_F16, Result::F16}); }
void accumulate_f8(const Step &step) { float8(step, Result::F32, Result::E8m13); }
void accumulate_f8_to_f16(const Step &step) { float8(step, Result::F16, Result::F16); }

void accumulate_scaled(const Step &step, const f32 *scale_a, const f32 *scale_b, u32 blocks) {
  if (blocks > 1) return scaled_groups(step, scale_a, scale_b, blocks);
  aligned_sum(step, {WIDE, 3, step.least_a, step.least_b, Result::F32}, {}, {scale_a, scale_b});
}

void accumulate_s32(const IntegerStep &step) {
  std::vector<f32> sums(step.columns);
  for (u32 row = 0; row < step.rows; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    const f32 *a = step.a + size_t(row) * step.depth;
    for (u32 k = 0; k < step.depth; ++k) {
      const f32 left = a[k], *b = step.b + size_t(k) * step.columns;
      for (u32 column = 0; column < step.columns; ++column) sums[column] += left * b[column];
    }
    s32 *d = step.d + size_t(row) * step.pitch;
    for (u32 column = 0; column < step.columns; ++column) {
      const s64 sum = s64(d[column]) + s64(sums[column]);
      d[column] = step.saturate ? s32(std::clamp<s64>(sum, INT32_MIN, INT32_MAX)) : s32(u32(sum));
    }
  }
}

void accumulate_f64(const DoubleStep &step) {
  for (u32 row = 0; row < step.rows; ++row)
    for (u32 column = 0; column < step.columns; ++column) {
      f64 &d = step.d[size_t(row) * step.columns + column];
      for (u32 k = 0; k < step.depth; ++k)
        d = std::fma(step.a[size_t(row) * step.depth + k], step.b[size_t(k) * step.columns + column], d);
    }
}
