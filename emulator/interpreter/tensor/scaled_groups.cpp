#include "scaled_groups.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "aligned_sum.h"

namespace {

constexpr u32 GROUP = 16;
constexpr int BITS = 35;                     // that are kept below the greatest exponent
constexpr int SCALE_DIGITS = 3;              // of ue4m3; ue8m0 has none
constexpr int DIGITS = 2 + 2 * SCALE_DIGITS; // sums of products of e2m1 are quarters

s64 cut(s64 value, int lift, int below) {
  const s64 magnitude = (value < 0 ? -value : value) << lift >> std::min(below, 62);
  return value < 0 ? -magnitude : magnitude;
}

struct Groups { // of a row of A with all columns of B
  std::vector<f32> sums;
  std::vector<s32> greatest;
  std::vector<s64> total;
  explicit Groups(u32 columns) : sums(columns), greatest(columns), total(columns) {}
};

void sum_group(const Step &step, u32 row, u32 first, Groups &to) {
  std::fill(to.sums.begin(), to.sums.end(), 0.0f);
  for (u32 k = first; k < first + GROUP; ++k) {
    const f32 left = step.a[size_t(row) * step.depth + k], *right = step.b + size_t(k) * step.columns;
    for (u32 j = 0; j < step.columns; ++j) to.sums[j] += left * right[j];
  }
}

} // namespace

void scaled_groups(const Step &step, const f32 *scale_a, const f32 *scale_b, u32 blocks) {
  const u32 block = step.depth / blocks;
  Terms left, right, c;
  left.decode(scale_a, step.rows * blocks, SCALE_DIGITS, -127);
  right.decode(scale_b, step.columns * blocks, SCALE_DIGITS, -127);
  Groups groups(step.columns);
  for (u32 row = 0; row < step.rows; ++row) {
    f32 *d = step.d + size_t(row) * step.pitch;
    c.decode(d, step.columns, 23, -126);
    groups.greatest = c.exponent;
    for (u32 which = 0; which < blocks; ++which)
      for (u32 j = 0; j < step.columns; ++j)
        groups.greatest[j] = std::max(groups.greatest[j],
                                      left.exponent[row * blocks + which] + right.exponent[which * step.columns + j]);
    for (u32 j = 0; j < step.columns; ++j)
      groups.total[j] = cut(s64(c.significand[j]), BITS - 23, groups.greatest[j] - c.exponent[j]);
    for (u32 k = 0; k < step.depth; k += GROUP) {
      sum_group(step, row, k, groups);
      const u32 at = row * blocks + k / block;
      for (u32 j = 0; j < step.columns; ++j) {
        const u32 other = k / block * step.columns + j;
        const s64 term = s64(groups.sums[j] * 4 * left.significand[at] * right.significand[other]);
        groups.total[j] += cut(term, BITS - DIGITS, groups.greatest[j] - left.exponent[at] - right.exponent[other]);
      }
    }
    for (u32 j = 0; j < step.columns; ++j) {
      bool nan = std::isnan(d[j]);
      for (u32 which = 0; which < blocks; ++which)
        nan |= std::isnan(scale_a[row * blocks + which]) || std::isnan(scale_b[which * step.columns + j]);
      if (nan)
        d[j] = f32_of(0x7fffffff);
      else if (!std::isinf(d[j]))
        d[j] = cut_off(f64(groups.total[j]), groups.greatest[j] - BITS, 23);
    }
  }
}
