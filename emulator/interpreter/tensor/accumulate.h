// How tensor cores add: D = A * B + D for one step along K. Operands are decoded: every element is exact in float32.
//
// The model is bitwise equal to an H200 in all that benchmarks/instructions measures (mma.sync and wgmma of float16,
// bfloat16, tf32 and float8). For tcgen05 it follows what was published of B200 (MMA-Sim, arXiv 2511.10909), and was
// not measured. tests/emulator/hardware replays the measured results.
#pragma once
#include "../core/program.h"
#include "../scalar/formats.h"

enum class Unit : u8 { Mma, Wgmma, Tcgen05 }; // mma.sync, wgmma.mma_async, tcgen05.mma

struct Step {
  Unit unit;
  u32 rows, columns, depth; // depth: K of one instruction
  const f32 *a;             // rows x depth
  const f32 *b;             // depth x columns, so that loops over columns vectorise
  f32 *d;                   // rows, each `pitch` elements after the one before
  u32 pitch;
  // The exponent of the smallest normal number of each operand's format. It matters for float8 and below, where the
  // functions cannot know the format: least_exponent(element).
  int least_a = -6, least_b = -6;
};

void accumulate_f16(const Step &step);  // f16 operands, float32 sums
void accumulate_bf16(const Step &step); // bf16
void accumulate_tf32(const Step &step); // tf32
void accumulate_f8(const Step &step);   // e4m3, e5m2 and the formats of 6 and 4 bits, without scales

// f16 operands and accumulators: `d` holds values of f16, and gets such.
void accumulate_to_f16(const Step &step);
// The same for float8 operands.
void accumulate_f8_to_f16(const Step &step);

// With block scales: scale_a has rows x blocks, scale_b has blocks x columns; depth / blocks products share a scale.
void accumulate_scaled(const Step &step, const f32 *scale_a, const f32 *scale_b, u32 blocks);

// Integers of 8 bits and less. The operands are given as float32, the sums of a step fit it exactly.
struct IntegerStep {
  u32 rows, columns, depth;
  const f32 *a, *b;
  s32 *d;
  u32 pitch;
  bool saturate; // to the range of s32; else it wraps
};
void accumulate_s32(const IntegerStep &step);

struct DoubleStep {
  u32 rows, columns, depth;
  const f64 *a; // rows x depth
  const f64 *b; // depth x columns
  f64 *d;       // rows x columns
};
void accumulate_f64(const DoubleStep &step);
