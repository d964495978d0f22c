#include "groups.h"

std::shared_ptr<CopyGroup> join_group(std::unique_ptr<CopyGroups> &groups) {
  if (!groups) groups = std::make_unique<CopyGroups>();
  ++groups->open->under_way;
  return groups->open;
}

void leave_group(Machine &machine, CopyGroup &group) {
  --group.under_way;
  ++machine.changes;
}

void commit_group(std::unique_ptr<CopyGroups> &groups) {
  if (!groups) groups = std::make_unique<CopyGroups>();
  groups->committed.push_back(std::move(groups->open));
  groups->open = std::make_shared<CopyGroup>();
}

bool groups_done(std::unique_ptr<CopyGroups> &groups, u64 allowed) {
  if (!groups || groups->committed.size() <= allowed) return true;
  const size_t old = groups->committed.size() - allowed;
  for (size_t i = 0; i < old; ++i)
    if (groups->committed[i]->under_way) return false;
  groups->committed.erase(groups->committed.begin(), groups->committed.begin() + std::ptrdiff_t(old));
  return true;
}
