#include "groups.h"

#include "../sync/races.h"

namespace {
u64 key_of(const CopyGroup &group) { return u64(reinterpret_cast<uintptr_t>(&group)); }
} // namespace

std::shared_ptr<CopyGroup> join_group(std::unique_ptr<CopyGroups> &groups) {
  if (!groups) groups = std::make_unique<CopyGroups>();
  ++groups->open->under_way;
  return groups->open;
}

void leave_group(const Worker &worker, CopyGroup &group) {
  --group.under_way;
  ++worker.machine->changes;
  if (Races *races = worker.machine->races()) races->release(worker.agent, key_of(group));
}

void commit_group(std::unique_ptr<CopyGroups> &groups) {
  if (!groups) groups = std::make_unique<CopyGroups>();
  groups->committed.push_back(std::move(groups->open));
  groups->open = std::make_shared<CopyGroup>();
}

bool groups_done(Machine &machine, Warp &warp, std::unique_ptr<CopyGroups> &groups, u64 allowed) {
  if (!groups || groups->committed.size() <= allowed) return true;
  const size_t old = groups->committed.size() - allowed;
  for (size_t i = 0; i < old; ++i)
    if (groups->committed[i]->under_way) return false;
  for (size_t i = 0; i < old; ++i) {
    if (Races *races = machine.races()) races->acquire(warp.agent, key_of(*groups->committed.front()));
    groups->committed.pop_front();
  }
  return true;
}
