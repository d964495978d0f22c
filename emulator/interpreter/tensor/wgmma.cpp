// wgmma: products of a warpgroup. Each of its four warps has 16 of the 64 rows; A is in shared memory or in registers.
#include <vector>

#include "../copies/addresses.h"
#include "../copies/worker.h"
#include "../sync/races.h"
#include "accumulate.h"
#include "fragments.h"
#include "shared_matrix.h"

namespace {

enum class Accumulator : s32 { F32, F16, S32 };
enum Flag : s32 { A_IN_REGISTERS = 1, A_TRANSPOSED = 2, B_TRANSPOSED = 4, NEGATE_A = 8, NEGATE_B = 16, SATURATE = 32 };

struct Product { // one instruction of one warp
  Worker worker;
  Warp *warp;
  const s32 *d; // places of the accumulators
  u32 columns, depth, registers;
  Element element_a, element_b;
  Accumulator accumulator;
  s32 flags;
  bool accumulates; // scale-d: D is added
  u64 descriptor_a, descriptor_b;
  std::vector<u32> a_words; // of A's four registers, if it is in them
};

constexpr u32 ROWS = 16;

void read_a(const Product &product, f32 *a) {
  if (product.flags & A_IN_REGISTERS) {
    const u32 per_register = 32 / bits_of(product.element_a);
    for (u32 i = 0; i < 4; ++i)
      for (u32 lane = 0; lane < LANES; ++lane)
        for (u32 part = 0; part < per_register; ++part) {
          const Fragment at = fragment_a(lane, i, part, per_register, ROWS);
          u8 chunk[16] = {};
          f32 values[32];
          std::memcpy(chunk, &product.a_words[i * LANES + lane], 4);
          decode_chunk(product.element_a, Packing::Dense, chunk, values);
          a[at.row * product.depth + at.k] = values[part];
        }
    return;
  }
  const SharedMatrix matrix = wgmma_descriptor(product.descriptor_a, product.flags & A_TRANSPOSED);
  const OperandShape shape{product.element_a, Packing::Dense, ROWS, product.depth, product.depth, 1};
  read_shared_matrix(*product.worker.machine, *product.warp->block, matrix, shape, product.warp->index % 4 * ROWS, a,
                     product.worker.agent, product.worker.line);
}

void read_b(const Product &product, f32 *b) {
  const SharedMatrix matrix = wgmma_descriptor(product.descriptor_b, product.flags & B_TRANSPOSED);
  const OperandShape shape{product.element_b, Packing::Dense, product.columns, product.depth, 1, product.columns};
  read_shared_matrix(*product.worker.machine, *product.warp->block, matrix, shape, 0, b, product.worker.agent,
                     product.worker.line);
}

void negate(f32 *values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = -values[i];
}

template <class F> void each_result(const Product &product, F f) {
  const u32 parts = product.accumulator == Accumulator::F16 ? 2 : 1;
  for (u32 i = 0; i < product.registers; ++i) {
    u32 *words = product.warp->word(product.d[i]);
    for (u32 part = 0; part < parts; ++part) {
      const u32 index = i * parts + part, first = index % 4;
      for (u32 lane = 0; lane < LANES; ++lane) {
        const Result at = fragment_d(lane, first);
        f(words[lane], part, at.row * product.columns + index / 4 * 8 + at.column);
      }
    }
  }
}

void read_d(const Product &product, u32 *d) {
  each_result(product, [&](u32 word, u32 part, u32 at) {
    if (!product.accumulates)
      d[at] = 0;
    else
      d[at] = product.accumulator == Accumulator::F16 ? bits_of(f16_value(word >> (16 * part) & 0xffff)) : word;
  });
}

void write_d(const Product &product, const u32 *d) {
  each_result(product, [&](u32 &word, u32 part, u32 at) {
    if (product.accumulator != Accumulator::F16)
      word = d[at];
    else
      word = (word & (part ? 0xffffu : 0xffff0000u)) | f16_nearest(f32_of(d[at])) << (16 * part);
  });
}

void multiply(const Product &product, const Step &step) {
  if (product.accumulator == Accumulator::F16)
    return bits_of(product.element_a) == 8 ? accumulate_f8_to_f16(step) : accumulate_to_f16(step);
  switch (product.element_a) {
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

void perform(const Product &product) {
  const u32 columns = product.columns, depth = product.depth;
  std::vector<f32> a(size_t(ROWS) * depth), b(size_t(columns) * depth);
  std::vector<u32> d(size_t(ROWS) * columns);
  read_a(product, a.data());
  read_b(product, b.data());
  if (product.flags & NEGATE_A) negate(a.data(), a.size());
  if (product.flags & NEGATE_B) negate(b.data(), b.size());
  read_d(product, d.data());
  if (product.accumulator == Accumulator::S32)
    accumulate_s32({ROWS, columns, depth, a.data(), b.data(), reinterpret_cast<s32 *>(d.data()), columns,
                    (product.flags & SATURATE) != 0});
  else
    multiply(product, Step{Unit::Wgmma, ROWS, columns, depth, a.data(), b.data(), reinterpret_cast<f32 *>(d.data()),
                           columns, least_exponent(product.element_a), least_exponent(product.element_b)});
  write_d(product, d.data());
  product.worker.machine->counts.product_flops += u64(2) * ROWS * columns * depth;
}

void finish(const Product &product) {
  perform(product);
  end_worker(product.worker);
}

// Products of groups before `group`, in order.
void finish_until(Warp &warp, u64 group) {
  auto &products = async_of(warp).products;
  while (!products.empty() && products.front().group < group) {
    products.front().effect();
    products.pop_front();
  }
}

} // namespace

// a: pool (begin, count) of D's registers, then of A's where it is in registers; A's descriptor (-1: registers), B's
// descriptor, predicate of scale-d, columns, depth, element of A, of B, accumulator, flags
OPERATION(wgmma) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  if (!async_of(warp).products_fenced)
    throw Fault(fault::RACE, "the warp's first product: nothing orders its registers before it (wgmma.fence)");
  Product product{};
  product.worker = worker_in_group(machine, warp, Kind::Products);
  product.warp = &warp;
  product.flags = s32(insn.immediate);
  const bool in_registers = product.flags & A_IN_REGISTERS;
  product.d = launch_of(warp).program->pool + insn.a[0];
  product.registers = u32(insn.a[1]) - (in_registers ? 4 : 0);
  product.accumulates = warp.predicate(insn.a[4]) & 1;
  product.columns = u32(insn.a[5]);
  product.depth = u32(insn.a[6]);
  product.element_a = Element(insn.a[7]);
  product.element_b = Element(insn.a[8]);
  product.accumulator = Accumulator(insn.a[9]);
  product.descriptor_b = warp.wide(insn.a[3])[0];
  if (in_registers)
    for (u32 i = 0; i < 4; ++i) {
      const u32 *words = warp.word(product.d[product.registers + i]);
      product.a_words.insert(product.a_words.end(), words, words + LANES);
    }
  else
    product.descriptor_a = warp.wide(insn.a[2])[0];
  if (!machine.adversarial()) {
    finish(product);
    return Outcome::Next;
  }
  AsyncState &state = async_of(warp);
  state.products.push_back({state.product_group, [product = std::move(product)] { finish(product); }});
  if (machine.random() % 4 == 0) finish_until(warp, ~0ull);
  return Outcome::Next;
}

OPERATION(wgmma_commit) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  ++async_of(warp).product_group;
  if (Races *races = machine.races()) races->commit(warp.agent, Kind::Products);
  return Outcome::Next;
}

// immediate: how many groups may be under way
OPERATION(wgmma_wait) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const u64 group = async_of(warp).product_group, allowed = u64(insn.immediate);
  if (group > allowed) finish_until(warp, group - allowed);
  if (Races *races = machine.races()) races->wait(warp.agent, Kind::Products, u32(allowed));
  ++machine.changes;
  return Outcome::Next;
}

// Orders registers before products: their values are taken when a product is started.
OPERATION(wgmma_fence) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  async_of(warp).products_fenced = true;
  return Outcome::Next;
}
