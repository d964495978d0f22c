// The machine's making, and what it says of a fault.
#include "machine.h"

#include <algorithm>
#include <cstring>

#include "../memory/memory.h"
#include "../sync/races.h"

Machine::Machine(const Launch *launches, u32 count, const Schedule &schedule)
    : schedule(schedule), random(schedule.seed), launches_(launches), launch_count_(count),
      memory_(std::make_unique<Memory>(*this, launches, count)) {
  begun_.resize(count);
  for (u32 i = 0; i < count; ++i) devices_ = std::max(devices_, launches[i].device + 1);
  if (schedule.check_races) races_ = std::make_unique<Races>(*this, launches, count);
}

Machine::~Machine() = default;

u32 Machine::line_of(const Warp &warp) const {
  return u32(warp.block->cluster->grid->launch->program->lines[warp.now.pc]);
}

bool Machine::earlier_grids_ended(const Grid &grid) const {
  for (const auto &other : grids_)
    if (other->number < grid.number && other->launch->device == grid.launch->device && !other->over()) return false;
  return true;
}

FaultRecord Machine::describe(const Fault &fault) const {
  FaultRecord record{};
  std::strncpy(record.kind, fault.kind, sizeof record.kind - 1);
  std::strncpy(record.text, fault.what(), sizeof record.text - 1);
  record.lane = fault.lane;
  record.other_line = fault.other_line;
  record.warp = ~0u;
  if (current_) {
    const Block &block = *current_->block;
    record.launch = block.cluster->grid->number;
    std::memcpy(record.block, block.id, sizeof record.block);
    record.warp = current_->index;
    record.line = line_of(*current_);
  }
  if (fault.line) record.line = fault.line;
  return record;
}

std::string hex(u64 value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}
