// What reductions by copies do to memory.
#pragma once
#include "tensor_map.h"

enum class Reduction : u8 { Add, Min, Max, Inc, Dec, And, Or, Xor };

// to = op(to, from) for `bytes` bytes of elements. Throws Fault for what does not exist.
void reduce(Reduction operation, DataType type, u8 *to, const u8 *from, u64 bytes);
