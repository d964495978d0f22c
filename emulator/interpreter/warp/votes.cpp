// vote, match, redux, elect and activemask: what the lanes of a warp say together.
#include "../scalar/elementwise.h"
#include "../scalar/rounding.h"

namespace {
// The members that the active lanes name, or a Fault; 0 where the group must wait for some.
u32 members_of(Machine &machine, Warp &warp, s32 place, u32 active) {
  const u32 *masks = warp.word(place);
  u32 all = 0;
  EACH_LANE(lane) {
    if (!(masks[lane] >> lane & 1)) throw Fault(fault::DIVERGENCE, "the lane is not a member of its mask", lane);
    all |= masks[lane];
  }
  return together(machine, warp, all, active) ? all & active : 0;
}

void give(Warp &warp, s32 place, u32 value, u32 active) {
  if (place < 0) return;
  u32 *target = warp.word(place);
  EACH_LANE(lane) target[lane] = value;
}

// For each set of lanes that name the same members.
template <class F> void each_mask(Warp &warp, s32 place, u32 active, F f) {
  const u32 *masks = warp.word(place);
  u32 left = active;
  while (left) {
    const u32 mask = masks[__builtin_ctz(left)];
    u32 same = 0;
    for (u32 lane = 0; lane < LANES; ++lane)
      if (left >> lane & 1 && masks[lane] == mask) same |= 1u << lane;
    left &= ~same;
    f(same);
  }
}

template <class T, class F> Outcome reduce(Machine &machine, Warp &warp, const Insn &insn, u32 active, F f) {
  if (!members_of(machine, warp, insn.a[2], active)) return Outcome::Blocked;
  u32 values[LANES];
  std::memcpy(values, warp.word(insn.a[1]), sizeof values);
  each_mask(warp, insn.a[2], active, [&](u32 lanes) {
    T result{};
    bool first = true;
    for (u32 left = lanes; left; left &= left - 1) {
      const T value = __builtin_bit_cast(T, values[__builtin_ctz(left)]);
      result = first ? value : f(result, value);
      first = false;
    }
    give(warp, insn.a[0], __builtin_bit_cast(u32, result), lanes);
  });
  return Outcome::Next;
}

template <class Word> Outcome match(Machine &machine, Warp &warp, const Insn &insn, u32 active, bool all) {
  if (!members_of(machine, warp, insn.a[3], active)) return Outcome::Blocked;
  Word values[LANES];
  std::memcpy(values, warp.word(insn.a[2]), sizeof values);
  each_mask(warp, insn.a[3], active, [&](u32 lanes) {
    for (u32 left = lanes; left; left &= left - 1) {
      const u32 lane = u32(__builtin_ctz(left));
      u32 same = 0;
      for (u32 other = lanes; other; other &= other - 1)
        if (values[__builtin_ctz(other)] == values[lane]) same |= other & -other;
      const u32 result = all && same != lanes ? 0 : same;
      give(warp, insn.a[0], result, 1u << lane);
      set_predicate(warp, insn.a[1], result ? ~0u : 0, 1u << lane);
    }
  });
  return Outcome::Next;
}
} // namespace

// a[0] target, a[1] the predicate, a[2] the members.
#define VOTE(NAME, WRITE)                                                                                              \
  OPERATION(vote_##NAME) {                                                                                             \
    if (!members_of(machine, warp, insn.a[2], active)) return Outcome::Blocked;                                        \
    const u32 predicate = warp.predicate(insn.a[1]);                                                                   \
    each_mask(warp, insn.a[2], active, [&](u32 lanes) {                                                                \
      const u32 votes = predicate & lanes;                                                                             \
      WRITE;                                                                                                           \
    });                                                                                                                \
    return Outcome::Next;                                                                                              \
  }
VOTE(all, set_predicate(warp, insn.a[0], votes == lanes ? ~0u : 0, lanes))
VOTE(any, set_predicate(warp, insn.a[0], votes ? ~0u : 0, lanes))
VOTE(uni, set_predicate(warp, insn.a[0], votes == lanes || !votes ? ~0u : 0, lanes))
VOTE(ballot, give(warp, insn.a[0], votes, lanes))

// a[0] target, a[1] predicate or -1, a[2] values, a[3] members.
OPERATION(match_any_32) { return match<u32>(machine, warp, insn, active, false); }
OPERATION(match_any_64) { return match<u64>(machine, warp, insn, active, false); }
OPERATION(match_all_32) { return match<u32>(machine, warp, insn, active, true); }
OPERATION(match_all_64) { return match<u64>(machine, warp, insn, active, true); }

// a[0] target, a[1] values, a[2] members.
#define REDUX(NAME, T, ...)                                                                                            \
  OPERATION(redux_##NAME) {                                                                                            \
    return reduce<T>(machine, warp, insn, active, [](T a, T b) { return T(__VA_ARGS__); });                            \
  }
REDUX(add, u32, a + b)
REDUX(and, u32, a &b)
REDUX(or, u32, a | b)
REDUX(xor, u32, a ^ b)
REDUX(min_u32, u32, a < b ? a : b)
REDUX(max_u32, u32, a > b ? a : b)
REDUX(min_s32, s32, a < b ? a : b)
REDUX(max_s32, s32, a > b ? a : b)

// Floats: `immediate` 1: of magnitudes, 2: a NaN decides. Without it, NaNs are passed over.
template <class F> static Outcome reduce_float(Machine &machine, Warp &warp, const Insn &insn, u32 active, F better) {
  const bool magnitudes = insn.immediate & 1, nan_decides = insn.immediate & 2;
  const auto value = [=](f32 a) { return magnitudes ? f32_of(bits_of(a) & 0x7fffffff) : a; };
  if (!members_of(machine, warp, insn.a[2], active)) return Outcome::Blocked;
  f32 values[LANES];
  std::memcpy(values, warp.word(insn.a[1]), sizeof values);
  each_mask(warp, insn.a[2], active, [&](u32 lanes) {
    f32 result = f32_of(NAN_F32);
    for (u32 left = lanes; left; left &= left - 1) {
      const f32 next = value(values[__builtin_ctz(left)]);
      if (next != next) {
        if (nan_decides) {
          result = f32_of(NAN_F32);
          break;
        }
        continue;
      }
      if (result != result || better(next, result)) result = next;
    }
    give(warp, insn.a[0], bits_of(result), lanes);
  });
  return Outcome::Next;
}
OPERATION(redux_min_f32) {
  return reduce_float(machine, warp, insn, active,
                      [](f32 a, f32 b) { return a < b || (a == b && bits_of(a) > bits_of(b)); });
}
OPERATION(redux_max_f32) {
  return reduce_float(machine, warp, insn, active,
                      [](f32 a, f32 b) { return a > b || (a == b && bits_of(a) < bits_of(b)); });
}

// a[0] target or -1, a[1] predicate, a[2] members: the lowest member is elected.
OPERATION(elect) {
  if (!members_of(machine, warp, insn.a[2], active)) return Outcome::Blocked;
  each_mask(warp, insn.a[2], active, [&](u32 lanes) {
    const u32 leader = u32(__builtin_ctz(lanes));
    give(warp, insn.a[0], leader, lanes);
    set_predicate(warp, insn.a[1], 1u << leader, lanes);
  });
  return Outcome::Next;
}

OPERATION(activemask) {
  give(warp, insn.a[0], warp.now.mask, active);
  return Outcome::Next;
}
