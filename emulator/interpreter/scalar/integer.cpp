// Integer arithmetic. Sums and products wrap, so one operation serves signed and unsigned where the bits are the same.
#include "elementwise.h"

namespace {
template <class T> T high_product(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using Twice = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return T(Twice(a) * Twice(b) >> 64);
  } else {
    using Twice = std::conditional_t<std::is_signed_v<T>, s64, u64>;
    return T(Twice(a) * Twice(b) >> (sizeof(T) * 8));
  }
}

// What the hardware gives for division by zero is not defined in PTX; on GPUs since Volta all bits are set, and the
// remainder is the dividend.
template <class T> T quotient(T a, T b) {
  if (b == 0) return T(~T(0));
  if (std::is_signed_v<T> && b == T(-1)) return T(std::make_unsigned_t<T>(0) - std::make_unsigned_t<T>(a));
  return T(a / b);
}
template <class T> T remainder(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed_v<T> && b == T(-1)) return 0;
  return T(a % b);
}

s32 saturate(s64 value) { return s32(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value); }

template <class T> T magnitude(T a) {
  using U = std::make_unsigned_t<T>;
  return a < 0 ? T(U(0) - U(a)) : a;
}
u32 relu(s32 a) { return a < 0 ? 0 : u32(a); }
} // namespace

#define WRAPPING(T)                                                                                                    \
  BINARY(add_##T, T, T, T, T(a + b))                                                                                   \
  BINARY(sub_##T, T, T, T, T(a - b))                                                                                   \
  BINARY(mul_lo_##T, T, T, T, T(u64(a) * u64(b)))                                                                      \
  TERNARY(mad_lo_##T, T, T, T, T, T(u64(a) * u64(b) + u64(c)))                                                         \
  UNARY(neg_##T, T, T, T(0u - a))
// clang-format off: these are no declarations
WRAPPING(u16)
WRAPPING(u32)
WRAPPING(u64)
// clang-format on

#define SIGNED_OR_NOT(T)                                                                                               \
  BINARY(min_##T, T, T, T, a < b ? a : b)                                                                              \
  BINARY(max_##T, T, T, T, a > b ? a : b)                                                                              \
  BINARY(mul_hi_##T, T, T, T, high_product(a, b))                                                                      \
  TERNARY(mad_hi_##T, T, T, T, T, T(std::make_unsigned_t<T>(high_product(a, b)) + std::make_unsigned_t<T>(c)))         \
  BINARY(div_##T, T, T, T, quotient(a, b))                                                                             \
  BINARY(rem_##T, T, T, T, remainder(a, b))
// clang-format off: these are no declarations
SIGNED_OR_NOT(u16)
SIGNED_OR_NOT(s16)
SIGNED_OR_NOT(u32)
SIGNED_OR_NOT(s32)
SIGNED_OR_NOT(u64)
SIGNED_OR_NOT(s64)
// clang-format on

#define WIDENING(T, W)                                                                                                 \
  BINARY(mul_wide_##T, W, T, T, W(W(a) * W(b)))                                                                        \
  TERNARY(mad_wide_##T, W, T, T, W, W(std::make_unsigned_t<W>(W(a) * W(b)) + std::make_unsigned_t<W>(c)))
// clang-format off: these are no declarations
WIDENING(u16, u32)
WIDENING(s16, s32)
WIDENING(u32, u64)
WIDENING(s32, s64)

UNARY(abs_s16, s16, s16, magnitude(a))
UNARY(abs_s32, s32, s32, magnitude(a))
UNARY(abs_s64, s64, s64, magnitude(a))

BINARY(add_sat_s32, s32, s32, s32, saturate(s64(a) + b))
BINARY(sub_sat_s32, s32, s32, s32, saturate(s64(a) - b))
TERNARY(mad_hi_sat_s32, s32, s32, s32, s32, saturate(s64(high_product(a, b)) + c))
BINARY(min_relu_s32, u32, s32, s32, relu(a < b ? a : b))
BINARY(max_relu_s32, u32, s32, s32, relu(a > b ? a : b))
// clang-format on

#define SAD(T) TERNARY(sad_##T, T, T, T, T, T(T(a < b ? T(b - a) : T(a - b)) + c))
// clang-format off: these are no declarations
SAD(u16)
SAD(u32)
SAD(u64)
SAD(s16)
SAD(s32)
SAD(s64)
// clang-format on

// mul24 and mad24 take the lower 24 bits of their operands.
#define LOW24(T)                                                                                                       \
  BINARY(mul24_lo_##T, u32, T, T, u32(s64(T(u32(a) << 8) >> 8) * s64(T(u32(b) << 8) >> 8)))                            \
  BINARY(mul24_hi_##T, u32, T, T, u32(s64(T(u32(a) << 8) >> 8) * s64(T(u32(b) << 8) >> 8) >> 16))                      \
  TERNARY(mad24_lo_##T, u32, T, T, u32, u32(s64(T(u32(a) << 8) >> 8) * s64(T(u32(b) << 8) >> 8)) + c)                  \
  TERNARY(mad24_hi_##T, u32, T, T, u32, u32(s64(T(u32(a) << 8) >> 8) * s64(T(u32(b) << 8) >> 8) >> 16) + c)
// clang-format off: these are no declarations
LOW24(u32)
LOW24(s32)
// clang-format on
