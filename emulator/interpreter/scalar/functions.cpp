// Operations that are approximate on GPUs.
#include <cmath>

#include "approximate.h"
#include "elementwise.h"
#include "rounding.h"

#define FUNCTION(NAME)                                                                                                 \
  UNARY(NAME##_approx_f32, f32, f32, canonical(approximate::NAME(a)))                                                  \
  UNARY(NAME##_approx_ftz_f32, f32, f32, flushed(canonical(approximate::NAME(flushed(a)))))
FUNCTION(ex2)
FUNCTION(lg2)
FUNCTION(rcp)
FUNCTION(rsqrt)
FUNCTION(sqrt)
FUNCTION(sin)
FUNCTION(cos)
FUNCTION(tanh)

BINARY(div_approx_f32, f32, f32, f32, canonical(approximate::div(a, b)))
BINARY(div_approx_ftz_f32, f32, f32, f32, flushed(canonical(approximate::div(flushed(a), flushed(b)))))
BINARY(div_full_f32, f32, f32, f32, canonical(approximate::div_full(a, b)))
BINARY(div_full_ftz_f32, f32, f32, f32, flushed(canonical(approximate::div_full(flushed(a), flushed(b)))))

// Of float64, .ftz is about the subnormal numbers of float64.
static f64 flushed_wide(f64 a) { return bits_of(a) & 0x7ff0000000000000ull ? a : f64_of(bits_of(a) & 1ull << 63); }
UNARY(rcp_approx_ftz_f64, f64, f64, flushed_wide(approximate::rcp_wide(flushed_wide(a))))
UNARY(rsqrt_approx_ftz_f64, f64, f64, flushed_wide(approximate::rsqrt_wide(flushed_wide(a))))
UNARY(rsqrt_approx_f64, f64, f64, 1 / std::sqrt(a)) // within one step of an H200

// Of 16 bits: the float32 result, cut off. Subnormal numbers are kept, but by ex2.approx.ftz.bf16.
static u32 half(f32 (*function)(f32), u32 code) { return approximate::f16_cut_off(function(f16_value(code & 0xffff))); }
static u32 brain(f32 (*function)(f32), u32 code) {
  return approximate::bf16_cut_off(function(bf16_value(code & 0xffff)));
}
static f32 ex2_flushed(f32 a) { return flushed(approximate::ex2(flushed(a))); }

#define SHORT(NAME, FUNCTION, KIND, FORMAT)                                                                            \
  UNARY(NAME##_##FORMAT, u32, u32, KIND(FUNCTION, a))                                                                  \
  UNARY(NAME##_##FORMAT##x2, u32, u32, KIND(FUNCTION, a) | KIND(FUNCTION, a >> 16) << 16)
SHORT(ex2_approx, approximate::ex2, half, f16)
SHORT(ex2_approx, approximate::ex2, brain, bf16)
SHORT(tanh_approx, approximate::tanh, half, f16)
SHORT(tanh_approx, approximate::tanh, brain, bf16)
SHORT(ex2_approx_ftz, ex2_flushed, brain, bf16)
