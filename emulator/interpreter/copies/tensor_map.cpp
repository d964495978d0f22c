#include "tensor_map.h"

#include <cstring>

namespace {

constexpr u32 KNOWN_BITS =
    1u << 0 | 1u << 1 | 7u << 4 | 15u << 7 | 3u << 11 | 3u << 13 | 1u << 15 | 1u << 16 | 3u << 17 | 1u << 21;

s32 signed_field(u32 word, u32 first, u32 bits) { return s32(word << (32 - first - bits)) >> (32 - bits); }

void read_corners(TensorMap &map, u32 word, u32 pixels) {
  if (map.rank < 3) throw Fault(fault::DESCRIPTOR, "a tensor map for im2col with rank " + std::to_string(map.rank));
  const u32 count = map.rank - 2, bits = count == 1 ? 16 : count == 2 ? 8 : 5;
  for (u32 i = 0; i < count; ++i) {
    map.lower[i] = signed_field(word, i * bits, bits);
    map.upper[i] = signed_field(word, 16 + i * bits, bits);
  }
  map.pixels = (pixels & 0x3ff) + 1;
}

} // namespace

TensorMap::TensorMap(const u8 *bytes) {
  u32 w[16];
  std::memcpy(w, bytes, sizeof w);
  base = u64(w[1]) << 32 | w[0];
  rank = (w[2] >> 4 & 7) + 1;
  if (rank > 5 || base % 16 || base >> 57)
    throw Fault(fault::DESCRIPTOR, "this is no tensor map: rank " + std::to_string(rank) + ", address " + hex(base));
  if (w[2] & ~KNOWN_BITS) throw Fault(fault::UNSUPPORTED, "a tensor map with unknown fields: " + hex(w[2]));
  if (w[2] >> 11 & 3) throw Fault(fault::UNSUPPORTED, "an interleaved tensor map");
  type = DataType(w[2] >> 7 & 15);
  if (type > DataType::B4x16) throw Fault(fault::UNSUPPORTED, "a tensor map of an unknown type: " + hex(w[2]));
  if (w[2] >> 16 & 1) throw Fault(fault::UNSUPPORTED, "a tensor map that rounds float32 to tf32");
  swizzle = SharedSwizzle(w[2] >> 13 & 3);
  fill = w[2] >> 15 & 1 ? Fill::Nan : Fill::Zero;
  im2col = w[2] & 1;
  for (u32 i = 1; i < 5; ++i) stride[i] = (u64(w[7] >> (4 * (i - 1)) & 15) << 32 | w[2 + i]) * 16;
  for (u32 i = 0; i < 5; ++i) {
    size[i] = w[8 + i] + 1;
    step[i] = (w[13] >> (3 * i) & 7) + 1;
    box[i] = i && im2col ? 1 : (i ? w[14] >> (8 * (i - 1)) & 255 : w[13] >> 24) + 1;
  }
  if (im2col) read_corners(*this, w[14], w[15]);
}

u32 TensorMap::element_bits() const {
  static const u8 bits[] = {8, 16, 32, 32, 64, 64, 16, 32, 32, 64, 16, 4};
  return bits[u32(type)];
}

u32 swizzled(u32 at, SharedSwizzle swizzle) { return at ^ (at >> 7 & ((1u << u32(swizzle)) - 1)) << 4; }
