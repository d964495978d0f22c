// Sets of reads that are not in order with each other. Equal sets are one.
#include "races_state.h"

namespace {
u64 mix(u64 hash, u64 value) { return (hash ^ value) * 0x9e3779b97f4a7c15ull ^ hash >> 29; }

u64 hash_of(const std::vector<Epoch> &set) {
  u64 hash = 1;
  for (const Epoch &epoch : set) hash = mix(mix(hash, u64(epoch.cluster) << 32 | epoch.step), epoch.source);
  return hash;
}

bool equal(const std::vector<Epoch> &a, const std::vector<Epoch> &b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!a[i].same(b[i])) return false;
  return true;
}
} // namespace

// A later read of a source takes the place of its earlier one.
Epoch EpochSets::add(const Epoch &to, const Epoch &read) {
  std::vector<Epoch> set;
  if (to.marks & Epoch::SET)
    set = sets_[to.step];
  else
    set.push_back(to);
  bool there = false;
  for (Epoch &epoch : set)
    if (epoch.cluster == read.cluster && epoch.source == read.source && epoch.proxy == read.proxy) {
      if (epoch.same(read)) return to;
      epoch = read;
      there = true;
    }
  if (!there) set.push_back(read);
  Epoch result;
  result.cluster = ~0u;
  result.marks = Epoch::SET;
  std::vector<u32> &candidates = by_hash_[hash_of(set)];
  for (const u32 number : candidates)
    if (equal(sets_[number], set)) {
      result.step = number;
      return result;
    }
  if (sets_.size() >= MOST) return read; // forgets some: a race may be missed, none is made up
  result.step = u32(sets_.size());
  candidates.push_back(result.step);
  sets_.push_back(std::move(set));
  return result;
}
