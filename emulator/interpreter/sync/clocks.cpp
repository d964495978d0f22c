// How knowledge is put together.
#include "clocks.h"

#include <algorithm>

void Step::join(const Step &other) {
  seen = std::max(seen, other.seen);
  fenced_shared = std::max(fenced_shared, other.fenced_shared);
  fenced_global = std::max(fenced_global, other.fenced_global);
  begun = std::max(begun, other.begun);
}

void join(Steps &to, const Steps &from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) to[i].join(from[i]);
}

Step Knowledge::at(u32 cluster_number, u32 source) const {
  const Steps *steps = &own;
  if (cluster_number != cluster) {
    if (!others) return {};
    const auto place = others->find(cluster_number);
    if (place == others->end()) return {};
    steps = &place->second;
  }
  return source < steps->size() ? (*steps)[source] : Step{};
}

void Knowledge::join(const Knowledge &other) {
  grids = std::max(grids, other.grids);
  if (other.cluster == cluster) {
    ::join(own, other.own);
    if (other.others == others || !other.others) return;
    if (!others) {
      others = other.others;
      return;
    }
  } else if (other.cluster == 0) {
    return;
  }
  auto all = others ? std::make_shared<std::map<u32, Steps>>(*others) : std::make_shared<std::map<u32, Steps>>();
  if (other.cluster != cluster) ::join((*all)[other.cluster], other.own);
  if (other.others)
    for (const auto &[number, steps] : *other.others) {
      if (number == cluster)
        ::join(own, steps);
      else
        ::join((*all)[number], steps);
    }
  others = std::move(all);
}

void Knowledge::join_begun(const Knowledge &other) {
  if (own.size() < other.own.size()) own.resize(other.own.size());
  for (size_t i = 0; i < other.own.size(); ++i) own[i].begun = std::max(own[i].begun, other.own[i].begun);
}

void Knowledge::fence_proxy(bool shared, bool global) {
  const auto fence = [=](Steps &steps) {
    for (Step &step : steps) {
      if (shared) step.fenced_shared = step.seen;
      if (global) step.fenced_global = step.seen;
    }
  };
  fence(own);
  if (!others) return;
  auto all = std::make_shared<std::map<u32, Steps>>(*others);
  for (auto &[number, steps] : *all) fence(steps);
  others = std::move(all);
}

void Knowledge::fence_mbarriers() {
  for (Step &step : own) step.begun = step.seen;
}
