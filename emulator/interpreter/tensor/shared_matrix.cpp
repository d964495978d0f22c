#include "shared_matrix.h"

#include "../copies/regions.h"
#include "../sync/races.h"

namespace {

u32 span_of(Swizzle swizzle) { // bytes of a row of a swizzled tile
  switch (swizzle) {
  case Swizzle::None:
    return 16;
  case Swizzle::B32:
    return 32;
  case Swizzle::B64:
    return 64;
  default:
    return 128;
  }
}

u32 exchanged(u32 address, Swizzle swizzle) {
  switch (swizzle) {
  case Swizzle::None:
    return address;
  case Swizzle::B32:
    return address ^ (address >> 7 & 1) << 4;
  case Swizzle::B64:
    return address ^ (address >> 7 & 3) << 4;
  case Swizzle::B128:
    return address ^ (address >> 7 & 7) << 4;
  case Swizzle::B128Base32:
    return address ^ (address >> 7 & 3) << 5;
  }
  return address;
}

SharedMatrix fields(u64 bits, bool mn_major) {
  if (bits >> 49 & 7) throw Fault(fault::UNSUPPORTED, "a matrix descriptor with a base offset: " + hex(bits));
  SharedMatrix matrix{};
  matrix.start = u32(bits & 0x3fff) << 4;
  matrix.leading = u32(bits >> 16 & 0x3fff) << 4;
  matrix.stride = u32(bits >> 32 & 0x3fff) << 4;
  matrix.mn_major = mn_major;
  return matrix;
}

} // namespace

u32 SharedMatrix::chunk_address(u32 line, u32 chunk) const {
  const u32 span = span_of(swizzle), lines = swizzle == Swizzle::B128Base32 ? 4 : 8;
  const u32 inside = start + line % lines * span;
  u32 address;
  if (swizzle == Swizzle::None)
    address = mn_major ? inside + chunk * stride + line / 8 * leading : inside + line / 8 * stride + chunk * leading;
  else if (mn_major)
    address = inside + chunk % (span / 16) * 16 + chunk / (span / 16) * leading + line / lines * stride;
  else
    address = inside + line / 8 * stride + chunk * 16;
  return exchanged(address & 0x3ffff, swizzle);
}

SharedMatrix wgmma_descriptor(u64 bits, bool mn_major) {
  if (bits >> 46 & 7 || bits >> 52 & 0x3ff)
    throw Fault(fault::DESCRIPTOR, "this is no matrix descriptor: " + hex(bits));
  static const Swizzle swizzles[] = {Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32};
  SharedMatrix matrix = fields(bits, mn_major);
  matrix.swizzle = swizzles[bits >> 62];
  return matrix;
}

SharedMatrix tcgen05_descriptor(u64 bits, bool mn_major) {
  if ((bits >> 46 & 7) != 1) throw Fault(fault::DESCRIPTOR, "this is no matrix descriptor of tcgen05: " + hex(bits));
  if (bits >> 52 & 1)
    throw Fault(fault::UNSUPPORTED, "a matrix descriptor with an absolute leading address: " + hex(bits));
  SharedMatrix matrix = fields(bits, mn_major);
  switch (bits >> 61) {
  case 0:
    matrix.swizzle = Swizzle::None;
    break;
  case 1:
    matrix.swizzle = Swizzle::B128Base32;
    break;
  case 2:
    matrix.swizzle = Swizzle::B128;
    break;
  case 4:
    matrix.swizzle = Swizzle::B64;
    break;
  case 6:
    matrix.swizzle = Swizzle::B32;
    break;
  default:
    throw Fault(fault::DESCRIPTOR, "a matrix descriptor with an unknown swizzle: " + hex(bits));
  }
  return matrix;
}

void read_shared_matrix(Machine &machine, Block &owner, const SharedMatrix &matrix, const OperandShape &shape,
                        u32 first_row, f32 *out, u32 agent, u32 line) {
  const u32 per_chunk = elements_in_chunk(shape.element, shape.packing);
  const u32 lines = matrix.mn_major ? shape.depth : shape.rows, along = matrix.mn_major ? shape.rows : shape.depth;
  const u32 first_line = matrix.mn_major ? 0 : first_row, first_chunk = matrix.mn_major ? first_row / per_chunk : 0;
  const u32 chunks = (along + per_chunk - 1) / per_chunk;
  const u32 line_pitch = matrix.mn_major ? shape.k_pitch : shape.row_pitch;
  const u32 chunk_pitch = matrix.mn_major ? shape.row_pitch : shape.k_pitch;
  f32 values[32];
  for (u32 l = 0; l < lines; ++l)
    for (u32 c = 0; c < chunks; ++c) {
      const u32 address = matrix.chunk_address(first_line + l, first_chunk + c);
      if (size_t(address) + 16 > owner.shared.size() || address < SHARED_BASE)
        throw Fault(fault::OUT_OF_BOUNDS, "an operand of a product outside of shared memory: " + hex(address));
      if (machine.adversarial()) nothing_lands(owner, address, 16);
      if (machine.races()) machine.races()->shared(agent, owner, address, 16, Access::Read, Proxy::Async, line);
      const u32 count = decode_chunk(shape.element, shape.packing, owner.shared.data() + address, values);
      f32 *to = out + size_t(l) * line_pitch + size_t(c) * per_chunk * chunk_pitch;
      const u32 wanted = std::min(count, along - c * per_chunk);
      for (u32 i = 0; i < wanted; ++i) to[size_t(i) * chunk_pitch] = values[i];
    }
}
