// Accesses by the lanes of a warp against each other.
#include "lanes.h"

#include <algorithm>

namespace {
constexpr u32 WORD = 4;

[[noreturn]] void race(const LaneAccess &mine, u32 offset, u32 lane, u32 line, bool wrote) {
  Fault fault(fault::RACE,
              std::string(mine.writes ? "a write" : "a read") + " of shared memory at " + hex(offset) + " by lane " +
                  std::to_string(mine.lane) + " and " + (wrote ? "a write" : "a read") + " by lane " +
                  std::to_string(lane) + " of the same warp at line " + std::to_string(line) +
                  ": nothing orders lanes (bar.warp.sync)",
              mine.lane);
  fault.line = mine.line;
  fault.other_line = line;
  throw fault;
}

// One store by several lanes to one place may be of one value: which lane's it is does not matter then.
void check_write(const LaneCell::Write &write, const LaneAccess &mine, u32 offset, u8 bytes) {
  if (write.agent != mine.agent || write.lane == mine.lane || !(write.bytes & bytes)) return;
  if (mine.writes && write.line == mine.line) return;
  if (!mine.clock.sees(mine.lane, write.lane, write.stamp)) race(mine, offset, write.lane, write.line, true);
}

void check_reads(const LaneCell::Reads &reads, const LaneAccess &mine, u32 offset, u8 bytes) {
  if (reads.agent != mine.agent || !(reads.bytes & bytes)) return;
  for (u32 others = reads.lanes & ~(1u << mine.lane); others; others &= others - 1) {
    const u32 lane = u32(__builtin_ctz(others));
    if (!mine.clock.sees(mine.lane, lane, reads.stamp)) race(mine, offset, lane, reads.line, false);
  }
}

// Reads of one time and of the same bytes are kept together; others replace them, so that none is made up.
void add_read(LaneCell::Reads &reads, const LaneAccess &mine, u8 bytes) {
  if (reads.agent == mine.agent && reads.stamp == mine.stamp && reads.bytes == bytes)
    reads.lanes |= 1u << mine.lane;
  else
    reads = {mine.agent, mine.stamp, mine.line, 1u << mine.lane, bytes};
}
} // namespace

void LaneClock::some(u32 &stamps, u32 members) {
  if (!seen_) seen_ = std::make_unique<Seen>();
  u32 together[LANES] = {};
  const u32 now = ++stamps;
  for (u32 of = 0; of < LANES; ++of) {
    for (u32 rest = members; rest; rest &= rest - 1)
      together[of] = std::max(together[of], seen_->of[u32(__builtin_ctz(rest))][of]);
    if (members >> of & 1) together[of] = now;
  }
  for (u32 rest = members; rest; rest &= rest - 1)
    std::copy(std::begin(together), std::end(together), seen_->of[u32(__builtin_ctz(rest))]);
}

void touch_lane(std::vector<LaneCell> &cells, const LaneAccess &mine, u32 offset, u32 bytes) {
  const u32 end = offset + bytes;
  for (u32 word = offset / WORD; word * WORD < end; ++word) {
    const u32 begin = std::max(offset, word * WORD), last = std::min(end, word * WORD + WORD);
    const u8 touched = u8(((1u << (last - begin)) - 1) << begin % WORD);
    LaneCell &cell = cells[word];
    check_write(cell.write, mine, begin, touched);
    if (!mine.writes) {
      add_read(cell.reads, mine, touched);
      continue;
    }
    check_reads(cell.reads, mine, begin, touched);
    cell.write = {mine.agent, mine.stamp, mine.line, u8(mine.lane), touched};
  }
}
