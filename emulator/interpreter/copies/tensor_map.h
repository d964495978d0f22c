// The 128 bytes of a tensor map, and the boxes of a tensor that it describes.
//
// Words of 32 bits:
//   0-1    address
//   2      bit 0 im2col, 4-6 rank - 1, 7-10 type, 11-12 interleave, 13-14 swizzle, 15 NaN fill, 16 tf32,
//          17-18 promotion in L2, 1 and 21 set by the DSL's host code without a meaning that is known here
//   3-6    strides of dimensions 1-4 / 16: bits 0-31; word 7: their bits 32-35, four bits each
//   8-12   sizes - 1
//   13     bits 0-14 element strides - 1, 3 bits each; 24-31 box - 1 of dimension 0 (im2col: channels - 1)
//   14     tile: box - 1 of dimensions 1-4, a byte each. im2col: the lower corner in bits 0-15, the upper one in 16-31,
//          of one, two or three signed numbers of 16, 8 or 5 bits
//   15     im2col: pixels - 1
// The others are what the driver derives from these for other generations; the DSL's host code leaves them unset.
// Fields and numbers come from maps encoded by a driver (tiles and im2col, all types of at least a byte) and from those
// that the DSL writes for block-scaled products (elements of 4 bits without padding). How padded elements of 4 and 6
// bits and atoms of swizzles other than 16 bytes are written has not been seen: such maps are refused.
#pragma once
#include "../core/fault.h"

enum class DataType : u8 { U8, U16, U32, S32, U64, S64, F16, F32, F32Ftz, F64, Bf16, B4x16 };
enum class Fill : u8 { Zero, Nan };
enum class SharedSwizzle : u8 { None, B32, B64, B128 };

struct TensorMap {
  u64 base = 0, stride[5] = {};
  u32 size[5] = {}, box[5] = {}, step[5] = {};
  u32 rank = 0;
  DataType type = DataType::U8;
  SharedSwizzle swizzle = SharedSwizzle::None;
  Fill fill = Fill::Zero;
  bool im2col = false;
  s32 lower[3] = {}, upper[3] = {}; // corners of the pixels' box: of dimensions 1 to rank - 2
  u32 pixels = 0;

  explicit TensorMap(const u8 *bytes); // throws Fault
  u32 element_bits() const;
  u32 bytes_of(u32 elements) const { return elements * element_bits() / 8; }
};

// Where a byte of a box lies in shared memory: `at` is the address of the box plus the byte's place in it.
u32 swizzled(u32 at, SharedSwizzle swizzle);

// A run of elements along dimension 0.
struct Run {
  u64 address;         // in global memory, of the first element that is inside the tensor
  u32 place;           // in the box, in bytes of shared memory
  u32 skipped, inside; // elements: first some outside the tensor, then some inside
  u32 elements;        // of the run; what remains after those is outside, too
};

// Calls f(Run) for all runs of the box at these coordinates.
template <class F> void each_tile_run(const TensorMap &map, const s32 (&at)[5], F f);

// Addresses have 57 bits, and sums wrap: a base may lie before the memory of the GPU, so that a large coordinate leads
// back into it (varlen stores, by a dimension of 2**30).
inline u64 wrapped(u64 address) { return address & ((1ull << 57) - 1); }

inline u64 row_address(const TensorMap &map, const s64 (&at)[5], bool &inside) {
  u64 address = map.base;
  for (u32 i = 1; i < map.rank; ++i) {
    inside = inside && at[i] >= 0 && at[i] < s64(map.size[i]);
    address += u64(at[i]) * map.stride[i];
  }
  return address;
}

// One row of `box[0]` elements from coordinate `first` of dimension 0.
template <class F> void each_run_of_row(const TensorMap &map, u64 row, bool inside, s64 first, u32 place, F f) {
  const u32 elements = map.box[0];
  if (map.step[0] == 1) {
    const s64 begin = first < 0 ? -first : 0, end = s64(map.size[0]) - first;
    const u32 skipped = u32(begin < s64(elements) ? begin : s64(elements));
    const s64 stop = end < s64(elements) ? end : s64(elements);
    const u32 count = inside && stop > s64(skipped) ? u32(stop - s64(skipped)) : 0;
    const s64 bits = (first + s64(skipped)) * s64(map.element_bits());
    f(Run{wrapped(row + u64(bits / 8)), place, skipped, count, elements});
    return;
  }
  for (u32 k = 0; k < elements; ++k) {
    const s64 at = first + s64(k) * map.step[0];
    const bool in = inside && at >= 0 && at < s64(map.size[0]);
    f(Run{wrapped(row + u64(at * s64(map.element_bits()) / 8)), place + map.bytes_of(k), 0, in ? 1u : 0u, 1});
  }
}

template <class F> void each_tile_run(const TensorMap &map, const s32 (&at)[5], F f) {
  u32 rows = 1;
  for (u32 i = 1; i < map.rank; ++i) rows *= map.box[i];
  const u32 pitch = map.bytes_of(map.box[0]);
  for (u32 row = 0; row < rows; ++row) {
    s64 place[5] = {};
    u32 rest = row;
    for (u32 i = 1; i < map.rank; ++i) {
      place[i] = s64(at[i]) + s64(rest % map.box[i]) * map.step[i];
      rest /= map.box[i];
    }
    bool inside = true;
    const u64 address = row_address(map, place, inside);
    each_run_of_row(map, address, inside, at[0], row * pitch, f);
  }
}

// Four rows of a tensor of two dimensions: at = {column, row, row, row, row}.
template <class F> void each_gathered_run(const TensorMap &map, const s32 (&at)[5], F f) {
  const u32 pitch = map.bytes_of(map.box[0]);
  for (u32 row = 0; row < 4; ++row) {
    const s64 place[5] = {at[0], at[1 + row]};
    bool inside = true;
    const u64 address = row_address(map, place, inside);
    each_run_of_row(map, address, inside, at[0], row * pitch, f);
  }
}

// Pixels from the one at these coordinates on, through the box that the corners give, and on through the images; each
// is read at its place plus the offsets.
template <class F> void each_im2col_run(const TensorMap &map, const s32 (&at)[5], const u32 (&offsets)[3], F f) {
  const u32 pitch = map.bytes_of(map.box[0]), spatial = map.rank - 2;
  s64 pixel[5] = {};
  for (u32 i = 0; i < map.rank; ++i) pixel[i] = at[i];
  for (u32 row = 0; row < map.pixels; ++row) {
    s64 place[5] = {};
    for (u32 i = 1; i < map.rank; ++i) place[i] = pixel[i] + (i <= spatial ? s64(offsets[i - 1]) : 0);
    bool inside = true;
    const u64 address = row_address(map, place, inside);
    each_run_of_row(map, address, inside, at[0], row * pitch, f);
    u32 i = 1;
    for (; i <= spatial; ++i) {
      pixel[i] += map.step[i];
      if (pixel[i] < s64(map.size[i]) + map.upper[i - 1]) break;
      pixel[i] = map.lower[i - 1];
    }
    if (i > spatial) ++pixel[map.rank - 1];
  }
}
