// tcgen05.ld, tcgen05.st and tcgen05.wait: between tensor memory and the registers of a warp.
#include <algorithm>
#include <cmath>

#include "../copies/addresses.h"
#include "../scalar/formats.h"
#include "../sync/races.h"
#include "tensor_memory.h"

namespace {

enum class Shape : s32 { L32C1, L16C2, L16C4, L16C8, L16Halves }; // 32x32b, 16x64b, 16x128b, 16x256b, 16x32bx2

// Which cell of tensor memory register `index` of lane `lane` is, relative to the instruction's address. With `.pack`
// and
// `.unpack` a register is the low halves of two columns: then it is the first of them. `half` is the distance of the
// second half of 16x32bx2.
struct Cell {
  u32 lane, column;
};
Cell cell_of(Shape shape, u32 lane, u32 index, u32 width, u32 half) {
  switch (shape) {
  case Shape::L32C1:
    return {lane, index * width};
  case Shape::L16C2:
    return {lane / 4 + lane % 2 * 8, (lane / 2 % 2 + index * 2) * width};
  case Shape::L16C4:
    return {lane / 4 + index % 2 * 8, (lane % 4 + index / 2 * 4) * width};
  case Shape::L16C8:
    return {lane / 4 + index / 2 % 2 * 8, (lane % 4 * 2 + index % 2 + index / 4 * 8) * width};
  case Shape::L16Halves:
    return {lane % 16, index * width + lane / 16 * half};
  }
  return {};
}

u32 columns_of(Shape shape, u32 registers, u32 width, u32 half) {
  switch (shape) {
  case Shape::L32C1:
    return registers * width;
  case Shape::L16C2:
  case Shape::L16C4:
  case Shape::L16C8:
    return registers * 2 * width;
  case Shape::L16Halves:
    return registers * width + half;
  }
  return 0;
}

struct Registers {
  Shape shape;
  u32 width; // columns of a register: 2 with .pack::16b and .unpack::16b
  TensorAddress address;
  u32 half, registers;
  const s32 *list;
};

Registers decode(Machine &machine, Warp &warp, const Insn &insn, u32 active) {
  const u32 bits = warp.word(insn.a[0])[__builtin_ctz(active)] + u32(insn.immediate);
  const Registers access{Shape(insn.a[3]), insn.a[4] ? 2u : 1u, TensorAddress(bits),
                         u32(insn.a[5]),   u32(insn.a[2]),      launch_of(warp).program->pool + insn.a[1]};
  const u32 lanes = access.shape == Shape::L32C1 ? 32 : 16;
  const u32 columns = columns_of(access.shape, access.registers, access.width, access.half);
  const u32 first = warp.index % 4 * 32, lane = access.address.lane;
  if (lane < first || lane + lanes > first + 32 || (lanes == 16 && lane % 16) || (lanes == 32 && lane % 32))
    throw Fault(fault::TENSOR_MEMORY, "warp " + std::to_string(warp.index) + " may use lanes " + std::to_string(first) +
                                          " to " + std::to_string(first + 31) + ", not " + std::to_string(lane) +
                                          " to " + std::to_string(lane + lanes - 1));
  check_tensor_memory(*warp.block, lane, lanes, access.address.column, columns);
  const bool stores = insn.a[6];
  if (Races *races = machine.races()) {
    const Agent agent = stores ? races->in_group(warp.agent, Kind::TensorStores) : warp.agent;
    races->tensor(agent, *warp.block, lane, access.address.column, lanes, columns,
                  stores ? Access::Write : Access::Read, machine.line_of(warp));
    if (stores) races->end(agent);
  }
  return access;
}

u32 *cell(Block &block, const Registers &access, u32 lane, u32 index) {
  const Cell place = cell_of(access.shape, lane, index, access.width, access.half);
  return tensor_row(block, access.address.lane + place.lane) + access.address.column + place.column;
}

u32 load(Block &block, const Registers &access, u32 lane, u32 index) {
  const u32 *from = cell(block, access, lane, index);
  return access.width == 1 ? *from : (from[0] & 0xffff) | from[1] << 16;
}

void flush_stores(Machine &machine, Warp &warp) {
  auto &stores = async_of(warp).tensor_stores;
  while (!stores.empty()) {
    stores.front()();
    stores.pop_front();
  }
  ++machine.changes;
}

f32 smaller_or_larger(bool largest, bool absolute, bool nan, f32 a, f32 b) {
  if (absolute) a = std::fabs(a), b = std::fabs(b);
  if (nan && (std::isnan(a) || std::isnan(b))) return f32_of(0x7fffffff);
  return largest ? std::fmax(a, b) : std::fmin(a, b);
}

} // namespace

