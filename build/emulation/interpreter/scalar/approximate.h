// Functions that GPUs compute approximately. Subnormal arguments and results are flushed by the caller (.ftz).
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
f64 rsqrt_wide(f64 a);
} // namespace approximate
