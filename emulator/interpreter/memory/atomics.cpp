// atom and red: what each active lane does to memory, one lane after the other.
//
// a[0], a[1]: the address; a[2]: space and flags; a[3], a[4]: the targets in the pool (-1: red); a[5], a[6]: the
// sources. Vectors have as many as elements; compare-and-swap has what is compared, then what is written. With `locks`
// a kernel may take a lock by it.
#include <cstring>

#include "../scalar/elementwise.h"
#include "../scalar/halves.h"
#include "access.h"

namespace {
template <class T> T read(const u8 *place) {
  T value;
  std::memcpy(&value, place, sizeof(T));
  return value;
}

// `f` takes the old value, the lane's sources from an element on, and gives the new one. `Raw` is the type in memory.
template <class Raw, class F>
Outcome atomic(Machine &machine, Warp &warp, const Insn &insn, u32 active, u32 elements, F f, bool locks = false) {
  using Word = WordOf<Raw>;
  u64 addresses[LANES];
  addresses_of(warp, insn, addresses);
  const Space space = space_of(insn.a[2]);
  const s32 *pool = machine.grid_of(warp).launch->program->pool, *targets = pool + insn.a[3],
            *sources = pool + insn.a[5];
  u8 *places[LANES];
  order_accesses(machine, warp, insn.a[2], addresses, true, true, active);
  machine.memory().all(warp, space, addresses, u32(sizeof(Raw)) * elements, Access::Atomic, active, places);
  const bool backwards = machine.adversarial() && machine.random() & 1;
  bool changed = false;
  for (u32 left = active; left;) {
    const u32 lane = backwards ? 31 - u32(__builtin_clz(left)) : u32(__builtin_ctz(left));
    left &= ~(1u << lane);
    for (u32 i = 0; i < elements; ++i) {
      const auto source = [&](u32 j) { return Raw(reinterpret_cast<const Word *>(warp.word(sources[i + j]))[lane]); };
      const Raw old = read<Raw>(places[lane] + i * sizeof(Raw)), value = f(old, source);
      changed |= value != old;
      std::memcpy(places[lane] + i * sizeof(Raw), &value, sizeof(Raw));
      if (u32(insn.a[4]) > i && targets[i] >= 0) reinterpret_cast<Word *>(warp.word(targets[i]))[lane] = Word(old);
    }
  }
  if (changed) {
    ++machine.changes;
    if (!locks || !machine.adversarial()) return Outcome::Next;
    machine.let_others_run(warp);
    return Outcome::Yield;
  }
  const u64 first = addresses[u32(__builtin_ctz(active))];
  return warp.polled.again(first) ? Outcome::Yield : Outcome::Next;
}

template <class T, class F> auto joined(F f) { // f of two values of type T, whose bits are in memory
  using Raw = std::conditional_t<sizeof(T) == 8, u64, u32>;
  return [=](Raw old, auto source) {
    return __builtin_bit_cast(Raw, T(f(__builtin_bit_cast(T, old), __builtin_bit_cast(T, source(0)))));
  };
}

// Float sums in global memory flush subnormal numbers, those in shared memory do not.
bool in_shared(const Warp &warp, const Insn &insn, u32 active) {
  if (space_of(insn.a[2]) != Space::Generic) return space_of(insn.a[2]) == Space::Shared;
  const u64 *base = reinterpret_cast<const u64 *>(warp.registers + insn.a[0]);
  return insn.a[0] >= 0 && insn.a[1] && base[__builtin_ctz(active)] >= SHARED_WINDOW;
}

u32 two_halves(u32 a, u32 b, u32 (*f)(u32, u32)) { return f(a & 0xffff, b & 0xffff) | f(a >> 16, b >> 16) << 16; }
template <class H, bool LARGER> u32 half_extremum(u32 a, u32 b) { return half_extreme<H, LARGER>(a, b, false, false); }
} // namespace

