// Groups of copies: a thread commits those that it has started, and waits until all but its latest groups are done.
#pragma once
#include "../sync/async_state.h"
#include "worker.h"

// The group that a copy is in which the thread starts now. Call `done` when the copy has taken effect.
std::shared_ptr<CopyGroup> join_group(std::unique_ptr<CopyGroups> &groups);
void leave_group(Machine &machine, CopyGroup &group);

void commit_group(std::unique_ptr<CopyGroups> &groups);
// Whether all groups but the latest `allowed` are done; those are then forgotten.
bool groups_done(std::unique_ptr<CopyGroups> &groups, u64 allowed);
