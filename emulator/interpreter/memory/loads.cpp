// ld and st, of one to eight values.
#include <cstring>

#include "../sync/races.h"
#include "access.h"

void order_accesses(Machine &machine, Warp &warp, s32 flags, const u64 (&addresses)[LANES], bool reads, bool writes,
                    u32 active) {
  Races *races = machine.races();
  if (!races || space_of(flags) == Space::Local) return;
  const u64 window = space_of(flags) == Space::Shared ? SHARED_WINDOW : 0;
  EACH_LANE(lane)
  races->strong(warp.agent, window | addresses[lane], reads, writes, Order(flags >> ORDER_SHIFT & 3),
                Scope(flags >> SCOPE_SHIFT & 3));
}

namespace {
// `T` is the type in memory, `R` the word of the register.
template <class T, class R> Outcome load(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  u64 addresses[LANES];
  addresses_of(warp, insn, addresses);
  const Space space = space_of(insn.a[2]);
  const bool strong = insn.a[2] & STRONG;
  const u32 count = u32(insn.a[4]);
  const s32 *targets = machine.grid_of(warp).launch->program->pool + insn.a[3];
  u8 *places[LANES];
  const Access access = strong ? Access::StrongRead : insn.a[2] & READ_ONLY ? Access::ReadOnly : Access::Read;
  machine.memory().all(warp, space, addresses, u32(sizeof(T)) * count, access, active, places);
  for (u32 i = 0; i < count; ++i) {
    if (targets[i] < 0) continue;
    R *target = reinterpret_cast<R *>(warp.word(targets[i]));
    if (active == ALL_LANES) {
      for (u32 lane = 0; lane < LANES; ++lane) {
        T value;
        std::memcpy(&value, places[lane] + i * sizeof(T), sizeof(T));
        target[lane] = R(value);
      }
    } else {
      EACH_LANE(lane) {
        T value;
        std::memcpy(&value, places[lane] + i * sizeof(T), sizeof(T));
        target[lane] = R(value);
      }
    }
  }
  if (!strong) return Outcome::Next;
  order_accesses(machine, warp, insn.a[2], addresses, true, false, active);
  const u64 first = addresses[u32(__builtin_ctz(active))];
  return warp.polled.again(first) ? Outcome::Yield : Outcome::Next;
}

// Parameters are the same for all lanes: a[0], a[1] are the registers in the pool, `immediate` the offset.
template <class T, class R> Outcome load_parameter(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  const Launch &launch = *machine.grid_of(warp).launch;
  const s32 *targets = launch.program->pool + insn.a[0];
  const u64 offset = u64(insn.immediate), count = u64(insn.a[1]);
  if (offset + count * sizeof(T) > launch.program->parameter_bytes)
    throw Fault(fault::OUT_OF_BOUNDS, "parameters at " + hex(offset));
  for (u32 i = 0; i < count; ++i) {
    if (targets[i] < 0) continue;
    T value;
    std::memcpy(&value, launch.parameters + offset + i * sizeof(T), sizeof(T));
    R *target = reinterpret_cast<R *>(warp.word(targets[i]));
    for (u32 lane = 0; lane < LANES; ++lane)
      if (active >> lane & 1) target[lane] = R(value);
  }
  return Outcome::Next;
}

template <class T, class R> Outcome store(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  u64 addresses[LANES];
  addresses_of(warp, insn, addresses);
  const Space space = space_of(insn.a[2]);
  const u32 count = u32(insn.a[4]);
  const s32 *sources = machine.grid_of(warp).launch->program->pool + insn.a[3];
  u8 *places[LANES];
  ++machine.changes;
  if (insn.a[2] & STRONG) order_accesses(machine, warp, insn.a[2], addresses, false, true, active);
  machine.memory().all(warp, space, addresses, u32(sizeof(T)) * count,
                       insn.a[2] & STRONG ? Access::Atomic : Access::Write, active, places);
  for (u32 i = 0; i < count; ++i) {
    const R *source = reinterpret_cast<const R *>(warp.word(sources[i]));
    EACH_LANE(lane) {
      const T value = T(source[lane]);
      std::memcpy(places[lane] + i * sizeof(T), &value, sizeof(T));
    }
  }
  return Outcome::Next;
}
} // namespace

#define LOAD(NAME, T, R)                                                                                               \
  OPERATION(NAME) { return load<T, R>(machine, warp, insn, active); }                                                  \
  OPERATION(NAME##_param) { return load_parameter<T, R>(machine, warp, insn, active); }
// Signed values are extended to the register, which holds 16 bits with zeros above.
LOAD(ld_8, u8, u32)
LOAD(ld_16, u16, u32)
LOAD(ld_32, u32, u32)
LOAD(ld_64, u64, u64)
LOAD(ld_8_wide, u8, u64)
LOAD(ld_16_wide, u16, u64)
LOAD(ld_32_wide, u32, u64)
LOAD(ld_s8, s8, u32)
LOAD(ld_s16, s16, u32)
LOAD(ld_s8_wide, s8, u64)
LOAD(ld_s16_wide, s16, u64)
LOAD(ld_s32_wide, s32, u64)
OPERATION(st_8) { return store<u8, u32>(machine, warp, insn, active); }
OPERATION(st_16) { return store<u16, u32>(machine, warp, insn, active); }
OPERATION(st_32) { return store<u32, u32>(machine, warp, insn, active); }
OPERATION(st_64) { return store<u64, u64>(machine, warp, insn, active); }
OPERATION(st_8_wide) { return store<u8, u64>(machine, warp, insn, active); }
OPERATION(st_16_wide) { return store<u16, u64>(machine, warp, insn, active); }
OPERATION(st_32_wide) { return store<u32, u64>(machine, warp, insn, active); }

// st.bulk: zeros in the block's shared memory. a[0], a[1]: the address; a[2], a[3]: the register of the bytes, and
// whether it has 64 bits.
OPERATION(st_bulk) {
  u64 addresses[LANES];
  addresses_of(warp, insn, addresses);
  EACH_LANE(lane) {
    const u64 bytes = insn.a[3] ? warp.wide(insn.a[2])[lane] : warp.word(insn.a[2])[lane];
    if (bytes % 8) throw Fault(fault::MISALIGNED, "st.bulk of " + std::to_string(bytes) + " bytes", lane);
    const u64 address = addresses[lane] & (SHARED_WINDOW - 1);
    for (u64 done = 0; done < bytes; done += 8)
      std::memset(machine.memory().at(warp, Space::Shared, address + done, 8, Access::Write, lane), 0, 8);
  }
  return Outcome::Next;
}
