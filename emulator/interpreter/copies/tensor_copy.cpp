// cp.async.bulk.tensor and cp.reduce.async.bulk.tensor: boxes of tensors, by tensor maps.
#include <cstring>

#include "reduction.h"
#include "transfer.h"

namespace {

enum class Mode : s32 { Tile, Im2col, Rows }; // Rows: tile::gather4 and tile::scatter4

// What the immediate of both holds.
struct Form {
  u32 coordinates, offsets;
  Mode mode;
  bool pairs; // cta_group::2
  explicit Form(s64 bits)
      : coordinates(bits & 255), offsets(bits >> 8 & 255), mode(Mode(bits >> 16 & 255)), pairs(bits >> 24 & 1) {}
};

struct Box { // of a tensor, at some coordinates
  TensorMap map;
  Mode mode;
  s32 at[5] = {};
  u32 offsets[3] = {};
  u32 bytes = 0; // in shared memory
};

u32 rows_of(const Box &box) {
  if (box.mode == Mode::Rows) return 4;
  if (box.mode == Mode::Im2col) return box.map.pixels;
  u32 rows = 1;
  for (u32 i = 1; i < box.map.rank; ++i) rows *= box.map.box[i];
  return rows;
}

// The list in the pool: places of the coordinates, then of the offsets of im2col.
Box read_box(Machine &machine, Warp &warp, u64 map_address, const s32 *list, const Form &form, u32 lane) {
  const Launch &launch = launch_of(warp);
  Box box{TensorMap(machine.memory().global(launch, map_address, 128, Access::Read, lane)), form.mode};
  const u32 coordinates = form.coordinates, expected = form.mode == Mode::Rows ? 5 : box.map.rank;
  if (coordinates != expected || box.map.im2col != (form.mode == Mode::Im2col))
    throw Fault(fault::DESCRIPTOR,
                "a copy with " + std::to_string(coordinates) + " coordinates by a tensor map of rank " +
                    std::to_string(box.map.rank) + (box.map.im2col ? " for im2col" : ""),
                lane);
  if (form.mode == Mode::Rows && (box.map.rank != 2 || box.map.box[1] != 1))
    throw Fault(fault::DESCRIPTOR, "a copy of four rows by a tensor map that has no rows", lane);
  for (u32 i = 0; i < coordinates; ++i) box.at[i] = s32(warp.word(list[i])[lane]);
  for (u32 i = 0; i < form.offsets; ++i) box.offsets[i] = warp.word(list[coordinates + i])[lane] & 0xffff;
  box.bytes = rows_of(box) * box.map.bytes_of(box.map.box[0]);
  return box;
}

template <class F> void each_run(const Box &box, F f) {
  switch (box.mode) {
  case Mode::Tile:
    return each_tile_run(box.map, box.at, f);
  case Mode::Rows:
    return each_gathered_run(box.map, box.at, f);
  case Mode::Im2col:
    return each_im2col_run(box.map, box.at, box.offsets, f);
  }
}

bool is_real(DataType type) { return type >= DataType::F16 && type <= DataType::Bf16; }

void fill(const TensorMap &map, u8 *bytes, u32 count) {
  static const u8 half[2] = {0xff, 0x7f}, brain[2] = {0xff, 0x7f}, single[4] = {0xff, 0xff, 0xff, 0x7f};
  static const u8 twice[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
  if (map.fill == Fill::Zero || !is_real(map.type)) {
    std::memset(bytes, 0, count);
    return;
  }
  const u32 size = map.element_bits() / 8;
  const u8 *nan = map.type == DataType::F16 ? half : map.type == DataType::Bf16 ? brain : size == 8 ? twice : single;
  for (u32 i = 0; i < count; ++i) bytes[i] = nan[i % size];
}

// Between the packed row in `row` and the swizzled box in shared memory, in pieces that stay together.
void scatter(const TensorMap &map, u8 *shared, u32 offset, u32 place, const u8 *row, u32 bytes) {
  for (u32 i = 0; i < bytes;) {
    const u32 at = offset + place + i, piece = std::min(bytes - i, 16 - at % 16);
    std::memcpy(shared + swizzled(at, map.swizzle), row + i, piece);
    i += piece;
  }
}
void gather(const TensorMap &map, const u8 *shared, u32 offset, u32 place, u8 *row, u32 bytes) {
  for (u32 i = 0; i < bytes;) {
    const u32 at = offset + place + i, piece = std::min(bytes - i, 16 - at % 16);
    std::memcpy(row + i, shared + swizzled(at, map.swizzle), piece);
    i += piece;
  }
}

void load_box(const Worker &worker, const Launch &launch, const Box &box, const SharedPart &part, u32 lane) {
  const TensorMap &map = box.map;
  std::vector<u8> row(map.bytes_of(map.box[0]));
  each_run(box, [&](const Run &run) {
    const u32 bytes = map.bytes_of(run.elements);
    fill(map, row.data(), bytes);
    if (run.inside) {
      const u32 count = map.bytes_of(run.inside);
      const u8 *from = worker.machine->memory().global(launch, run.address, count, Access::Read, lane);
      u8 *to = row.data() + map.bytes_of(run.skipped);
      std::memcpy(to, from, count);
      touches_global(worker, run.address, count, Access::Read);
    }
    scatter(map, part.owner->shared.data(), part.offset, run.place, row.data(), bytes);
  });
}

void store_box(const Worker &worker, const Launch &launch, const Box &box, const SharedPart &part, s32 operation,
               u32 lane) {
  const TensorMap &map = box.map;
  const Access access = operation < 0 ? Access::Write : Access::Atomic;
  std::vector<u8> row(map.bytes_of(map.box[0]));
  each_run(box, [&](const Run &run) {
    if (!run.inside) return;
    const u32 count = map.bytes_of(run.inside);
    gather(map, part.owner->shared.data(), part.offset, run.place, row.data(), map.bytes_of(run.elements));
    const u8 *from = row.data() + map.bytes_of(run.skipped);
    u8 *to = worker.machine->memory().global(launch, run.address, count, access, lane);
    if (operation < 0)
      std::memcpy(to, from, count);
    else
      reduce(Reduction(operation), map.type, to, from, count);
    touches_global(worker, run.address, count, access);
  });
}

u32 shared_alignment(const TensorMap &map) { return map.swizzle == SharedSwizzle::None ? 16 : 128; }

} // namespace

// a: to (place, wide), tensor map (place, wide), mbarrier (place, wide), mask (place or -1), pool: the coordinates and
// the offsets of im2col
OPERATION(tensor_load) {
  const s32 *list = launch_of(warp).program->pool + insn.a[7];
  const Form form(insn.immediate);
  EACH_LANE(lane) {
    const u32 to = shared_in(warp, insn.a[0], insn.a[1], 0, lane);
    const u64 map_address = address_in(warp, insn.a[2], insn.a[3], 0, lane);
    const u32 mbarrier = shared_in(warp, insn.a[4], insn.a[5], 0, lane);
    const Box box = read_box(machine, warp, map_address, list, form, lane);
    const Launch *launch = &launch_of(warp);
    const u32 ranks = ranks_of(warp, insn.a[6], to, lane);
    for (u32 rank = 0; rank < 16; ++rank) {
      if (!(ranks >> rank & 1)) continue;
      const SharedPart part =
          shared_part(machine, warp, with_rank(to, rank), box.bytes, shared_alignment(box.map), lane);
      const u32 target = mbarrier_for(mbarrier, rank, insn.a[6] >= 0, form.pairs, to, lane);
      const Worker worker = worker_at_mbarrier(machine, warp, target);
      into_shared(worker, *warp.block, part, target, [=] { load_box(worker, *launch, box, part, lane); });
    }
  }
  return Outcome::Next;
}

// a: tensor map (place, wide), from (place, wide), reduction (-1: a copy), pool: the coordinates
OPERATION(tensor_store) {
  const s32 *list = launch_of(warp).program->pool + insn.a[5];
  const Form form(insn.immediate);
  EACH_LANE(lane) {
    const u64 map_address = address_in(warp, insn.a[0], insn.a[1], 0, lane);
    const u32 from = shared_in(warp, insn.a[2], insn.a[3], 0, lane);
    const Box box = read_box(machine, warp, map_address, list, form, lane);
    const SharedPart part = shared_part(machine, warp, from, box.bytes, shared_alignment(box.map), lane);
    const Worker worker = worker_in_group(machine, warp, Kind::Bulk);
    const Launch *launch = &launch_of(warp);
    const s32 operation = insn.a[4];
    out_of_shared(worker, warp, part, lane, [=] { store_box(worker, *launch, box, part, operation, lane); });
  }
  return Outcome::Next;
}
