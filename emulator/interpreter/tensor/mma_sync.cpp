// mma.sync: products of small matrices whose elements are spread over the registers of a warp.
#include <vector>

#include "../copies/addresses.h"
#include "accumulate.h"
#include "fragments.h"

namespace {

enum class Accumulator : s32 { F32, F16, S32 };

struct Shape {
  u32 rows, depth; // N is 8
};

// What the pool holds: registers of D, A, B and C, one after the other.
struct Lists {
  const s32 *d, *a, *b, *c;
  u32 d_count, a_count, b_count;
};
Lists lists_of(Warp &warp, const Insn &insn) {
  const s32 *pool = launch_of(warp).program->pool + insn.a[0];
  const u32 d = u32(insn.a[2]), a = u32(insn.a[3]), b = u32(insn.a[4]);
  return {pool, pool + d, pool + d + a, pool + d + a + b, d, a, b};
}

f32 element_of(Element element, u32 word, u32 part, bool container) {
  switch (element) {
  case Element::F16:
    return f16_value(word >> (16 * part) & 0xffff);
  case Element::Bf16:
    return bf16_value(word >> (16 * part) & 0xffff);
  case Element::Tf32:
    return tf32_value(word);
  case Element::U4:
  case Element::S4:
    return small_value(element, word >> (4 * part));
  // Elements of 4 bits in bytes lie in their middle.
  case Element::E2m1:
    return small_value(element, container ? word >> (8 * part + 2) : word >> (4 * part));
  default:
    return small_value(element, word >> (8 * part));
  }
}

u32 elements_in_register(Element element, bool container) {
  return container && bits_of(element) < 8 ? 4 : 32 / bits_of(element);
}

void read_a(Warp &warp, const Lists &lists, Shape shape, Element element, bool container, f32 *a) {
  const u32 per_register = elements_in_register(element, container);
  for (u32 i = 0; i < lists.a_count; ++i) {
    const u32 *words = warp.word(lists.a[i]);
    for (u32 lane = 0; lane < LANES; ++lane)
      for (u32 part = 0; part < per_register; ++part) {
        const Fragment at = fragment_a(lane, i, part, per_register, shape.rows);
        a[at.row * shape.depth + at.k] = element_of(element, words[lane], part, container);
      }
  }
}

void read_b(Warp &warp, const Lists &lists, Element element, bool container, f32 *b) {
  const u32 per_register = elements_in_register(element, container);
  for (u32 i = 0; i < lists.b_count; ++i) {
    const u32 *words = warp.word(lists.b[i]);
    for (u32 lane = 0; lane < LANES; ++lane)
      for (u32 part = 0; part < per_register; ++part) {
        const Fragment at = fragment_b(lane, i, part, per_register);
        b[at.k * 8 + at.row] = element_of(element, words[lane], part, container);
      }
  }
}

template <class F> void each_result(const Lists &lists, Shape shape, Accumulator accumulator, F f) {
  const u32 parts = accumulator == Accumulator::F16 ? 2 : 1;
  for (u32 i = 0; i < lists.d_count; ++i)
    for (u32 lane = 0; lane < LANES; ++lane)
      for (u32 part = 0; part < parts; ++part) {
        const Result at = fragment_d(lane, i * parts + part);
        if (at.row < shape.rows) f(i, lane, part, at.row * 8 + at.column);
      }
}

void read_c(Warp &warp, const Lists &lists, Shape shape, Accumulator accumulator, u32 *d) {
  each_result(lists, shape, accumulator, [&](u32 i, u32 lane, u32 part, u32 at) {
    const u32 word = warp.word(lists.c[i])[lane];
    d[at] = accumulator == Accumulator::F16 ? bits_of(f16_value(word >> (16 * part) & 0xffff)) : word;
  });
}

void write_d(Warp &warp, const Lists &lists, Shape shape, Accumulator accumulator, const u32 *d) {
  each_result(lists, shape, accumulator, [&](u32 i, u32 lane, u32 part, u32 at) {
    u32 &word = warp.word(lists.d[i])[lane];
    if (accumulator != Accumulator::F16)
      word = d[at];
    else
      word = (word & (part ? 0xffffu : 0xffff0000u)) | f16_nearest(f32_of(d[at])) << (16 * part);
  });
}

Step step_of(const Insn &insn, Unit unit, Shape shape, const f32 *a, const f32 *b, u32 *d) {
  return {unit,
          shape.rows,
          8,
          shape.depth,
          a,
          b,
          reinterpret_cast<f32 *>(d),
          8,
          least_exponent(Element(insn.a[7])),
          least_exponent(Element(insn.a[8]))};
}

void multiply(Element element, Accumulator accumulator, const Step &step) {
  const bool small = bits_of(element) <= 8;
  if (accumulator == Accumulator::F16) return small ? accumulate_f8_to_f16(step) : accumulate_to_f16(step);
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

} // namespace

// a: pool (begin, count), numbers of registers of D, A and B, rows, depth, element of A, of B, accumulator, flags (1:
// the sums saturate, 2: elements of less than a byte lie in bytes, 4: float8 is added as tcgen05 adds it, as
// published of sm_120, and not by two products of float16)
OPERATION(mma) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const Lists lists = lists_of(warp, insn);
  const Shape shape{u32(insn.a[5]), u32(insn.a[6])};
  const auto accumulator = Accumulator(insn.a[9]);
  const bool container = insn.a[10] & 2;
  f32 a[16 * 256], b[256 * 8];
  u32 d[16 * 8];
  read_a(warp, lists, shape, Element(insn.a[7]), container, a);
  read_b(warp, lists, Element(insn.a[8]), container, b);
  read_c(warp, lists, shape, accumulator, d);
  if (accumulator == Accumulator::S32)
    accumulate_s32({shape.rows, 8, shape.depth, a, b, reinterpret_cast<s32 *>(d), 8, (insn.a[10] & 1) != 0});
  else
    multiply(Element(insn.a[7]), accumulator,
             step_of(insn, insn.a[10] & 4 ? Unit::Tcgen05 : Unit::Mma, shape, a, b, d));
  write_d(warp, lists, shape, accumulator, d);
  machine.counts.product_flops += u64(2) * shape.rows * 8 * shape.depth;
  return Outcome::Next;
}