// a: address, pool of registers (begin, count), shape, whether halves are packed, distance of the second half, 0;
// immediate: offset of the address
OPERATION(tcgen05_ld) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const Registers access = decode(machine, warp, insn, active);
  for (u32 index = 0; index < access.registers; ++index) {
    if (access.list[index] < 0) continue;
    u32 *to = warp.word(access.list[index]);
    for (u32 lane = 0; lane < LANES; ++lane) to[lane] = load(*warp.block, access, lane, index);
  }
  return Outcome::Next;
}

// The same, and a reduction over the registers of each lane: a[7]: its result, a[8]: kind: bit 0 maximum, 1 absolute
// values, 2 NaN wins, 3 integers, 4 signed
OPERATION(tcgen05_ld_red) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const Registers access = decode(machine, warp, insn, active);
  const s32 kind = insn.a[8];
  u32 reduced[LANES];
  for (u32 index = 0; index < access.registers; ++index)
    for (u32 lane = 0; lane < LANES; ++lane) {
      const u32 value = load(*warp.block, access, lane, index), old = reduced[lane];
      if (access.list[index] >= 0) warp.word(access.list[index])[lane] = value;
      if (kind & 8) {
        const bool less = kind & 16 ? s32(value) < s32(old) : value < old;
        reduced[lane] = index == 0 || less != bool(kind & 1) ? value : old;
      } else {
        const f32 other = index ? f32_of(old) : f32_of(value);
        reduced[lane] = bits_of(smaller_or_larger(kind & 1, kind & 2, kind & 4, other, f32_of(value)));
      }
    }
  std::copy(reduced, reduced + LANES, warp.word(insn.a[7]));
  return Outcome::Next;
}

// a: as tcgen05_ld, with 1 at last. With a seed, stores take effect at tcgen05.wait::st.
OPERATION(tcgen05_st) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  const Registers access = decode(machine, warp, insn, active);
  Block *block = warp.block;
  std::vector<u32> values(size_t(access.registers) * LANES);
  for (u32 index = 0; index < access.registers; ++index)
    std::copy_n(warp.word(access.list[index]), LANES, values.begin() + index * LANES);
  auto put = [block, access, values = std::move(values)] {
    for (u32 index = 0; index < access.registers; ++index)
      for (u32 lane = 0; lane < LANES; ++lane) {
        const u32 value = values[index * LANES + lane];
        u32 *to = cell(*block, access, lane, index);
        to[0] = access.width == 1 ? value : value & 0xffff;
        if (access.width == 2) to[1] = value >> 16;
      }
  };
  if (machine.adversarial())
    async_of(warp).tensor_stores.push_back(std::move(put));
  else
    put();
  ++machine.changes;
  return Outcome::Next;
}

// Values of tcgen05.ld are in registers at once: right kernels of the DSL use them without this.
OPERATION(tcgen05_wait_ld) { return together(machine, warp, ALL_LANES, active) ? Outcome::Next : Outcome::Blocked; }

OPERATION(tcgen05_wait_st) {
  if (!together(machine, warp, ALL_LANES, active)) return Outcome::Blocked;
  flush_stores(machine, warp);
  if (Races *races = machine.races()) {
    races->commit(warp.agent, Kind::TensorStores);
    races->wait(warp.agent, Kind::TensorStores, 0);
  }
  return Outcome::Next;
}

// What it orders is in order here: accesses to tensor memory are taken when they are executed.
OPERATION(tcgen05_fence) { return Outcome::Next; }
