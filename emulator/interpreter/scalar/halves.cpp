// Operations on float16 and bfloat16, one or two in a register, and on two integers of 16 bits.
#include "halves.h"
#include "elementwise.h"

namespace {
constexpr s64 RELU = 16, NAN_DECIDES = 32, XORSIGN = 64;

struct How {
  bool ftz, sat, relu, nan, xorsign;
  explicit How(s64 immediate)
      : ftz(immediate & MODE_FTZ), sat(immediate & MODE_SAT), relu(immediate & RELU), nan(immediate & NAN_DECIDES),
        xorsign(immediate & XORSIGN) {}
};

template <class H> u32 before(u32 a, const How &how) { return how.ftz ? H::flushed(a & 0xffff) : a & 0xffff; }
template <class H> u32 after(u32 code, const How &how) {
  if (how.ftz) code = H::flushed(code);
  const f32 value = H::value(code);
  if (how.sat) return value >= 1 ? H::ONE : value > 0 ? code : 0;
  if (how.relu) return value != value ? 0x7fff : code & 0x8000 ? 0 : code;
  return code;
}

// Each half of a register, or the lower one only.
template <class H, int HALVES, class F> Outcome each1(Warp &warp, const Insn &insn, u32 active, F f) {
  const How how(insn.immediate);
  const auto one = [=](u32 a) { return after<H>(f(before<H>(a, how), how), how); };
  map<u32, u32>(warp, insn, active, [=](u32 a) { return HALVES == 1 ? one(a) : one(a) | one(a >> 16) << 16; });
  return Outcome::Next;
}
template <class H, int HALVES, class F> Outcome each2(Warp &warp, const Insn &insn, u32 active, F f) {
  const How how(insn.immediate);
  const auto one = [=](u32 a, u32 b) { return after<H>(f(before<H>(a, how), before<H>(b, how), how), how); };
  map<u32, u32, u32>(warp, insn, active,
                     [=](u32 a, u32 b) { return HALVES == 1 ? one(a, b) : one(a, b) | one(a >> 16, b >> 16) << 16; });
  return Outcome::Next;
}
template <class H, int HALVES> Outcome each3(Warp &warp, const Insn &insn, u32 active) {
  const How how(insn.immediate);
  const auto one = [=](u32 a, u32 b, u32 c) {
    return after<H>(half_fma<H>(before<H>(a, how), before<H>(b, how), before<H>(c, how)), how);
  };
  map<u32, u32, u32, u32>(warp, insn, active, [=](u32 a, u32 b, u32 c) {
    return HALVES == 1 ? one(a, b, c) : one(a, b, c) | one(a >> 16, b >> 16, c >> 16) << 16;
  });
  return Outcome::Next;
}

template <class T, class F> u32 two(u32 a, u32 b, F f) {
  return u32(u16(f(T(a), T(b)))) | u32(u16(f(T(a >> 16), T(b >> 16)))) << 16;
}
template <class T> T lesser(T a, T b) { return a < b ? a : b; }
template <class T> T greater(T a, T b) { return a > b ? a : b; }
s16 not_negative(s16 a) { return a < 0 ? s16(0) : a; }
} // namespace

#define HALF(SUFFIX, H, HALVES)                                                                                        \
  OPERATION(add_##SUFFIX) {                                                                                            \
    return each2<H, HALVES>(warp, insn, active, [](u32 a, u32 b, const How &) { return half_add<H>(a, b); });          \
  }                                                                                                                    \
  OPERATION(sub_##SUFFIX) {                                                                                            \
    return each2<H, HALVES>(warp, insn, active, [](u32 a, u32 b, const How &) { return half_sub<H>(a, b); });          \
  }                                                                                                                    \
  OPERATION(mul_##SUFFIX) {                                                                                            \
    return each2<H, HALVES>(warp, insn, active, [](u32 a, u32 b, const How &) { return half_mul<H>(a, b); });          \
  }                                                                                                                    \
  OPERATION(fma_##SUFFIX) { return each3<H, HALVES>(warp, insn, active); }                                             \
  OPERATION(min_##SUFFIX) {                                                                                            \
    return each2<H, HALVES>(warp, insn, active, [](u32 a, u32 b, const How &how) {                                     \
      return half_extreme<H, false>(a, b, how.nan, how.xorsign);                                                       \
    });                                                                                                                \
  }                                                                                                                    \
  OPERATION(max_##SUFFIX) {                                                                                            \
    return each2<H, HALVES>(warp, insn, active, [](u32 a, u32 b, const How &how) {                                     \
      return half_extreme<H, true>(a, b, how.nan, how.xorsign);                                                        \
    });                                                                                                                \
  }                                                                                                                    \
  OPERATION(neg_##SUFFIX) {                                                                                            \
    return each1<H, HALVES>(warp, insn, active, [](u32 a, const How &) { return a ^ 0x8000; });                        \
  }                                                                                                                    \
  OPERATION(abs_##SUFFIX) {                                                                                            \
    return each1<H, HALVES>(warp, insn, active, [](u32 a, const How &) { return a & 0x7fff; });                        \
  }
HALF(f16, F16, 1)
HALF(bf16, BF16, 1)
HALF(f16x2, F16, 2)
HALF(bf16x2, BF16, 2)

BINARY(add_u16x2, u32, u32, u32, two<u16>(a, b, [](u16 x, u16 y) { return x + y; }))
BINARY(sub_u16x2, u32, u32, u32, two<u16>(a, b, [](u16 x, u16 y) { return x - y; }))
BINARY(min_u16x2, u32, u32, u32, two<u16>(a, b, lesser<u16>))
BINARY(max_u16x2, u32, u32, u32, two<u16>(a, b, greater<u16>))
BINARY(min_s16x2, u32, u32, u32, two<s16>(a, b, lesser<s16>))
BINARY(max_s16x2, u32, u32, u32, two<s16>(a, b, greater<s16>))
BINARY(min_relu_s16x2, u32, u32, u32, two<s16>(a, b, [](s16 x, s16 y) { return not_negative(lesser(x, y)); }))
BINARY(max_relu_s16x2, u32, u32, u32, two<s16>(a, b, [](s16 x, s16 y) { return not_negative(greater(x, y)); }))