#define ATOMIC(NAME, RAW, ...)                                                                                         \
  OPERATION(atom_##NAME) { return atomic<RAW>(machine, warp, insn, active, 1, __VA_ARGS__); }
#define ATOMIC2(NAME, T, ...) ATOMIC(NAME, std::make_unsigned_t<T>, joined<T>([](T a, T b) { return T(__VA_ARGS__); }))
ATOMIC2(add_u32, u32, a + b)
ATOMIC2(add_u64, u64, a + b)
ATOMIC2(and_32, u32, a &b)
ATOMIC2(and_64, u64, a &b)
ATOMIC2(or_32, u32, a | b)
ATOMIC2(or_64, u64, a | b)
ATOMIC2(xor_32, u32, a ^ b)
ATOMIC2(xor_64, u64, a ^ b)
ATOMIC(exch_32, u32, [](u32, auto source) { return source(0); }, true)
ATOMIC(exch_64, u64, [](u64, auto source) { return source(0); }, true)
ATOMIC2(inc_u32, u32, a >= b ? 0 : a + 1)
ATOMIC2(dec_u32, u32, a == 0 || a > b ? b : a - 1)
ATOMIC2(min_u32, u32, a < b ? a : b)
ATOMIC2(max_u32, u32, a > b ? a : b)
ATOMIC2(min_s32, s32, a < b ? a : b)
ATOMIC2(max_s32, s32, a > b ? a : b)
ATOMIC2(min_u64, u64, a < b ? a : b)
ATOMIC2(max_u64, u64, a > b ? a : b)
ATOMIC2(min_s64, s64, a < b ? a : b)
ATOMIC2(max_s64, s64, a > b ? a : b)
ATOMIC(cas_16, u16, [](u16 old, auto source) { return old == source(0) ? source(1) : old; }, true)
ATOMIC(cas_32, u32, [](u32 old, auto source) { return old == source(0) ? source(1) : old; }, true)
ATOMIC(cas_64, u64, [](u64 old, auto source) { return old == source(0) ? source(1) : old; }, true)

OPERATION(atom_add_f32) {
  const u32 elements = u32(insn.a[6]);
  if (in_shared(warp, insn, active))
    return atomic<u32>(machine, warp, insn, active, elements,
                       joined<f32>([](f32 a, f32 b) { return canonical(a + b); }));
  return atomic<u32>(machine, warp, insn, active, elements,
                     joined<f32>([](f32 a, f32 b) { return flushed(canonical(flushed(a) + flushed(b))); }));
}
OPERATION(atom_add_f64) {
  return atomic<u64>(machine, warp, insn, active, 1, joined<f64>([](f64 a, f64 b) { return a + b; }));
}

// Of 16 bits, one or two in an element, and vectors of them.
#define SHORT(NAME, H, ADD)                                                                                            \
  OPERATION(atom_##NAME##_##H) {                                                                                       \
    return atomic<u16>(machine, warp, insn, active, u32(insn.a[6]),                                                    \
                       [](u16 old, auto source) { return u16(ADD(old, source(0))); });                                 \
  }                                                                                                                    \
  OPERATION(atom_##NAME##_##H##x2) {                                                                                   \
    return atomic<u32>(machine, warp, insn, active, u32(insn.a[6]),                                                    \
                       [](u32 old, auto source) { return two_halves(old, source(0), ADD); });                          \
  }
#define SHORTS(H, TYPE)                                                                                                \
  SHORT(add, H, half_add<TYPE>)                                                                                        \
  SHORT(min, H, (half_extremum<TYPE, false>))                                                                          \
  SHORT(max, H, (half_extremum<TYPE, true>))
SHORTS(f16, F16)
SHORTS(bf16, BF16)

namespace {
struct Wide {
  u64 low, high;
  bool operator==(const Wide &other) const { return low == other.low && high == other.high; }
};
// Values of 128 bits: a[4] and a[6] count registers of 64 bits, two for a value.
template <bool COMPARES> Outcome exchange_wide(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  u64 addresses[LANES];
  addresses_of(warp, insn, addresses);
  const s32 *pool = machine.grid_of(warp).launch->program->pool, *targets = pool + insn.a[3],
            *sources = pool + insn.a[5];
  u8 *places[LANES];
  order_accesses(machine, warp, insn.a[2], addresses, true, true, active);
  machine.memory().all(warp, space_of(insn.a[2]), addresses, sizeof(Wide), Access::Atomic, active, places);
  EACH_LANE(lane) {
    const auto source = [&](s32 i) { return Wide{warp.wide(sources[i])[lane], warp.wide(sources[i + 1])[lane]}; };
    const Wide old = read<Wide>(places[lane]);
    const Wide value = COMPARES ? (old == source(0) ? source(2) : old) : source(0);
    if (!(value == old)) ++machine.changes;
    std::memcpy(places[lane], &value, sizeof value);
    if (insn.a[4] == 0) continue;
    warp.wide(targets[0])[lane] = old.low;
    warp.wide(targets[1])[lane] = old.high;
  }
  return Outcome::Next;
}
} // namespace
OPERATION(atom_exch_128) { return exchange_wide<false>(machine, warp, insn, active); }
OPERATION(atom_cas_128) { return exchange_wide<true>(machine, warp, insn, active); }
