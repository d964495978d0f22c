// cp.async: copies of 4, 8 or 16 bytes by threads.
#include <cstring>

#include "addresses.h"
#include "groups.h"
#include "regions.h"

namespace {

struct SmallCopy {
  Worker worker;
  Block *block, *owner;
  const Launch *launch;
  u64 from;
  u32 to, bytes, read; // `read` bytes are copied, the rest is zero
  u32 lane;
};

void perform(const SmallCopy &copy) {
  u8 *place = copy.owner->shared.data() + offset_of(copy.to);
  if (copy.read) {
    std::memcpy(place,
                copy.worker.machine->memory().global(*copy.launch, copy.from, copy.read, Access::Read, copy.lane),
                copy.read);
    touches_global(copy.worker, copy.from, copy.read, Access::Read);
  }
  std::memset(place + copy.read, 0, copy.bytes - copy.read);
  touches_shared(copy.worker, *copy.owner, offset_of(copy.to), copy.bytes, Access::Write);
  copy.worker.machine->counts.copied_bytes += copy.bytes;
}

void delayed(Machine &machine, Warp &warp, const SmallCopy &copy) {
  if (!machine.adversarial()) {
    perform(copy);
    end_worker(copy.worker);
    return;
  }
  auto group = join_group(async_of(warp).copies[copy.lane]);
  u8 *place = copy.owner->shared.data() + offset_of(copy.to);
  nothing_lands(*copy.owner, offset_of(copy.to), copy.bytes);
  nothing_leaves(*copy.owner, offset_of(copy.to), copy.bytes);
  poison(place, copy.bytes);
  begins(copy.owner->effects->landing, offset_of(copy.to), copy.bytes);
  later(machine, *copy.block, [copy, group] {
    perform(copy);
    ends(copy.owner->effects->landing, offset_of(copy.to), copy.bytes);
    leave_group(*copy.worker.machine, *group);
    end_worker(copy.worker);
  });
}

using Groups = std::vector<std::shared_ptr<CopyGroup>>;

// Arrives when the copies are done that the thread has started before.
void arrive_when_done(const Worker &worker, Block *block, u32 address, const Groups &groups) {
  for (const auto &group : groups)
    if (group->under_way) {
      later(*worker.machine, *block, [=] { arrive_when_done(worker, block, address, groups); });
      return;
    }
  worker_arrives(worker, *block, address, 1, 0);
  end_worker(worker);
}

} // namespace

// a: to (place, wide, offset), from (place, wide, offset), bytes, bytes to read (place or -1), predicate that ignores
// the source (place or -1)
OPERATION(cp_async) {
  const u32 bytes = u32(insn.a[6]);
  const bool tracked = machine.adversarial() || machine.races();
  EACH_LANE(lane) {
    const u32 to = shared_in(warp, insn.a[0], insn.a[1], insn.a[2], lane);
    const u64 from = address_in(warp, insn.a[3], insn.a[4], insn.a[5], lane);
    u32 read = insn.a[7] < 0 ? bytes : warp.word(insn.a[7])[lane];
    if (insn.a[8] >= 0 && warp.predicate(insn.a[8]) >> lane & 1) read = 0;
    if (read > bytes)
      throw Fault(fault::COPY, "cp.async of " + std::to_string(bytes) + " bytes reads " + std::to_string(read), lane);
    if (to % bytes || (read && from % bytes))
      throw Fault(fault::MISALIGNED,
                  "cp.async of " + std::to_string(bytes) + " bytes from " + hex(from) + " to " + hex(to), lane);
    machine.memory().shared(*warp.block, to, bytes, lane);
    SmallCopy copy{
        {&machine, 0, 0, Proxy::Copy}, warp.block, warp.block, &launch_of(warp), from, to, bytes, read, lane};
    if (to >> RANK_SHIFT != warp.block->rank)
      throw Fault(fault::OUT_OF_BOUNDS, "cp.async to the shared memory of another block", lane);
    if (!tracked) {
      perform(copy);
      continue;
    }
    copy.worker = worker_in_group(machine, warp, Kind::Copies);
    if (Races *races = machine.races()) races->lane(warp, *copy.owner, offset_of(to), bytes, Access::Write, lane);
    delayed(machine, warp, copy);
  }
  ++machine.changes;
  return Outcome::Next;
}

OPERATION(cp_async_commit) {
  if (machine.adversarial()) EACH_LANE(lane) commit_group(async_of(warp).copies[lane]);
  if (Races *races = machine.races()) races->commit(warp.agent, Kind::Copies);
  return Outcome::Next;
}

// immediate: how many groups may be under way; -1: wait for all copies
OPERATION(cp_async_wait) {
  bool done = true;
  const u64 allowed = insn.immediate < 0 ? 0 : u64(insn.immediate);
  EACH_LANE(lane) {
    auto &groups = async_of(warp).copies[lane];
    if (insn.immediate < 0 && groups) commit_group(groups);
    done &= groups_done(groups, allowed);
  }
  if (!done) return Outcome::Blocked;
  if (Races *races = machine.races()) {
    if (insn.immediate < 0) races->commit(warp.agent, Kind::Copies);
    races->wait(warp.agent, Kind::Copies, u32(allowed));
  }
  return Outcome::Next;
}

// a: mbarrier (place, wide, offset), noinc
OPERATION(cp_async_arrive) {
  EACH_LANE(lane) {
    const u32 address = shared_in(warp, insn.a[0], insn.a[1], insn.a[2], lane);
    if (!insn.a[3]) mbarrier_arrive(machine, *warp.block, address, -1, 0);
    Groups groups;
    if (auto &own = async_of(warp).copies[lane]) {
      groups.assign(own->committed.begin(), own->committed.end());
      groups.push_back(own->open);
    }
    arrive_when_done(worker_after(machine, warp, Kind::Copies), warp.block, address, groups);
  }
  return Outcome::Next;
}
