// Operations that each lane does by itself, written as a function of the values of one lane.
//
// A type says how a register holds a value: 32 words for up to 32 bits, 16-bit values with zeros above; 32 double
// words for 64 bits. A warp whose lanes are all active takes the loop without a mask, which vectorises.
#pragma once
#include "../core/machine.h"

template <class T> struct Held {
  using Word = std::conditional_t<sizeof(T) == 8, u64, u32>;
  static T get(Word word) {
    if constexpr (std::is_floating_point_v<T>)
      return __builtin_bit_cast(T, word);
    else
      return T(word);
  }
  static Word put(T value) {
    if constexpr (std::is_floating_point_v<T>)
      return __builtin_bit_cast(Word, value);
    else
      return Word(std::make_unsigned_t<T>(value));
  }
};

struct Pair { // two float32 in a register of 64 bits
  f32 low, high;
};
template <> struct Held<Pair> {
  using Word = u64;
  static Pair get(u64 word) { return {__builtin_bit_cast(f32, u32(word)), __builtin_bit_cast(f32, u32(word >> 32))}; }
  static u64 put(Pair pair) {
    return u64(__builtin_bit_cast(u32, pair.high)) << 32 | __builtin_bit_cast(u32, pair.low);
  }
};

template <class T> using WordOf = typename Held<T>::Word;
template <class T> WordOf<T> *held(Warp &warp, s32 place) {
  return reinterpret_cast<WordOf<T> *>(warp.registers + place);
}

template <class Word> void blend(Word *target, const Word *values, u32 active) {
  for (u32 lane = 0; lane < LANES; ++lane) target[lane] = active >> lane & 1 ? values[lane] : target[lane];
}

// a[0] = f(a[1], ...). The register allocation keeps targets apart from sources.
template <class D, class F> inline void compute(Warp &warp, s32 place, u32 active, F f) {
  WordOf<D> *target = held<D>(warp, place);
  if (__builtin_expect(active == ALL_LANES, 1)) {
#pragma GCC ivdep
    for (u32 lane = 0; lane < LANES; ++lane) target[lane] = Held<D>::put(f(lane));
    return;
  }
  alignas(64) WordOf<D> values[LANES];
  for (u32 lane = 0; lane < LANES; ++lane) values[lane] = Held<D>::put(f(lane));
  blend(target, values, active);
}

template <class D, class A, class F> inline void map(Warp &warp, const Insn &insn, u32 active, F f) {
  const auto *a = held<A>(warp, insn.a[1]);
  compute<D>(warp, insn.a[0], active, [=](u32 lane) { return f(Held<A>::get(a[lane])); });
}
template <class D, class A, class B, class F> inline void map(Warp &warp, const Insn &insn, u32 active, F f) {
  const auto *a = held<A>(warp, insn.a[1]);
  const auto *b = held<B>(warp, insn.a[2]);
  compute<D>(warp, insn.a[0], active, [=](u32 lane) { return f(Held<A>::get(a[lane]), Held<B>::get(b[lane])); });
}
template <class D, class A, class B, class C, class F> inline void map(Warp &warp, const Insn &insn, u32 active, F f) {
  const auto *a = held<A>(warp, insn.a[1]);
  const auto *b = held<B>(warp, insn.a[2]);
  const auto *c = held<C>(warp, insn.a[3]);
  compute<D>(warp, insn.a[0], active,
             [=](u32 lane) { return f(Held<A>::get(a[lane]), Held<B>::get(b[lane]), Held<C>::get(c[lane])); });
}

// A bit for each lane.
template <class F> inline u32 bits(F f) {
  u32 result = 0;
  for (u32 lane = 0; lane < LANES; ++lane) result |= f(lane) ? 1u << lane : 0;
  return result;
}

inline void set_predicate(Warp &warp, s32 place, u32 value, u32 active) {
  if (place < 0) return;
  u32 &predicate = warp.predicate(place);
  predicate = (predicate & ~active) | (value & active);
}

#define UNARY(NAME, D, A, ...)                                                                                         \
  OPERATION(NAME) {                                                                                                    \
    map<D, A>(warp, insn, active, [](A a) -> D { return D(__VA_ARGS__); });                                            \
    return Outcome::Next;                                                                                              \
  }
#define BINARY(NAME, D, A, B, ...)                                                                                     \
  OPERATION(NAME) {                                                                                                    \
    map<D, A, B>(warp, insn, active, [](A a, B b) -> D { return D(__VA_ARGS__); });                                    \
    return Outcome::Next;                                                                                              \
  }
#define TERNARY(NAME, D, A, B, C, ...)                                                                                 \
  OPERATION(NAME) {                                                                                                    \
    map<D, A, B, C>(warp, insn, active, [](A a, B b, C c) -> D { return D(__VA_ARGS__); });                            \
    return Outcome::Next;                                                                                              \
  }