// float64: registers of 64 bits, one element each. a: as mma
OPERATION(mma_f64) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const Lists lists = lists_of(warp, insn);
  const Shape shape{u32(insn.a[5]), u32(insn.a[6])};
  f64 a[16 * 16], b[16 * 8], d[16 * 8];
  for (u32 lane = 0; lane < LANES; ++lane) {
    for (u32 i = 0; i < lists.a_count; ++i) {
      const Fragment at = fragment_a(lane, i, 0, 1, shape.rows);
      a[at.row * shape.depth + at.k] = warp.real_wide(lists.a[i])[lane];
    }
    for (u32 i = 0; i < lists.b_count; ++i) {
      const Fragment at = fragment_b(lane, i, 0, 1);
      b[at.k * 8 + at.row] = warp.real_wide(lists.b[i])[lane];
    }
    for (u32 i = 0; i < lists.d_count; ++i) {
      const Result at = fragment_d(lane, i);
      d[at.row * 8 + at.column] = warp.real_wide(lists.c[i])[lane];
    }
  }
  accumulate_f64({shape.rows, 8, shape.depth, a, b, d});
  for (u32 lane = 0; lane < LANES; ++lane)
    for (u32 i = 0; i < lists.d_count; ++i) {
      const Result at = fragment_d(lane, i);
      warp.real_wide(lists.d[i])[lane] = d[at.row * 8 + at.column];
    }
  machine.counts.product_flops += u64(2) * shape.rows * 8 * shape.depth;
  return Outcome::Next;
}

// With block scales. The pool goes on with the registers of the scales of A and of B, and those that say which byte and
// which threads hold them: scale a, byte a, thread a, scale b, byte b, thread b. A scale vector of `blocks` bytes
// begins at the byte; thread 0 or 1 of each four has those of A's rows (0: lanes 0 and 1 of each four, 1: lanes 2 and
// 3), and one of each four those of B's columns. a: pool (begin, count), numbers of registers of D, A and B, element of
// the scales, depth, element of A, of B, blocks, flags (2: elements of less than a byte lie in bytes)
OPERATION(mma_scaled) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const Lists lists = lists_of(warp, insn);
  const Shape shape{16, u32(insn.a[6])};
  const u32 blocks = u32(insn.a[9]);
  const bool container = insn.a[10] & 2;
  const auto scale = Element(insn.a[5]);
  f32 a[16 * 64], b[64 * 8], scale_a[16 * 4], scale_b[4 * 8];
  u32 d[16 * 8];
  read_a(warp, lists, shape, Element(insn.a[7]), container, a);
  read_b(warp, lists, Element(insn.a[8]), container, b);
  read_c(warp, lists, shape, Accumulator::F32, d);
  const s32 *list = lists.c + lists.d_count;
  const u32 byte_a = warp.word(list[1])[0], thread_a = warp.word(list[2])[0], byte_b = warp.word(list[4])[0],
            thread_b = warp.word(list[5])[0];
  if (byte_a + blocks > 4 || byte_b + blocks > 4 || byte_a % blocks || byte_b % blocks || thread_a > 1 || thread_b > 3)
    throw Fault(fault::DESCRIPTOR, "scales of mma.sync that no byte or thread holds");
  for (u32 row = 0; row < 16; ++row)
    for (u32 i = 0; i < blocks; ++i)
      scale_a[row * blocks + i] =
          small_value(scale, warp.word(list[0])[row % 8 * 4 + thread_a * 2 + row / 8] >> (8 * (byte_a + i)));
  for (u32 column = 0; column < 8; ++column)
    for (u32 i = 0; i < blocks; ++i)
      scale_b[i * 8 + column] = small_value(scale, warp.word(list[3])[column * 4 + thread_b] >> (8 * (byte_b + i)));
  accumulate_scaled(step_of(insn, Unit::Tcgen05, shape, a, b, d), scale_a, scale_b, blocks);
  write_d(warp, lists, shape, Accumulator::F32, d);
  machine.counts.product_flops += u64(2) * 16 * 8 * shape.depth;
  return Outcome::Next;
}
