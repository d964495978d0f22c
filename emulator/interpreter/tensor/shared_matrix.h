// Operands of wgmma and tcgen05.mma in shared memory: what a matrix descriptor says, and the elements it describes.
//
// A matrix is read in chunks of 16 bytes. If K runs along the chunks (K-major), eight rows make a core matrix; if the
// other dimension does (MN-major), eight columns of K do. Swizzles of 32, 64 and 128 bytes exchange the chunks of a row
// by bits of the address; `leading` and `stride` are the distances of the descriptor.
#pragma once
#include <vector>

#include "../memory/memory.h"
#include "elements.h"

enum class Swizzle : u8 { None, B32, B64, B128, B128Base32 };

struct SharedMatrix {
  u32 start, leading, stride;
  Swizzle swizzle;
  bool mn_major;

  // Where chunk `chunk` of line `line` begins. K-major: a line is a row (m or n), a chunk goes along K. MN-major: a
  // line is an index of K, a chunk goes along m or n.
  u32 chunk_address(u32 line, u32 chunk) const;
};

SharedMatrix wgmma_descriptor(u64 bits, bool mn_major);   // throws Fault
SharedMatrix tcgen05_descriptor(u64 bits, bool mn_major); // throws Fault

struct OperandShape {
  Element element;
  Packing packing;
  u32 rows, depth;        // m or n, and k
  u32 row_pitch, k_pitch; // where element (row, k) goes: out[row * row_pitch + k * k_pitch]
};

// Reads and decodes a matrix of `owner`'s shared memory on behalf of `agent`.
void read_shared_matrix(Machine &machine, Block &owner, const SharedMatrix &matrix, const OperandShape &shape,
                        u32 first_row, f32 *out, u32 agent, u32 line);
