// tcgen05.mma, tcgen05.cp and tcgen05.commit. They take effect in the order in which they were started.
#include <cstring>

#include "../copies/addresses.h"
#include "../copies/regions.h"
#include "product.h"
#include "shared_matrix.h"

namespace {

// Operations take effect in order; `f` is what one does.
template <class F> void in_turn(Machine &machine, Block &block, const Worker &worker, F f) {
  in_order(machine, block, Pipe::Tensor, [worker, f] {
    f();
    end_worker(worker);
  });
}

struct ProductForm { // what the immediate of tcgen05_mma holds
  ProductKind kind;
  u32 group, blocks, scale_d, masks;
  s32 flags;
  explicit ProductForm(s64 bits)
      : kind(ProductKind(bits & 255)), group(bits >> 8 & 255), blocks(bits >> 16 & 255), scale_d(bits >> 32 & 255),
        masks(bits >> 40 & 255), flags(bits >> 24 & 255) {}
};

void read_scales(Warp &warp, const Insn &insn, const s32 *list, u32 lane, Product &product) {
  product.scale_a = TensorAddress((warp.word(list[0])[lane] + u32(insn.a[9])) & 0x3fffffff);
  product.scale_b = TensorAddress((warp.word(list[1])[lane] + u32(insn.a[10])) & 0x3fffffff);
  const Instruction &one = product.instruction;
  const u32 step = product.blocks; // a scale vector begins at a multiple of its length
  if (one.scale_id_a % step || one.scale_id_b % step || one.scale_id_a + step > 4 || one.scale_id_b + step > 4)
    throw Fault(
        fault::DESCRIPTOR,
        "scales that begin at byte " + std::to_string(one.scale_id_a) + " and " + std::to_string(one.scale_id_b), lane);
}

enum class CopyShape : s32 { L128B256, L4B256, L128B128, L64B128Warps02, L64B128Warps01, L32B128 };

// Calls f(lane) for all lanes that get a row.
template <class F> void lanes_of(CopyShape shape, u32 row, F f) {
  switch (shape) {
  case CopyShape::L128B256:
  case CopyShape::L128B128:
    return f(row);
  case CopyShape::L4B256:
    return f(row * 32);
  case CopyShape::L64B128Warps02:
    f(row);
    return f(row + 64);
  case CopyShape::L64B128Warps01:
    f(row % 32 + row / 32 * 64);
    return f(row % 32 + row / 32 * 64 + 32);
  case CopyShape::L32B128:
    for (u32 warp = 0; warp < 4; ++warp) f(row + 32 * warp);
  }
}

u32 rows_of(CopyShape shape) {
  switch (shape) {
  case CopyShape::L128B256:
  case CopyShape::L128B128:
    return 128;
  case CopyShape::L4B256:
    return 4;
  case CopyShape::L32B128:
    return 32;
  default:
    return 64;
  }
}

void copy_rows(const Worker &worker, Block &owner, TensorAddress to, u64 descriptor, CopyShape shape) {
  const SharedMatrix matrix = tcgen05_descriptor(descriptor, false);
  const u32 chunks = shape == CopyShape::L128B256 || shape == CopyShape::L4B256 ? 2 : 1;
  check_tensor_memory(owner, 0, TMEM_LANES, to.column, chunks * 4);
  touches_tensor(worker, owner, 0, TMEM_LANES, to.column, chunks * 4, Access::Write);
  for (u32 row = 0; row < rows_of(shape); ++row)
    for (u32 chunk = 0; chunk < chunks; ++chunk) {
      const u32 address = matrix.chunk_address(row, chunk);
      if (size_t(address) + 16 > owner.shared.size() || address < SHARED_BASE)
        throw Fault(fault::OUT_OF_BOUNDS, "tcgen05.cp from outside of shared memory: " + hex(address));
      if (worker.machine->adversarial()) nothing_lands(owner, address, 16);
      touches_shared(worker, owner, address, 16, Access::Read);
      lanes_of(shape, row, [&](u32 lane) {
        if (to.lane + lane >= TMEM_LANES) throw Fault(fault::TENSOR_MEMORY, "tcgen05.cp to lanes that do not exist");
        std::memcpy(tensor_row(owner, to.lane + lane) + to.column + 4 * chunk, owner.shared.data() + address, 16);
      });
    }
}

} // namespace

