// Sums and differences with a carry, which is a predicate: a[0] = a[2] + a[3] + a[4], a[1] the carry out; places of -1
// are not there. And conversions of two integers into one register.
#include "elementwise.h"

namespace {
template <class T, bool SUBTRACTS> Outcome with_carry(Warp &warp, const Insn &insn, u32 active) {
  const auto *a = held<T>(warp, insn.a[2]), *b = held<T>(warp, insn.a[3]);
  const u32 in = insn.a[4] >= 0 ? warp.predicate(insn.a[4]) : 0;
  T results[LANES];
  const u32 out = bits([&](u32 lane) {
    using Wide = unsigned __int128;
    const Wide second = Wide(T(b[lane])) + (in >> lane & 1), first = T(a[lane]);
    results[lane] = T(SUBTRACTS ? first - second : first + second);
    return SUBTRACTS ? first < second : (first + second) >> (8 * sizeof(T)) != 0;
  });
  compute<T>(warp, insn.a[0], active, [&](u32 lane) { return results[lane]; });
  set_predicate(warp, insn.a[1], out, active);
  return Outcome::Next;
}
} // namespace

OPERATION(add_carry_u32) { return with_carry<u32, false>(warp, insn, active); }
OPERATION(add_carry_u64) { return with_carry<u64, false>(warp, insn, active); }
OPERATION(sub_carry_u32) { return with_carry<u32, true>(warp, insn, active); }
OPERATION(sub_carry_u64) { return with_carry<u64, true>(warp, insn, active); }

// cvt.pack.sat: a[1] above a[2], both above what a[3] (or -1) has. `immediate`: the bits of each, << 8 whether the
// result is signed, << 9 whether the sources are.
OPERATION(pack_saturated) {
  const u32 width = u32(insn.immediate) & 0xff;
  const bool to_signed = insn.immediate >> 8 & 1, from_signed = insn.immediate >> 9 & 1;
  const s64 low = to_signed ? -(1ll << (width - 1)) : 0, high = (1ll << (width - (to_signed ? 1 : 0))) - 1;
  const u32 mask = u32((1ull << width) - 1);
  const u32 *c = insn.a[3] >= 0 ? warp.word(insn.a[3]) : nullptr;
  const u32 *a = warp.word(insn.a[1]), *b = warp.word(insn.a[2]);
  const auto one = [=](u32 word) {
    const s64 value = from_signed ? s64(s32(word)) : s64(word);
    return u32(value < low ? low : value > high ? high : value) & mask;
  };
  compute<u32>(warp, insn.a[0], active, [=](u32 lane) {
    const u32 rest = c ? u32(u64(c[lane]) << 2 * width) : 0;
    return rest | one(a[lane]) << width | one(b[lane]);
  });
  return Outcome::Next;
}
