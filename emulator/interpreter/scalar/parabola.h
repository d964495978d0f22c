// A segment's parabola at a place of 17 bits, as the hardware sums it.
#pragma once
#include <array>

#include "formats.h"
#include "segments.h"

// The square of a place in units of 2^19, without the partial products (bits j and k of the place) of less than that.
class TruncatedSquares {
public:
  TruncatedSquares() {
    squares_[0] = 0;
    for (u32 place = 1; place < squares_.size(); ++place) {
      const u32 top = 31 - u32(__builtin_clz(place)), rest = place & ~(1u << top);
      const u32 diagonal = 2 * top >= 19 ? 1u << (2 * top - 19) : 0;
      squares_[place] = u16(squares_[rest] + (rest >> (18 - top)) + diagonal);
    }
  }
  u32 operator[](u32 place) const { return squares_[place]; }

private:
  std::array<u16, 1 << 17> squares_;
};

s64 parabola(const Segment &segment, u32 place); // in units of 2^-17

// A whole number times a power of two, cut off to the 24 bits of float32; only normal results.
inline f32 towards_zero(u64 magnitude, int exponent) {
  if (magnitude == 0) return 0.0f;
  const int spare = 40 - __builtin_clzll(magnitude);
  const u64 kept = spare > 0 ? magnitude >> spare : magnitude << -spare;
  const int field = 127 + 23 + exponent + spare;
  if (field <= 0) return 0.0f;
  return field >= 255 ? f32_of(0x7f800000) : f32_of(u32(field) << 23 | (u32(kept) & 0x7fffff));
}
