// ldmatrix, stmatrix, movmatrix: matrices of 8 rows of 16 bytes, spread over a warp.
#include <cstring>

#include "../copies/addresses.h"

namespace {

// The value of 16 bits of lane `lane`, half `half`, lies at (row, column) of its matrix.
struct Spot {
  u32 row, column;
};
Spot spot_of(bool transposed, u32 lane, u32 half) {
  const u32 row = lane / 4, column = lane % 4 * 2 + half;
  return transposed ? Spot{column, row} : Spot{row, column};
}

void load_matrix(u8 *const (&rows)[8], bool transposed, u32 *to) {
  for (u32 lane = 0; lane < LANES; ++lane) {
    u16 parts[2];
    for (u32 half = 0; half < 2; ++half) {
      const Spot spot = spot_of(transposed, lane, half);
      std::memcpy(&parts[half], rows[spot.row] + 2 * spot.column, 2);
    }
    to[lane] = parts[0] | u32(parts[1]) << 16;
  }
}

void store_matrix(u8 *const (&rows)[8], bool transposed, const u32 *from) {
  for (u32 lane = 0; lane < LANES; ++lane)
    for (u32 half = 0; half < 2; ++half) {
      const Spot spot = spot_of(transposed, lane, half);
      const u16 part = u16(from[lane] >> (16 * half));
      std::memcpy(rows[spot.row] + 2 * spot.column, &part, 2);
    }
}

u8 *row_address(Machine &machine, Warp &warp, const Insn &insn, u32 lane, Access access) {
  const u64 address = insn.a[2] < 0 ? 0 : address_in(warp, insn.a[2], insn.a[3], insn.immediate, lane);
  return machine.memory().at(warp, Space(insn.a[5]), address, 16, access, lane);
}

} // namespace

// a: pool of registers (begin, count), address (place, wide), 1 if transposed, space; immediate: offset
OPERATION(ldmatrix) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const s32 *list = launch_of(warp).program->pool + insn.a[0];
  u8 *rows[4][8];
  for (s32 i = 0; i < insn.a[1]; ++i)
    for (u32 row = 0; row < 8; ++row) rows[i][row] = row_address(machine, warp, insn, u32(i) * 8 + row, Access::Read);
  u32 values[4][LANES];
  for (s32 i = 0; i < insn.a[1]; ++i) load_matrix(rows[i], insn.a[4], values[i]);
  for (s32 i = 0; i < insn.a[1]; ++i) std::memcpy(warp.word(list[i]), values[i], sizeof values[i]);
  return Outcome::Next;
}

OPERATION(stmatrix) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const s32 *list = launch_of(warp).program->pool + insn.a[0];
  for (s32 i = 0; i < insn.a[1]; ++i) {
    u8 *rows[8];
    for (u32 row = 0; row < 8; ++row) rows[row] = row_address(machine, warp, insn, u32(i) * 8 + row, Access::Write);
    store_matrix(rows, insn.a[4], warp.word(list[i]));
  }
  return Outcome::Next;
}

// stmatrix.m16n8.trans.b8: 8 rows of 16 bytes for every register. a: as stmatrix
OPERATION(stmatrix_bytes) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const s32 *list = launch_of(warp).program->pool + insn.a[0];
  for (s32 i = 0; i < insn.a[1]; ++i) {
    u8 *rows[8];
    for (u32 row = 0; row < 8; ++row) rows[row] = row_address(machine, warp, insn, u32(i) * 8 + row, Access::Write);
    const u32 *from = warp.word(list[i]);
    for (u32 lane = 0; lane < LANES; ++lane)
      for (u32 byte = 0; byte < 4; ++byte)
        rows[lane % 4 * 2 + byte % 2][lane / 4 + byte / 2 * 8] = u8(from[lane] >> (8 * byte));
  }
  return Outcome::Next;
}

// ldmatrix.m16n16.trans.b8: 16 rows of 16 bytes for every two registers. a: as ldmatrix
OPERATION(ldmatrix_bytes) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const s32 *list = launch_of(warp).program->pool + insn.a[0];
  u8 *rows[32];
  for (u32 row = 0; row < u32(insn.a[1]) * 8; ++row) rows[row] = row_address(machine, warp, insn, row, Access::Read);
  u32 values[4][LANES] = {};
  for (s32 i = 0; i < insn.a[1]; ++i)
    for (u32 lane = 0; lane < LANES; ++lane)
      for (u32 byte = 0; byte < 4; ++byte) {
        const u8 *row = rows[u32(i) / 2 * 16 + lane % 4 * 4 + u32(i) % 2 * 2 + byte % 2];
        values[i][lane] |= u32(row[lane / 4 + byte / 2 * 8]) << (8 * byte);
      }
  for (s32 i = 0; i < insn.a[1]; ++i) std::memcpy(warp.word(list[i]), values[i], sizeof values[i]);
  return Outcome::Next;
}

// ldmatrix.m8n16.b8x16.b4x16_p64 and b6x16_p32: 16 elements of 4 or 6 bits of a row, each in the low bits of a byte.
// a: as ldmatrix, with the bits of an element instead of whether it is transposed
OPERATION(ldmatrix_expanded) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const s32 *list = launch_of(warp).program->pool + insn.a[0];
  const u32 bits = u32(insn.a[4]);
  u8 *rows[32];
  for (u32 row = 0; row < u32(insn.a[1]) * 8; ++row) rows[row] = row_address(machine, warp, insn, row, Access::Read);
  u32 values[4][LANES] = {};
  for (s32 i = 0; i < insn.a[1]; ++i)
    for (u32 lane = 0; lane < LANES; ++lane)
      for (u32 byte = 0; byte < 4; ++byte) {
        const u8 *row = rows[u32(i) * 8 + lane / 4];
        const u32 bit = (lane % 4 * 4 + byte) * bits;
        const u32 pair = row[bit / 8] | u32(row[bit / 8 + 1]) << 8;
        values[i][lane] |= (pair >> bit % 8 & ((1u << bits) - 1)) << (8 * byte);
      }
  for (s32 i = 0; i < insn.a[1]; ++i) std::memcpy(warp.word(list[i]), values[i], sizeof values[i]);
  return Outcome::Next;
}

// a: to, from: one matrix of 8 x 8 in registers, transposed
OPERATION(movmatrix) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  u16 matrix[8][8];
  const u32 *from = warp.word(insn.a[1]);
  for (u32 lane = 0; lane < LANES; ++lane)
    for (u32 half = 0; half < 2; ++half) matrix[lane / 4][lane % 4 * 2 + half] = u16(from[lane] >> (16 * half));
  u32 *to = warp.word(insn.a[0]);
  for (u32 lane = 0; lane < LANES; ++lane) {
    const u32 row = lane / 4, column = lane % 4 * 2;
    to[lane] = matrix[column][row] | u32(matrix[column + 1][row]) << 16;
  }
  return Outcome::Next;
}
