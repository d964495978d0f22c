// The C library's functions, which are within two steps of what an H200 gives for most.
#include "approximate.h"

#include <cmath>

namespace approximate {
f32 ex2(f32 a) { return std::exp2(a); }
f32 lg2(f32 a) { return std::log2(a); }
f32 rcp(f32 a) { return 1 / a; }
f32 rsqrt(f32 a) { return f32(1 / std::sqrt(f64(a))); }
f32 sqrt(f32 a) { return std::sqrt(a); }
f32 sin(f32 a) { return std::sin(a); }
f32 cos(f32 a) { return std::cos(a); }
f32 tanh(f32 a) { return std::tanh(a); }
f32 div(f32 a, f32 b) { return a / b; }
f32 div_full(f32 a, f32 b) { return a / b; }
f64 rcp_wide(f64 a) { return 1 / a; }
f64 rsqrt_wide(f64 a) { return 1 / std::sqrt(a); }
} // namespace approximate