// a: D (place, offset), A (place, offset), B, instruction descriptor, predicate (place or -1: not accumulated), pool
// (begin, count) of lane masks and scales, offsets of the scales of A and B
OPERATION(tcgen05_mma) {
  const ProductForm form(insn.immediate);
  EACH_LANE(lane) {
    Product product{};
    product.worker = worker_in_group(machine, warp, Kind::Tensor);
    product.block = warp.block;
    product.kind = form.kind;
    product.group = form.group;
    product.blocks = form.blocks;
    product.scale_d = form.scale_d;
    product.flags = form.flags;
    product.instruction =
        read_instruction(warp.word(insn.a[5])[lane], form.kind, form.group, form.flags & WEIGHT_STATIONARY);
    product.d = TensorAddress(warp.word(insn.a[0])[lane] + u32(insn.a[1]));
    if (form.flags & A_IN_TENSOR_MEMORY)
      product.a_tensor = TensorAddress(warp.word(insn.a[2])[lane] + u32(insn.a[3]));
    else
      product.a = warp.wide(insn.a[2])[lane];
    product.b = warp.wide(insn.a[4])[lane];
    product.accumulates = warp.predicate(insn.a[6]) >> lane & 1;
    const s32 *list = launch_of(warp).program->pool + insn.a[7];
    for (u32 i = 0; i < form.masks; ++i) product.disabled[i] = warp.word(list[i])[lane];
    if (form.blocks) read_scales(warp, insn, list + form.masks, lane, product);
    in_turn(machine, *warp.block, product.worker, [product] { perform(product); });
  }
  return Outcome::Next;
}

// a: to (place, offset), descriptor, shape, group
OPERATION(tcgen05_cp) {
  EACH_LANE(lane) {
    const TensorAddress to(warp.word(insn.a[0])[lane] + u32(insn.a[1]));
    const u64 descriptor = warp.wide(insn.a[2])[lane];
    const auto shape = CopyShape(insn.a[3]);
    Block *block = warp.block, *other = insn.a[4] == 2 ? &peer_of(*block) : nullptr;
    const Worker worker = worker_in_group(machine, warp, Kind::Tensor);
    in_turn(machine, *block, worker, [=] {
      copy_rows(worker, *block, to, descriptor, shape);
      if (other) copy_rows(worker, *other, to, descriptor, shape);
    });
  }
  return Outcome::Next;
}

// a: mbarrier (place, wide), mask (place or -1); immediate: offset
OPERATION(tcgen05_commit) {
  EACH_LANE(lane) {
    const u32 address = shared_in(warp, insn.a[0], insn.a[1], insn.immediate, lane);
    const u32 ranks = insn.a[2] < 0 ? 0 : warp.word(insn.a[2])[lane] & 0xffff;
    if (insn.a[2] >= 0 && (!ranks || ranks >> warp.block->cluster->blocks.size()))
      throw Fault(fault::COPY, "a commit to blocks that the cluster does not have: " + hex(ranks), lane);
    Block *block = warp.block;
    const Worker worker = worker_after(machine, warp, Kind::Tensor);
    in_turn(machine, *block, worker, [=] {
      if (!ranks) worker_arrives(worker, *block, address, 1, 0);
      for (u32 rank = 0; rank < 16; ++rank)
        if (ranks >> rank & 1) worker_arrives(worker, *block, with_rank(address, rank), 1, 0);
    });
  }
  return Outcome::Next;
}
