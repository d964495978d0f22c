// st.async and red.async: stores to shared memory of a block of the cluster, which complete bytes of an mbarrier there.
#include <algorithm>
#include <cstring>

#include "../copies/regions.h"
#include "effects.h"
#include "races.h"
#include "shared_address.h"

namespace {
enum Reduction : s32 {
  Store,
  Add,
  Min,
  Max,
  MinSigned,
  MaxSigned,
  And,
  Or,
  Xor,
  Increment,
  Decrement
}; // as in lowering

template <class T> T reduced(Reduction how, T old, T value) {
  switch (how) {
  case Add:
    return old + value;
  case Min:
    return std::min(old, value);
  case Max:
    return std::max(old, value);
  case And:
    return old & value;
  case Or:
    return old | value;
  case Xor:
    return old ^ value;
  case Increment:
    return old >= value ? 0 : old + 1;
  case Decrement:
    return old == 0 || old > value ? value : old - 1;
  default:
    return value;
  }
}

struct AsyncStore {
  Block *mine, *owner;
  u32 offset, mbarrier, bytes;
  Reduction how;
  u8 data[32];
  u32 agent, line;
};

void put(AsyncStore &store) {
  u8 *place = store.owner->shared.data() + store.offset;
  if (store.how == Store) {
    std::memcpy(place, store.data, store.bytes);
  } else if (store.bytes == 8) {
    u64 old, value;
    std::memcpy(&old, place, 8);
    std::memcpy(&value, store.data, 8);
    value = reduced<u64>(store.how, old, value);
    std::memcpy(place, &value, 8);
  } else {
    u32 old, value;
    std::memcpy(&old, place, 4);
    std::memcpy(&value, store.data, 4);
    if (store.how == MinSigned || store.how == MaxSigned)
      value = u32(reduced<s32>(store.how == MinSigned ? Min : Max, s32(old), s32(value)));
    else
      value = reduced<u32>(store.how, old, value);
    std::memcpy(place, &value, 4);
  }
}

void take_effect(Machine &machine, AsyncStore &store) {
  put(store);
  if (Races *races = machine.races())
    races->shared(store.agent, *store.owner, store.offset, store.bytes,
                  store.how == Store ? Access::Write : Access::Atomic, Proxy::Generic, store.line);
  mbarrier_arrive(machine, *store.mine, store.mbarrier, 0, -s64(store.bytes), store.agent);
  if (Races *races = machine.races()) races->end(store.agent);
}

void start(Machine &machine, AsyncStore store) {
  if (!machine.adversarial()) return take_effect(machine, store);
  const bool alone = store.how == Store; // several reductions may be under way at once
  if (alone) {
    nothing_lands(*store.owner, store.offset, store.bytes);
    nothing_leaves(*store.owner, store.offset, store.bytes);
    poison(store.owner->shared.data() + store.offset, store.bytes);
    begins(store.owner->effects->landing, store.offset, store.bytes);
  }
  later(machine, *store.mine, [&machine, store, alone]() mutable {
    if (alone) ends(store.owner->effects->landing, store.offset, store.bytes);
    take_effect(machine, store);
  });
}
} // namespace

// a: address (place, wide), mbarrier (place, wide), values (begin and count in the pool), bytes of a value, reduction
OPERATION(STORE_ASYNC) {
  const s32 *values = machine.grid_of(warp).launch->program->pool + insn.a[4];
  const u32 count = u32(insn.a[5]), size = u32(insn.a[6]);
  EACH_LANE(lane) {
    const u32 address = shared_address(warp, insn, lane);
    AsyncStore store{};
    store.mbarrier = shared_address_at(warp, insn.a[2], insn.a[3] != 0, 0, lane);
    store.bytes = count * size;
    store.how = Reduction(insn.a[7]);
    if (address % store.bytes)
      throw Fault(fault::MISALIGNED, std::to_string(store.bytes) + " bytes at " + hex(address), lane);
    if (address >> RANK_SHIFT != store.mbarrier >> RANK_SHIFT)
      throw Fault(fault::MBARRIER, "a store to another block than its mbarrier's", lane);
    machine.memory().shared(*warp.block, address, store.bytes, lane);
    mbarrier_check(machine, *warp.block, store.mbarrier);
    for (u32 i = 0; i < count; ++i) {
      if (size == 8)
        std::memcpy(store.data + 8 * i, &warp.wide(values[i])[lane], 8);
      else
        std::memcpy(store.data + size * i, &warp.word(values[i])[lane], size);
    }
    store.mine = warp.block;
    store.owner = &machine.memory().owner(*warp.block, address, lane);
    store.offset = address & ((1u << RANK_SHIFT) - 1);
    store.line = machine.line_of(warp);
    if (Races *races = machine.races()) store.agent = races->at_mbarrier(warp.agent, *warp.block, store.mbarrier);
    start(machine, store);
  }
  ++machine.changes;
  return Outcome::Next;
}
