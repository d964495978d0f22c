#include "reduction.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../scalar/formats.h"

namespace {

[[noreturn]] void absent() { throw Fault(fault::UNSUPPORTED, "a reduction that does not exist for its type"); }

template <class T> T integer(Reduction operation, T a, T b) {
  switch (operation) {
  case Reduction::Add:
    return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
  case Reduction::Min:
    return std::min(a, b);
  case Reduction::Max:
    return std::max(a, b);
  case Reduction::And:
    return a & b;
  case Reduction::Or:
    return a | b;
  case Reduction::Xor:
    return a ^ b;
  case Reduction::Inc:
    return a >= b ? 0 : a + 1;
  case Reduction::Dec:
    return a == 0 || a > b ? b : a - 1;
  }
  absent();
}

// A NaN loses against a number.
template <class T> T real(Reduction operation, T a, T b) {
  switch (operation) {
  case Reduction::Add:
    return a + b;
  case Reduction::Min:
    return std::fmin(a, b);
  case Reduction::Max:
    return std::fmax(a, b);
  default:
    absent();
  }
}

u16 half(Reduction operation, u16 a, u16 b) { return u16(f16_nearest(real(operation, f16_value(a), f16_value(b)))); }
u16 brain(Reduction operation, u16 a, u16 b) {
  return u16(bf16_nearest(real(operation, bf16_value(a), bf16_value(b))));
}
f32 flushed(f32 value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }
f32 flushing(Reduction operation, f32 a, f32 b) { return flushed(real(operation, flushed(a), flushed(b))); }

template <class T> void each(Reduction operation, u8 *to, const u8 *from, u64 bytes, T (*combine)(Reduction, T, T)) {
  for (u64 at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + at, sizeof a);
    std::memcpy(&b, from + at, sizeof b);
    a = combine(operation, a, b);
    std::memcpy(to + at, &a, sizeof a);
  }
}

} // namespace

void reduce(Reduction operation, DataType type, u8 *to, const u8 *from, u64 bytes) {
  switch (type) {
  case DataType::U32:
    return each<u32>(operation, to, from, bytes, integer<u32>);
  case DataType::S32:
    return each<s32>(operation, to, from, bytes, integer<s32>);
  case DataType::U64:
    return each<u64>(operation, to, from, bytes, integer<u64>);
  case DataType::S64:
    return each<s64>(operation, to, from, bytes, integer<s64>);
  case DataType::F16:
    return each<u16>(operation, to, from, bytes, half);
  case DataType::Bf16:
    return each<u16>(operation, to, from, bytes, brain);
  case DataType::F32:
    return each<f32>(operation, to, from, bytes, real<f32>);
  case DataType::F32Ftz:
    return each<f32>(operation, to, from, bytes, flushing);
  case DataType::F64:
    return each<f64>(operation, to, from, bytes, real<f64>);
  default:
    absent();
  }
}
