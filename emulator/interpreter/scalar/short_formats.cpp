// cvt from and to floats of 16 bits and less.
#include "elementwise.h"
#include "rounding.h"

namespace {
const Format *const FORMATS[] = {&format::BF16, &format::F16,  &format::TF32, &format::E4M3, &format::E5M2,
                                 &format::E3M2, &format::E2M3, &format::E2M1, &format::UE8M0};
constexpr u32 WIDTHS[] = {16, 16, 32, 8, 8, 8, 8, 4, 8}; // of a code in a register

// `immediate`: the format, << 8 the rounding, << 12 satfinite, << 13 relu, << 14 ftz, << 15 sat.
struct How {
  const Format &format;
  u32 width;
  Rounded rounded;
  bool ftz, sat;
  explicit How(s64 immediate)
      : format(*FORMATS[immediate & 0xff]), width(WIDTHS[immediate & 0xff]), ftz(immediate >> 14 & 1),
        sat(immediate >> 15 & 1) {
    rounded.rounding = Rounding(immediate >> 8 & 0xf);
    rounded.satfinite = immediate >> 12 & 1;
    rounded.relu = immediate >> 13 & 1;
  }
  u32 code(f64 value) const {
    if (sat) value = saturated(value);
    return code_of(format, value, rounded);
  }
  u32 code(f32 value) const { return code(f64(ftz ? flushed(value) : value)); }
};

template <class S, class F> Outcome one(Warp &warp, const Insn &insn, u32 active, F read) {
  const How how(insn.immediate);
  const u32 shift = &how.format == &format::TF32 ? 13 : 0;
  map<u32, S>(warp, insn, active, [&](S a) { return how.code(read(a)) << shift; });
  return Outcome::Next;
}
} // namespace

UNARY(cvt_f32_bf16, u32, u32, a << 16)
UNARY(cvt_f32_f16, f32, u32, f16_value(a))
UNARY(cvt_f64_bf16, f64, u32, f64(bf16_value(a)))
UNARY(cvt_f64_f16, f64, u32, f64(f16_value(a)))
UNARY(cvt_bf16_f32, u32, f32, bf16_nearest(a))
UNARY(cvt_f16_f32, u32, f32, f16_nearest(a))
BINARY(cvt_bf16x2_f32, u32, f32, f32, bf16_nearest(a) << 16 | bf16_nearest(b))
BINARY(cvt_f16x2_f32, u32, f32, f32, f16_nearest(a) << 16 | f16_nearest(b))

// To one code, of any format and in any way.
OPERATION(short_f32) {
  return one<f32>(warp, insn, active, [](f32 a) { return a; });
}
OPERATION(short_f64) {
  return one<f64>(warp, insn, active, [](f64 a) { return a; });
}
OPERATION(short_f16) { return one<u32>(warp, insn, active, f16_value); }
OPERATION(short_bf16) { return one<u32>(warp, insn, active, bf16_value); }

// To two codes; the first source is the upper one.
OPERATION(short_x2_f32) {
  const How how(insn.immediate);
  map<u32, f32, f32>(warp, insn, active, [&](f32 a, f32 b) { return how.code(a) << how.width | how.code(b); });
  return Outcome::Next;
}
template <class F> static Outcome two_of_word(Warp &warp, const Insn &insn, u32 active, F read) {
  const How how(insn.immediate);
  map<u32, u32>(warp, insn, active,
                [&](u32 a) { return how.code(read(a >> 16)) << how.width | how.code(read(a & 0xffff)); });
  return Outcome::Next;
}
OPERATION(short_x2_f16x2) { return two_of_word(warp, insn, active, f16_value); }
OPERATION(short_x2_bf16x2) { return two_of_word(warp, insn, active, bf16_value); }

// To four codes, with random bits in a[5]: a[1] to a[4] are from the highest on.
OPERATION(short_x4_f32) {
  const How how(insn.immediate);
  const f32 *values[4] = {warp.real(insn.a[1]), warp.real(insn.a[2]), warp.real(insn.a[3]), warp.real(insn.a[4])};
  const u32 *random = warp.word(insn.a[5]);
  compute<u32>(warp, insn.a[0], active, [&](u32 lane) {
    u32 result = 0;
    for (u32 i = 0; i < 4; ++i) {
      Rounded rounded = how.rounded;
      rounded.random = random[lane] >> (i & 1 ? 16 : 0) & 0xffff;
      result = result << how.width | code_of(how.format, f64(values[i][lane]), rounded);
    }
    return result;
  });
  return Outcome::Next;
}

// From two codes, `immediate`, to float16 or bfloat16: << 8: to bfloat16, << 9 relu.
OPERATION(wide_x2) {
  const Format &format = *FORMATS[insn.immediate & 0xff];
  const u32 width = WIDTHS[insn.immediate & 0xff], mask = (1u << width) - 1;
  const bool bf16 = insn.immediate >> 8 & 1, relu = insn.immediate >> 9 & 1;
  const auto of = [&](u32 code) {
    const f32 value = value_of(format, code);
    return code_of(bf16 ? format::BF16 : format::F16, relu && value < 0 ? 0.0 : f64(value), Rounded{});
  };
  map<u32, u32>(warp, insn, active, [&](u32 a) { return of(a >> width & mask) << 16 | of(a & mask); });
  return Outcome::Next;
}

// Whole numbers of the same type: `immediate` is the mode of rounding.
template <class F, class G> static Outcome whole_short(Warp &warp, const Insn &insn, u32 active, F read, G code) {
  const RoundingMode mode(insn.immediate);
  map<u32, u32>(warp, insn, active, [&](u32 a) { return code(__builtin_nearbyintf(read(a))); });
  return Outcome::Next;
}
OPERATION(round_f16) { return whole_short(warp, insn, active, f16_value, f16_nearest); }
OPERATION(round_bf16) { return whole_short(warp, insn, active, bf16_value, bf16_nearest); }
