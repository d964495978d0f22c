// A product of tcgen05.mma: what its operands and its instruction descriptor say.
#pragma once
#include <vector>

#include "../copies/worker.h"
#include "elements.h"
#include "tensor_memory.h"

enum class ProductKind : s32 { F16, Tf32, F8f6f4, I8, Mxf8f6f4, Mxf4, Mxf4nvf4 };
enum class Accumulator : s32 { F32, F16, S32 };
enum ProductFlag : s32 { A_IN_TENSOR_MEMORY = 1, WEIGHT_STATIONARY = 2 };

struct Instruction { // the fields of an instruction descriptor
  Element a, b;
  Accumulator accumulator = Accumulator::F32;
  Packing packing_a = Packing::Dense, packing_b = Packing::Dense;
  bool negate_a, negate_b, a_transposed, b_transposed, saturate = false;
  u32 m, n, k;
  Element scale = Element::Ue8m0;
  u32 scale_id_a = 0, scale_id_b = 0;
};
Instruction read_instruction(u32 bits, ProductKind kind, u32 group, bool weight_stationary); // throws Fault

struct Product {
  Worker worker;
  Block *block; // that started it
  ProductKind kind;
  u32 group, blocks; // blocks: scales along K; 0: none
  s32 flags;
  Instruction instruction;
  TensorAddress d{0}, a_tensor{0}, scale_a{0}, scale_b{0};
  u64 a = 0, b = 0; // descriptors
  bool accumulates = false;
  u32 scale_d = 0;      // D is divided by 2 to this power before
  u32 disabled[8] = {}; // lanes of D that stay as they are
};

void perform(const Product &product);

// Lanes that hold rows of D (and, in tensor memory, of A) side by side, for some columns of N.
struct Strip {
  u32 row, rows, lane, column, columns;
};
std::vector<Strip> strips_of(const Product &product);
