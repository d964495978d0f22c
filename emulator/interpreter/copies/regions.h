// Shared memory that copies under way write or read. Only with a seed: without one, copies happen at once.
#pragma once
#include "../sync/effects.h"

void begins(std::vector<Effects::Region> &regions, u32 begin, u32 bytes);
void ends(std::vector<Effects::Region> &regions, u32 begin, u32 bytes);
bool touches(const std::vector<Effects::Region> &regions, u32 begin, u32 bytes);

void nothing_lands(Block &owner, u32 offset, u32 bytes);  // a Fault if a copy under way writes there
void nothing_leaves(Block &owner, u32 offset, u32 bytes); // a Fault if a copy under way reads there
void poison(u8 *bytes, u32 count);                        // NaN in all float formats
