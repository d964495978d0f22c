// What blocks do with other grids and other clusters of their grid: griddepcontrol, clusterlaunchcontrol.
#include <algorithm>
#include <array>
#include <cstring>

#include "../copies/regions.h"
#include "mbarriers.h"
#include "effects.h"
#include "races.h"
#include "shared_address.h"

namespace {
constexpr u32 RESPONSE_BYTES = 16;

struct Response { // of try_cancel, in an order of our own
  u32 first[3];
  u32 canceled;
};
static_assert(sizeof(Response) == RESPONSE_BYTES);

// Takes a cluster that has not begun away from the grid, of the size of the one that asks: kernels that take its work
// give each of their blocks the share of one.
Response cancel_cluster(Machine &machine, const Cluster &asks) {
  Response response{};
  Grid &grid = *asks.grid;
  const auto next = grid.places.begin() + std::ptrdiff_t(grid.places.empty() ? 0 : grid.next_cluster);
  const auto same = std::find_if(next, grid.places.end(),
                                 [&](const Place &place) { return std::equal(place.size, place.size + 3, asks.size); });
  if (grid.next_cluster == grid.clusters || (!grid.places.empty() && same == grid.places.end())) return response;
  if (!grid.places.empty()) std::rotate(next, same, same + 1);
  const Place place = grid.take();
  std::copy_n(place.first, 3, response.first);
  response.canceled = 1;
  const u64 blocks = u64(place.size[0]) * place.size[1] * place.size[2];
  grid.blocks_ended += blocks;
  grid.blocks_triggered += blocks;
  ++machine.changes;
  return response;
}

struct Answer { // where a response goes
  Block *block, *owner;
  u32 address, mbarrier;
  u32 agent, line;
};

std::array<u64, 2> halves(Warp &warp, s32 place, u32 lane) { // of a register of 128 bits
  return {warp.wide(place)[lane], warp.wide(place + s32(2 * LANES))[lane]};
}

void write_response(Machine &machine, const Answer &answer, const Response &response) {
  const u32 offset = answer.address & ((1u << RANK_SHIFT) - 1);
  std::memcpy(answer.owner->shared.data() + offset, &response, RESPONSE_BYTES);
  if (Races *races = machine.races())
    races->shared(answer.agent, *answer.owner, offset, RESPONSE_BYTES, Access::Write, Proxy::Async, answer.line);
  mbarrier_arrive(machine, *answer.block, answer.mbarrier, 0, -s64(RESPONSE_BYTES), answer.agent);
  if (Races *races = machine.races()) races->end(answer.agent);
}

void answer_later(Machine &machine, Warp &warp, u32 address, u32 mbarrier, const Response &response, u32 lane) {
  Answer answer{warp.block, nullptr, address, mbarrier, 0, machine.line_of(warp)};
  machine.memory().shared(*warp.block, address, RESPONSE_BYTES, lane);
  answer.owner = &machine.memory().owner(*warp.block, address, lane);
  mbarrier_check(machine, *warp.block, mbarrier);
  if (Races *races = machine.races()) answer.agent = races->at_mbarrier(warp.agent, *warp.block, mbarrier);
  if (!machine.adversarial()) return write_response(machine, answer, response);
  const u32 offset = address & ((1u << RANK_SHIFT) - 1);
  nothing_lands(*answer.owner, offset, RESPONSE_BYTES);
  begins(answer.owner->effects->landing, offset, RESPONSE_BYTES);
  later(machine, *warp.block, [&machine, answer, response, offset] {
    ends(answer.owner->effects->landing, offset, RESPONSE_BYTES);
    write_response(machine, answer, response);
  });
}
} // namespace

OPERATION(GRID_WAIT) {
  if (!machine.earlier_grids_ended(machine.grid_of(warp))) return Outcome::Blocked;
  if (Races *races = machine.races()) races->earlier_grids(warp.agent);
  return Outcome::Next;
}

OPERATION(GRID_LAUNCH_DEPENDENTS) {
  if (!warp.block->triggered) {
    warp.block->triggered = true;
    ++machine.grid_of(warp).blocks_triggered;
    ++machine.changes;
  }
  return Outcome::Next;
}

// a: response (place, wide), mbarrier (place, wide), whether all blocks of the cluster get it
OPERATION(CLUSTER_TRY_CANCEL) {
  if (active & (active - 1))
    throw Fault(fault::UNSUPPORTED, "clusterlaunchcontrol.try_cancel by several lanes at once");
  EACH_LANE(lane) {
    const u32 address = shared_address(warp, insn, lane);
    const u32 mbarrier = shared_address_at(warp, insn.a[2], insn.a[3] != 0, 0, lane);
    if (address % RESPONSE_BYTES) throw Fault(fault::MISALIGNED, "a response at " + hex(address), lane);
    const Response response = cancel_cluster(machine, *warp.block->cluster);
    if (!insn.a[4]) {
      answer_later(machine, warp, address, mbarrier, response, lane);
      continue;
    }
    constexpr u32 OFFSET = (1u << RANK_SHIFT) - 1;
    for (const auto &block : warp.block->cluster->blocks) {
      const u32 rank = block->rank << RANK_SHIFT;
      answer_later(machine, warp, (address & OFFSET) | rank, (mbarrier & OFFSET) | rank, response, lane);
    }
  }
  ++machine.changes;
  return Outcome::Next;
}

// a: response (place of 128 bits), result (predicate)
OPERATION(CLUSTER_IS_CANCELED) {
  u32 yes = 0;
  EACH_LANE(lane) yes |= u32(halves(warp, insn.a[0], lane)[1] >> 32 & 1) << lane;
  u32 &result = warp.predicate(insn.a[1]);
  result = (result & ~active) | yes;
  return Outcome::Next;
}

// a: response (place of 128 bits), x, y, z (places or -1)
OPERATION(CLUSTER_FIRST_BLOCK) {
  EACH_LANE(lane) {
    const auto [low, high] = halves(warp, insn.a[0], lane);
    // Kernels read it before they look whether a cluster was canceled; it is then undefined.
    const bool canceled = high >> 32 & 1;
    const u32 none = machine.schedule.fill.of(0);
    const u32 first[3] = {canceled ? u32(low) : none, canceled ? u32(low >> 32) : none, canceled ? u32(high) : none};
    for (int i = 0; i < 3; ++i)
      if (insn.a[1 + i] >= 0) warp.word(insn.a[1 + i])[lane] = first[i];
  }
  return Outcome::Next;
}
