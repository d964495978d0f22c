// Who touched which bytes last. Lines of 16 bytes are kept as one cell, as four or as sixteen, by the accesses that
// come.
#pragma once
#include <algorithm>
#include <cstdlib>

#include "clocks.h"

struct Cell {
  Epoch write;
  Epoch read; // the last, or a set
};

class Shadow {
public:
  explicit Shadow(u32 bytes = 0);
  void clear();

  // Calls `visit(cell, first byte, bytes)` for each cell of a range. After a write all of them must be the same.
  template <class Visit> void cells(u32 begin, u32 bytes, bool write, Visit visit);

private:
  static constexpr u32 LINE = 16;
  Cell *split(u32 line, u8 parts);
  void merge(u32 line);

  struct Free {
    void operator()(Cell *cells) const { std::free(cells); }
  };
  using Cells = std::unique_ptr<Cell, Free>; // without values: a line's cells get them when it is first touched
  static Cells make(u32 count);

  u32 lines_;
  std::vector<u8> parts_; // of each line: 0 (never touched), 1, 4 or 16
  Cells one_, four_, sixteen_;
};

template <class Visit> void Shadow::cells(u32 begin, u32 bytes, bool write, Visit visit) {
  const u32 end = begin + bytes;
  for (u32 line = begin / LINE; line * LINE < end; ++line) {
    const u32 from = line * LINE > begin ? 0 : begin - line * LINE;
    const u32 to = line * LINE + LINE < end ? LINE : end - line * LINE;
    const bool whole = from == 0 && to == LINE;
    if (whole && parts_[line] <= 1) {
      if (!parts_[line]) {
        parts_[line] = 1;
        one_.get()[line] = Cell{};
      }
      visit(one_.get()[line], line * LINE, LINE);
      continue;
    }
    const u8 fine = (from | to) & 3 ? 16 : 4;
    const u8 parts = std::max(parts_[line], fine);
    Cell *all = split(line, parts);
    const u32 size = LINE / parts;
    for (u32 at = from / size; at * size < to; ++at) visit(all[at], line * LINE + at * size, size);
    if (whole && write) merge(line);
  }
}
