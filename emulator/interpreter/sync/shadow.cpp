// Lines of a shadow in more and in fewer cells.
#include "shadow.h"

#include <new>

Shadow::Shadow(u32 bytes) : lines_((bytes + LINE - 1) / LINE), parts_(lines_), one_(make(lines_)) {}

Shadow::Cells Shadow::make(u32 count) {
  Cells cells(static_cast<Cell *>(std::malloc(sizeof(Cell) * std::max(count, 1u))));
  if (!cells) throw std::bad_alloc();
  return cells;
}

void Shadow::clear() { std::fill(parts_.begin(), parts_.end(), u8(0)); }

Cell *Shadow::split(u32 line, u8 parts) {
  if (parts == 4 && !four_) four_ = make(lines_ * 4);
  if (parts == 16 && !sixteen_) sixteen_ = make(lines_ * 16);
  Cell *cells = parts == 4 ? four_.get() + size_t(line) * 4 : sixteen_.get() + size_t(line) * 16;
  if (parts_[line] == parts) return cells;
  if (parts_[line] == 4) {
    for (u32 i = 0; i < 16; ++i) cells[i] = four_.get()[size_t(line) * 4 + i / 4];
  } else {
    std::fill_n(cells, parts, parts_[line] ? one_.get()[line] : Cell{});
  }
  parts_[line] = parts;
  return cells;
}

// After a write of the whole line all its cells are the same.
void Shadow::merge(u32 line) {
  one_.get()[line] = parts_[line] == 4 ? four_.get()[size_t(line) * 4] : sixteen_.get()[size_t(line) * 16];
  parts_[line] = 1;
}
