#include "regions.h"

#include <algorithm>
#include <cstring>

void begins(std::vector<Effects::Region> &regions, u32 begin, u32 bytes) { regions.push_back({begin, begin + bytes}); }

void ends(std::vector<Effects::Region> &regions, u32 begin, u32 bytes) {
  const auto same = [=](const Effects::Region &region) { return region.begin == begin && region.end == begin + bytes; };
  const auto found = std::find_if(regions.begin(), regions.end(), same);
  if (found == regions.end()) return;
  *found = regions.back();
  regions.pop_back();
}

bool touches(const std::vector<Effects::Region> &regions, u32 begin, u32 bytes) {
  for (const Effects::Region &region : regions)
    if (begin < region.end && region.begin < begin + bytes) return true;
  return false;
}

void nothing_lands(Block &owner, u32 offset, u32 bytes) {
  if (owner.effects && touches(owner.effects->landing, offset, bytes))
    throw Fault(fault::COPY, "shared memory at " + hex(offset) + " that a copy under way writes");
}

void nothing_leaves(Block &owner, u32 offset, u32 bytes) {
  if (owner.effects && touches(owner.effects->leaving, offset, bytes))
    throw Fault(fault::COPY, "shared memory at " + hex(offset) + " that a copy under way reads");
}

void poison(u8 *bytes, u32 count) { std::memset(bytes, 0x7f, count); }
