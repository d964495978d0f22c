// Arithmetic of float32, of pairs of them, and of float64.
#include "elementwise.h"
#include "rounding.h"

namespace {
template <class T> T add(T a, T b) { return canonical(a + b); }
template <class T> T sub(T a, T b) { return canonical(a - b); }
template <class T> T mul(T a, T b) { return canonical(a * b); }
inline f32 fused(f32 a, f32 b, f32 c) { return canonical(__builtin_fmaf(a, b, c)); }
inline f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }

template <class T> T flush(T a, bool ftz) {
  if constexpr (sizeof(T) == 4)
    return ftz ? flushed(a) : a;
  else
    return a;
}

// Any rounding, with .ftz and .sat: what is rarer.
template <class T, class F> Outcome by_mode2(Warp &warp, const Insn &insn, u32 active, F f) {
  const bool ftz = insn.immediate & MODE_FTZ, sat = insn.immediate & MODE_SAT;
  const RoundingMode mode(insn.immediate);
  map<T, T, T>(warp, insn, active, [=](T a, T b) {
    const T result = flush(f(flush(a, ftz), flush(b, ftz)), ftz);
    return sat ? saturated(result) : result;
  });
  return Outcome::Next;
}
template <class T> Outcome fma_by_mode(Warp &warp, const Insn &insn, u32 active) {
  const bool ftz = insn.immediate & MODE_FTZ, sat = insn.immediate & MODE_SAT;
  const RoundingMode mode(insn.immediate);
  map<T, T, T, T>(warp, insn, active, [=](T a, T b, T c) {
    const T result = flush(fused(flush(a, ftz), flush(b, ftz), flush(c, ftz)), ftz);
    return sat ? saturated(result) : result;
  });
  return Outcome::Next;
}

// Two float32 in each double word: 64 floats in a row.
template <class F> void pairs(Warp &warp, const Insn &insn, u32 active, F f) {
  alignas(64) f32 values[2 * LANES];
  for (u32 i = 0; i < 2 * LANES; ++i) values[i] = f(i);
  if (active == ALL_LANES) {
    std::memcpy(warp.word(insn.a[0]), values, sizeof values);
    return;
  }
  u64 wide[LANES];
  std::memcpy(wide, values, sizeof wide);
  blend(warp.wide(insn.a[0]), wide, active);
}
template <class F> Outcome pairs2(Warp &warp, const Insn &insn, u32 active, F f) {
  const f32 *a = warp.real(insn.a[1]), *b = warp.real(insn.a[2]);
  const bool ftz = insn.immediate & MODE_FTZ;
  if (insn.immediate == 0) {
    pairs(warp, insn, active, [=](u32 i) { return f(a[i], b[i]); });
  } else {
    const RoundingMode mode(insn.immediate);
    pairs(warp, insn, active, [=](u32 i) { return flush(f(flush(a[i], ftz), flush(b[i], ftz)), ftz); });
  }
  return Outcome::Next;
}
} // namespace

#define ARITHMETIC(NAME, F)                                                                                            \
  BINARY(NAME##_f32, f32, f32, f32, F(a, b))                                                                           \
  BINARY(NAME##_f64, f64, f64, f64, F(a, b))                                                                           \
  OPERATION(NAME##_mode_f32) {                                                                                         \
    return by_mode2<f32>(warp, insn, active, [](f32 a, f32 b) { return F(a, b); });                                    \
  }                                                                                                                    \
  OPERATION(NAME##_mode_f64) {                                                                                         \
    return by_mode2<f64>(warp, insn, active, [](f64 a, f64 b) { return F(a, b); });                                    \
  }                                                                                                                    \
  OPERATION(NAME##_f32x2) {                                                                                            \
    return pairs2(warp, insn, active, [](f32 a, f32 b) { return F(a, b); });                                           \
  }
ARITHMETIC(add, add)
ARITHMETIC(sub, sub)
ARITHMETIC(mul, mul)

TERNARY(fma_f32, f32, f32, f32, f32, fused(a, b, c))
TERNARY(fma_f64, f64, f64, f64, f64, fused(a, b, c))
OPERATION(fma_mode_f32) { return fma_by_mode<f32>(warp, insn, active); }
OPERATION(fma_mode_f64) { return fma_by_mode<f64>(warp, insn, active); }
OPERATION(fma_f32x2) {
  const f32 *a = warp.real(insn.a[1]), *b = warp.real(insn.a[2]), *c = warp.real(insn.a[3]);
  const bool ftz = insn.immediate & MODE_FTZ;
  if (insn.immediate == 0) {
    pairs(warp, insn, active, [=](u32 i) { return fused(a[i], b[i], c[i]); });
  } else {
    const RoundingMode mode(insn.immediate);
    pairs(warp, insn, active,
          [=](u32 i) { return flush(fused(flush(a[i], ftz), flush(b[i], ftz), flush(c[i], ftz)), ftz); });
  }
  return Outcome::Next;
}

// Division and square roots that round once.
OPERATION(div_mode_f32) {
  return by_mode2<f32>(warp, insn, active, [](f32 a, f32 b) { return canonical(a / b); });
}
OPERATION(div_mode_f64) {
  return by_mode2<f64>(warp, insn, active, [](f64 a, f64 b) { return a / b; });
}
template <class T, class F> static Outcome by_mode1(Warp &warp, const Insn &insn, u32 active, F f) {
  const bool ftz = insn.immediate & MODE_FTZ;
  const RoundingMode mode(insn.immediate);
  map<T, T>(warp, insn, active, [=](T a) { return flush(f(flush(a, ftz)), ftz); });
  return Outcome::Next;
}
OPERATION(rcp_mode_f32) {
  return by_mode1<f32>(warp, insn, active, [](f32 a) { return canonical(1 / a); });
}
OPERATION(rcp_mode_f64) {
  return by_mode1<f64>(warp, insn, active, [](f64 a) { return 1 / a; });
}
OPERATION(sqrt_mode_f32) {
  return by_mode1<f32>(warp, insn, active, [](f32 a) { return canonical(__builtin_sqrtf(a)); });
}
OPERATION(sqrt_mode_f64) {
  return by_mode1<f64>(warp, insn, active, [](f64 a) { return __builtin_sqrt(a); });
}
