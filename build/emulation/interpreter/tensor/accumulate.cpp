#include "accumulate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../scalar/formats.h"

namespace {

// The products of a step are added in order, in float32; then the accumulator is added.
void in_order_sums(const Step &step, u32 row, f32 *sums) {
  std::fill(sums, sums + step.columns, 0.0f);
  const f32 *a = step.a + size_t(row) * step.depth;
  for (u32 k = 0; k < step.depth; ++k) {
    const f32 left = a[k];
    const f32 *b = step.b + size_t(k) * step.columns;
    for (u32 column = 0; column < step.columns; ++column) sums[column] += left * b[column];
  }
}

void accumulate(const Step &step) {
  std::vector<f32> sums(step.columns);
  for (u32 row = 0; row < step.rows; ++row) {
    in_order_sums(step, row, sums.data());
    f32 *d = step.d + size_t(row) * step.pitch;
    for (u32 column = 0; column < step.columns; ++column) d[column] += sums[column];
  }
}

void accumulate_rounded(const Step &step) {
  accumulate(step);
  for (u32 row = 0; row < step.rows; ++row) {
    f32 *d = step.d + size_t(row) * step.pitch;
    for (u32 column = 0; column < step.columns; ++column) d[column] = f16_value(f16_nearest(d[column]));
  }
}

} // namespace

void accumulate_f16(const Step &step) { accumulate(step); }
void accumulate_bf16(const Step &step) { accumulate(step); }
void accumulate_tf32(const Step &step) { accumulate(step); }
void accumulate_f8(const Step &step) { accumulate(step); }
void accumulate_to_f16(const Step &step) { accumulate_rounded(step); }
void accumulate_f8_to_f16(const Step &step) { accumulate_rounded(step); }

void accumulate_scaled(const Step &step, const f32 *scale_a, const f32 *scale_b, u32 blocks) {
  const u32 block = step.depth / blocks;
  std::vector<f32> sums(step.columns);
  for (u32 row = 0; row < step.rows; ++row) {
    f32 *d = step.d + size_t(row) * step.pitch;
    for (u32 which = 0; which < blocks; ++which) {
      Step part = step;
      part.depth = block;
      part.a = step.a + size_t(row) * step.depth + which * block;
      part.b = step.b + size_t(which) * block * step.columns;
      in_order_sums(part, 0, sums.data());
      const f32 left = scale_a[size_t(row) * blocks + which];
      const f32 *right = scale_b + size_t(which) * step.columns;
      for (u32 column = 0; column < step.columns; ++column) d[column] += sums[column] * (left * right[column]);
    }
  }
}

void accumulate_s32(const IntegerStep &step) {
  Step sums{Unit::Mma, 1, step.columns, step.depth, step.a, step.b, nullptr, 0};
  std::vector<f32> row_sums(step.columns);
  for (u32 row = 0; row < step.rows; ++row) {
    in_order_sums(sums, row, row_sums.data());
    s32 *d = step.d + size_t(row) * step.pitch;
    for (u32 column = 0; column < step.columns; ++column) {
      const s64 sum = s64(d[column]) + s64(row_sums[column]);
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
