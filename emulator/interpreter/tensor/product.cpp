#include "product.h"

#include <cmath>

#include "accumulate.h"
#include "shared_matrix.h"

namespace {

void negate(std::vector<f32> &values) {
  for (f32 &value : values) value = -value;
}

// A of one block: rows x k.
std::vector<f32> read_a(const Product &product, Block &owner) {
  const Instruction &one = product.instruction;
  const u32 rows = one.m / product.group;
  std::vector<f32> a(size_t(rows) * one.k);
  const SharedMatrix matrix = tcgen05_descriptor(product.a, one.a_transposed);
  read_shared_matrix(*product.worker.machine, owner, matrix, {one.a, one.packing_a, rows, one.k, one.k, 1}, 0, a.data(),
                     product.worker.agent, product.worker.line);
  if (one.negate_a) negate(a);
  return a;
}

// B of all blocks: k x n. With two blocks, each has half of N.
std::vector<f32> read_b(const Product &product, Block *const (&owners)[2]) {
  const Instruction &one = product.instruction;
  const u32 rows = one.n / product.group;
  std::vector<f32> b(size_t(one.n) * one.k);
  const SharedMatrix matrix = tcgen05_descriptor(product.b, one.b_transposed);
  for (u32 i = 0; i < product.group; ++i)
    read_shared_matrix(*product.worker.machine, *owners[i], matrix, {one.b, one.packing_b, rows, one.k, 1, one.n}, 0,
                       b.data() + i * rows, product.worker.agent, product.worker.line);
  if (one.negate_b) negate(b);
  return b;
}

// A's rows of a strip, from the lanes of tensor memory that are the strip's.
std::vector<f32> tensor_a(const Product &product, Block &owner, const Strip &strip) {
  const Instruction &one = product.instruction;
  if (one.packing_a != Packing::Dense) throw Fault(fault::UNSUPPORTED, "elements of 4 or 6 bits in tensor memory");
  const u32 columns = one.k * bits_of(one.a) / 32, lane = product.a_tensor.lane + strip.lane;
  check_tensor_memory(owner, lane, strip.rows, product.a_tensor.column, columns);
  touches_tensor(product.worker, owner, lane, strip.rows, product.a_tensor.column, columns, Access::Read);
  std::vector<f32> a(size_t(strip.rows) * one.k);
  for (u32 row = 0; row < strip.rows; ++row) {
    const u8 *from = reinterpret_cast<const u8 *>(tensor_row(owner, lane + row) + product.a_tensor.column);
    f32 *to = a.data() + size_t(row) * one.k;
    for (u32 chunk = 0; chunk < columns / 4; ++chunk) to += decode_chunk(one.a, Packing::Dense, from + 16 * chunk, to);
  }
  if (one.negate_a) negate(a);
  return a;
}

std::vector<f32> columns_of(const std::vector<f32> &b, const Instruction &one, const Strip &strip) {
  std::vector<f32> part(size_t(one.k) * strip.columns);
  for (u32 k = 0; k < one.k; ++k)
    std::copy_n(b.begin() + size_t(k) * one.n + strip.column, strip.columns, part.begin() + size_t(k) * strip.columns);
  return part;
}

u32 scale_byte(Block &owner, u32 lane, u32 column, u32 byte) { return tensor_row(owner, lane)[column] >> (8 * byte); }

// Scales of a strip: of row r of the block in column r / 32 and lane r % 32 of the strip's 32 lanes, and likewise of
// D's columns. Every 32 lanes have a copy of their own.
void multiply_scaled(const Product &product, Block &owner, const Strip &strip, const Step &step) {
  const Instruction &one = product.instruction;
  const u32 blocks = product.blocks, first = strip.lane / 32 * 32;
  std::vector<f32> a(size_t(strip.rows) * blocks), b(size_t(blocks) * strip.columns);
  const u32 column_a = product.scale_a.column + strip.row / 32, columns_b = (strip.columns + 31) / 32;
  check_tensor_memory(owner, first, 32, column_a, 1);
  check_tensor_memory(owner, first, 32, product.scale_b.column, columns_b);
  touches_tensor(product.worker, owner, first, 32, column_a, 1, Access::Read);
  touches_tensor(product.worker, owner, first, 32, product.scale_b.column, columns_b, Access::Read);
  for (u32 i = 0; i < blocks; ++i) {
    for (u32 row = 0; row < strip.rows; ++row)
      a[row * blocks + i] = small_value(one.scale, scale_byte(owner, first + row, column_a, one.scale_id_a + i));
    for (u32 n = 0; n < strip.columns; ++n)
      b[i * strip.columns + n] = small_value(
          one.scale, scale_byte(owner, first + n % 32, product.scale_b.column + n / 32, one.scale_id_b + i));
  }
  accumulate_scaled(step, a.data(), b.data(), blocks);
}

void multiply(const Product &product, Block &owner, const Strip &strip, const Step &step) {
  if (product.blocks) return multiply_scaled(product, owner, strip, step);
  const Element element = product.instruction.a;
  const bool small = bits_of(element) <= 8;
  if (product.instruction.accumulator == Accumulator::F16)
    return small ? accumulate_f8_to_f16(step) : accumulate_to_f16(step);
  switch (element) {
  case Element::F16:
    return accumulate_f16(step);
  case Element::Bf16:
    return accumulate_bf16(step);
  case Element::Tf32:
    return accumulate_tf32(step);
  default:
    return accumulate_f8(step);
  }
}

// D before the product: zero, or what is there, scaled.
void prepare_d(const Product &product, f32 *d, u32 count) {
  if (!product.accumulates)
    std::fill_n(d, count, 0.0f);
  else if (product.scale_d)
    for (u32 i = 0; i < count; ++i) d[i] = std::ldexp(d[i], -s32(product.scale_d));
}

bool disabled(const Product &product, u32 block, u32 lane) {
  return product.disabled[block * 4 + lane / 32] >> (lane % 32) & 1;
}

void multiply_strip(const Product &product, u32 which, Block &owner, const Strip &strip, const f32 *a, const f32 *b) {
  const Instruction &one = product.instruction;
  const u32 lane = product.d.lane + strip.lane, columns = strip.columns, column = product.d.column;
  check_tensor_memory(owner, lane, strip.rows, column, columns);
  touches_tensor(product.worker, owner, lane, strip.rows, column, columns, Access::Write);
  std::vector<u32> d(size_t(strip.rows) * columns);
  const bool half = one.accumulator == Accumulator::F16;
  for (u32 row = 0; row < strip.rows; ++row) {
    const u32 *from = tensor_row(owner, lane + row) + column;
    for (u32 n = 0; n < columns; ++n) d[row * columns + n] = half ? bits_of(f16_value(from[n] & 0xffff)) : from[n];
  }
  if (one.accumulator == Accumulator::S32) {
    if (!product.accumulates) std::fill(d.begin(), d.end(), 0);
    accumulate_s32({strip.rows, columns, one.k, a, b, reinterpret_cast<s32 *>(d.data()), columns, one.saturate});
  } else {
    f32 *values = reinterpret_cast<f32 *>(d.data());
    prepare_d(product, values, strip.rows * columns);
    multiply(product, owner, strip,
             Step{Unit::Tcgen05, strip.rows, columns, one.k, a, b, values, columns, least_exponent(one.a),
                  least_exponent(one.b)});
  }
  for (u32 row = 0; row < strip.rows; ++row) {
    if (disabled(product, which, lane + row)) continue;
    u32 *to = tensor_row(owner, lane + row) + column;
    for (u32 n = 0; n < columns; ++n) to[n] = half ? f16_nearest(f32_of(d[row * columns + n])) : d[row * columns + n];
  }
}

} // namespace

void perform(const Product &product) {
  const Instruction &one = product.instruction;
  Block *owners[2] = {product.block, nullptr};
  if (product.group == 2) {
    owners[0] = &leader_of(*product.block);
    owners[1] = &peer_of(*owners[0]);
  }
  const std::vector<f32> b = read_b(product, owners);
  const bool in_tensor_memory = product.flags & A_IN_TENSOR_MEMORY;
  for (u32 which = 0; which < product.group; ++which) {
    Block &owner = *owners[which];
    const std::vector<f32> a = in_tensor_memory ? std::vector<f32>() : read_a(product, owner);
    for (const Strip &strip : strips_of(product)) {
      std::vector<f32> own_a, own_b;
      const f32 *left = a.data() + size_t(strip.row) * one.k, *right = b.data();
      if (in_tensor_memory) {
        own_a = tensor_a(product, owner, strip);
        left = own_a.data();
      }
      if (strip.columns != one.n) {
        own_b = columns_of(b, one, strip);
        right = own_b.data();
      }
      multiply_strip(product, which, owner, strip, left, right);
    }
  }
  product.worker.machine->counts.product_flops += u64(2) * one.m * one.n * one.k;
}
