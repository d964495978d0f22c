// shfl.sync: values of other lanes.
#include "../core/machine.h"

namespace {
enum Way { Up, Down, Butterfly, Index };

// a[0] target, a[1] predicate or -1, a[2] source, a[3] lane, a[4] clamp and segments, a[5] members.
template <Way WAY> Outcome shuffle(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  const u32 *by = warp.word(insn.a[3]), *clamps = warp.word(insn.a[4]), *members = warp.word(insn.a[5]);
  u32 all = 0;
  EACH_LANE(lane) {
    if (!(members[lane] >> lane & 1)) throw Fault(fault::DIVERGENCE, "the lane is not a member of its shuffle", lane);
    all |= members[lane];
  }
  if (!together(machine, warp, all, active)) return Outcome::Blocked;
  u32 source[LANES];
  machine.schedule.fill.put(source, LANES);
  EACH_LANE(lane) source[lane] = warp.word(insn.a[2])[lane];
  u32 *const target = warp.word(insn.a[0] < 0 ? insn.a[2] : insn.a[0]);
  u32 inside = 0;
  EACH_LANE(lane) {
    const u32 clamp = clamps[lane] & 31, segment = clamps[lane] >> 8 & 31, value = by[lane] & 31;
    const s32 highest = s32((lane & segment) | (clamp & ~segment)), lowest = s32(lane & segment);
    s32 from = 0;
    bool there = false;
    if (WAY == Up) {
      from = s32(lane) - s32(value);
      there = from >= highest;
    } else if (WAY == Down) {
      from = s32(lane + value);
      there = from <= highest;
    } else if (WAY == Butterfly) {
      from = s32(lane ^ value);
      there = from <= highest;
    } else {
      from = lowest | s32(value & ~segment);
      there = from <= highest;
    }
    if (!there) from = s32(lane);
    inside |= u32(there) << lane;
    if (insn.a[0] >= 0) target[lane] = source[from];
  }
  if (insn.a[1] >= 0) {
    u32 &predicate = warp.predicate(insn.a[1]);
    predicate = (predicate & ~active) | inside;
  }
  return Outcome::Next;
}
} // namespace

OPERATION(shfl_up) { return shuffle<Up>(machine, warp, insn, active); }
OPERATION(shfl_down) { return shuffle<Down>(machine, warp, insn, active); }
OPERATION(shfl_bfly) { return shuffle<Butterfly>(machine, warp, insn, active); }
OPERATION(shfl_idx) { return shuffle<Index>(machine, warp, insn, active); }
