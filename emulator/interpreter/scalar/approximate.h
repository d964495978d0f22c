// Functions that GPUs compute approximately, with the bits of an H200: each has a table of parabolas, and a square that
// lacks its small partial products. tests/emulator/hardware compares them with measured results.
//
// Arguments and results are those of the forms without .ftz; subnormal ones are flushed by the caller.
#pragma once
#include "../core/program.h"

namespace approximate {
f32 ex2(f32 a);
f32 lg2(f32 a);
f32 rcp(f32 a);
f32 rsqrt(f32 a);
f32 sqrt(f32 a);
f32 sin(f32 a);
f32 cos(f32 a);
f32 tanh(f32 a);
f32 div(f32 a, f32 b);      // div.approx
f32 div_full(f32 a, f32 b); // div.full
f64 rcp_wide(f64 a);        // rcp.approx.ftz.f64: of the upper 32 bits
f64 rsqrt_wide(f64 a);      // rsqrt.approx.ftz.f64
u32 f16_cut_off(f32 a);     // codes of the values next towards zero: what the forms of 16 bits give
u32 bf16_cut_off(f32 a);
} // namespace approximate
