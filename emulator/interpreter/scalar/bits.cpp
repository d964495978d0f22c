// Logic, shifts and fields of bits.
#include "elementwise.h"

namespace {
template <class T> T shift_left(T a, u32 by) { return by >= sizeof(T) * 8 ? T(0) : T(a << by); }
template <class T> T shift_right(T a, u32 by) {
  constexpr u32 width = sizeof(T) * 8;
  if (std::is_signed_v<T>) return T(a >> (by >= width ? width - 1 : by));
  return by >= width ? T(0) : T(a >> by);
}

template <class T> T extract(T value, u32 position, u32 length) {
  using U = std::make_unsigned_t<T>;
  constexpr u32 width = sizeof(T) * 8;
  position &= 0xff;
  length &= 0xff;
  if (length == 0) return 0;
  const U field = position >= width ? 0 : U(value) >> position;
  const bool sign =
      std::is_signed_v<T> && (U(value) >> (position + length - 1 < width ? position + length - 1 : width - 1) & 1);
  if (length >= width && position == 0) return T(field);
  const U mask = length >= width ? ~U(0) : (U(1) << length) - 1;
  const u32 there = position >= width ? 0 : width - position < length ? width - position : length;
  const U known = there >= width ? ~U(0) : (U(1) << there) - 1;
  return T((field & known & mask) | (sign ? ~known : 0));
}

template <class T> T insert(T from, T into, u32 position, u32 length) {
  constexpr u32 width = sizeof(T) * 8;
  position &= 0xff;
  length &= 0xff;
  if (length == 0 || position >= width) return into;
  const T mask = T((length >= width ? ~T(0) : (T(1) << length) - 1) << position);
  return T((into & ~mask) | (from << position & mask));
}

u32 reversed(u32 a) {
  a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
  a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
  a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(a);
}
u64 reversed_wide(u64 a) { return u64(reversed(u32(a))) << 32 | reversed(u32(a >> 32)); }

// The place of the highest bit that is not a copy of the sign; all bits set if there is none.
template <class T> u32 highest(T a) {
  const u64 bits = std::is_signed_v<T> && a < 0 ? ~u64(s64(a)) : u64(std::make_unsigned_t<T>(a));
  return bits ? 63 - u32(__builtin_clzll(bits)) : ~0u;
}
template <class T> u32 highest_shift(T a) {
  const u32 place = highest(a);
  return place == ~0u ? place : u32(sizeof(T) * 8) - 1 - place;
}

u32 permuted(u32 a, u32 b, u32 selection) {
  const u64 bytes = u64(b) << 32 | a;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 choice = selection >> 4 * i & 0xf;
    u32 byte = u32(bytes >> 8 * (choice & 7)) & 0xff;
    if (choice & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}
u32 permuted_by_mode(u32 a, u32 b, u32 c, u32 mode) {
  static constexpr u16 SELECTIONS[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543}, // f4e
      {0x5670, 0x6701, 0x7012, 0x0123}, // b4e
      {0x0000, 0x1111, 0x2222, 0x3333}, // rc8
      {0x3210, 0x3211, 0x3222, 0x3333}, // ecl
      {0x0000, 0x1110, 0x2210, 0x3210}, // ecr
      {0x1010, 0x3232, 0x1010, 0x3232}, // rc16
  };
  return permuted(a, b, SELECTIONS[mode][c & 3]);
}

u32 funnel_left(u32 a, u32 b, u32 by) { return u32((u64(b) << 32 | a) << by >> 32); }
u32 funnel_right(u32 a, u32 b, u32 by) { return u32((u64(b) << 32 | a) >> by); }
u32 at_most_32(u32 by) { return by > 32 ? 32 : by; }

u32 nth_set(u32 mask, u32 base, s32 offset) {
  base &= 31;
  if (offset == 0) return mask >> base & 1 ? base : ~0u;
  const s32 step = offset > 0 ? 1 : -1;
  s32 left = offset > 0 ? offset : -offset;
  for (s32 place = s32(base); place >= 0 && place < 32; place += step)
    if (mask >> place & 1 && --left == 0) return u32(place);
  return ~0u;
}

template <class A, class B> u32 dot4(u32 a, u32 b, u32 c) {
  u32 sum = c;
  for (u32 i = 0; i < 4; ++i) sum += u32(s32(A(a >> 8 * i)) * s32(B(b >> 8 * i)));
  return sum;
}
template <class A, class B> u32 dot2(u32 a, u32 b, u32 c, u32 half) {
  u32 sum = c;
  for (u32 i = 0; i < 2; ++i) sum += u32(s32(A(a >> 16 * i)) * s32(B(b >> (8 * i + 16 * half))));
  return sum;
}
} // namespace

