// ld and st, of one to eight values.
#include <cstring>

#include "../sync/races.h"
#include "access.h"

u64 key_of(Warp &warp, Space space, u64 address) {
  if (space == Space::Shared) return SHARED_WINDOW | address;
  if (space == Space::Local) return LOCAL_WINDOW | address;
  (void)warp;
  return address;
}

void acquire_at(Machine &machine, Warp &warp, Space space, const u64 (&addresses)[LANES], u32 active) {
  if (Races *races = machine.races())
    EACH_LANE(lane) races->acquire(warp.agent, key_of(warp, space, addresses[lane]));
}

void release_at(Machine &machine, Warp &warp, Space space, const u64 (&addresses)[LANES], u32 active) {
  if (Races *races = machine.races())
    EACH_LANE(lane) races->release(warp.agent, key_of(warp, space, addresses[lane]));
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
  machine.memory().all(warp, space, addresses, u32(sizeof(T)) * count, strong ? Access::Atomic : Access::Read, active,
                       places);
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
  if (insn.a[2] & ACQUIRE) acquire_at(machine, warp, space, addresses, active);
  const u64 first = addresses[u32(__builtin_ctz(active))];
  const bool again = warp.polled == first;
  warp.polled = first;
  return again ? Outcome::Yield : Outcome::Next;
}

template <class T, class R> Outcome store(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  u64 addresses[LANES];
  addresses_of(warp, insn, addresses);
  const Space space = space_of(insn.a[2]);
  const u32 count = u32(insn.a[4]);
  const s32 *sources = machine.grid_of(warp).launch->program->pool + insn.a[3];
  u8 *places[LANES];
  if (insn.a[2] & RELEASE) release_at(machine, warp, space, addresses, active);
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

// Signed values are extended to the register, which holds 16 bits with zeros above.
OPERATION(ld_8) { return load<u8, u32>(machine, warp, insn, active); }
OPERATION(ld_16) { return load<u16, u32>(machine, warp, insn, active); }
OPERATION(ld_32) { return load<u32, u32>(machine, warp, insn, active); }
OPERATION(ld_64) { return load<u64, u64>(machine, warp, insn, active); }
OPERATION(ld_8_wide) { return load<u8, u64>(machine, warp, insn, active); }
OPERATION(ld_16_wide) { return load<u16, u64>(machine, warp, insn, active); }
OPERATION(ld_32_wide) { return load<u32, u64>(machine, warp, insn, active); }
OPERATION(ld_s8) { return load<s8, u32>(machine, warp, insn, active); }
OPERATION(ld_s16) { return load<s16, u32>(machine, warp, insn, active); }
OPERATION(ld_s8_wide) { return load<s8, u64>(machine, warp, insn, active); }
OPERATION(ld_s16_wide) { return load<s16, u64>(machine, warp, insn, active); }
OPERATION(ld_s32_wide) { return load<s32, u64>(machine, warp, insn, active); }
OPERATION(st_8) { return store<u8, u32>(machine, warp, insn, active); }
OPERATION(st_16) { return store<u16, u32>(machine, warp, insn, active); }
OPERATION(st_32) { return store<u32, u32>(machine, warp, insn, active); }
OPERATION(st_64) { return store<u64, u64>(machine, warp, insn, active); }
OPERATION(st_8_wide) { return store<u8, u64>(machine, warp, insn, active); }
OPERATION(st_16_wide) { return store<u16, u64>(machine, warp, insn, active); }
OPERATION(st_32_wide) { return store<u32, u64>(machine, warp, insn, active); }
