// Products of numbers of 4 bits, with a scale for each block of 16 or 32 along K.
#pragma once
#include "accumulate.h"

// Sixteen products are summed exactly and scaled; the groups and the accumulator are then aligned and cut off.
void scaled_groups(const Step &step, const f32 *scale_a, const f32 *scale_b, u32 blocks);
