// multimem: an address of multicast memory stands for a place in the memory of each rank.
//
// a[0], a[1]: the address; a[2]: the flags of access.h; a[3], a[4]: the registers of the values in the pool.
#include <cstring>

#include "../scalar/elementwise.h"
#include "../scalar/halves.h"
#include "../sync/races.h"
#include "access.h"

namespace {
constexpr u32 MOST = 8; // values of an instruction
enum class Does : u8 { Load, Store, Reduce };

Access access_of(Does does, bool strong) {
  if (does == Does::Load) return strong ? Access::StrongRead : Access::Read;
  return strong ? Access::Atomic : Access::Write;
}

// `f` gets a lane, the number of a copy, whether it is the last one, and its place.
template <Does DOES, class F>
Outcome each_copy(Machine &machine, Warp &warp, const Insn &insn, u32 active, u32 bytes, F f) {
  u64 addresses[LANES];
  addresses_of(warp, insn, addresses);
  const Launch &launch = *machine.grid_of(warp).launch;
  const s32 flags = insn.a[2];
  const bool strong = flags & STRONG;
  Races *races = strong ? machine.races() : nullptr;
  if (DOES != Does::Load) ++machine.changes;
  EACH_LANE(lane) {
    const Range &range = machine.memory().multicast(launch, addresses[lane], bytes, lane);
    for (u32 copy = 0; copy < range.copies; ++copy) {
      const u64 address = range.first + (addresses[lane] - range.begin) + copy * range.step;
      const auto order = [&] {
        if (races)
          races->strong(warp.agent, address, DOES != Does::Store, DOES != Does::Load, Order(flags >> ORDER_SHIFT & 3),
                        Scope(flags >> SCOPE_SHIFT & 3));
      };
      if (DOES != Does::Load) order(); // a release has what came before it
      u8 *place = machine.memory().at(warp, Space::Global, address, bytes, access_of(DOES, strong), lane);
      f(lane, copy, copy + 1 == range.copies, place);
      if (DOES == Does::Load) order();
    }
  }
  return Outcome::Next;
}

const s32 *registers(Machine &machine, Warp &warp, const Insn &insn) {
  return machine.grid_of(warp).launch->program->pool + insn.a[3];
}

template <class Raw> Raw &value_of(Warp &warp, s32 place, u32 lane) {
  return reinterpret_cast<Raw *>(warp.word(place))[lane];
}

template <class Raw> Outcome store(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  const s32 *sources = registers(machine, warp, insn);
  const u32 count = u32(insn.a[4]);
  return each_copy<Does::Store>(
      machine, warp, insn, active, u32(sizeof(Raw)) * count, [&](u32 lane, u32, bool, u8 *place) {
        for (u32 i = 0; i < count; ++i)
          std::memcpy(place + i * sizeof(Raw), &value_of<Raw>(warp, sources[i], lane), sizeof(Raw));
      });
}

template <class Raw, class T> Outcome add(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  const s32 *sources = registers(machine, warp, insn);
  const u32 count = u32(insn.a[4]);
  return each_copy<Does::Reduce>(machine, warp, insn, active, u32(sizeof(Raw)) * count,
                                 [&](u32 lane, u32, bool, u8 *place) {
                                   for (u32 i = 0; i < count; ++i) {
                                     T old;
                                     std::memcpy(&old, place + i * sizeof(T), sizeof(T));
                                     const T sum = T(old + Held<T>::get(value_of<Raw>(warp, sources[i], lane)));
                                     std::memcpy(place + i * sizeof(T), &sum, sizeof(T));
                                   }
                                 });
}

// The sum over the copies, in their order, of values that are `PARTS` of type T in a register.
template <class Raw, u32 PARTS, class T, class Get, class Put>
Outcome sum(Machine &machine, Warp &warp, const Insn &insn, u32 active, Get get, Put put) {
  const s32 *targets = registers(machine, warp, insn);
  const u32 count = u32(insn.a[4]);
  T sums[MOST * PARTS];
  return each_copy<Does::Load>(machine, warp, insn, active, u32(sizeof(Raw)) * count,
                               [&](u32 lane, u32 copy, bool last, u8 *place) {
                                 for (u32 i = 0; i < count; ++i) {
                                   Raw raw, result = 0;
                                   std::memcpy(&raw, place + i * sizeof(Raw), sizeof(Raw));
                                   for (u32 part = 0; part < PARTS; ++part) {
                                     T &all = sums[i * PARTS + part];
                                     all = copy ? T(all + get(raw, part)) : get(raw, part);
                                     if (last) result |= put(all, part);
                                   }
                                   if (last && targets[i] >= 0) value_of<Raw>(warp, targets[i], lane) = result;
                                 }
                               });
}

template <class H> Outcome sum_halves(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  return sum<u32, 2, f32>(
      machine, warp, insn, active, [](u32 raw, u32 part) { return H::value(raw >> 16 * part); },
      [](f32 all, u32 part) { return H::code(all) << 16 * part; });
}

template <class T> Outcome sum_whole(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  using Raw = WordOf<T>;
  return sum<Raw, 1, T>(
      machine, warp, insn, active, [](Raw raw, u32) { return Held<T>::get(raw); },
      [](T all, u32) { return Held<T>::put(all); });
}
} // namespace

OPERATION(multimem_st_32) { return store<u32>(machine, warp, insn, active); }
OPERATION(multimem_st_64) { return store<u64>(machine, warp, insn, active); }
OPERATION(multimem_add_u32) { return add<u32, u32>(machine, warp, insn, active); }
OPERATION(multimem_add_u64) { return add<u64, u64>(machine, warp, insn, active); }
OPERATION(multimem_add_f32) { return add<u32, f32>(machine, warp, insn, active); }
// Of 16 bits: added in float32, and rounded once.
OPERATION(multimem_sum_f16x2) { return sum_halves<F16>(machine, warp, insn, active); }
OPERATION(multimem_sum_bf16x2) { return sum_halves<BF16>(machine, warp, insn, active); }
OPERATION(multimem_sum_u32) { return sum_whole<u32>(machine, warp, insn, active); }
OPERATION(multimem_sum_u64) { return sum_whole<u64>(machine, warp, insn, active); }
OPERATION(multimem_sum_f32) { return sum_whole<f32>(machine, warp, insn, active); }
