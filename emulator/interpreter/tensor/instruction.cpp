#include "product.h"

namespace {

[[noreturn]] void refuse(const char *what, u32 bits) {
  throw Fault(fault::DESCRIPTOR, std::string("an instruction descriptor with ") + what + ": " + hex(bits));
}

Element small_float(u32 code, u32 bits) {
  switch (code) {
  case 0:
    return Element::E4m3;
  case 1:
    return Element::E5m2;
  case 3:
    return Element::E2m3;
  case 4:
    return Element::E3m2;
  case 5:
    return Element::E2m1;
  default:
    refuse("an unknown type", bits);
  }
}

Element type_of(ProductKind kind, u32 code, u32 bits) {
  switch (kind) {
  case ProductKind::F16:
    if (code > 1) refuse("an unknown type", bits);
    return code ? Element::Bf16 : Element::F16;
  case ProductKind::Tf32:
    if (code != 2) refuse("an unknown type", bits);
    return Element::Tf32;
  case ProductKind::I8:
    if (code > 1) refuse("an unknown type", bits);
    return code ? Element::S8 : Element::U8;
  case ProductKind::F8f6f4:
  case ProductKind::Mxf8f6f4:
    return small_float(code, bits);
  default:
    if (code != 1) refuse("an unknown type", bits);
    return Element::E2m1;
  }
}

bool scaled(ProductKind kind) { return kind >= ProductKind::Mxf8f6f4; }

u32 depth_of(ProductKind kind) {
  switch (kind) {
  case ProductKind::F16:
    return 16;
  case ProductKind::Tf32:
    return 8;
  case ProductKind::Mxf4:
  case ProductKind::Mxf4nvf4:
    return 64;
  default:
    return 32;
  }
}

void read_accumulator(Instruction &one, u32 bits, ProductKind kind) {
  switch (bits >> 4 & 3) {
  case 0:
    one.accumulator = Accumulator::F16;
    break;
  case 1:
    one.accumulator = Accumulator::F32;
    break;
  case 2:
    one.accumulator = Accumulator::S32;
    break;
  default:
    refuse("an unknown type of D", bits);
  }
  if ((kind == ProductKind::I8) != (one.accumulator == Accumulator::S32) ||
      (kind == ProductKind::Tf32 && one.accumulator == Accumulator::F16))
    refuse("a type of D that its kind does not have", bits);
  one.saturate = bits >> 3 & 1;
  if (one.saturate && kind != ProductKind::I8) refuse("saturation of floats", bits);
  if (bits >> 6 & 1 || bits >> 23 & 1 || bits >> 29 & 1) refuse("reserved bits", bits);
}

void check_shape(const Instruction &one, u32 group, bool weight_stationary, u32 bits) {
  const bool rows = weight_stationary ? one.m == 32 || one.m == 64 || one.m == 128
                    : group == 2      ? one.m == 128 || one.m == 256
                                      : one.m == 64 || one.m == 128;
  const bool columns = weight_stationary ? one.n == 64 || one.n == 128 || one.n == 256
                                         : one.n >= 8 && one.n <= 256 && one.n % (one.m == 64 ? 8 : 16) == 0;
  if (!rows || !columns)
    throw Fault(fault::DESCRIPTOR, "a product of " + std::to_string(one.m) + " x " + std::to_string(one.n) +
                                       " by cta_group::" + std::to_string(group) + ": " + hex(bits));
}

} // namespace

Instruction read_instruction(u32 bits, ProductKind kind, u32 group, bool weight_stationary) {
  if (bits >> 2 & 1) throw Fault(fault::UNSUPPORTED, "sparse products");
  if (bits & 3) refuse("a selector of sparsity", bits);
  Instruction one{};
  one.a = type_of(kind, bits >> 7 & 7, bits);
  one.b = type_of(kind, bits >> 10 & 7, bits);
  const bool padded = kind == ProductKind::F8f6f4 || kind == ProductKind::Mxf8f6f4;
  one.packing_a = padded && bits_of(one.a) < 8 ? Packing::Padded : Packing::Dense;
  one.packing_b = padded && bits_of(one.b) < 8 ? Packing::Padded : Packing::Dense;
  one.negate_a = bits >> 13 & 1;
  one.negate_b = bits >> 14 & 1;
  one.a_transposed = bits >> 15 & 1;
  one.b_transposed = bits >> 16 & 1;
  if ((one.a_transposed && bits_of(one.a) < 8) || (one.b_transposed && bits_of(one.b) < 8))
    refuse("a transposed matrix of 4 or 6 bits", bits);
  one.n = (bits >> 17 & 63) * 8;
  one.m = (bits >> 24 & 31) * 16;
  one.k = depth_of(kind);
  if (scaled(kind)) {
    if (bits >> 31) throw Fault(fault::UNSUPPORTED, "block-scaled products with K = 96");
    if (bits >> 3 & 1 || bits >> 6 & 1) refuse("reserved bits", bits);
    one.scale_id_b = bits >> 4 & 3;
    one.scale_id_a = bits >> 29 & 3;
    one.scale = bits >> 23 & 1 ? Element::Ue8m0 : Element::Ue4m3;
    if (one.scale == Element::Ue4m3 && kind != ProductKind::Mxf4nvf4)
      refuse("scales of e4m3 that its kind does not have", bits);
  } else {
    read_accumulator(one, bits, kind);
    if (bits >> 30 && !weight_stationary) refuse("a shift of B", bits);
    if (bits >> 30) throw Fault(fault::UNSUPPORTED, "shifts of B");
  }
  check_shape(one, group, weight_stationary, bits);
  return one;
}

std::vector<Strip> strips_of(const Product &product) {
  const u32 m = product.instruction.m / product.group, n = product.instruction.n;
  std::vector<Strip> strips;
  const bool ws = product.flags & WEIGHT_STATIONARY;
  for (u32 q = 0; q < 4; ++q) {
    if (m == 128)
      strips.push_back({32 * q, 32, 32 * q, 0, n});
    else if (m == 64 && (ws || product.group == 2))
      strips.push_back({q % 2 * 32, 32, 32 * q, q / 2 * (n / 2), n / 2});
    else if (m == 64)
      strips.push_back({16 * q, 16, 32 * q, 0, n});
    else
      strips.push_back({0, 32, 32 * q, q * (n / 4), n / 4});
  }
  return strips;
}
