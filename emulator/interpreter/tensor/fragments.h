// Where the elements of mma.sync's matrices are: a register of a lane holds elements of neighbouring columns of K (A,
// B) or of N (C, D).
#pragma once
#include "../core/state.h"
#include "elements.h"

// A row of A, a column of B, and an element's place in K. For elements of `bits` bits, 32 / bits of them in a register
// (float64: half of one). Register `index` of A holds rows lane / 4 + 8 * (index % 2) and, from register 2 on, the
// second half of K; where A has no rows from 8 on (m8), all registers go along K.
struct Fragment {
  u32 row, k;
};

inline Fragment fragment_a(u32 lane, u32 index, u32 part, u32 per_register, u32 rows) {
  const u32 tall = rows / 8; // registers for the rows
  return {lane / 4 + 8 * (index % tall), lane % 4 * per_register + part + 4 * per_register * (index / tall)};
}
inline Fragment fragment_b(u32 lane, u32 index, u32 part, u32 per_register) {
  return {lane / 4, lane % 4 * per_register + part + 4 * per_register * index};
}
// Element `index` of C and D of a lane: rows lane / 4 and lane / 4 + 8, columns lane % 4 * 2 and the next.
struct Result {
  u32 row, column;
};
inline Result fragment_d(u32 lane, u32 index) { return {lane / 4 + 8 * (index / 2), lane % 4 * 2 + index % 2}; }
