// cvt between integers, and between integers and floats.
#include <cmath>
#include <limits>

#include "elementwise.h"
#include "rounding.h"

namespace {
template <class D, class S> D clamped(S value) {
  using Limits = std::numeric_limits<D>;
  if constexpr (std::is_signed_v<S>) {
    if (value < 0) {
      if (!std::is_signed_v<D>) return 0;
      return s64(value) < s64(Limits::min()) ? Limits::min() : D(value);
    }
  }
  return u64(value) > u64(Limits::max()) ? Limits::max() : D(value);
}

f64 whole(f64 value, s64 mode) {
  switch (mode & MODE_MASK) {
  case 0:
    return std::nearbyint(value);
  case 1:
    return std::trunc(value);
  case 2:
    return std::floor(value);
  default:
    return std::ceil(value);
  }
}

// What does not fit becomes the nearest that does. A NaN becomes 0, or the highest bit for 64 bits.
template <class D> D integer_of(f64 value, s64 mode) {
  using Limits = std::numeric_limits<D>;
  if (value != value) return sizeof(D) == 8 ? D(1ull << 63) : D(0);
  const f64 rounded = whole(value, mode);
  if (rounded <= f64(Limits::min())) return Limits::min();
  if (rounded >= f64(Limits::max())) return Limits::max();
  return D(rounded);
}

template <class D, class S, class F> Outcome to_integer(Warp &warp, const Insn &insn, u32 active, F read) {
  const s64 mode = insn.immediate;
  map<D, S>(warp, insn, active, [=](S a) { return integer_of<D>(f64(read(a)), mode); });
  return Outcome::Next;
}
template <class D, class S> Outcome to_float(Warp &warp, const Insn &insn, u32 active) {
  const RoundingMode mode(insn.immediate);
  map<D, S>(warp, insn, active, [](S a) { return D(a); });
  return Outcome::Next;
}
template <class S> Outcome to_short(Warp &warp, const Insn &insn, u32 active, const Format &format) {
  static constexpr Rounding ROUNDINGS[] = {Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up};
  Rounded how;
  how.rounding = ROUNDINGS[insn.immediate & MODE_MASK];
  map<u32, S>(warp, insn, active, [&](S a) {
    const bool negative = a < 0;
    return code_of(format, to_odd(negative ? 0 - u64(s64(a)) : u64(a), negative), how);
  });
  return Outcome::Next;
}
f32 flushed_read(f32 a) { return flushed(a); }
f32 same(f32 a) { return a; }
f64 same_wide(f64 a) { return a; }
} // namespace

#define TO(D, S)                                                                                                       \
  UNARY(cvt_##D##_##S, D, S, D(a))                                                                                     \
  UNARY(cvt_sat_##D##_##S, D, S, clamped<D>(a))
#define FROM(S)                                                                                                        \
  TO(u8, S) TO(s8, S) TO(u16, S) TO(s16, S) TO(u32, S) TO(s32, S) TO(u64, S) TO(s64, S) OPERATION(cvt_f32_##S) {       \
    return to_float<f32, S>(warp, insn, active);                                                                       \
  }                                                                                                                    \
  OPERATION(cvt_f64_##S) { return to_float<f64, S>(warp, insn, active); }                                              \
  OPERATION(cvt_f16_##S) { return to_short<S>(warp, insn, active, format::F16); }                                      \
  OPERATION(cvt_bf16_##S) { return to_short<S>(warp, insn, active, format::BF16); }
FROM(u8)
FROM(s8)
FROM(u16)
FROM(s16)
FROM(u32)
FROM(s32)
FROM(u64)
FROM(s64)

#define INTEGER_OF(D)                                                                                                  \
  OPERATION(cvt_##D##_f32) { return to_integer<D, f32>(warp, insn, active, same); }                                    \
  OPERATION(cvt_##D##_ftz_f32) { return to_integer<D, f32>(warp, insn, active, flushed_read); }                        \
  OPERATION(cvt_##D##_f64) { return to_integer<D, f64>(warp, insn, active, same_wide); }                               \
  OPERATION(cvt_##D##_f16) { return to_integer<D, u32>(warp, insn, active, f16_value); }                               \
  OPERATION(cvt_##D##_bf16) { return to_integer<D, u32>(warp, insn, active, bf16_value); }
INTEGER_OF(u8)
INTEGER_OF(s8)
INTEGER_OF(u16)
INTEGER_OF(s16)
INTEGER_OF(u32)
INTEGER_OF(s32)
INTEGER_OF(u64)
INTEGER_OF(s64)

// Between float32 and float64, and to whole numbers of the same type.
OPERATION(cvt_f64_f32) {
  const bool ftz = insn.immediate & MODE_FTZ;
  map<f64, f32>(warp, insn, active, [=](f32 a) { return f64(ftz ? flushed(a) : a); });
  return Outcome::Next;
}
OPERATION(cvt_f32_f64) {
  const bool ftz = insn.immediate & MODE_FTZ, sat = insn.immediate & MODE_SAT;
  const RoundingMode mode(insn.immediate);
  map<f32, f64>(warp, insn, active, [=](f64 a) {
    const f32 value = canonical(f32(a)), result = ftz ? flushed(value) : value;
    return sat ? saturated(result) : result;
  });
  return Outcome::Next;
}
OPERATION(round_f32) {
  const bool ftz = insn.immediate & MODE_FTZ, sat = insn.immediate & MODE_SAT;
  map<f32, f32>(warp, insn, active, [&](f32 a) {
    const f32 result = canonical(f32(whole(f64(ftz ? flushed(a) : a), insn.immediate)));
    return sat ? saturated(result) : result;
  });
  return Outcome::Next;
}
OPERATION(round_f64) {
  const bool sat = insn.immediate & MODE_SAT;
  map<f64, f64>(warp, insn, active, [&](f64 a) {
    const f64 result = whole(a, insn.immediate);
    return sat ? saturated(result) : result;
  });
  return Outcome::Next;
}
