// Accesses of shared memory by the lanes of one warp. Lanes need not run together, even where they are together here:
// what one wrote is there for another one after bar.warp.sync, or after whatever orders warps. shfl, vote and the like
// order no memory.
#pragma once
#include <memory>
#include <vector>

#include "../memory/memory.h"

struct LaneCell { // four bytes of shared memory: the last write and the last reads by a warp
  struct Write {
    u32 agent = 0, stamp = 0, line = 0;
    u8 lane = 0, bytes = 0;
  } write;
  struct Reads {
    u32 agent = 0, stamp = 0, line = 0, lanes = 0;
    u8 bytes = 0;
  } reads;
};

// What the lanes of a warp have seen of each other. Stamps count all synchronisations of all warps.
class LaneClock {
public:
  void all(u32 &stamps) { // all lanes see everything
    everything_ = ++stamps;
    seen_.reset();
  }
  void some(u32 &stamps, u32 members);
  bool sees(u32 reader, u32 lane, u32 stamp) const {
    return stamp < everything_ || (seen_ && stamp < seen_->of[reader][lane]);
  }

private:
  struct Seen {
    u32 of[LANES][LANES] = {}; // up to which stamp a lane has seen another one
  };
  u32 everything_ = 0;
  std::unique_ptr<Seen> seen_; // only after barriers of some lanes
};

struct LaneAccess {
  const LaneClock &clock;
  u32 agent, stamp, line, lane;
  bool writes;
};

// Records an access of the bytes from `offset` on. A Fault if another lane's access is not in order with it.
void touch_lane(std::vector<LaneCell> &cells, const LaneAccess &mine, u32 offset, u32 bytes);