#define LOGIC(T)                                                                                                       \
  BINARY(and_##T, T, T, T, a &b)                                                                                       \
  BINARY(or_##T, T, T, T, a | b)                                                                                       \
  BINARY(xor_##T, T, T, T, a ^ b)                                                                                      \
  UNARY(not_##T, T, T, T(~a))                                                                                          \
  UNARY(cnot_##T, T, T, a == 0 ? 1 : 0)                                                                                \
  BINARY(shl_##T, T, T, u32, shift_left(a, b))                                                                         \
  BINARY(shr_##T, T, T, u32, shift_right(a, b))
// clang-format off: these are no declarations
LOGIC(u16)
LOGIC(u32)
LOGIC(u64)
BINARY(shr_s16, s16, s16, u32, shift_right(a, b))
BINARY(shr_s32, s32, s32, u32, shift_right(a, b))
BINARY(shr_s64, s64, s64, u32, shift_right(a, b))

TERNARY(bfe_u32, u32, u32, u32, u32, extract(a, b, c))
TERNARY(bfe_s32, s32, s32, u32, u32, extract(a, b, c))
TERNARY(bfe_u64, u64, u64, u32, u32, extract(a, b, c))
TERNARY(bfe_s64, s64, s64, u32, u32, extract(a, b, c))
// clang-format on

template <class T> static void insert_field(Warp &warp, const Insn &insn, u32 active) {
  const auto *from = held<T>(warp, insn.a[1]), *into = held<T>(warp, insn.a[2]);
  const u32 *position = warp.word(insn.a[3]), *length = warp.word(insn.a[4]);
  compute<T>(warp, insn.a[0], active,
             [=](u32 lane) { return insert(T(from[lane]), T(into[lane]), position[lane], length[lane]); });
}
OPERATION(bfi_u32) {
  insert_field<u32>(warp, insn, active);
  return Outcome::Next;
}
OPERATION(bfi_u64) {
  insert_field<u64>(warp, insn, active);
  return Outcome::Next;
}

// clang-format off: these are no declarations
BINARY(bmsk_clamp, u32, u32, u32, shift_left(b >= 32 ? ~0u : (1u << b) - 1, a))
BINARY(bmsk_wrap, u32, u32, u32, ((1u << (b & 31)) - 1) << (a & 31))
BINARY(szext_clamp_u32, u32, u32, u32, b >= 32 ? a : a & ((1u << b) - 1))
BINARY(szext_clamp_s32, u32, u32, u32, b >= 32 ? a : b == 0 ? 0 : u32(s32(a << (32 - b)) >> (32 - b)))
BINARY(szext_wrap_u32, u32, u32, u32, a & ((1u << (b & 31)) - 1))
BINARY(szext_wrap_s32, u32, u32, u32, (b & 31) == 0 ? 0 : u32(s32(a << (32 - (b & 31))) >> (32 - (b & 31))))

UNARY(popc_u32, u32, u32, u32(__builtin_popcount(a)))
UNARY(popc_u64, u32, u64, u32(__builtin_popcountll(a)))
UNARY(clz_u32, u32, u32, a ? u32(__builtin_clz(a)) : 32)
UNARY(clz_u64, u32, u64, a ? u32(__builtin_clzll(a)) : 64)
UNARY(brev_u32, u32, u32, reversed(a))
UNARY(brev_u64, u64, u64, reversed_wide(a))
// clang-format on

#define FIND(T)                                                                                                        \
  UNARY(bfind_##T, u32, T, highest(a))                                                                                 \
  UNARY(bfind_shift_##T, u32, T, highest_shift(a))
// clang-format off: these are no declarations
FIND(u32)
FIND(s32)
FIND(u64)
FIND(s64)
TERNARY(fns, u32, u32, u32, s32, nth_set(a, b, c))
// clang-format on

// The table of lop3 is in `immediate`: its bit at place 4 a + 2 b + c.
OPERATION(lop3) {
  const u32 table = u32(insn.immediate);
  u32 terms[8];
  for (u32 i = 0; i < 8; ++i) terms[i] = table >> i & 1 ? ~0u : 0;
  map<u32, u32, u32, u32>(warp, insn, active, [&](u32 a, u32 b, u32 c) {
    return (terms[0] & ~a & ~b & ~c) | (terms[1] & ~a & ~b & c) | (terms[2] & ~a & b & ~c) | (terms[3] & ~a & b & c) |
           (terms[4] & a & ~b & ~c) | (terms[5] & a & ~b & c) | (terms[6] & a & b & ~c) | (terms[7] & a & b & c);
  });
  return Outcome::Next;
}

// clang-format off: these are no declarations
TERNARY(prmt, u32, u32, u32, u32, permuted(a, b, c))
// clang-format on

OPERATION(prmt_mode) {
  const u32 mode = u32(insn.immediate);
  map<u32, u32, u32, u32>(warp, insn, active, [=](u32 a, u32 b, u32 c) { return permuted_by_mode(a, b, c, mode); });
  return Outcome::Next;
}
// clang-format off: these are no declarations
TERNARY(shf_l_wrap, u32, u32, u32, u32, funnel_left(a, b, c & 31))
TERNARY(shf_l_clamp, u32, u32, u32, u32, funnel_left(a, b, at_most_32(c)))
TERNARY(shf_r_wrap, u32, u32, u32, u32, funnel_right(a, b, c & 31))
TERNARY(shf_r_clamp, u32, u32, u32, u32, funnel_right(a, b, at_most_32(c)))

TERNARY(dp4a_uu, u32, u32, u32, u32, dot4<u8, u8>(a, b, c))
TERNARY(dp4a_us, u32, u32, u32, u32, dot4<u8, s8>(a, b, c))
TERNARY(dp4a_su, u32, u32, u32, u32, dot4<s8, u8>(a, b, c))
TERNARY(dp4a_ss, u32, u32, u32, u32, dot4<s8, s8>(a, b, c))
// clang-format on

#define DOT2(NAME, A, B)                                                                                               \
  TERNARY(dp2a_lo_##NAME, u32, u32, u32, u32, dot2<A, B>(a, b, c, 0))                                                  \
  TERNARY(dp2a_hi_##NAME, u32, u32, u32, u32, dot2<A, B>(a, b, c, 1))
// clang-format off: these are no declarations
DOT2(uu, u16, u8)
DOT2(us, u16, s8)
DOT2(su, s16, u8)
DOT2(ss, s16, s8)
// clang-format on

// Predicates hold a bit for each lane.
OPERATION(and_pred) {
  set_predicate(warp, insn.a[0], warp.predicate(insn.a[1]) & warp.predicate(insn.a[2]), active);
  return Outcome::Next;
}
OPERATION(or_pred) {
  set_predicate(warp, insn.a[0], warp.predicate(insn.a[1]) | warp.predicate(insn.a[2]), active);
  return Outcome::Next;
}
OPERATION(xor_pred) {
  set_predicate(warp, insn.a[0], warp.predicate(insn.a[1]) ^ warp.predicate(insn.a[2]), active);
  return Outcome::Next;
}
OPERATION(not_pred) {
  set_predicate(warp, insn.a[0], ~warp.predicate(insn.a[1]), active);
  return Outcome::Next;
}
OPERATION(mov_pred) {
  set_predicate(warp, insn.a[0], warp.predicate(insn.a[1]), active);
  return Outcome::Next;
}
