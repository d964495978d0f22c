// What is known of others: for each source of accesses of a cluster, up to which of its steps.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "../memory/memory.h"

// Who touched something, and when. Sources are numbered within their cluster: warps, operations of a kind that a warp
// has started, phases of an mbarrier.
struct Epoch {
  u32 cluster = 0; // its number; 0: nobody
  u16 source = 0;
  Proxy proxy = Proxy::Generic;
  u8 marks = 0;
  u32 step = 0;
  u32 line = 0;

  static constexpr u8 ATOMIC = 1, SET = 2; // SET: `step` is the number of a set of epochs
  bool nobody() const { return cluster == 0; }
  bool same(const Epoch &other) const {
    return step == other.step && source == other.source && cluster == other.cluster && marks == other.marks &&
           proxy == other.proxy;
  }
};
static_assert(sizeof(Epoch) == 16);

struct Step {            // up to which step of a source
  u32 seen = 0;          // everything is seen
  u32 fenced_shared = 0; // what it did to shared memory through the generic proxy is seen through the async proxy, too
  u32 fenced_global = 0; // the same for global memory
  u32 begun = 0;         // the mbarriers are seen that it initialised

  void join(const Step &other);
};

using Steps = std::vector<Step>; // of the sources of one cluster
void join(Steps &to, const Steps &from);

struct Knowledge {
  u32 cluster = 0;
  u32 grids = 0; // everything is seen of grids with lower numbers, on the same device
  Steps own;     // of the own cluster
  std::shared_ptr<const std::map<u32, Steps>> others;

  Step &of(u32 source) {
    if (source >= own.size()) own.resize(source + 1);
    return own[source];
  }
  Step at(u32 cluster_number, u32 source) const;
  void join(const Knowledge &other);
  void join_begun(const Knowledge &other); // only mbarriers that were initialised; of the same cluster
  void fence_proxy(bool shared, bool global);
  void fence_mbarriers();
};
