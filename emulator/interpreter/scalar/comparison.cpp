// setp, set, selp and slct.
//
// a[0], a[1]: the predicate and its complement; a[2], a[3]: what is compared; a[4]: a further predicate or -1, and
// `immediate` how it joins: 0 and, 1 or, 2 xor.
#include "elementwise.h"
#include "rounding.h"

namespace {
enum Relation { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NOT };

template <int RELATION, class T> bool holds(T a, T b) {
  const bool unordered = a != a || b != b;
  switch (RELATION) {
  case EQ:
    return a == b;
  case NE:
    return std::is_floating_point_v<T> ? a < b || a > b : a != b;
  case LT:
    return a < b;
  case LE:
    return a <= b;
  case GT:
    return a > b;
  case GE:
    return a >= b;
  case EQU:
    return unordered || a == b;
  case NEU:
    return unordered || a != b;
  case LTU:
    return unordered || a < b;
  case LEU:
    return unordered || a <= b;
  case GTU:
    return unordered || a > b;
  case GEU:
    return unordered || a >= b;
  case NUM:
    return !unordered;
  default:
    return unordered;
  }
}

void finish(Warp &warp, const Insn &insn, u32 result, u32 active) {
  u32 complement = ~result;
  if (insn.a[4] >= 0) {
    const u32 further = warp.predicate(insn.a[4]);
    const auto joined = [&](u32 value) {
      return insn.immediate == 0 ? value & further : insn.immediate == 1 ? value | further : value ^ further;
    };
    result = joined(result);
    complement = joined(complement);
  }
  set_predicate(warp, insn.a[0], result, active);
  set_predicate(warp, insn.a[1], complement, active);
}

template <int RELATION, class T, class F> Outcome compare(Warp &warp, const Insn &insn, u32 active, F read) {
  const auto *a = held<T>(warp, insn.a[2]), *b = held<T>(warp, insn.a[3]);
  finish(warp, insn, bits([=](u32 lane) { return holds<RELATION>(read(a[lane]), read(b[lane])); }), active);
  return Outcome::Next;
}

f32 flushed_word(u32 word) { return flushed(f32_of(word)); }
} // namespace

#define SETP(NAME, RELATION, T, WORD, READ)                                                                            \
  OPERATION(setp_##NAME) { return compare<RELATION, WORD>(warp, insn, active, READ); }
#define INTEGER(T)                                                                                                     \
  SETP(eq_##T, EQ, T, T, Held<T>::get)                                                                                 \
  SETP(ne_##T, NE, T, T, Held<T>::get)                                                                                 \
  SETP(lt_##T, LT, T, T, Held<T>::get)                                                                                 \
  SETP(le_##T, LE, T, T, Held<T>::get)                                                                                 \
  SETP(gt_##T, GT, T, T, Held<T>::get)                                                                                 \
  SETP(ge_##T, GE, T, T, Held<T>::get)
INTEGER(u16)
INTEGER(s16)
INTEGER(u32)
INTEGER(s32)
INTEGER(u64)
INTEGER(s64)

#define FLOAT(T, WORD, READ)                                                                                           \
  SETP(eq_##T, EQ, T, WORD, READ)                                                                                      \
  SETP(ne_##T, NE, T, WORD, READ)                                                                                      \
  SETP(lt_##T, LT, T, WORD, READ)                                                                                      \
  SETP(le_##T, LE, T, WORD, READ)                                                                                      \
  SETP(gt_##T, GT, T, WORD, READ)                                                                                      \
  SETP(ge_##T, GE, T, WORD, READ)                                                                                      \
  SETP(equ_##T, EQU, T, WORD, READ)                                                                                    \
  SETP(neu_##T, NEU, T, WORD, READ)                                                                                    \
  SETP(ltu_##T, LTU, T, WORD, READ)                                                                                    \
  SETP(leu_##T, LEU, T, WORD, READ)                                                                                    \
  SETP(gtu_##T, GTU, T, WORD, READ)                                                                                    \
  SETP(geu_##T, GEU, T, WORD, READ)                                                                                    \
  SETP(num_##T, NUM, T, WORD, READ)                                                                                    \
  SETP(nan_##T, NOT, T, WORD, READ)
FLOAT(f32, u32, f32_of)
FLOAT(ftz_f32, u32, flushed_word)
FLOAT(f64, u64, f64_of)
FLOAT(f16, u32, f16_value)
FLOAT(bf16, u32, bf16_value)

template <class Word> static Outcome choose(Warp &warp, const Insn &insn, u32 active) {
  const Word *a = reinterpret_cast<Word *>(warp.word(insn.a[1])), *b = reinterpret_cast<Word *>(warp.word(insn.a[2]));
  const u32 predicate = warp.predicate(insn.a[3]);
  compute<Word>(warp, insn.a[0], active, [=](u32 lane) { return predicate >> lane & 1 ? a[lane] : b[lane]; });
  return Outcome::Next;
}
OPERATION(selp_32) { return choose<u32>(warp, insn, active); }
OPERATION(selp_64) { return choose<u64>(warp, insn, active); }

// slct: a if c is not negative, else b. A float c of -0 counts as not negative, a NaN as negative.
TERNARY(slct_32_s32, u32, u32, u32, s32, c >= 0 ? a : b)
TERNARY(slct_64_s32, u64, u64, u64, s32, c >= 0 ? a : b)
TERNARY(slct_32_f32, u32, u32, u32, f32, c >= 0 ? a : b)
TERNARY(slct_64_f32, u64, u64, u64, f32, c >= 0 ? a : b)
TERNARY(slct_32_ftz_f32, u32, u32, u32, f32, flushed(c) >= 0 ? a : b)
TERNARY(slct_64_ftz_f32, u64, u64, u64, f32, flushed(c) >= 0 ? a : b)

// What set writes where a predicate holds, `immediate`, and 0 elsewhere.
OPERATION(value_of_pred) {
  const u32 predicate = warp.predicate(insn.a[1]), value = u32(insn.immediate);
  compute<u32>(warp, insn.a[0], active, [=](u32 lane) { return predicate >> lane & 1 ? value : 0; });
  return Outcome::Next;
}
